//! Parameters of requests: of the query string, and of bodies that are forms.

use model::{Error, Result, SqlState};
use server::http::Request;

/// Names and values, in the order in which they came.
pub(crate) struct Parameters(Vec<(String, String)>);

impl Parameters {
    /// The parameters of a request.
    ///
    /// # Errors
    /// 22023 if they are not URL-encoded.
    pub(crate) fn of(request: &Request) -> Result<Parameters> {
        let mut pairs = request.query()?;
        let content_type = request.headers().get("content-type").and_then(|value| value.to_str().ok());
        if content_type.is_some_and(|ty| ty.starts_with("application/x-www-form-urlencoded")) {
            let body = String::from_utf8_lossy(request.body());
            if body.contains('=') {
                pairs.extend(server::http::form(&body)?);
            }
        }
        Ok(Parameters(pairs))
    }

    /// The first value of a parameter that is not empty.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.all(name).next()
    }

    /// All values of a parameter that are not empty.
    pub(crate) fn all(&self, name: &str) -> impl Iterator<Item = &str> {
        let named = self.0.iter().filter(move |(own, value)| own == name && !value.is_empty());
        named.map(|(_, value)| value.as_str())
    }

    /// The value of a parameter that must be there.
    ///
    /// # Errors
    /// 22023 if it is absent or empty.
    pub(crate) fn expect(&self, name: &str) -> Result<&str> {
        self.get(name).ok_or_else(|| invalid(format!("parameter {name} is absent")))
    }

    /// A parameter that is `true` or `false`; false if it is absent.
    ///
    /// # Errors
    /// 22023 if it is something else.
    pub(crate) fn flag(&self, name: &str) -> Result<bool> {
        match self.get(name) {
            None => Ok(false),
            Some(text) => text.to_ascii_lowercase().parse().map_err(|_| self.wrong(name, text, "true or false")),
        }
    }

    /// A number.
    ///
    /// # Errors
    /// 22023 if it is none.
    pub(crate) fn number(&self, name: &str) -> Result<Option<f64>> {
        let number = |text: &str| {
            let number = text.parse::<f64>().ok().filter(|number| number.is_finite());
            number.ok_or_else(|| self.wrong(name, text, "a number"))
        };
        self.get(name).map(number).transpose()
    }

    /// A limit of the number of results: `default` if it is absent, none if it is negative.
    ///
    /// # Errors
    /// 22023 if it is no whole number.
    pub(crate) fn limit(&self, default: Option<usize>) -> Result<usize> {
        let Some(text) = self.get("limit") else { return Ok(default.unwrap_or(usize::MAX)) };
        let limit: i64 = text.parse().map_err(|_| self.wrong("limit", text, "a whole number; -1 is no limit"))?;
        Ok(usize::try_from(limit).unwrap_or(usize::MAX))
    }

    fn wrong(&self, name: &str, text: &str, expected: &str) -> Error {
        invalid(format!("parameter {name} is \"{text}\": expected {expected}"))
    }
}

/// An error of a request.
pub(crate) fn invalid(text: String) -> Error {
    Error::new(SqlState::INVALID_PARAMETER_VALUE, text)
}
