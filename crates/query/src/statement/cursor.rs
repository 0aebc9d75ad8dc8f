//! DECLARE, FETCH, MOVE and CLOSE as they are written.

use model::{Error, Result};
use parser::ast::{DeclareCursor, Fetch, FetchDirection};

use super::{Command, Statement};

/// A cursor statement.
pub(crate) enum CursorStatement {
    Declare {
        name: String,
        scroll: bool,
        hold: bool,
        query: Statement,
    },
    Fetch {
        name: String,
        direction: Direction,
        only_move: bool,
    },
    /// CLOSE; `None` closes all cursors.
    Close(Option<String>),
}

/// The direction and distance of a FETCH.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    /// Up to this number of rows forward, backward if negative; 0 fetches the current row again.
    Forward(i64),
    /// The row with this number, from 1; negative numbers count from the end.
    Absolute(i64),
    /// The row at this distance from the current one.
    Relative(i64),
}

/// The count of FETCH ALL.
pub(crate) const ALL: i64 = i64::MAX;

impl CursorStatement {
    /// A DECLARE. `part` makes the statement of its query.
    ///
    /// # Errors
    /// 0A000 for BINARY.
    pub(crate) fn declare(declare: DeclareCursor, part: &dyn Fn(Command) -> Statement) -> Result<CursorStatement> {
        let DeclareCursor { name, binary, scroll, hold, query, .. } = declare;
        if binary {
            return Err(Error::unsupported("binary cursors are not supported")
                .with_hint("declare it without BINARY, and ask for the binary format when you fetch"));
        }
        let (name, scroll) = (name.to_string(), scroll == Some(true));
        Ok(CursorStatement::Declare { name, scroll, hold, query: part(Command::Query(query)) })
    }

    /// A FETCH or MOVE.
    pub(crate) fn fetch(fetch: &Fetch) -> CursorStatement {
        let direction = match fetch.direction {
            FetchDirection::Forward(count) => Direction::Forward(count.into()),
            FetchDirection::Backward(count) => Direction::Forward(-i64::from(count)),
            FetchDirection::Absolute(row) => Direction::Absolute(row.into()),
            FetchDirection::Relative(rows) => Direction::Relative(rows.into()),
            FetchDirection::ForwardAll => Direction::Forward(ALL),
            FetchDirection::BackwardAll => Direction::Forward(-ALL),
        };
        CursorStatement::Fetch { name: fetch.cursor.to_string(), direction, only_move: fetch.is_move }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use model::SqlState;

    use super::*;

    fn parsed(sql: &str) -> Result<CursorStatement> {
        let mut statements = crate::statement::parse(sql)?;
        let statement = statements.remove(0).0;
        match Arc::into_inner(statement).unwrap().command {
            Command::Cursor(cursor) => Ok(*cursor),
            _ => panic!("{sql} is of no cursor"),
        }
    }

    #[test]
    fn every_direction_is_understood_with_and_without_a_word_before_the_name() {
        for (words, expected) in [
            ("", Direction::Forward(1)),
            ("NEXT", Direction::Forward(1)),
            ("prior", Direction::Forward(-1)),
            ("FIRST", Direction::Absolute(1)),
            ("LAST", Direction::Absolute(-1)),
            ("ABSOLUTE 3", Direction::Absolute(3)),
            ("ABSOLUTE - 3", Direction::Absolute(-3)),
            ("RELATIVE +2", Direction::Relative(2)),
            ("0", Direction::Forward(0)),
            ("-7", Direction::Forward(-7)),
            ("ALL", Direction::Forward(ALL)),
            ("FORWARD", Direction::Forward(1)),
            ("FORWARD 12", Direction::Forward(12)),
            ("FORWARD ALL", Direction::Forward(ALL)),
            ("BACKWARD", Direction::Forward(-1)),
            ("BACKWARD 4", Direction::Forward(-4)),
            ("BACKWARD ALL", Direction::Forward(-ALL)),
        ] {
            for (verb, moves) in [("FETCH", false), ("move", true)] {
                for between in ["", "FROM", "in"] {
                    let sql = format!("{verb} {words} {between} \"C\"");
                    let CursorStatement::Fetch { name, direction, only_move } = parsed(&sql).unwrap() else {
                        panic!("{sql}")
                    };
                    assert_eq!((name.as_str(), direction, only_move), ("C", expected, moves), "{sql}");
                }
            }
        }
        let cursor_of_such_a_name = parsed("FETCH next").unwrap();
        assert!(matches!(cursor_of_such_a_name, CursorStatement::Fetch { name, .. } if name == "next"));
    }

    #[test]
    fn what_does_not_belong_there_is_refused_with_its_place() {
        for (sql, place, message) in [
            ("FETCH", 6, "syntax error at end of input"),
            ("FETCH 1 2 FROM c", 9, "syntax error at or near \"2\""),
            ("FETCH ABSOLUTE FROM c", 16, "syntax error at or near \"FROM\""),
            ("FETCH 99999999999 FROM c", 7, "syntax error at or near \"99999999999\""),
            ("FETCH c d", 9, "syntax error at or near \"d\""),
            ("CLOSE", 6, "syntax error at end of input"),
            ("DECLARE c FOR SELECT 1", 11, "syntax error at or near \"FOR\""),
            ("DECLARE c CURSOR FOR", 21, "syntax error at end of input"),
            ("DECLARE c CURSOR FOR UPDATE t SET a = 1", 22, "syntax error at or near \"UPDATE\""),
            ("DECLARE c NO CURSOR FOR SELECT 1", 14, "syntax error at or near \"CURSOR\""),
        ] {
            let error = parsed(sql).err().unwrap();
            assert_eq!(error.state(), SqlState::SYNTAX_ERROR, "{sql}: {error}");
            assert_eq!((error.position(), error.to_string().as_str()), (Some(place), message), "{sql}");
        }
    }
}
