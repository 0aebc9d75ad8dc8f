//! Views by the names of the RDB archiver's tables, in the schema `rdb`, so that its readers (`jdbc:`) work.
//!
//! | view | one row for |
//! |---|---|
//! | `channel` | a PV of `epics.pvs` |
//! | `sample` | a sample of such a PV; waveforms of texts have no value, because the RDB archiver has none either |
//! | `severity`, `status` | a number of EPICS and its name |
//! | `num_metadata`, `enum_metadata` | the newest limits of a PV, and each of its newest labels |

use epics::sample::STATUS_NAMES;

const CHANNEL: &str = "\
    CREATE OR REPLACE VIEW rdb.channel AS \
    SELECT id::int4 AS channel_id, name, NULL::text AS descr, NULL::int4 AS grp_id, \
    CASE method WHEN 'scan' THEN 2 ELSE 1 END AS smpl_mode_id, deadband AS smpl_val, period AS smpl_per FROM epics.pvs";

/// The names are those of Phoebus's archive engine: its reader takes `NO_ALARM` for a sample without a value.
const SEVERITY: &str = "\
    CREATE OR REPLACE VIEW rdb.severity AS SELECT * \
    FROM (VALUES (0, 'NONE'), (1, 'MINOR'), (2, 'MAJOR'), (3, 'INVALID')) v (severity_id, name)";

/// Samples, whose types are those of `epics.samples`: whole numbers and enumerations are `num_val`, others `float_val`. Of a
/// waveform, `float_val` is the first element, and `array_val` the number of elements (32 bits) and all elements as doubles, both
/// big-endian.
fn sample() -> String {
    const ARRAYS: [(i16, &str, u8); 7] = [
        (8, "int2", 2),
        (9, "float4", 4),
        (10, "uint2", 2),
        (11, "int1", 1),
        (12, "int4", 4),
        (13, "float8", 8),
        (16, "int8", 8),
    ];
    let case = |then: &dyn Fn(&(i16, &str, u8)) -> String| {
        let cases: Vec<String> = ARRAYS.iter().map(|array| format!("WHEN {} THEN {}", array.0, then(array))).collect();
        format!("CASE s.type {}", cases.join(" "))
    };
    let first = case(&|(_, format, size)| format!("(unpack_numbers(substring(s.elements, 1, {size}), '{format}'))[1]"));
    let array = case(&|(_, format, size)| {
        let count = format!("pack_numbers(ARRAY[(length(s.elements) / {size})::float8], 'uint4be')");
        format!("{count} || repack_numbers(s.elements, '{format}', 'float8be')")
    });
    let datatype = case(&|_| "'d'".to_owned());
    format!(
        "CREATE OR REPLACE VIEW rdb.sample AS \
         SELECT p.id::int4 AS channel_id, s.time AS smpl_time, (epoch_ns(s.time) % 1000000000)::int4 AS nanosecs, \
         s.severity::int4 AS severity_id, s.status::int4 AS status_id, \
         CASE WHEN s.type IN (1, 3, 4, 5) THEN s.value::int4 END AS num_val, \
         {first} WHEN 1 THEN NULL WHEN 3 THEN NULL WHEN 4 THEN NULL WHEN 5 THEN NULL ELSE s.value END AS float_val, \
         s.string AS str_val, {datatype} ELSE ' ' END AS datatype, {array} END AS array_val \
         FROM epics.samples s JOIN epics.pvs p ON p.name = s.pv"
    )
}

const NUM_METADATA: &str = "\
    CREATE OR REPLACE VIEW rdb.num_metadata AS \
    SELECT p.id::int4 AS channel_id, m.lopr AS low_disp_rng, m.hopr AS high_disp_rng, m.low AS low_warn_lmt, \
    m.high AS high_warn_lmt, m.lolo AS low_alarm_lmt, m.hihi AS high_alarm_lmt, \
    coalesce(m.precision, 0)::int4 AS prec, coalesce(m.units, '') AS unit \
    FROM (SELECT DISTINCT ON (pv) pv, lopr, hopr, low, high, lolo, hihi, precision, units FROM epics.metadata \
    WHERE labels IS NULL ORDER BY pv, since DESC) m JOIN epics.pvs p ON p.name = m.pv";

const ENUM_METADATA: &str = "\
    CREATE OR REPLACE VIEW rdb.enum_metadata AS \
    SELECT p.id::int4 AS channel_id, n AS enum_nbr, m.labels::json ->> n AS enum_val \
    FROM (SELECT DISTINCT ON (pv) pv, labels FROM epics.metadata WHERE labels IS NOT NULL ORDER BY pv, since DESC) m \
    JOIN epics.pvs p ON p.name = m.pv, generate_series(0, json_array_length(m.labels::json) - 1) n";

/// Statements that create the views, or make them those of this version.
pub(crate) fn definitions() -> Vec<String> {
    let names: Vec<String> =
        STATUS_NAMES.iter().enumerate().map(|(number, name)| format!("({number}, '{name}')")).collect();
    let status =
        format!("CREATE OR REPLACE VIEW rdb.status AS SELECT * FROM (VALUES {}) v (status_id, name)", names.join(", "));
    let fixed = ["CREATE SCHEMA IF NOT EXISTS rdb", CHANNEL, SEVERITY, NUM_METADATA, ENUM_METADATA];
    fixed.iter().map(ToString::to_string).chain([sample(), status]).collect()
}
