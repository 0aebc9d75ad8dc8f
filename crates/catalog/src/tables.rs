//! The catalog's tables, read from the files of `data` once.

use std::sync::LazyLock;

use rustc_hash::FxHashMap;

use crate::types::{TypeId, TypeKind, TypeRow};

/// A row of `pg_proc`.
#[derive(Clone, Debug)]
pub struct Function {
    /// Number.
    pub oid: u32,
    /// Name, without schema.
    pub name: &'static str,
    /// `prokind`
    pub kind: FunctionKind,
    /// Element type of the last parameter, if it is VARIADIC; [`TypeId::ANY`] takes arguments of any types.
    pub variadic: Option<TypeId>,
    /// Whether a NULL argument makes the result NULL without a call.
    pub is_strict: bool,
    /// Whether it returns a set of rows.
    pub returns_set: bool,
    /// `provolatile`
    pub volatility: Volatility,
    /// Type of the result.
    pub result: TypeId,
    /// Types of the input parameters.
    pub parameters: Vec<TypeId>,
    /// Names of the input parameters; empty if it has none.
    pub parameter_names: Vec<&'static str>,
    /// SQL expressions of the last parameters, which a call may leave out.
    pub defaults: Vec<&'static str>,
    /// Columns of the result: names and types of the OUT parameters.
    pub columns: Vec<(&'static str, TypeId)>,
}

/// `prokind`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FunctionKind {
    /// A function of values.
    Scalar,
    /// An aggregate function.
    Aggregate(Aggregate),
    /// A window function.
    Window,
}

/// `aggkind`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Aggregate {
    /// Aggregate of all arguments.
    Normal,
    /// Aggregate of the values behind WITHIN GROUP, with this number of direct arguments.
    OrderedSet(usize),
    /// The rank that the direct arguments would have among the values behind WITHIN GROUP.
    HypotheticalSet(usize),
}

/// `provolatile`
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Volatility {
    /// Equal arguments always give equal results.
    Immutable,
    /// Equal arguments give equal results within a statement.
    Stable,
    /// Each call may give another result.
    Volatile,
}

/// A row of `pg_operator`.
#[derive(Clone, Debug)]
pub struct Operator {
    /// Number.
    pub oid: u32,
    /// Symbol.
    pub name: &'static str,
    /// Type of the left operand; prefix operators have none.
    pub left: Option<TypeId>,
    /// Type of the right operand.
    pub right: TypeId,
    /// Type of the result.
    pub result: TypeId,
    /// The function that computes it.
    pub function: u32,
    /// The operator that gives the same with the operands exchanged.
    pub commutator: Option<u32>,
    /// The operator that gives the opposite.
    pub negator: Option<u32>,
    /// Whether it is an equality by which sorted inputs can be merged.
    pub can_merge: bool,
    /// Whether it is an equality by which values can be hashed.
    pub can_hash: bool,
}

/// A row of `pg_cast`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CastRow {
    /// The function that converts; `None` for a cast by text or of the same bytes.
    pub(crate) function: Option<u32>,
    pub(crate) context: u8,
    pub(crate) method: u8,
}

/// All tables.
pub struct Catalog {
    pub(crate) types: FxHashMap<TypeId, TypeRow>,
    type_names: FxHashMap<&'static str, TypeId>,
    functions: Vec<Function>,
    functions_by_oid: FxHashMap<u32, usize>,
    functions_by_name: FxHashMap<&'static str, Vec<usize>>,
    operators: Vec<Operator>,
    operators_by_oid: FxHashMap<u32, usize>,
    operators_by_name: FxHashMap<&'static str, Vec<usize>>,
    operators_exact: FxHashMap<(&'static str, Option<TypeId>, TypeId), usize>,
    pub(crate) casts: FxHashMap<(TypeId, TypeId), CastRow>,
}

/// Numbers of the functions that PostgreSQL lacks; it has no function with one of these.
const OWN_FUNCTIONS: std::ops::Range<u32> = 9_000..10_000;

impl Function {
    /// Whether PostgreSQL lacks it: `time_bucket`, `first` and others, most of them TimescaleDB's.
    #[must_use]
    pub fn is_own(&self) -> bool {
        OWN_FUNCTIONS.contains(&self.oid)
    }
}

/// The catalog of PostgreSQL 15's built-in objects, and of Millrace's functions.
#[must_use]
pub fn builtin() -> &'static Catalog {
    static BUILTIN: LazyLock<Catalog> = LazyLock::new(Catalog::read);
    &BUILTIN
}

impl Catalog {
    /// The row of a type.
    #[must_use]
    pub fn type_row(&self, id: TypeId) -> Option<&TypeRow> {
        self.types.get(&id).or_else(|| crate::user::row(id))
    }

    /// The type of a name as in `pg_type`: `int4`, not `integer`.
    #[must_use]
    pub fn type_named(&self, name: &str) -> Option<TypeId> {
        self.type_names.get(name).copied()
    }

    /// The row of a function.
    #[must_use]
    pub fn function_row(&self, oid: u32) -> Option<&Function> {
        self.functions_by_oid.get(&oid).map(|at| &self.functions[*at])
    }

    /// All functions, in the order of their numbers.
    #[must_use]
    pub fn functions(&self) -> &[Function] {
        &self.functions
    }

    /// The functions of a name.
    pub fn functions_named(&self, name: &str) -> impl Iterator<Item = &Function> {
        let found = self.functions_by_name.get(name).map(Vec::as_slice).unwrap_or_default();
        found.iter().map(|at| &self.functions[*at])
    }

    /// The row of an operator.
    #[must_use]
    pub fn operator_row(&self, oid: u32) -> Option<&Operator> {
        self.operators_by_oid.get(&oid).map(|at| &self.operators[*at])
    }

    /// All operators, in the order of their numbers.
    #[must_use]
    pub fn operators(&self) -> &[Operator] {
        &self.operators
    }

    /// The operators of a name, prefix or binary.
    pub(crate) fn operators_named(&self, name: &str, is_prefix: bool) -> impl Iterator<Item = &Operator> {
        let found = self.operators_by_name.get(name).map(Vec::as_slice).unwrap_or_default();
        found.iter().map(|at| &self.operators[*at]).filter(move |operator| operator.left.is_none() == is_prefix)
    }

    /// The operator of a name with exactly these operands.
    pub(crate) fn operator_exact(&self, name: &str, left: Option<TypeId>, right: TypeId) -> Option<&Operator> {
        let (name, _) = self.operators_by_name.get_key_value(name)?;
        self.operators_exact.get(&(*name, left, right)).map(|at| &self.operators[*at])
    }

    fn read() -> Catalog {
        let types: Vec<TypeRow> = lines(include_str!("../data/types.tsv")).map(|line| type_row(&line)).collect();
        let functions = lines(include_str!("../data/functions.tsv")).chain(lines(include_str!("../data/millrace.tsv")));
        let functions: Vec<Function> = functions.map(|line| function(&line)).collect();
        let operators: Vec<Operator> =
            lines(include_str!("../data/operators.tsv")).map(|line| operator(&line)).collect();
        let casts = lines(include_str!("../data/casts.tsv")).map(|line| cast(&line)).collect();
        Catalog {
            type_names: types.iter().map(|row| (row.name, row.id)).collect(),
            types: types.into_iter().map(|row| (row.id, row)).collect(),
            functions_by_oid: functions.iter().enumerate().map(|(at, row)| (row.oid, at)).collect(),
            functions_by_name: by_name(functions.iter().map(|row| row.name)),
            functions,
            operators_by_oid: operators.iter().enumerate().map(|(at, row)| (row.oid, at)).collect(),
            operators_by_name: by_name(operators.iter().map(|row| row.name)),
            operators_exact: operators
                .iter()
                .enumerate()
                .map(|(at, row)| ((row.name, row.left, row.right), at))
                .collect(),
            operators,
            casts,
        }
    }
}

type Fields = Vec<&'static str>;

fn lines(file: &'static str) -> impl Iterator<Item = Fields> {
    file.lines().map(|line| line.split('\t').collect())
}

fn by_name(names: impl Iterator<Item = &'static str>) -> FxHashMap<&'static str, Vec<usize>> {
    let mut found: FxHashMap<&'static str, Vec<usize>> = FxHashMap::default();
    for (at, name) in names.enumerate() {
        found.entry(name).or_default().push(at);
    }
    found
}

/// The files are ours and their form is tested, so that a field that cannot be read is a bug.
fn number<T: std::str::FromStr>(field: &str) -> T {
    field.parse().ok().expect("BUG: a number in the catalog's files")
}

fn id(field: &str) -> TypeId {
    TypeId(number(field))
}

fn optional(field: &str) -> Option<u32> {
    Some(number(field)).filter(|oid| *oid != 0)
}

fn letter(field: &str) -> u8 {
    field.as_bytes().first().copied().unwrap_or(b' ')
}

fn type_row(fields: &Fields) -> TypeRow {
    TypeRow {
        id: id(fields[0]),
        name: fields[1],
        length: number(fields[2]),
        kind: match letter(fields[4]) {
            b'c' => TypeKind::Composite,
            b'd' => TypeKind::Domain,
            b'e' => TypeKind::Enum,
            b'r' => TypeKind::Range,
            b'm' => TypeKind::Multirange,
            b'p' => TypeKind::Pseudo,
            _ => TypeKind::Base,
        },
        category: letter(fields[5]),
        is_preferred: fields[6] == "t",
        element: optional(fields[7]).map(TypeId),
        array: optional(fields[8]).map(TypeId),
        base: optional(fields[9]).map(TypeId),
    }
}

fn function(fields: &Fields) -> Function {
    let parameters: Vec<TypeId> = fields[10].split_whitespace().map(id).collect();
    let array = |field: &'static str| -> Vec<&'static str> {
        let inner = field.strip_prefix('{').and_then(|field| field.strip_suffix('}'));
        inner.map(|inner| inner.split(',').map(|name| name.trim_matches('"')).collect()).unwrap_or_default()
    };
    let (all, modes, names) = (array(fields[12]), array(fields[13]), array(fields[14]));
    let is_input = |at: usize| modes.get(at).is_none_or(|mode| matches!(*mode, "i" | "b" | "v"));
    let named = names.iter().enumerate();
    let columns =
        all.iter().zip(&names).enumerate().filter(|(at, _)| matches!(modes.get(*at), Some(&("o" | "b" | "t"))));
    Function {
        oid: number(fields[0]),
        name: fields[1],
        kind: match (letter(fields[2]), letter(fields[3])) {
            (b'a', b'o') => FunctionKind::Aggregate(Aggregate::OrderedSet(number(fields[4]))),
            (b'a', b'h') => FunctionKind::Aggregate(Aggregate::HypotheticalSet(number(fields[4]))),
            (b'a', _) => FunctionKind::Aggregate(Aggregate::Normal),
            (b'w', _) => FunctionKind::Window,
            _ => FunctionKind::Scalar,
        },
        variadic: optional(fields[5]).map(TypeId),
        is_strict: fields[6] == "t",
        returns_set: fields[7] == "t",
        volatility: match letter(fields[8]) {
            b'i' => Volatility::Immutable,
            b's' => Volatility::Stable,
            _ => Volatility::Volatile,
        },
        result: id(fields[9]),
        parameter_names: named.filter(|(at, _)| is_input(*at)).map(|(_, name)| *name).take(parameters.len()).collect(),
        parameters,
        defaults: if fields[15] == "\\N" { Vec::new() } else { fields[15].split('|').collect() },
        columns: columns.map(|(_, (ty, name))| (*name, id(ty))).collect(),
    }
}

fn operator(fields: &Fields) -> Operator {
    Operator {
        oid: number(fields[0]),
        name: fields[1],
        left: optional(fields[3]).map(TypeId),
        right: id(fields[4]),
        result: id(fields[5]),
        function: number(fields[6]),
        commutator: optional(fields[7]),
        negator: optional(fields[8]),
        can_merge: fields[9] == "t",
        can_hash: fields[10] == "t",
    }
}

fn cast(fields: &Fields) -> ((TypeId, TypeId), CastRow) {
    let row = CastRow { function: optional(fields[2]), context: letter(fields[3]), method: letter(fields[4]) };
    ((id(fields[0]), id(fields[1])), row)
}
