//! Functions and procedures.

use std::sync::Arc;

use crate::TableName;

/// Definition of a function or procedure of a user.
///
/// Routines of one name differ in the types of their input parameters. The body is text, which is parsed when the
/// routine is first called in a session; the objects that it names are looked up then.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RoutineSpec {
    /// Number of the routine; not reused in the database.
    pub id: u32,
    /// Schema and name.
    pub name: TableName,
    /// 1 when created; each change adds 1.
    pub version: u32,
    /// Whether it is a procedure, which CALL runs.
    pub is_procedure: bool,
    /// Parameters in the order written, those of RETURNS TABLE last.
    pub parameters: Vec<RoutineParameter>,
    /// Number of the result's type in `pg_type`; that of a table's row type for its rows.
    pub result: u32,
    /// Whether it returns a set of rows.
    pub returns_set: bool,
    /// Language of the body.
    pub language: RoutineLanguage,
    /// The text between the quotes; for a body that was not quoted, its statements.
    pub body: String,
    /// Whether the body was written as statements, not as a text.
    pub is_unquoted: bool,
    /// Letter of `provolatile`.
    pub volatility: RoutineVolatility,
    /// Whether a NULL argument makes the result NULL without a call.
    pub is_strict: bool,
    /// SECURITY DEFINER.
    pub is_definer: bool,
    /// LEAKPROOF.
    pub is_leakproof: bool,
    /// Letter of `proparallel`: `s`, `r` or `u`.
    pub parallel: u8,
    /// COST as written.
    pub cost: Option<String>,
    /// ROWS as written.
    pub rows: Option<String>,
    /// Names and values of settings for the time of a call.
    pub settings: Vec<(String, String)>,
}

/// A parameter of a routine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RoutineParameter {
    /// Name; empty without one.
    pub name: String,
    /// Direction.
    pub mode: RoutineMode,
    /// Number of its type in `pg_type`.
    pub ty: u32,
    /// Expression of its default.
    pub default: Option<String>,
}

/// Direction of a parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum RoutineMode {
    /// IN
    In = b'i',
    /// OUT
    Out = b'o',
    /// INOUT
    InOut = b'b',
    /// VARIADIC
    Variadic = b'v',
    /// A column of RETURNS TABLE.
    Table = b't',
}

/// Language of a routine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum RoutineLanguage {
    /// SQL statements; the result is that of the last one.
    Sql = 1,
    /// PL/pgSQL.
    PlPgSql = 2,
}

/// How far the result of a routine depends on its arguments alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum RoutineVolatility {
    /// Equal arguments always give equal results.
    Immutable = b'i',
    /// Equal arguments give equal results within a statement.
    Stable = b's',
    /// Each call may give another result.
    Volatile = b'v',
}

/// Routines are shared, never copied.
pub type RoutineRef = Arc<RoutineSpec>;

impl RoutineMode {
    /// Whether a call gives a value for it.
    #[must_use]
    pub fn is_input(self) -> bool {
        matches!(self, RoutineMode::In | RoutineMode::InOut | RoutineMode::Variadic)
    }

    /// Whether it is a part of the result.
    #[must_use]
    pub fn is_output(self) -> bool {
        matches!(self, RoutineMode::Out | RoutineMode::InOut | RoutineMode::Table)
    }

    /// The mode of a letter in `proargmodes`.
    #[must_use]
    pub fn from_code(code: u8) -> Option<RoutineMode> {
        use RoutineMode as M;
        [M::In, M::Out, M::InOut, M::Variadic, M::Table].into_iter().find(|mode| *mode as u8 == code)
    }
}

impl RoutineLanguage {
    /// Name in `pg_language`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            RoutineLanguage::Sql => "sql",
            RoutineLanguage::PlPgSql => "plpgsql",
        }
    }

    /// The language of a code.
    #[must_use]
    pub fn from_code(code: u8) -> Option<RoutineLanguage> {
        [RoutineLanguage::Sql, RoutineLanguage::PlPgSql].into_iter().find(|language| *language as u8 == code)
    }
}

impl RoutineVolatility {
    /// The volatility of a letter in `provolatile`.
    #[must_use]
    pub fn from_code(code: u8) -> Option<RoutineVolatility> {
        use RoutineVolatility as V;
        [V::Immutable, V::Stable, V::Volatile].into_iter().find(|volatility| *volatility as u8 == code)
    }
}

impl RoutineSpec {
    /// The parameters that a call gives values for.
    pub fn inputs(&self) -> impl Iterator<Item = &RoutineParameter> {
        self.parameters.iter().filter(|parameter| parameter.mode.is_input())
    }

    /// The parameters that are parts of the result.
    pub fn outputs(&self) -> impl Iterator<Item = &RoutineParameter> {
        self.parameters.iter().filter(|parameter| parameter.mode.is_output())
    }

    /// Types of the parameters and of the result.
    pub fn types(&self) -> impl Iterator<Item = u32> {
        self.parameters.iter().map(|parameter| parameter.ty).chain([self.result])
    }

    /// Types of the input parameters, which with the name identify a routine.
    #[must_use]
    pub fn input_types(&self) -> Vec<u32> {
        self.inputs().map(|parameter| parameter.ty).collect()
    }
}
