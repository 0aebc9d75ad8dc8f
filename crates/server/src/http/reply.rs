//! JSON responses, mainly errors.

use axum::body::Body;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::Response;
use model::{Error, ErrorKind, SqlState};
use serde_json::{Value, json};

/// `Retry-After` in seconds: enough for a flush or an fsync.
const RETRY_AFTER_SECONDS: &str = "1";

/// Builds a JSON response.
#[must_use]
pub fn json(status: StatusCode, body: &Value) -> Response {
    let mut response = Response::new(Body::from(format!("{body}\n")));
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    if status == StatusCode::SERVICE_UNAVAILABLE {
        response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static(RETRY_AFTER_SECONDS));
    }
    response
}

/// HTTP status of an error; tells the client whether to retry.
pub(super) fn status(error: &Error) -> StatusCode {
    match error.state() {
        SqlState::QUERY_CANCELED => return StatusCode::GATEWAY_TIMEOUT,
        // Only a smaller request can succeed.
        SqlState::PROGRAM_LIMIT_EXCEEDED => return StatusCode::PAYLOAD_TOO_LARGE,
        _ => {}
    }
    match error.kind() {
        ErrorKind::Invalid => StatusCode::BAD_REQUEST,
        ErrorKind::NotFound => StatusCode::NOT_FOUND,
        ErrorKind::Conflict => StatusCode::CONFLICT,
        ErrorKind::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
        ErrorKind::Unsupported => StatusCode::NOT_IMPLEMENTED,
        ErrorKind::Io | ErrorKind::Corrupt | ErrorKind::Bug => StatusCode::INTERNAL_SERVER_ERROR,
    }
}

/// InfluxDB 2's error code for a status.
pub(super) fn code(status: StatusCode) -> &'static str {
    match status {
        StatusCode::BAD_REQUEST => "invalid",
        StatusCode::NOT_FOUND => "not found",
        StatusCode::CONFLICT => "conflict",
        StatusCode::PAYLOAD_TOO_LARGE => "request too large",
        StatusCode::REQUEST_TIMEOUT | StatusCode::GATEWAY_TIMEOUT => "timeout",
        StatusCode::UNSUPPORTED_MEDIA_TYPE | StatusCode::NOT_IMPLEMENTED => "not implemented",
        StatusCode::SERVICE_UNAVAILABLE => "unavailable",
        _ => "internal error",
    }
}

/// An error in the format of `/sql`.
pub(super) fn error_body(error: &Error) -> Value {
    let mut body = json!({ "error": error.message(), "sqlstate": error.state().0 });
    let fields = [
        ("detail", error.detail().map(Value::from)),
        ("hint", error.hint().map(Value::from)),
        ("place", error.place().map(Value::from)),
        ("position", error.position().map(Value::from)),
    ];
    for (name, value) in fields {
        if let Some(value) = value {
            body[name] = value;
        }
    }
    body
}
