//! Names of error conditions, as PL/pgSQL's EXCEPTION and RAISE use them.

use std::collections::BTreeSet;

use model::{Error, Result, SqlState};
use parking_lot::Mutex;

/// Names and SQLSTATEs. A state that ends with `000` stands for its class.
const CONDITIONS: &[(&str, &str)] = &[
    ("active_sql_transaction", "25001"),
    ("ambiguous_alias", "42P09"),
    ("ambiguous_column", "42702"),
    ("ambiguous_function", "42725"),
    ("ambiguous_parameter", "42P08"),
    ("array_subscript_error", "2202E"),
    ("assert_failure", "P0004"),
    ("bad_copy_file_format", "22P04"),
    ("cannot_coerce", "42846"),
    ("cardinality_violation", "21000"),
    ("case_not_found", "20000"),
    ("character_not_in_repertoire", "22021"),
    ("check_violation", "23514"),
    ("collation_mismatch", "42P21"),
    ("configuration_limit_exceeded", "53400"),
    ("connection_exception", "08000"),
    ("connection_failure", "08006"),
    ("data_corrupted", "XX001"),
    ("data_exception", "22000"),
    ("datatype_mismatch", "42804"),
    ("datetime_field_overflow", "22008"),
    ("deadlock_detected", "40P01"),
    ("dependent_objects_still_exist", "2BP01"),
    ("disk_full", "53100"),
    ("division_by_zero", "22012"),
    ("duplicate_alias", "42712"),
    ("duplicate_column", "42701"),
    ("duplicate_cursor", "42P03"),
    ("duplicate_function", "42723"),
    ("duplicate_object", "42710"),
    ("duplicate_prepared_statement", "42P05"),
    ("duplicate_schema", "42P06"),
    ("duplicate_table", "42P07"),
    ("exclusion_violation", "23P01"),
    ("external_routine_exception", "38000"),
    ("feature_not_supported", "0A000"),
    ("foreign_key_violation", "23503"),
    ("generated_always", "428C9"),
    ("grouping_error", "42803"),
    ("in_failed_sql_transaction", "25P02"),
    ("indeterminate_collation", "42P22"),
    ("indeterminate_datatype", "42P18"),
    ("insufficient_privilege", "42501"),
    ("insufficient_resources", "53000"),
    ("integrity_constraint_violation", "23000"),
    ("internal_error", "XX000"),
    ("interval_field_overflow", "22015"),
    ("invalid_argument_for_logarithm", "2201E"),
    ("invalid_argument_for_power_function", "2201F"),
    ("invalid_binary_representation", "22P03"),
    ("invalid_catalog_name", "3D000"),
    ("invalid_character_value_for_cast", "22018"),
    ("invalid_column_definition", "42611"),
    ("invalid_column_reference", "42P10"),
    ("invalid_cursor_definition", "42P11"),
    ("invalid_cursor_name", "34000"),
    ("invalid_cursor_state", "24000"),
    ("invalid_datetime_format", "22007"),
    ("invalid_escape_sequence", "22025"),
    ("invalid_foreign_key", "42830"),
    ("invalid_function_definition", "42P13"),
    ("invalid_name", "42602"),
    ("invalid_object_definition", "42P17"),
    ("invalid_parameter_value", "22023"),
    ("invalid_password", "28P01"),
    ("invalid_recursion", "42P19"),
    ("invalid_regular_expression", "2201B"),
    ("invalid_row_count_in_limit_clause", "2201W"),
    ("invalid_row_count_in_result_offset_clause", "2201X"),
    ("invalid_schema_definition", "42P15"),
    ("invalid_schema_name", "3F000"),
    ("invalid_sql_statement_name", "26000"),
    ("invalid_table_definition", "42P16"),
    ("invalid_text_representation", "22P02"),
    ("invalid_time_zone_displacement_value", "22009"),
    ("invalid_transaction_state", "25000"),
    ("invalid_transaction_termination", "2D000"),
    ("lock_not_available", "55P03"),
    ("name_too_long", "42622"),
    ("no_active_sql_transaction", "25P01"),
    ("no_data", "02000"),
    ("no_data_found", "P0002"),
    ("not_null_violation", "23502"),
    ("null_value_not_allowed", "22004"),
    ("numeric_value_out_of_range", "22003"),
    ("object_in_use", "55006"),
    ("object_not_in_prerequisite_state", "55000"),
    ("operator_intervention", "57000"),
    ("out_of_memory", "53200"),
    ("plpgsql_error", "P0000"),
    ("program_limit_exceeded", "54000"),
    ("protocol_violation", "08P01"),
    ("query_canceled", "57014"),
    ("raise_exception", "P0001"),
    ("read_only_sql_transaction", "25006"),
    ("reserved_name", "42939"),
    ("restrict_violation", "23001"),
    ("savepoint_exception", "3B000"),
    ("sequence_generator_limit_exceeded", "2200H"),
    ("serialization_failure", "40001"),
    ("statement_too_complex", "54001"),
    ("string_data_length_mismatch", "22026"),
    ("string_data_right_truncation", "22001"),
    ("substring_error", "22011"),
    ("syntax_error", "42601"),
    ("syntax_error_or_access_rule_violation", "42000"),
    ("system_error", "58000"),
    ("too_many_arguments", "54023"),
    ("too_many_columns", "54011"),
    ("too_many_rows", "P0003"),
    ("transaction_rollback", "40000"),
    ("transaction_timeout", "25P04"),
    ("trigger_protocol_violated", "39P01"),
    ("triggered_action_exception", "09000"),
    ("triggered_data_change_violation", "27000"),
    ("undefined_column", "42703"),
    ("undefined_cursor", "34000"),
    ("undefined_file", "58P01"),
    ("undefined_function", "42883"),
    ("undefined_object", "42704"),
    ("undefined_parameter", "42P02"),
    ("undefined_table", "42P01"),
    ("unique_violation", "23505"),
    ("warning", "01000"),
    ("windowing_error", "42P20"),
    ("with_check_option_violation", "44000"),
    ("wrong_object_type", "42809"),
    ("zero_length_character_string", "2200F"),
];

/// The SQLSTATEs of a name.
///
/// # Errors
/// 42704 for an unknown name.
pub(crate) fn states(name: &str) -> Result<Vec<&'static str>> {
    let found: Vec<&'static str> =
        CONDITIONS.iter().filter(|(known, _)| *known == name).map(|(_, state)| *state).collect();
    match found.is_empty() {
        true => Err(Error::new(SqlState::UNDEFINED_OBJECT, format!("unrecognized exception condition \"{name}\""))),
        false => Ok(found),
    }
}

/// Whether a condition with this SQLSTATE covers an error.
pub(crate) fn covers(condition: &str, error: &str) -> bool {
    condition == error || condition.ends_with("000") && condition[..2] == error[..2]
}

/// Maximum number of SQLSTATEs that RAISE may invent in the life of the process.
const STATES_MAX: usize = 4_096;

/// An SQLSTATE of RAISE. Beyond a limit, new ones become `P0001`.
///
/// # Errors
/// 42704 for a text that is neither a name nor an SQLSTATE.
pub(crate) fn raised(text: &str) -> Result<SqlState> {
    let is_state = text.len() == 5 && text.bytes().all(|byte| byte.is_ascii_digit() || byte.is_ascii_uppercase());
    if !is_state {
        let known = states(text)?;
        return Ok(SqlState(known.first().copied().unwrap_or("P0001")));
    }
    if let Some((_, state)) = CONDITIONS.iter().find(|(_, state)| *state == text) {
        return Ok(SqlState(state));
    }
    static STATES: Mutex<BTreeSet<&'static str>> = Mutex::new(BTreeSet::new());
    let mut known = STATES.lock();
    if let Some(state) = known.get(text) {
        return Ok(SqlState(state));
    }
    if known.len() >= STATES_MAX {
        return Ok(SqlState("P0001"));
    }
    let state: &'static str = String::leak(text.to_owned());
    known.insert(state);
    Ok(SqlState(state))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_class_covers_its_states() {
        assert!(covers("22000", "22012") && covers("22012", "22012") && !covers("22012", "22003"));
        assert_eq!(states("division_by_zero").unwrap(), ["22012"]);
        assert!(states("nothing").is_err());
        assert_eq!(raised("U9999").unwrap().0, "U9999");
        assert_eq!(raised("unique_violation").unwrap().0, "23505");
    }
}
