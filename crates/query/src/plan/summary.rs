//! SUMMARIZE: one row for each column of a query, with its type, extremes, distinct values, mean, deviation and quartiles. It is
//! expanded to a query of one pass over the rows.

use std::fmt::Write;

use catalog::{TypeId, builtin};
use model::{Error, Result, SqlState};
use parser::ast::Query;

use super::query;
use crate::binding;
use crate::session::Session;
use crate::statement::{Parsed, Statement, standing_for};

/// Columns of the result.
const COLUMNS: &str =
    "column_name, column_type, min, max, approx_unique, avg, std, q25, q50, q75, count, null_percentage";
/// Columns that are summarized at most: each has several aggregates.
const COLUMNS_MAX: usize = 200;

/// The query that a SUMMARIZE stands for. `types`: OIDs of parameters that the client declared.
///
/// # Errors
/// Those of PostgreSQL's parse analysis of the query; 54011 for too many columns.
pub(super) fn expanded(session: &mut Session, statement: &Parsed, of: &Query, types: &[u32]) -> Result<Statement> {
    let inner = standing_for(of.to_string(), statement.parameters, statement.held.clone())?;
    let context = query::context(session, &inner.0);
    let bound = binding::bind(&context, &inner.0, types)?;
    let output = &bound.query().output;
    if output.len() > COLUMNS_MAX {
        let text = format!("SUMMARIZE of {} columns; the limit is {COLUMNS_MAX}", output.len());
        return Err(Error::new(SqlState::TOO_MANY_COLUMNS, text));
    }
    let (mut names, mut aggregates, mut rows) = (String::new(), String::from("count(*) AS n"), String::new());
    for (at, column) in output.iter().enumerate() {
        let separator = if at == 0 { "" } else { ", " };
        let name = format!("'{}'", column.name.replace('\'', "''"));
        let ty = format!("pg_catalog.format_type({}, {})", column.ty.0, column.typmod);
        // Writing to a string cannot fail.
        let _ = write!(names, "{separator}c{at}");
        let _ = write!(aggregates, ", {}", Aggregates::of(column.ty).list(at));
        // The sketch is near the values of whole numbers, not at them.
        let is_whole = matches!(column.ty, TypeId::INT2 | TypeId::INT4 | TypeId::INT8);
        let quartile = |n: usize| if is_whole { format!("round(q{at}[{n}])") } else { format!("q{at}[{n}]") };
        let quartiles = [1, 2, 3].map(quartile).join(", ");
        let _ = write!(
            rows,
            "{separator}({at}, {name}, {ty}, min{at}, max{at}, unique{at}, avg{at}, std{at}, {quartiles}, n, \
             CASE n WHEN 0 THEN NULL ELSE round(100.0 * (n - count{at}) / n, 2) END)"
        );
    }
    if output.is_empty() {
        return Err(Error::new(SqlState::SYNTAX_ERROR, "SUMMARIZE of a query without columns"));
    }
    let sql = format!(
        "SELECT {COLUMNS} FROM (SELECT {aggregates} FROM ({of}) AS source ({names})) AS s \
         CROSS JOIN LATERAL (VALUES {rows}) AS v (position, {COLUMNS}) ORDER BY position"
    );
    standing_for(sql, statement.parameters, statement.held.clone())
}

/// The aggregates that a column's type has.
#[derive(Clone, Copy)]
struct Aggregates {
    is_ordered: bool,
    is_hashed: bool,
    is_number: bool,
}

impl Aggregates {
    fn of(ty: TypeId) -> Aggregates {
        let category = builtin().type_row(ty).map_or('X', |row| char::from(row.category));
        let is_number = matches!(
            ty,
            TypeId::INT2 | TypeId::INT4 | TypeId::INT8 | TypeId::FLOAT4 | TypeId::FLOAT8 | TypeId::NUMERIC
        );
        Aggregates {
            is_ordered: is_number || matches!(category, 'S' | 'D' | 'T' | 'E'),
            is_hashed: is_number || matches!(category, 'S' | 'D' | 'T' | 'E' | 'B') || ty == TypeId::UUID,
            is_number,
        }
    }

    /// The aggregates of column `c` with a number.
    fn list(self, at: usize) -> String {
        let column = format!("c{at}");
        let or_null = |is_there: bool, expr: String, ty: &str| if is_there { expr } else { format!("NULL::{ty}") };
        format!(
            "{} AS min{at}, {} AS max{at}, {} AS unique{at}, {} AS avg{at}, {} AS std{at}, {} AS q{at}, \
             count({column}) AS count{at}",
            or_null(self.is_ordered, format!("min({column})::text"), "text"),
            or_null(self.is_ordered, format!("max({column})::text"), "text"),
            or_null(self.is_hashed, format!("approx_count_distinct({column})"), "bigint"),
            or_null(self.is_number, format!("avg({column}::float8)"), "float8"),
            or_null(self.is_number, format!("stddev({column}::float8)"), "float8"),
            or_null(self.is_number, format!("approx_percentile(ARRAY[0.25, 0.5, 0.75], {column}::float8)"), "float8[]"),
        )
    }
}
