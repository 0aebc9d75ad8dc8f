//! Errors as gRPC statuses: a code by what the client should do, the SQLSTATE in text and metadata.

use model::{Error, ErrorKind, SqlState};
use tonic::metadata::{MetadataMap, MetadataValue};
use tonic::{Code, Status};

/// Metadata key of the SQLSTATE.
pub(super) const SQLSTATE: &str = "x-millrace-sqlstate";
/// Limit for error texts, which are sent in a header.
const TEXT_BYTES_MAX: usize = 2 << 10;

/// Converts an error to a status.
pub(super) fn status(error: &Error) -> Status {
    let mut text = error.to_string();
    if text.len() > TEXT_BYTES_MAX {
        let end = (0..=TEXT_BYTES_MAX).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
        text.truncate(end);
        text.push('…');
    }
    let mut metadata = MetadataMap::new();
    metadata.insert(SQLSTATE, MetadataValue::from_static(error.state().0));
    Status::with_metadata(code(error), format!("{text} (SQLSTATE {})", error.state().0), metadata)
}

fn code(error: &Error) -> Code {
    match error.state() {
        SqlState::QUERY_CANCELED => return Code::Cancelled,
        SqlState::DUPLICATE_TABLE | SqlState::DUPLICATE_SCHEMA | SqlState::UNIQUE_VIOLATION => {
            return Code::AlreadyExists;
        }
        SqlState::OUT_OF_MEMORY | SqlState::DISK_FULL | SqlState::CONFIGURATION_LIMIT_EXCEEDED => {
            return Code::ResourceExhausted;
        }
        SqlState::IN_FAILED_SQL_TRANSACTION | SqlState::NO_ACTIVE_SQL_TRANSACTION => {
            return Code::FailedPrecondition;
        }
        _ => {}
    }
    match error.kind() {
        ErrorKind::Invalid => Code::InvalidArgument,
        ErrorKind::NotFound => Code::NotFound,
        ErrorKind::Conflict => Code::Aborted,
        ErrorKind::Unavailable => Code::Unavailable,
        ErrorKind::Unsupported => Code::Unimplemented,
        ErrorKind::Io | ErrorKind::Bug => Code::Internal,
        ErrorKind::Corrupt => Code::DataLoss,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_code_tells_the_client_what_to_do_and_the_text_has_the_sqlstate() {
        for (state, expected) in [
            (SqlState::SYNTAX_ERROR, Code::InvalidArgument),
            (SqlState::UNDEFINED_TABLE, Code::NotFound),
            (SqlState::DUPLICATE_TABLE, Code::AlreadyExists),
            (SqlState::SERIALIZATION_FAILURE, Code::Aborted),
            (SqlState::FEATURE_NOT_SUPPORTED, Code::Unimplemented),
            (SqlState::OUT_OF_MEMORY, Code::ResourceExhausted),
            (SqlState::QUERY_CANCELED, Code::Cancelled),
            (SqlState::DATA_CORRUPTED, Code::DataLoss),
        ] {
            let status = status(&Error::new(state, "what").with_hint("do"));
            assert_eq!(status.code(), expected);
            assert_eq!(status.message(), format!("what. Hint: do (SQLSTATE {state})"));
            assert_eq!(status.metadata().get(SQLSTATE).unwrap(), state.0);
        }
    }

    #[test]
    fn a_long_text_is_truncated_at_a_character_boundary() {
        let status = status(&Error::bug("ü".repeat(4_000)));
        assert!(status.message().len() < TEXT_BYTES_MAX + 32, "{}", status.message().len());
    }
}
