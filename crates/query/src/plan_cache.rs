//! Plan cache of a session. It finds plans of compiled statements, series statements and `INSERT … VALUES` by
//! their SQL text, without parsing or planning.
//!
//! Texts without parameters contain constants, and a text of the simple protocol may contain several
//! statements. Each statement is therefore *stripped*: constants that are operands become parameters with the
//! types of the constants, and the remaining text is the cache key. Constants that a plan may depend on are
//! kept in the key: those of ORDER BY, GROUP BY, LIMIT, function calls, types and patterns. A stripped text
//! is planned with the types of its constants, and cached only if it has the same columns and, for a query,
//! the same access path as the original.
//!
//! A constant that alone is a value of `INSERT … VALUES` gets its column's type, whatever its literal: rows
//! of one client differ in signs, NULLs and digits, and one key matches all of them. A constant that the
//! column's type cannot read (`1.5` for an `integer`) is parsed and planned normally.
//!
//! Rows of VALUES that contain only constants are treated as repetitions of the first row: the statement with
//! one row is the key, and it runs with the parameters of all rows. A multi-row text is therefore found at
//! its first use; bulk loads consist of such texts.

use std::borrow::Cow;
use std::sync::Arc;

use engine::{Reservation, Snapshot, Work};
use pg::Form;
use pg::types::oid;
use relational::types::Value;
use rustc_hash::FxHashMap;

use crate::plan::{Plan, Prepared};
use crate::result::{Arguments, Bound};
use crate::session::Session;
use crate::session::block::TxnStatus;
use crate::settings::Settings;
use crate::statement::{Command, Statement};

/// Maximum number of keys per session. Above it, keys seen once are evicted; if that is not enough, all are.
const TEXTS_MAX: usize = 256;
/// Longer statements are not cached, nor statements with more constants, nor texts that contain such
/// statements: they are rarely repeated.
const STATEMENT_BYTES_MAX: usize = 4 << 10;
const CONSTANTS_MAX: usize = 128;
/// Texts of more statements are not looked up.
const STATEMENTS_MAX: usize = 1 << 10;
/// Bytes that a constant of a multi-row text takes until its row is inserted, in addition to its text: as a
/// token, as a parsed value and as a parameter.
const BYTES_PER_CONSTANT: u64 = 144;
/// Copies of the text of many rows: one when the constants are parsed, one when the rows are encoded.
const COPIES: u64 = 2;
/// Memory of many rows is reserved in steps of this many bytes; a smaller remainder is not counted.
const COUNTED_BYTES: u64 = 64 << 10;

/// Cached statements of a session. Its owner hands it the session at each call.
#[derive(Default)]
pub struct PlanCache {
    /// By the whole text of a Parse message, with the parameter types that the client declared last.
    whole: FxHashMap<Box<str>, (Box<[u32]>, Prepared)>,
    /// By stripped text, for texts without parameters.
    stripped: FxHashMap<Box<str>, Known>,
}

enum Known {
    /// The text was seen once. Most texts are not repeated.
    Once,
    /// The stripped text does not have the same meaning.
    Never,
    Planned(Prepared),
}

/// A text of the simple protocol that was found in the cache.
pub struct Recalled {
    /// Statements of the text; at least one.
    pub statements: Vec<RecalledStatement>,
    /// Settings with which the constants were parsed.
    settings: Arc<Settings>,
}

/// A cached statement of a text.
pub struct RecalledStatement {
    /// The statement, with parameters in place of its constants.
    pub prepared: Prepared,
    constants: Constants,
    /// Memory reserved for the constants of many rows.
    _held: Reservation,
}

enum Constants {
    /// No values, as for BEGIN.
    None,
    /// Values of a compiled statement.
    Bound(Bound),
    /// Values of a series statement, or of an INSERT into a `columns` table.
    Values(Vec<Value>),
}

impl RecalledStatement {
    /// The arguments for execution.
    #[must_use]
    pub fn arguments(&self) -> Arguments<'_> {
        match &self.constants {
            Constants::None => Arguments::Values(&[]),
            Constants::Bound(bound) => Arguments::Bound(bound),
            Constants::Values(values) => Arguments::Values(values),
        }
    }
}

impl PlanCache {
    /// Looks up the statement of a Parse message that was [cached](PlanCache::remember). Returns `None` if its
    /// plan is no longer valid.
    pub fn recall(&mut self, session: &mut Session, text: &str, types: &[u32]) -> Option<Prepared> {
        let (declared, prepared) = self.whole.get(text)?;
        if **declared != *types {
            return None;
        }
        let prepared = prepared.clone();
        if is_in_force(session, &prepared, &mut None) {
            return Some(prepared);
        }
        self.whole.remove(text);
        None
    }

    /// Like [`PlanCache::recall_text`], for a text of exactly one statement.
    pub fn recall_alone(&mut self, session: &mut Session, text: &str) -> Option<RecalledStatement> {
        let [statement]: [RecalledStatement; 1] = self.recall_text(session, text)?.statements.try_into().ok()?;
        Some(statement)
    }

    /// Caches the statement of a Parse message, if it is compiled or a series statement; without parameters
    /// it is cached like [`PlanCache::remember_stripped`] does.
    pub fn remember(&mut self, session: &mut Session, text: &str, types: &[u32], prepared: &Prepared) {
        if types.is_empty() && prepared.parameters().is_empty() && self.remember_stripped(session, prepared) {
            return;
        }
        if is_planned(prepared) && !depends_on_session(prepared) && text.len() <= STATEMENT_BYTES_MAX {
            if self.whole.len() >= TEXTS_MAX {
                self.whole.clear();
            }
            self.whole.insert(text.into(), (types.into(), prepared.clone()));
        }
    }

    /// Looks up a text of the simple protocol: returns its statements if all of them are cached
    /// ([`PlanCache::remember_stripped`]). Before running each statement but the first, check
    /// [`PlanCache::is_still_known`].
    pub fn recall_text(&mut self, session: &mut Session, text: &str) -> Option<Recalled> {
        if session.status() == TxnStatus::Failed {
            return None;
        }
        let (mut recalled, mut newest, mut at) = (Vec::new(), None, 0);
        loop {
            let mut held = session.database().engine().memory().reservation(Work::Statements);
            // If memory is exhausted, the text is parsed normally, which reports the error.
            let Some(stripped) = Stripped::next(text, &mut at, &mut |bytes| held.grow(bytes).ok())? else { break };
            if recalled.len() == STATEMENTS_MAX {
                return None;
            }
            let prepared = match self.stripped.get(stripped.key.as_str()) {
                Some(Known::Planned(prepared)) => prepared.clone(),
                None | Some(Known::Once) if stripped.further_rows > 0 => self.planned_rows(session, &stripped)?,
                _ => return None,
            };
            if !is_in_force(session, &prepared, &mut newest) {
                self.stripped.remove(stripped.key.as_str());
                return None;
            }
            let constants = match &prepared.0.plan {
                Plan::Rows(plan) if !plan.has_external_queries() => {
                    if !stripped.fits(prepared.parameters()) {
                        return None;
                    }
                    let constants = stripped.constants.iter().map(|constant| (Form::Text, constant.bytes()));
                    // A constant that cannot be read is an error with a position, which only the original
                    // text has.
                    Constants::Bound(plan.bind(constants, session).ok()?)
                }
                Plan::Query(_) | Plan::Insert(_) | Plan::Rows(_) => {
                    if !stripped.fits(prepared.parameters()) {
                        return None;
                    }
                    let constants = stripped.constants.iter().zip(prepared.parameters().iter().cycle());
                    let value = |(constant, oid): (&Constant<'_>, &u32)| value(*oid, constant, &session.settings);
                    Constants::Values(constants.map(value).collect::<Option<_>>()?)
                }
                _ => Constants::None,
            };
            recalled.push(RecalledStatement { prepared, constants, _held: held });
        }
        let settings = Arc::clone(&session.settings);
        (!recalled.is_empty()).then_some(Recalled { statements: recalled, settings })
    }

    /// Plans a text of several rows of constants that is not cached, as the statement of its first row.
    fn planned_rows(&mut self, session: &mut Session, stripped: &Stripped<'_>) -> Option<Prepared> {
        session.settle();
        if session.status() == TxnStatus::Failed {
            return None;
        }
        let prepared = plan_stripped(session, stripped, false)?;
        let takes_rows = prepared.0.plan.takes_rows();
        let known = if takes_rows { Known::Planned(prepared.clone()) } else { Known::Never };
        self.note(stripped, known);
        takes_rows.then_some(prepared)
    }

    fn note(&mut self, stripped: &Stripped<'_>, known: Known) {
        if self.stripped.len() >= TEXTS_MAX {
            self.stripped.retain(|_, known| !matches!(known, Known::Once));
        }
        if self.stripped.len() >= TEXTS_MAX {
            self.stripped.clear();
        }
        self.stripped.insert(stripped.key.as_str().into(), known);
    }

    /// Whether a cached statement of a text is still valid: earlier statements of the text, or other sessions
    /// in the meantime, may have changed settings and tables.
    pub fn is_still_known(&self, session: &mut Session, text: &Recalled, statement: &RecalledStatement) -> bool {
        let control = is_control(&statement.prepared.0.statement);
        control
            || Arc::ptr_eq(&session.settings, &text.settings) && is_in_force(session, &statement.prepared, &mut None)
    }

    /// Records a statement without parameters. At its second occurrence, ignoring constants, it is cached for
    /// [`PlanCache::recall_text`]. Returns true if the statement has constants and may be found by its stripped
    /// text.
    pub fn remember_stripped(&mut self, session: &mut Session, prepared: &Prepared) -> bool {
        if !is_kept(prepared) {
            return false;
        }
        let sql = prepared.0.statement.sql();
        if sql.len() > STATEMENT_BYTES_MAX {
            return false;
        }
        let Some(Some(stripped)) = Stripped::next(sql, &mut 0, &mut |_| Some(())) else { return false };
        let has_constants = !stripped.constants.is_empty();
        let known = match self.stripped.get(stripped.key.as_str()) {
            None => Known::Once,
            Some(Known::Once) if is_control(&prepared.0.statement) => Known::Planned(prepared.clone()),
            Some(Known::Once) => planned(session, &stripped, prepared).map_or(Known::Never, Known::Planned),
            Some(Known::Never) => return false,
            Some(Known::Planned(_)) => return has_constants,
        };
        let may_be_found = has_constants && !matches!(known, Known::Never);
        self.note(&stripped, known);
        may_be_found
    }
}

/// Plans a stripped text; `floats`: numeric constants become float parameters.
fn plan_stripped(session: &mut Session, stripped: &Stripped<'_>, floats: bool) -> Option<Prepared> {
    let statements = crate::statement::parse(stripped.text()).ok()?;
    let [statement]: [Statement; 1] = statements.try_into().ok()?;
    let types = stripped.constants[..stripped.width()].iter().map(|constant| match constant.ty {
        // The constant gets the type of its column.
        _ if constant.is_value => 0,
        oid::NUMERIC if floats => oid::FLOAT8,
        ty => ty,
    });
    let types: Vec<u32> = types.collect();
    let prepared = session.plan_statement(&statement.without_place(), &types).ok()?;
    (stripped.fits(prepared.parameters()) && !depends_on_session(&prepared)).then_some(prepared)
}

/// Plans a stripped text. Returns `None` if its plan differs from that of the original text.
fn planned(session: &mut Session, stripped: &Stripped<'_>, whole: &Prepared) -> Option<Prepared> {
    // Numeric constants become floats when they are operands of floats, which is where series statements
    // have them.
    let prepared = plan_stripped(session, stripped, matches!(whole.0.plan, Plan::Query(_)))?;
    let is_same = match (&prepared.0.plan, &whole.0.plan) {
        (Plan::Rows(plan), Plan::Rows(way)) => plan.is_like(way),
        (Plan::Query(plan), Plan::Query(way)) => {
            let (plan, way) = (plan.series.as_ref()?, way.series.as_ref()?);
            let is_numeric = |at: &usize| stripped.constants[*at].ty == oid::NUMERIC;
            let numerics: Vec<usize> = (0..stripped.constants.len()).filter(is_numeric).collect();
            plan.is_like(way) && numerics.into_iter().all(|at| plan.is_beside_float(at))
        }
        (Plan::Insert(plan), Plan::Insert(way)) => {
            let constants = || stripped.constants.iter();
            // A constant that the column's type cannot read now cannot be read later either.
            let is_read = |(constant, oid): (&Constant<'_>, &u32)| value(*oid, constant, &session.settings).is_some();
            plan.is_like(way)
                && constants().all(|constant| constant.is_value)
                && constants().zip(prepared.parameters().iter().cycle()).all(is_read)
        }
        _ => false,
    };
    (is_same && prepared.0.columns == whole.0.columns).then_some(prepared)
}

/// Whether the plan of a statement is still valid. `newest` caches the snapshot across several calls.
fn is_in_force(session: &mut Session, prepared: &Prepared, newest: &mut Option<Snapshot>) -> bool {
    if session.status() == TxnStatus::Failed {
        return false;
    }
    match &prepared.0.plan {
        Plan::Query(plan) => return plan.holds(&session.context()),
        Plan::Insert(plan) => return plan.holds(&session.context(), &prepared.0.statement),
        _ => {}
    }
    let Plan::Rows(plan) = &prepared.0.plan else { return is_control(&prepared.0.statement) };
    if !plan.names_tables() {
        // A statement without tables must not bind the transaction to the newest commit either.
        return plan.is_always_valid() || plan.holds(&session.context().reads.snapshot, &session.settings);
    }
    let newest = newest.get_or_insert_with(|| session.newest());
    plan.holds(newest, &session.settings)
}

fn is_kept(prepared: &Prepared) -> bool {
    let inserts = matches!(&prepared.0.plan, Plan::Insert(plan) if plan.is_direct());
    inserts || is_planned(prepared) || is_control(&prepared.0.statement)
}

const NUMBERS: [u32; 6] = [oid::INT2, oid::INT4, oid::INT8, oid::FLOAT4, oid::FLOAT8, oid::NUMERIC];

/// Whether the statement is compiled or a series statement, so that its plan is worth caching.
fn is_planned(prepared: &Prepared) -> bool {
    match &prepared.0.plan {
        Plan::Rows(_) => true,
        Plan::Query(plan) => plan.series.is_some(),
        _ => false,
    }
}

/// Whether a constant of the plan was read by the session's settings or clock, such as `'today'::date`.
fn depends_on_session(prepared: &Prepared) -> bool {
    matches!(&prepared.0.plan, Plan::Rows(plan) if plan.has_session_constants())
}

/// Parses a constant as a value of a parameter's type, with the rules of a literal in its place. Returns
/// `None` for types that are not handled here and for unreadable text.
fn value(oid: u32, constant: &Constant<'_>, settings: &Settings) -> Option<Value> {
    let Some(text) = constant.text.as_deref() else { return Some(Value::Null) };
    Some(match oid {
        oid::TEXT | oid::VARCHAR => Value::Text(text.to_owned()),
        oid::TIMESTAMPTZ => Value::Timestamptz(settings.zone().parse_timestamptz(text).ok()?),
        oid::FLOAT8 => Value::Float64(pg::value::parse_float8(text).ok()?),
        oid::FLOAT4 => Value::Float32(pg::value::parse_float4(text).ok()?),
        oid::BOOL => Value::Bool(pg::value::parse_bool(text).ok()?),
        oid::INT2 => Value::Int16(i16::try_from(pg::value::parse_int(oid, text).ok()?).ok()?),
        oid::INT4 => Value::Int32(i32::try_from(pg::value::parse_int(oid, text).ok()?).ok()?),
        oid::INT8 => Value::Int64(pg::value::parse_int(oid, text).ok()?),
        _ => return None,
    })
}

/// Whether the statement starts or ends a transaction. Savepoints are excluded: their names often differ each
/// time.
fn is_control(statement: &Statement) -> bool {
    use parser::ast::Transaction as T;
    let Command::Transaction(transaction) = &statement.0.command else { return false };
    matches!(transaction, T::Begin(_) | T::Start(_) | T::Commit { .. } | T::Rollback { .. })
}

/// Reserves memory; `None` if there is not enough.
type Hold<'h> = &'h mut dyn FnMut(u64) -> Option<()>;

/// A statement's text without its constants.
struct Stripped<'a> {
    /// The text with `$1` and so on in place of the constants, followed by a letter for the type of each: a
    /// text with other constant types has another meaning. The text has no leading or trailing blanks.
    key: String,
    /// Length of the text in bytes.
    text_bytes: usize,
    /// Constants of all rows, in order.
    constants: Vec<Constant<'a>>,
    /// Number of rows of VALUES after the first. They are not in the text, and each has as many constants as
    /// the first.
    further_rows: usize,
}

/// A constant that was removed from a text.
struct Constant<'a> {
    /// OID of the type; 0 for a string and for NULL, whose type depends on the context.
    ty: u32,
    /// NULL is `None`; it is removed only where it is a value of VALUES.
    text: Option<Cow<'a, str>>,
    /// Whether the constant alone is a value of `INSERT … VALUES`.
    is_value: bool,
}

impl Constant<'_> {
    fn bytes(&self) -> Option<&[u8]> {
        self.text.as_deref().map(str::as_bytes)
    }

    /// Whether a literal of this kind may be read as the parameter's type. Numbers are accepted for numeric
    /// types only. The declared fields of an interval decide what a literal means, and a parameter has none.
    fn fits(&self, oid: u32) -> bool {
        match self.ty {
            0 => oid != oid::INTERVAL,
            _ if !self.is_value => true,
            oid::BOOL => oid == oid::BOOL,
            _ => NUMBERS.contains(&oid),
        }
    }
}

impl<'a> Stripped<'a> {
    /// Strips the statement at position `at`, and advances `at` past it. Returns `Some(None)` at the end of
    /// the text, and `None` for syntax that is not handled here.
    ///
    /// - `hold`: reserves the bytes that many rows take; returns `None` if there is not enough memory.
    fn next(sql: &'a str, at: &mut usize, hold: Hold<'_>) -> Option<Option<Stripped<'a>>> {
        let blank = |byte: &u8| byte.is_ascii_whitespace() || *byte == b';';
        *at += sql.as_bytes()[*at..].iter().take_while(|byte| blank(byte)).count();
        if *at == sql.len() {
            return Some(None);
        }
        let mut lexer = Lexer::new(sql, *at);
        let mut stripped = Stripped {
            key: String::with_capacity(512),
            text_bytes: 0,
            constants: Vec::with_capacity(16),
            further_rows: 0,
        };
        // Text between constants is copied in pieces that are as long as possible.
        let mut copied = *at;
        // Bytes of further rows, which do not count towards the limit.
        let mut skipped = 0;
        loop {
            let begin = lexer.at;
            match lexer.token()? {
                Token::End => break,
                Token::Stays if lexer.first_row == FirstRow::JustEnded => {
                    lexer.first_row = FirstRow::Over;
                    stripped.key.push_str(&sql[copied..lexer.at]);
                    copied = lexer.at;
                    if is_of_constants(&stripped.key) && stripped.take_rows(&mut lexer, hold)? {
                        skipped = lexer.at - copied;
                        copied = lexer.at;
                    }
                }
                Token::Stays => {}
                // The statement runs once per row, so it cannot have constants outside the rows.
                Token::Goes(_) if stripped.further_rows > 0 => return None,
                Token::Goes(constant) => {
                    stripped.constants.push(constant);
                    stripped.key.push_str(&sql[copied..begin]);
                    stripped.key.push('$');
                    push_number(&mut stripped.key, stripped.constants.len());
                    copied = lexer.at;
                }
            }
            let is_short = stripped.width() <= CONSTANTS_MAX && lexer.at - *at - skipped <= STATEMENT_BYTES_MAX;
            if !is_short {
                return None;
            }
        }
        stripped.key.push_str(&sql[copied..lexer.at]);
        *at = lexer.at;
        stripped.text_bytes = stripped.key.trim_ascii_end().len();
        stripped.key.truncate(stripped.text_bytes);
        stripped.key.push(';');
        let width = stripped.width();
        stripped.key.extend(stripped.constants[..width].iter().map(|constant| match constant.ty {
            _ if constant.is_value => 'v',
            oid::INT4 => 'i',
            oid::INT8 => 'l',
            oid::NUMERIC => 'n',
            _ => 's',
        }));
        Some(Some(stripped))
    }

    /// Number of constants of one row, or of a statement without rows.
    fn width(&self) -> usize {
        self.constants.len() / (1 + self.further_rows)
    }

    /// Consumes the rows after the first, if all have as many constants; otherwise resets the lexer. Returns
    /// `None` if there is not enough memory.
    fn take_rows(&mut self, lexer: &mut Lexer<'a>, hold: Hold<'_>) -> Option<bool> {
        let (width, first) = (self.constants.len(), lexer.clone());
        let mut uncounted = 0;
        while lexer.next_byte() == Some(b',') {
            let begin = lexer.at;
            if self.take_row(lexer, width).is_none() {
                self.constants.truncate(width);
                self.further_rows = 0;
                *lexer = first;
                return Some(false);
            }
            self.further_rows += 1;
            uncounted += BYTES_PER_CONSTANT * width as u64 + COPIES * (lexer.at - begin) as u64;
            if uncounted >= COUNTED_BYTES {
                hold(std::mem::take(&mut uncounted))?;
            }
        }
        Some(self.further_rows > 0)
    }

    /// Consumes a comma and the row after it.
    fn take_row(&mut self, lexer: &mut Lexer<'a>, width: usize) -> Option<()> {
        lexer.take(b',')?;
        lexer.take(b'(')?;
        for place in 1..=width {
            lexer.skip_blanks();
            let Token::Goes(constant @ Constant { is_value: true, .. }) = lexer.token()? else { return None };
            self.constants.push(constant);
            lexer.take(if place == width { b')' } else { b',' })?;
        }
        Some(())
    }

    fn text(&self) -> &str {
        &self.key[..self.text_bytes]
    }

    /// Whether the literals of all constants are acceptable for parameters of these types.
    fn fits(&self, parameters: &[u32]) -> bool {
        self.constants.len() == parameters.len() * (1 + self.further_rows)
            && self.constants.iter().zip(parameters.iter().cycle()).all(|(constant, oid)| constant.fits(*oid))
    }
}

/// Whether the row at the end of a stripped text contains only parameters.
fn is_of_constants(text: &str) -> bool {
    let row = text.rfind('(').map_or("", |at| &text[at + 1..text.len() - 1]);
    row.split(',').all(|value| {
        let number = value.trim_ascii().strip_prefix('$').unwrap_or_default();
        !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())
    })
}

/// Appends a number of at most three digits.
fn push_number(out: &mut String, number: usize) {
    let digit = |of: usize| char::from(b'0' + (number / of % 10) as u8);
    if number >= 100 {
        out.push(digit(100));
    }
    if number >= 10 {
        out.push(digit(10));
    }
    out.push(digit(1));
}

enum Token<'a> {
    Stays,
    Goes(Constant<'a>),
    /// End of the statement.
    End,
}

/// Lexical class of a byte.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Class {
    Blank,
    /// Part of a word. A digit is too, but cannot start a word.
    Letter,
    Digit,
    /// Part of a word, except its start.
    Dollar,
    Other,
}

const CLASSES: [Class; 256] = {
    let mut classes = [Class::Other; 256];
    let mut byte = 0;
    while byte < 256 {
        classes[byte] = match byte as u8 {
            b' ' | b'\t' | b'\n' | b'\r' | 0x0c => Class::Blank,
            b'a'..=b'z' | b'A'..=b'Z' | b'_' | 0x80.. => Class::Letter,
            b'0'..=b'9' => Class::Digit,
            b'$' => Class::Dollar,
            _ => Class::Other,
        };
        byte += 1;
    }
    classes
};

fn class(byte: u8) -> Class {
    CLASSES[usize::from(byte)]
}

/// Kind of the token before a constant; decides whether the constant is an operand.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Before {
    /// An operator, or a keyword that takes an operand.
    Operand,
    /// The start of a list of operands, or a comma in it.
    List,
    Other,
}

/// Context between two parentheses.
#[derive(Clone, Copy, Default)]
struct Inside {
    /// A comma is followed by an operand.
    is_list: bool,
    /// Constants from here on are kept in the text.
    keeps: bool,
}

/// Maximum nesting of parentheses.
const DEPTH_MAX: usize = 32;

#[derive(Clone)]
struct Lexer<'a> {
    sql: &'a str,
    at: usize,
    before: Before,
    inside: Inside,
    /// Context outside each open parenthesis.
    outside: Vec<Inside>,
    /// Whether constants of this kind of statement are stripped; known after the first word.
    strips: Option<bool>,
    /// The last token was a dot: the next word is an identifier, even if it is a keyword.
    after_point: bool,
    /// The last token was a parenthesis or comma that precedes a value.
    begins_value: bool,
    /// Position within an INSERT.
    insert: Insert,
    /// Position within the first row of VALUES.
    first_row: FirstRow,
}

/// Progress in the first row of VALUES.
#[derive(Clone, Copy, PartialEq, Eq)]
enum FirstRow {
    Begins,
    JustEnded,
    Over,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Insert {
    /// Outside of INSERT, or after its rows.
    No,
    Head,
    /// After VALUES.
    Rows,
}

impl<'a> Lexer<'a> {
    fn new(sql: &'a str, at: usize) -> Lexer<'a> {
        Lexer {
            sql,
            at,
            before: Before::Other,
            inside: Inside::default(),
            outside: Vec::new(),
            strips: None,
            after_point: false,
            begins_value: false,
            insert: Insert::No,
            first_row: FirstRow::Begins,
        }
    }

    fn skip_blanks(&mut self) {
        let rest = &self.sql.as_bytes()[self.at..];
        self.at += rest.iter().take_while(|byte| class(**byte) == Class::Blank).count();
    }

    /// Next byte that is not a blank.
    fn next_byte(&self) -> Option<u8> {
        self.sql.as_bytes()[self.at..].iter().find(|byte| class(**byte) != Class::Blank).copied()
    }

    /// Consumes this comma or parenthesis if it is the next token.
    fn take(&mut self, byte: u8) -> Option<()> {
        self.skip_blanks();
        let follows = self.sql.as_bytes().get(self.at) == Some(&byte);
        if follows { self.token().map(|_| ()) } else { None }
    }

    /// Reads the next token; `None` for syntax that is not handled here.
    fn token(&mut self) -> Option<Token<'a>> {
        let rest = &self.sql.as_bytes()[self.at..];
        let Some(first) = rest.first() else { return Some(Token::End) };
        if class(*first) == Class::Blank {
            self.at += 1;
            return Some(Token::Stays);
        }
        let begins_value = std::mem::take(&mut self.begins_value);
        match class(*first) {
            Class::Letter => return self.word(begins_value),
            Class::Digit => return self.number(begins_value),
            Class::Dollar => return None,
            Class::Blank | Class::Other => {}
        }
        let length = match first {
            b';' => return Some(Token::End),
            b'\'' => return self.string(begins_value),
            b'"' => {
                self.before = Before::Other;
                rest[1..].iter().position(|byte| *byte == b'"')? + 2
            }
            b'(' => {
                let is_list = self.before != Before::Other;
                if self.outside.len() == DEPTH_MAX {
                    return None;
                }
                self.outside.push(self.inside);
                self.inside.is_list = is_list;
                self.before = if is_list { Before::List } else { Before::Other };
                self.begins_value = is_list;
                1
            }
            b')' => {
                // The separator `), (` between rows of VALUES.
                self.before = if self.inside.is_list { Before::List } else { Before::Other };
                self.inside = self.outside.pop()?;
                if self.insert == Insert::Rows && self.outside.is_empty() && self.first_row == FirstRow::Begins {
                    self.first_row = FirstRow::JustEnded;
                }
                1
            }
            b',' => {
                let in_list = self.inside.is_list || self.outside.is_empty() && self.before == Before::List;
                self.before = if in_list { Before::List } else { Before::Other };
                self.begins_value = in_list;
                1
            }
            b'-' | b'/' if matches!((first, rest.get(1)), (b'-', Some(b'-')) | (b'/', Some(b'*'))) => return None,
            // The sign of a value in a list.
            b'-' if begins_value && self.is_signed_value() => return self.number(true),
            b'=' | b'<' | b'>' | b'+' | b'*' | b'%' | b'!' | b'-' | b'/' => self.operator(1),
            b'|' if rest.get(1) == Some(&b'|') => self.operator(2),
            b':' if rest.get(1) == Some(&b':') => {
                self.before = Before::Other;
                2
            }
            b'.' if begins_value && rest.get(1).is_some_and(u8::is_ascii_digit) => return self.number(true),
            b'.' => {
                self.before = Before::Other;
                self.after_point = true;
                1
            }
            // Parameters, arrays and other operators.
            _ => return None,
        };
        Some(self.stays(length))
    }

    fn operator(&mut self, length: usize) -> usize {
        self.before = Before::Operand;
        length
    }

    fn stays(&mut self, length: usize) -> Token<'a> {
        self.at += length;
        Token::Stays
    }

    fn word(&mut self, begins_value: bool) -> Option<Token<'a>> {
        let rest = &self.sql.as_bytes()[self.at..];
        let is_part = |byte: &&u8| matches!(class(**byte), Class::Letter | Class::Digit | Class::Dollar);
        let length = rest.iter().take_while(is_part).count();
        // Another kind of string: E'…', B'…', U&'…'.
        if matches!(rest.get(length), Some(b'\'' | b'&')) {
            return None;
        }
        let word = &self.sql[self.at..self.at + length];
        if std::mem::take(&mut self.after_point) {
            self.before = Before::Other;
        } else if self.is_value(begins_value, length)
            && let Some((ty, text)) = constant_word(word)
        {
            self.before = Before::Other;
            self.at += length;
            return Some(Token::Goes(Constant { ty, text: text.map(Cow::Borrowed), is_value: true }));
        } else {
            self.note_word(word.as_bytes());
        }
        Some(self.stays(length))
    }

    /// Whether the next `length` bytes alone are a value of `INSERT … VALUES`.
    fn is_value(&self, begins_value: bool, length: usize) -> bool {
        let rest = &self.sql.as_bytes()[self.at + length..];
        let follows = || rest.iter().find(|byte| class(**byte) != Class::Blank);
        let is_there = begins_value && self.insert == Insert::Rows && self.outside.len() == 1;
        is_there && matches!(follows(), Some(b',' | b')'))
    }

    fn note_word(&mut self, word: &[u8]) {
        self.before = Before::Other;
        let mut lower = [0; WORD_MAX];
        let Some(lower) = lower.get_mut(..word.len()) else {
            self.strips.get_or_insert(false);
            return;
        };
        lower.copy_from_slice(word);
        lower.make_ascii_lowercase();
        let changes = matches!(&*lower, b"insert" | b"update" | b"delete");
        if self.strips.is_none() && lower == b"insert" {
            self.insert = Insert::Head;
        }
        self.strips.get_or_insert(changes || lower == b"select");
        self.insert = match (&*lower, self.insert, self.outside.is_empty()) {
            (b"values", Insert::Head, true) => Insert::Rows,
            // ON CONFLICT, RETURNING, or SELECT in place of VALUES.
            (b"on" | b"returning" | b"select" | b"with", _, true) => Insert::No,
            (_, insert, _) => insert,
        };
        match &*lower {
            b"select" => {
                self.before = Before::List;
                self.inside = Inside { is_list: true, keeps: false };
            }
            b"from" | b"into" => self.inside.is_list = false,
            b"and" | b"or" | b"not" | b"between" | b"where" | b"in" | b"values" | b"on" | b"having" => {
                self.before = Before::Operand;
            }
            // DISTINCT is included because of DISTINCT ON.
            b"distinct" | b"order" | b"group" | b"limit" | b"offset" | b"fetch" | b"like" | b"ilike" | b"similar"
            | b"partition" => {
                self.inside.keeps = true;
            }
            _ => {}
        }
    }

    /// Whether a constant at this position is stripped.
    fn goes(&mut self) -> bool {
        let is_operand = std::mem::replace(&mut self.before, Before::Other) != Before::Other;
        is_operand && !self.inside.keeps && self.strips == Some(true)
    }

    /// Whether a sign is followed by a number that ends the value.
    fn is_signed_value(&self) -> bool {
        let rest = &self.sql.as_bytes()[self.at + 1..];
        let length =
            if rest.first().is_some_and(|byte| matches!(byte, b'0'..=b'9' | b'.')) { number_length(rest) } else { 0 };
        let blanks = rest[length..].iter().take_while(|byte| class(**byte) == Class::Blank).count();
        length > 0 && matches!(rest.get(length + blanks), Some(b',' | b')'))
    }

    /// Reads a number, including a leading sign.
    fn number(&mut self, begins_value: bool) -> Option<Token<'a>> {
        let rest = &self.sql[self.at..];
        let sign = usize::from(rest.starts_with('-'));
        let length = sign + number_length(&rest.as_bytes()[sign..]);
        if rest.as_bytes().get(length).is_some_and(|byte| !byte.is_ascii()) {
            return None;
        }
        let text = &rest[..length];
        let is_value = self.is_value(begins_value, length);
        if !self.goes() || !is_plain(&text[sign..], is_value) {
            return Some(self.stays(length));
        }
        self.at += length;
        // The sign does not affect the type.
        let ty = match text[sign..].parse::<i64>() {
            Ok(value) if i32::try_from(value).is_ok() => oid::INT4,
            Ok(_) => oid::INT8,
            Err(_) => oid::NUMERIC,
        };
        // `-0.0` is a numeric, which has no negative zero.
        let is_zero = text.bytes().take_while(|byte| !is_exponent(*byte)).all(|byte| !matches!(byte, b'1'..=b'9'));
        let text = if is_zero { &text[sign..] } else { text };
        Some(Token::Goes(Constant { ty, text: Some(Cow::Borrowed(text)), is_value }))
    }

    fn string(&mut self, begins_value: bool) -> Option<Token<'a>> {
        let rest = &self.sql[self.at..];
        let mut end = 1;
        loop {
            end += rest[end..].find('\'')? + 1;
            if !rest[end..].starts_with('\'') {
                break;
            }
            end += 1;
        }
        let is_value = self.is_value(begins_value, end);
        if !self.goes() {
            return Some(self.stays(end));
        }
        self.at += end;
        let text = &rest[1..end - 1];
        let text = if text.contains('\'') { Cow::Owned(text.replace("''", "'")) } else { Cow::Borrowed(text) };
        Some(Token::Goes(Constant { ty: 0, text: Some(text), is_value }))
    }
}

/// Type and text of a keyword that is a constant.
fn constant_word(word: &str) -> Option<(u32, Option<&str>)> {
    if word.eq_ignore_ascii_case("null") {
        return Some((0, None));
    }
    let is_bool = word.eq_ignore_ascii_case("true") || word.eq_ignore_ascii_case("false");
    is_bool.then_some((oid::BOOL, Some(word)))
}

/// Length of a number in bytes: digits, letters and dots, and a sign after an `e`.
fn number_length(rest: &[u8]) -> usize {
    let is_part = |byte: &&u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_');
    let length = rest.iter().take_while(is_part).count();
    match rest[length..] {
        [b'+' | b'-', b'0'..=b'9', ..] if length > 0 && is_exponent(rest[length - 1]) => {
            length + 1 + rest[length + 1..].iter().take_while(is_part).count()
        }
        _ => length,
    }
}

fn is_exponent(byte: u8) -> bool {
    matches!(byte, b'e' | b'E')
}

/// Whether this is a plain number: digits with at most one dot, and an exponent if `may_have_exponent`.
fn is_plain(text: &str, may_have_exponent: bool) -> bool {
    let bytes = text.as_bytes();
    let mantissa = bytes.iter().position(|byte| is_exponent(*byte)).unwrap_or(bytes.len());
    let dots = bytes[..mantissa].iter().filter(|byte| **byte == b'.').count();
    let digits = bytes[..mantissa].iter().filter(|byte| byte.is_ascii_digit()).count();
    let exponent =
        bytes.get(mantissa + 1..).map(|rest| rest.strip_prefix(b"-").or(rest.strip_prefix(b"+")).unwrap_or(rest));
    let is_exponent_plain =
        exponent.is_none_or(|rest| may_have_exponent && !rest.is_empty() && rest.iter().all(u8::is_ascii_digit));
    dots <= 1 && digits > 0 && dots + digits == mantissa && is_exponent_plain
}

/// Length in bytes of the longest keyword that the lexer checks.
const WORD_MAX: usize = 9;

#[cfg(test)]
mod tests {
    use super::*;

    /// Formats each statement with its constants and their types.
    fn stripped(sql: &str) -> String {
        let (mut at, mut all) = (0, Vec::new());
        loop {
            match Stripped::next(sql, &mut at, &mut |_| Some(())) {
                None => return "not understood".to_owned(),
                Some(None) => return all.join(" ; "),
                Some(Some(stripped)) if stripped.constants.is_empty() => all.push(stripped.text().to_owned()),
                Some(Some(stripped)) => {
                    let constants = stripped.constants.iter().map(|constant| {
                        let text = constant.text.as_deref().unwrap_or("null");
                        format!("{}{} {text}", if constant.is_value { "v" } else { "" }, constant.ty)
                    });
                    let rows = match stripped.further_rows {
                        0 => String::new(),
                        rows => format!(" +{rows}"),
                    };
                    all.push(format!("{}{rows} | {}", stripped.text(), constants.collect::<Vec<_>>().join(", ")));
                }
            }
        }
    }

    #[test]
    fn operands_go_and_what_a_plan_may_depend_on_stays() {
        for (sql, expected) in [
            ("SELECT abalance FROM a WHERE aid = 77;", "SELECT abalance FROM a WHERE aid = $1 | 23 77"),
            ("update a set b = b + -5 where id=3", "update a set b = b + -$1 where id=$2 | 23 5, 23 3"),
            (
                "INSERT INTO h (a, b) VALUES (1, 'it''s', 2.50), (3000000000, '', NULL)",
                "INSERT INTO h (a, b) VALUES ($1, $2, $3) +1 \
                 | v23 1, v0 it's, v1700 2.50, v20 3000000000, v0 , v0 null",
            ),
            (
                "insert into h values(-1),\n (2) ,( .5 ) , (true) on conflict do nothing; insert into h values ('),('),(1),(2)",
                "insert into h values($1) on conflict do nothing +3 | v23 -1, v23 2, v1700 .5, v16 true ; \
                 insert into h values ($1) +2 | v0 ),(, v23 1, v23 2",
            ),
            (
                "INSERT INTO h VALUES (1, 2), (3, f(4)), (5, 6)",
                "INSERT INTO h VALUES ($1, $2), ($3, f(4)), ($4, $5) | v23 1, v23 2, v23 3, v23 5, v23 6",
            ),
            (
                "INSERT INTO h VALUES (1, 2), (3), (5, 6)",
                "INSERT INTO h VALUES ($1, $2), ($3), ($4, $5) | v23 1, v23 2, v23 3, v23 5, v23 6",
            ),
            (
                "INSERT INTO h VALUES (1, default), (3, default)",
                "INSERT INTO h VALUES ($1, default), ($2, default) | v23 1, v23 3",
            ),
            (
                "INSERT INTO h VALUES (1, 2 + 3), (4, 5), (6, 7)",
                "INSERT INTO h VALUES ($1, $2 + $3), ($4, $5), ($6, $7) | v23 1, 23 2, 23 3, v23 4, v23 5, v23 6, v23 7",
            ),
            ("INSERT INTO h (a) VALUES (1), (2),", "INSERT INTO h (a) VALUES ($1), ($2), | v23 1, v23 2"),
            (
                "INSERT INTO h VALUES (-1, - 2, -2.5 , -3 + 1, - -4, -2147483648)",
                "INSERT INTO h VALUES ($1, - $2, $3 , -$4 + $5, - -$6, $7) \
                 | v23 -1, 23 2, v1700 -2.5, 23 3, 23 1, 23 4, v20 -2147483648",
            ),
            (
                "insert into h values (-0, -0.0, 1e-5, -2.5E+3, -1e, 1e5x, .5, .) on conflict (a) do update set b = 1, c = true",
                "insert into h values ($1, $2, $3, $4, -1e, 1e5x, $5, .) on conflict (a) do update set b = $6, c = true \
                 | v23 0, v1700 0.0, v1700 1e-5, v1700 -2.5E+3, v1700 .5, 23 1",
            ),
            (
                "INSERT INTO h VALUES (true, FALSE, Null, null, true AND false, f(true), now(), default)",
                "INSERT INTO h VALUES ($1, $2, $3, $4, true AND false, f(true), now(), default) \
                 | v16 true, v16 FALSE, v0 null, v0 null",
            ),
            (
                "INSERT INTO h SELECT x FROM (VALUES (1, NULL, true)) t (x, y, z) WHERE a IN (2, NULL) AND x > 1e-5 - 3",
                "INSERT INTO h SELECT x FROM (VALUES ($1, NULL, true)) t (x, y, z) WHERE a IN ($2, NULL) AND x > 1e-5 - $3 \
                 | 23 1, 23 2, 23 3",
            ),
            (
                "SELECT 1e-5, x FROM t WHERE a IN (NULL, true, 1)",
                "SELECT 1e-5, x FROM t WHERE a IN (NULL, true, $1) | 23 1",
            ),
            (
                "INSERT INTO h SELECT 1, x - 2, 3 FROM t, u WHERE a = 4",
                "INSERT INTO h SELECT $1, x - $2, $3 FROM t, u WHERE a = $4 | 23 1, 23 2, 23 3, 23 4",
            ),
            (
                "DELETE FROM t WHERE a IN (1, 2) AND b BETWEEN 3 AND 4",
                "DELETE FROM t WHERE a IN ($1, $2) AND b BETWEEN $3 AND $4 | 23 1, 23 2, 23 3, 23 4",
            ),
            (
                "SELECT 1, f(2), x FROM t WHERE a = 3 ORDER BY 2 LIMIT 4",
                "SELECT $1, f(2), x FROM t WHERE a = $2 ORDER BY 2 LIMIT 4 | 23 1, 23 3",
            ),
            (
                "SELECT (SELECT a FROM t WHERE b = 1 ORDER BY c OFFSET (SELECT 2 FROM t WHERE b = 3 AND d = 4)), 5",
                "SELECT (SELECT a FROM t WHERE b = $1 ORDER BY c OFFSET (SELECT $2 FROM t WHERE b = $3 AND d = $4)), $5 \
                 | 23 1, 23 2, 23 3, 23 4, 23 5",
            ),
            (
                "SELECT x FROM t WHERE (a, b) IN ((1, 2), (3, 4))",
                "SELECT x FROM t WHERE (a, b) IN (($1, $2), ($3, $4)) | 23 1, 23 2, 23 3, 23 4",
            ),
            (
                "SELECT x::numeric(12, 2) FROM t WHERE n = 1.5::numeric(5, 1)",
                "SELECT x::numeric(12, 2) FROM t WHERE n = $1::numeric(5, 1) | 1700 1.5",
            ),
            ("SELECT x FROM \"t 1\" WHERE \"a'b\" = 'q'", "SELECT x FROM \"t 1\" WHERE \"a'b\" = $1 | 0 q"),
            (
                "BEGIN; SELECT 'a;b'; ; UPDATE t SET a = 1 ;COMMIT ",
                "BEGIN ; SELECT $1 | 0 a;b ; UPDATE t SET a = $1 | 23 1 ; COMMIT",
            ),
            (" ;; ", ""),
            (
                "SELECT a FROM t WHERE b = 1 ORDER BY t.select, 2",
                "SELECT a FROM t WHERE b = $1 ORDER BY t.select, 2 | 23 1",
            ),
            ("SELECT DISTINCT ON (1) a FROM t WHERE b = 1", "SELECT DISTINCT ON (1) a FROM t WHERE b = 1"),
        ] {
            assert_eq!(stripped(sql), expected, "{sql}");
        }
        for sql in [
            "SELECT x FROM t WHERE d > date '2020-01-01' AND n = round(1.5, 1)",
            "SELECT x FROM t WHERE s LIKE 'a%' AND n = 1",
            "SELECT x FROM t1 WHERE a1 = 1e5",
            "SAVEPOINT a1",
            "VACUUM t",
            "SET x = 1",
            "SELECT x FROM t",
        ] {
            assert_eq!(stripped(sql), sql);
        }
        for sql in [
            "SELECT x FROM t WHERE a = E'x'",
            "SELECT x FROM t WHERE a = $1 AND b = 2",
            "SELECT x FROM t WHERE a = 1 -- that is all",
            "SELECT x FROM t WHERE a = /* one */ 1",
            "SELECT x FROM t WHERE a = ANY(ARRAY[1, 2])",
            "SELECT x FROM t WHERE a = 'open",
            "SELECT x FROM t WHERE a = 5\u{e4}",
            "SELECT x FROM t WHERE a = 1)",
        ] {
            assert_eq!(stripped(sql), "not understood", "{sql}");
        }
    }

    #[test]
    fn texts_cut_anywhere_are_understood_or_left() {
        let texts = [
            "SELECT „ä“ FROM \"tä\" WHERE ä1 = 'ö''' AND n >= 12.5 -- ü",
            "insert into t values (1, 'zwölf', -3.), ('''', .5, 1.2.3, 1e-7, null, -2E5, true) on conflict do nothing",
            "update t set a = a || 'é' || 7::text where b[1] = '{\"x\": 1}' -> 'x'",
            "delete from t where a in ('\u{1F600}', '') and (b, c) = (1, 2) limit 1",
        ];
        for text in texts {
            for cut in (0..=text.len()).filter(|cut| text.is_char_boundary(*cut)) {
                let Some(Some(stripped)) = Stripped::next(&text[..cut], &mut 0, &mut |_| Some(())) else { continue };
                if stripped.further_rows > 0 {
                    continue;
                }
                let mut whole = stripped.text().to_owned();
                for (at, constant) in stripped.constants.iter().enumerate().rev() {
                    let written = match &constant.text {
                        None => "null".to_owned(),
                        Some(text) if constant.ty == 0 => format!("'{}'", text.replace('\'', "''")),
                        Some(text) => text.to_string(),
                    };
                    whole = whole.replacen(&format!("${}", at + 1), &written, 1);
                }
                assert_eq!(whole, text[..cut].trim_end());
            }
        }
    }
}
