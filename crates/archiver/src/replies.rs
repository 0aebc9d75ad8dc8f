//! Replies in the Appliance's forms: almost all values are texts.

use epics::sample::{Array, Scalar, Value};
use serde_json::{Number, Value as Json, json};
use server::http::{Body, Response, StatusCode};

/// Version in replies. Clients read the number of the Appliance whose API this is.
pub(crate) const VERSION: &str = concat!("Archiver Appliance API 2.0, Millrace ", env!("CARGO_PKG_VERSION"));

/// Identity of this archiver in replies.
pub(crate) const IDENTITY: &str = "millrace";

/// Sets a header of a reply.
pub(crate) fn header(response: &mut Response, name: &'static str, value: &'static str) {
    if let Ok(value) = value.parse() {
        response.headers_mut().insert(name, value);
    }
}

pub(crate) fn content_type(response: &mut Response, value: &'static str) {
    header(response, "content-type", value);
}

/// A reply of JSON.
pub(crate) fn json(value: &Json) -> Response {
    server::http::json(StatusCode::OK, value)
}

/// A reply of plain text.
pub(crate) fn text(text: String) -> Response {
    let mut response = Response::new(Body::from(text));
    content_type(&mut response, "text/plain; charset=utf-8");
    response
}

/// A reply with another status, and the reason.
pub(crate) fn status(status: StatusCode, reason: &str) -> Response {
    server::http::json(status, &json!({ "status": "error", "validation": reason }))
}

/// A reply to an action that does not exist.
pub(crate) fn unknown_action(place: &str, action: &str) -> Response {
    status(StatusCode::NOT_FOUND, &format!("there is no action {place}/{action}"))
}

/// A value as JSON. NaN and infinities, which JSON does not have, are texts.
pub(crate) fn value(value: &Value) -> Json {
    match value {
        Value::Scalar(one) => scalar(one),
        Value::Array(array) => match array {
            Array::Int8(all) => json!(all),
            Array::Int16(all) => json!(all),
            Array::Int32(all) => json!(all),
            Array::Int64(all) => json!(all),
            Array::Float32(all) => all.iter().map(|value| number(f64::from(*value))).collect(),
            Array::Float64(all) => all.iter().copied().map(number).collect(),
            Array::Enum(all) => json!(all),
            Array::Text(all) => json!(all),
        },
        Value::Structure(bytes) => json!(bytes),
    }
}

fn scalar(value: &Scalar) -> Json {
    match value {
        Scalar::Int8(value) => json!(value),
        Scalar::Int16(value) => json!(value),
        Scalar::Int32(value) => json!(value),
        Scalar::Int64(value) => json!(value),
        Scalar::Float32(value) => number(f64::from(*value)),
        Scalar::Float64(value) => number(*value),
        Scalar::Enum(value) => json!(value),
        Scalar::Text(text) => json!(text),
    }
}

/// A number as JSON, in this way.
pub(crate) fn number(value: f64) -> Json {
    Number::from_f64(value).map_or_else(|| Json::String(value.to_string()), Json::Number)
}
