//! Functions of PostgreSQL that DataFusion computes with the same results, by their numbers.

use std::sync::LazyLock;

use catalog::{TypeId, builtin};
use datafusion::logical_expr::Operator;
use rustc_hash::FxHashMap;
use scalar::SqlValue;
use scalar::registry::signature_number;

/// The native form of a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Native {
    /// A comparison of values with the same Arrow type, or of integers.
    Compare(Operator),
    /// A comparison of numerics, which decimals of one scale have natively.
    CompareNumeric(Operator),
    /// A comparison of a date and a timestamp, of which one is constant.
    CompareDay(Operator),
    /// A cast that cannot fail.
    Cast(TypeId),
    /// LIKE, or NOT LIKE.
    Like { negated: bool },
    /// Adds a constant interval to a timestamp, or subtracts it.
    Shift { back: bool },
    /// A function of crate `query`, which keeps nanoseconds.
    Call(&'static str),
    /// The time of the transaction, which DataFusion puts into a plan for each execution.
    Now,
    /// One that PostgreSQL and crate `scalar` lack, by its name among the functions of this crate.
    Own(&'static str),
}

/// The native form of the function with a number in `pg_proc`.
pub(crate) fn native(function: u32) -> Option<Native> {
    NATIVES.get(&function).copied()
}

const OPERATORS: [Operator; 6] =
    [Operator::Eq, Operator::NotEq, Operator::Lt, Operator::LtEq, Operator::Gt, Operator::GtEq];

/// Prefixes of the names of comparisons, to which `eq`, `ne`, `lt`, `le`, `gt`, `ge` are added.
const COMPARED: [&str; 23] = [
    "int2",
    "int4",
    "int8",
    "int24",
    "int42",
    "int28",
    "int82",
    "int48",
    "int84",
    "oid",
    "text",
    "text_",
    "bool",
    "date_",
    "timestamp_",
    "timestamptz_",
    "time_",
    "uuid_",
    "bytea",
    "float4",
    "float8",
    "float48",
    "float84",
];

/// Casts without loss or failure, and the types that they make.
const CASTS: [(&str, TypeId); 9] = [
    ("int4(int2)", TypeId::INT4),
    ("int8(int2)", TypeId::INT8),
    ("int8(int4)", TypeId::INT8),
    ("float8(int2)", TypeId::FLOAT8),
    ("float8(int4)", TypeId::FLOAT8),
    ("float8(int8)", TypeId::FLOAT8),
    ("float8(float4)", TypeId::FLOAT8),
    ("float4(int2)", TypeId::FLOAT4),
    ("float4(int4)", TypeId::FLOAT4),
];

/// Functions that crate `query` has; timestamps in `columns` tables have nanoseconds, which crate `scalar` has not.
const CALLS: [(&str, &str); 4] = [
    ("date_trunc(text,timestamptz)", "date_trunc"),
    ("date_trunc(text,timestamp)", "date_trunc"),
    ("date_trunc(text,timestamptz,text)", "millrace_date_trunc"),
    ("date_bin(interval,timestamptz,timestamptz)", "date_bin"),
];

static NATIVES: LazyLock<FxHashMap<u32, Native>> = LazyLock::new(|| {
    let mut natives = FxHashMap::default();
    let mut add = |signature: &str, native: Native| {
        if let Some(number) = signature_number(builtin(), signature) {
            natives.insert(number, native);
        }
    };
    for prefix in COMPARED {
        for (suffix, operator) in ["eq", "ne", "lt", "le", "gt", "ge"].iter().zip(OPERATORS) {
            add(&format!("{prefix}{suffix}"), Native::Compare(operator));
        }
    }
    for (suffix, operator) in ["eq", "ne", "lt", "le", "gt", "ge"].iter().zip(OPERATORS) {
        add(&format!("numeric_{suffix}"), Native::CompareNumeric(operator));
        add(&format!("date_{suffix}_timestamp"), Native::CompareDay(operator));
        add(&format!("timestamp_{suffix}_date"), Native::CompareDay(operator));
    }
    for (signature, to) in CASTS {
        add(signature, Native::Cast(to));
    }
    for (signature, name) in CALLS {
        add(signature, Native::Call(name));
    }
    for name in ["now()", "transaction_timestamp()"] {
        add(name, Native::Now);
    }
    let session = scalar::Session::default();
    let own = builtin().functions().iter().filter(|row| row.is_own() && !scalar::has_function(row.oid, &session));
    natives.extend(own.map(|row| (row.oid, Native::Own(row.name))));
    let mut add = |signature: &str, native: Native| {
        if let Some(number) = signature_number(builtin(), signature) {
            natives.insert(number, native);
        }
    };
    add("textlike", Native::Like { negated: false });
    add("textnlike", Native::Like { negated: true });
    for name in ["timestamp", "timestamptz"] {
        add(&format!("{name}_pl_interval"), Native::Shift { back: false });
        add(&format!("{name}_mi_interval"), Native::Shift { back: true });
    }
    natives
});

/// Whether a value is the time of the transaction.
pub(crate) fn is_now(value: SqlValue, typmod: i32) -> bool {
    value == SqlValue::CurrentTimestamp && typmod < 0
}

/// Whether a function is an equality of values of one type, whose keys are equal if it holds.
pub(crate) fn is_equality(call: &scalar::Call) -> bool {
    equated(call).is_some_and(|[left, right]| left == right)
}

/// Whether a function is an equality of values of one type, or of integers.
pub(crate) fn is_equality_of_keys(call: &scalar::Call) -> bool {
    equated(call).is_some_and(|[left, right]| left == right || is_integer(left) && is_integer(right))
}

/// Whether it is a type of integers.
pub(crate) fn is_integer(ty: TypeId) -> bool {
    matches!(ty, TypeId::INT2 | TypeId::INT4 | TypeId::INT8)
}

/// The types of the operands of an equality.
fn equated(call: &scalar::Call) -> Option<[TypeId; 2]> {
    let operator = builtin().operator_row(call.operator?)?;
    let [left, right] = &*call.arguments else { return None };
    (operator.name == "=" && operator.can_merge).then_some([*left, *right])
}
