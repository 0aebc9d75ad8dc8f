//! Input and output functions of types, with PostgreSQL's OIDs and names. Drivers choose their
//! codecs by these.

use crate::types::{Oid, Type, oid};

/// The text input, text output, binary input and binary output functions of a type; 0 and `-` if it
/// has none.
pub type TypeFunctions = [(Oid, &'static str); 4];

const ARRAY: TypeFunctions = [(750, "array_in"), (751, "array_out"), (2400, "array_recv"), (2401, "array_send")];
const RECORD: TypeFunctions = [(2290, "record_in"), (2291, "record_out"), (2402, "record_recv"), (2403, "record_send")];

#[rustfmt::skip]
const FUNCTIONS: &[(&str, TypeFunctions)] = &[
    ("bool", [(1242, "boolin"), (1243, "boolout"), (2436, "boolrecv"), (2437, "boolsend")]),
    ("bytea", [(1244, "byteain"), (31, "byteaout"), (2412, "bytearecv"), (2413, "byteasend")]),
    ("char", [(1245, "charin"), (33, "charout"), (2434, "charrecv"), (2435, "charsend")]),
    ("name", [(34, "namein"), (35, "nameout"), (2422, "namerecv"), (2423, "namesend")]),
    ("int8", [(460, "int8in"), (461, "int8out"), (2408, "int8recv"), (2409, "int8send")]),
    ("int2", [(38, "int2in"), (39, "int2out"), (2404, "int2recv"), (2405, "int2send")]),
    ("int2vector", [(40, "int2vectorin"), (41, "int2vectorout"), (2410, "int2vectorrecv"), (2411, "int2vectorsend")]),
    ("int4", [(42, "int4in"), (43, "int4out"), (2406, "int4recv"), (2407, "int4send")]),
    ("regproc", [(44, "regprocin"), (45, "regprocout"), (2444, "regprocrecv"), (2445, "regprocsend")]),
    ("text", [(46, "textin"), (47, "textout"), (2414, "textrecv"), (2415, "textsend")]),
    ("oid", [(1798, "oidin"), (1799, "oidout"), (2418, "oidrecv"), (2419, "oidsend")]),
    ("tid", [(48, "tidin"), (49, "tidout"), (2438, "tidrecv"), (2439, "tidsend")]),
    ("xid", [(50, "xidin"), (51, "xidout"), (2440, "xidrecv"), (2441, "xidsend")]),
    ("cid", [(52, "cidin"), (53, "cidout"), (2442, "cidrecv"), (2443, "cidsend")]),
    ("oidvector", [(54, "oidvectorin"), (55, "oidvectorout"), (2420, "oidvectorrecv"), (2421, "oidvectorsend")]),
    ("json", [(321, "json_in"), (322, "json_out"), (323, "json_recv"), (324, "json_send")]),
    ("pg_node_tree", [(195, "pg_node_tree_in"), (196, "pg_node_tree_out"), (197, "pg_node_tree_recv"), (198, "pg_node_tree_send")]),
    ("float4", [(200, "float4in"), (201, "float4out"), (2424, "float4recv"), (2425, "float4send")]),
    ("float8", [(214, "float8in"), (215, "float8out"), (2426, "float8recv"), (2427, "float8send")]),
    ("unknown", [(109, "unknownin"), (110, "unknownout"), (2416, "unknownrecv"), (2417, "unknownsend")]),
    ("aclitem", [(1031, "aclitemin"), (1032, "aclitemout"), (0, "-"), (0, "-")]),
    ("bpchar", [(1044, "bpcharin"), (1045, "bpcharout"), (2430, "bpcharrecv"), (2431, "bpcharsend")]),
    ("varchar", [(1046, "varcharin"), (1047, "varcharout"), (2432, "varcharrecv"), (2433, "varcharsend")]),
    ("date", [(1084, "date_in"), (1085, "date_out"), (2468, "date_recv"), (2469, "date_send")]),
    ("time", [(1143, "time_in"), (1144, "time_out"), (2470, "time_recv"), (2471, "time_send")]),
    ("timestamp", [(1312, "timestamp_in"), (1313, "timestamp_out"), (2474, "timestamp_recv"), (2475, "timestamp_send")]),
    ("timestamptz", [(1150, "timestamptz_in"), (1151, "timestamptz_out"), (2476, "timestamptz_recv"), (2477, "timestamptz_send")]),
    ("interval", [(1160, "interval_in"), (1161, "interval_out"), (2478, "interval_recv"), (2479, "interval_send")]),
    ("numeric", [(1701, "numeric_in"), (1702, "numeric_out"), (2460, "numeric_recv"), (2461, "numeric_send")]),
    ("regprocedure", [(2212, "regprocedurein"), (2213, "regprocedureout"), (2446, "regprocedurerecv"), (2447, "regproceduresend")]),
    ("regclass", [(2218, "regclassin"), (2219, "regclassout"), (2452, "regclassrecv"), (2453, "regclasssend")]),
    ("regtype", [(2220, "regtypein"), (2221, "regtypeout"), (2454, "regtyperecv"), (2455, "regtypesend")]),
    ("record", [(2290, "record_in"), (2291, "record_out"), (2402, "record_recv"), (2403, "record_send")]),
    ("cstring", [(2292, "cstring_in"), (2293, "cstring_out"), (2500, "cstring_recv"), (2501, "cstring_send")]),
    ("any", [(2294, "any_in"), (2295, "any_out"), (0, "-"), (0, "-")]),
    ("anyenum", [(3506, "enum_in"), (3507, "enum_out"), (3532, "enum_recv"), (3533, "enum_send")]),
    ("anyarray", [(2296, "anyarray_in"), (2297, "anyarray_out"), (2502, "anyarray_recv"), (2503, "anyarray_send")]),
    ("void", [(2298, "void_in"), (2299, "void_out"), (3120, "void_recv"), (3121, "void_send")]),
    ("trigger", [(2300, "trigger_in"), (2301, "trigger_out"), (0, "-"), (0, "-")]),
    ("uuid", [(2952, "uuid_in"), (2953, "uuid_out"), (2961, "uuid_recv"), (2962, "uuid_send")]),
    ("jsonb", [(3806, "jsonb_in"), (3804, "jsonb_out"), (3805, "jsonb_recv"), (3803, "jsonb_send")]),
    ("regnamespace", [(4084, "regnamespacein"), (4085, "regnamespaceout"), (4087, "regnamespacerecv"), (4088, "regnamespacesend")]),
    ("point", [(117, "point_in"), (118, "point_out"), (2428, "point_recv"), (2429, "point_send")]),
    ("lseg", [(119, "lseg_in"), (120, "lseg_out"), (2480, "lseg_recv"), (2481, "lseg_send")]),
    ("path", [(121, "path_in"), (122, "path_out"), (2482, "path_recv"), (2483, "path_send")]),
    ("box", [(123, "box_in"), (124, "box_out"), (2484, "box_recv"), (2485, "box_send")]),
    ("polygon", [(347, "poly_in"), (348, "poly_out"), (2486, "poly_recv"), (2487, "poly_send")]),
    ("line", [(1490, "line_in"), (1491, "line_out"), (2488, "line_recv"), (2489, "line_send")]),
    ("cidr", [(1267, "cidr_in"), (1427, "cidr_out"), (2498, "cidr_recv"), (2499, "cidr_send")]),
    ("circle", [(1450, "circle_in"), (1451, "circle_out"), (2490, "circle_recv"), (2491, "circle_send")]),
    ("macaddr8", [(4110, "macaddr8_in"), (4111, "macaddr8_out"), (3446, "macaddr8_recv"), (3447, "macaddr8_send")]),
    ("money", [(886, "cash_in"), (887, "cash_out"), (2492, "cash_recv"), (2493, "cash_send")]),
    ("macaddr", [(436, "macaddr_in"), (437, "macaddr_out"), (2494, "macaddr_recv"), (2495, "macaddr_send")]),
    ("inet", [(910, "inet_in"), (911, "inet_out"), (2496, "inet_recv"), (2497, "inet_send")]),
    ("timetz", [(1350, "timetz_in"), (1351, "timetz_out"), (2472, "timetz_recv"), (2473, "timetz_send")]),
    ("bit", [(1564, "bit_in"), (1565, "bit_out"), (2456, "bit_recv"), (2457, "bit_send")]),
    ("varbit", [(1579, "varbit_in"), (1580, "varbit_out"), (2458, "varbit_recv"), (2459, "varbit_send")]),
    ("regconfig", [(3736, "regconfigin"), (3737, "regconfigout"), (3738, "regconfigrecv"), (3739, "regconfigsend")]),
    ("regdictionary", [(3771, "regdictionaryin"), (3772, "regdictionaryout"), (3773, "regdictionaryrecv"), (3774, "regdictionarysend")]),
    ("int4range", [(3834, "range_in"), (3835, "range_out"), (3836, "range_recv"), (3837, "range_send")]),
    ("numrange", [(3834, "range_in"), (3835, "range_out"), (3836, "range_recv"), (3837, "range_send")]),
    ("tsrange", [(3834, "range_in"), (3835, "range_out"), (3836, "range_recv"), (3837, "range_send")]),
    ("tstzrange", [(3834, "range_in"), (3835, "range_out"), (3836, "range_recv"), (3837, "range_send")]),
    ("daterange", [(3834, "range_in"), (3835, "range_out"), (3836, "range_recv"), (3837, "range_send")]),
    ("int8range", [(3834, "range_in"), (3835, "range_out"), (3836, "range_recv"), (3837, "range_send")]),
    ("jsonpath", [(4001, "jsonpath_in"), (4003, "jsonpath_out"), (4002, "jsonpath_recv"), (4004, "jsonpath_send")]),
    ("regrole", [(4098, "regrolein"), (4092, "regroleout"), (4094, "regrolerecv"), (4095, "regrolesend")]),
    ("regcollation", [(4193, "regcollationin"), (4194, "regcollationout"), (4196, "regcollationrecv"), (4197, "regcollationsend")]),
    ("int4multirange", [(4231, "multirange_in"), (4232, "multirange_out"), (4233, "multirange_recv"), (4234, "multirange_send")]),
    ("nummultirange", [(4231, "multirange_in"), (4232, "multirange_out"), (4233, "multirange_recv"), (4234, "multirange_send")]),
    ("tsmultirange", [(4231, "multirange_in"), (4232, "multirange_out"), (4233, "multirange_recv"), (4234, "multirange_send")]),
    ("tstzmultirange", [(4231, "multirange_in"), (4232, "multirange_out"), (4233, "multirange_recv"), (4234, "multirange_send")]),
    ("datemultirange", [(4231, "multirange_in"), (4232, "multirange_out"), (4233, "multirange_recv"), (4234, "multirange_send")]),
    ("int8multirange", [(4231, "multirange_in"), (4232, "multirange_out"), (4233, "multirange_recv"), (4234, "multirange_send")]),
];

/// Returns the functions of the type with this `pg_type` name. Types that are not PostgreSQL's are
/// row types of tables.
#[must_use]
pub fn of_type(name: &str) -> TypeFunctions {
    match FUNCTIONS.iter().find(|(known, _)| *known == name) {
        Some((_, functions)) => *functions,
        None if Type::by_name(name).is_some_and(|ty| ty.element != 0) => ARRAY,
        None => RECORD,
    }
}

/// All functions, each once.
pub fn all() -> impl Iterator<Item = (Oid, &'static str)> {
    let own = FUNCTIONS.iter().flat_map(|(_, functions)| functions.iter().copied());
    // `FUNCTIONS` has those of records already, with the type `record`. Types of ranges share theirs.
    let mut all: Vec<(Oid, &'static str)> = own.chain(ARRAY).filter(|(oid, _)| *oid != 0).collect();
    all.sort_unstable();
    all.dedup();
    all.into_iter()
}

/// Text of a reg type's value: the object's name if it is built in.
#[must_use]
pub fn object_name(ty: Oid, number: Oid) -> Option<String> {
    match ty {
        oid::REGPROC | oid::REGPROCEDURE if number == 0 => Some("-".to_owned()),
        oid::REGPROC => all().find(|(known, _)| *known == number).map(|(_, name)| name.to_owned()),
        oid::REGTYPE => Type::by_oid(number).map(|ty| match Type::by_oid(ty.element) {
            Some(element) if ty.name.starts_with('_') => format!("{}[]", Type::sql_name(element.oid)),
            _ => Type::sql_name(ty.oid).to_owned(),
        }),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_type_has_its_functions_and_every_function_one_number() {
        for ty in Type::all() {
            let [(_, input), ..] = of_type(ty.name);
            let stem = match ty.name {
                "polygon" => "poly",
                "money" => "cash",
                name if name.ends_with("multirange") => "multirange",
                name if name.ends_with("range") => "range",
                name => name,
            };
            let expected = [format!("{stem}in"), format!("{stem}_in")];
            assert!(ty.element != 0 && input == "array_in" || expected.iter().any(|name| name == input), "{}", ty.name);
        }
        let mut all: Vec<_> = all().collect();
        all.sort_unstable();
        assert!(all.is_sorted_by(|a, b| a.0 < b.0 && a.1 != b.1));
    }

    #[test]
    fn numbers_of_functions_and_types_are_shown_as_names() {
        for (ty, number, name) in [
            (oid::REGPROC, 2406, Some("int4recv")),
            (oid::REGPROC, 0, Some("-")),
            (oid::REGPROC, 2400, Some("array_recv")),
            (oid::REGPROC, 2402, Some("record_recv")),
            (oid::REGTYPE, 20, Some("bigint")),
            (oid::REGTYPE, 1009, Some("text[]")),
            (oid::OID, 2406, None),
        ] {
            assert_eq!(object_name(ty, number).as_deref(), name, "{ty} {number}");
        }
    }
}
