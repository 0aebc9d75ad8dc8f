//! Applications: routes of another crate under a prefix of its own.
//!
//! A handler receives a [`Request`] with its whole body and the database, and returns a response or an error. The
//! listener does the rest, as for its own routes:
//!
//! - A body is limited by its route, by the limit of all bodies and by the memory budget; it may be compressed by gzip,
//!   and must not stall.
//! - A request takes one of the slots of statements, and has it until its response is sent; without one it gets 503.
//! - Handlers and streamed bodies may compute: other connections of the thread go on. Those of a prompt route start at once, but other
//!   connections of the thread wait for them.
//! - `/metrics` counts and times requests with the prefix as their route, and errors by their SQLSTATE, and shows what the
//!   application tells of itself.

use std::fmt;
use std::future::Future;
use std::sync::Arc;

use axum::body::{Body, HttpBody};
use axum::http::request::Parts;
use axum::http::{HeaderMap, Method, Uri};
use axum::response::Response;
use axum::routing::MethodFilter;
use bytes::Bytes;
use futures::{StreamExt, stream};
use model::{Error, Result, SqlState};
use query::{Database, Session};
use tokio::sync::OwnedSemaphorePermit;

use super::body::{Received, Refused};
use super::routes::{self, Call, Route, is_below};
use super::{failed, write};
use crate::metrics::Exposition;

/// Routes under a prefix.
#[derive(Clone)]
pub struct Application {
    prefix: &'static str,
    routes: Vec<Route>,
    metrics: Arc<dyn Fn() -> Vec<Metric> + Send + Sync>,
}

/// A number that `/metrics` shows.
#[derive(Clone, Copy, Debug)]
pub struct Metric {
    /// Shown as `millrace_NAME`, or as `millrace_NAME_total`.
    pub name: &'static str,
    /// One sentence.
    pub help: &'static str,
    /// Whether it only grows while the server runs.
    pub is_total: bool,
    /// The number.
    pub value: u64,
}

impl Application {
    /// An application without routes. `prefix` is a path such as `/mgmt/bpl`; [`crate::Server::bind`] checks it.
    #[must_use]
    pub fn new(prefix: &'static str) -> Application {
        Application { prefix, routes: Vec::new(), metrics: Arc::new(Vec::new) }
    }

    /// Adds a route.
    ///
    /// - `path`: below the prefix, such as `/series/{id}` or `/files/{*rest}`, or empty for the prefix itself. Two routes
    ///   of the same path must have different methods, and segments in braces the same names: others panic when the
    ///   listener starts.
    /// - `body_bytes_max`: larger bodies get 413, also if only their decompressed contents are larger.
    #[must_use]
    pub fn route<F, R>(self, methods: MethodFilter, path: &str, body_bytes_max: usize, handler: F) -> Application
    where
        F: Fn(Request) -> R + Send + Sync + 'static,
        R: Future<Output = Result<Response>> + Send + 'static,
    {
        self.prompt_route(methods, path, body_bytes_max, move |request| computed(handler(request)))
    }

    /// Like [`Application::route`], but the handler runs on the thread that serves the socket, and so does the body of its response:
    /// to hand over the other tasks of the thread takes as long as a short request. What may take longer than 0.1 ms has to run in
    /// [`query::computing`] or [`query::compute`] there.
    #[must_use]
    pub fn prompt_route<F, R>(
        mut self,
        methods: MethodFilter,
        path: &str,
        body_bytes_max: usize,
        handler: F,
    ) -> Application
    where
        F: Fn(Request) -> R + Send + Sync + 'static,
        R: Future<Output = Result<Response>> + Send + 'static,
    {
        let handler = Arc::new(handler);
        let answer = move |call| answer(call, Arc::clone(&handler));
        self.routes.push(Route::new(methods, format!("{}{path}", self.prefix), self.prefix, body_bytes_max, answer));
        self
    }

    /// Adds a route whose responses may be sent for ever, as news are: they take no slot once the handler has returned. The
    /// application limits their number.
    #[must_use]
    pub fn feed<F, R>(mut self, methods: MethodFilter, path: &str, handler: F) -> Application
    where
        F: Fn(Request) -> R + Send + Sync + 'static,
        R: Future<Output = Result<Response>> + Send + 'static,
    {
        let handler = Arc::new(move |request| query::computing(Box::pin(handler(request))));
        let answer = move |call| answer_without_slot(call, Arc::clone(&handler));
        self.routes.push(Route::new(methods, format!("{}{path}", self.prefix), self.prefix, 0, answer));
        self
    }

    /// Lets `/metrics` show what a function returns, which must not wait.
    #[must_use]
    pub fn metrics(mut self, read: impl Fn() -> Vec<Metric> + Send + Sync + 'static) -> Application {
        self.metrics = Arc::new(read);
        self
    }

    pub(super) fn expose(&self, out: &mut Exposition) {
        for Metric { name, help, is_total, value } in (self.metrics)() {
            if is_total {
                out.counter(&format!("millrace_{name}_total"), help, value);
            } else {
                out.gauge(&format!("millrace_{name}"), help, value);
            }
        }
    }

    pub(super) fn prefix(&self) -> &'static str {
        self.prefix
    }

    pub(super) fn routes(&self) -> &[Route] {
        &self.routes
    }
}

impl fmt::Debug for Application {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.prefix)
    }
}

/// A request to an application.
pub struct Request {
    database: Database,
    parts: Parts,
    parameters: Vec<(String, String)>,
    body: Bytes,
    /// Counts the body against the limits.
    _received: Received,
}

impl Request {
    /// The database.
    #[must_use]
    pub fn database(&self) -> &Database {
        &self.database
    }

    /// A new session, for SQL.
    #[must_use]
    pub fn session(&self) -> Session {
        self.database.session("millrace")
    }

    /// Method of the request.
    #[must_use]
    pub fn method(&self) -> &Method {
        &self.parts.method
    }

    /// Address of the request, with the prefix and the query string.
    #[must_use]
    pub fn uri(&self) -> &Uri {
        &self.parts.uri
    }

    /// The segment of the path that the route calls `name`, decoded.
    #[must_use]
    pub fn parameter(&self, name: &str) -> Option<&str> {
        self.parameters.iter().find(|(own, _)| own == name).map(|(_, value)| value.as_str())
    }

    /// Names and values in the query string.
    ///
    /// # Errors
    /// 22023 if it is not URL-encoded.
    pub fn query(&self) -> Result<Vec<(String, String)>> {
        write::pairs(&self.parts.uri)
    }

    /// Headers of the request.
    #[must_use]
    pub fn headers(&self) -> &HeaderMap {
        &self.parts.headers
    }

    /// The body, decompressed.
    #[must_use]
    pub fn body(&self) -> &[u8] {
        &self.body
    }
}

/// Names and values of a body that is an HTML form.
///
/// # Errors
/// 22023 if it is not URL-encoded.
pub fn form(body: &str) -> Result<Vec<(String, String)>> {
    serde_urlencoded::from_str(body)
        .map_err(|error| Error::new(SqlState::INVALID_PARAMETER_VALUE, format!("the body is no form: {error}")))
}

/// Answers a request to an application. Its slot is free when the response is sent.
async fn answer<F, R>(call: Call, handler: Arc<F>) -> Response
where
    F: Fn(Request) -> R,
    R: Future<Output = Result<Response>>,
{
    match run(call, handler).await {
        Ok((response, slot)) => holding(response, slot),
        Err(response) => response,
    }
}

/// Like [`answer`], but the slot is free when the handler has returned.
async fn answer_without_slot<F, R>(call: Call, handler: Arc<F>) -> Response
where
    F: Fn(Request) -> R,
    R: Future<Output = Result<Response>>,
{
    let context = Arc::clone(&call.context);
    let response = run(call, handler).await.map_or_else(|response| response, |(response, _)| response);
    // It has no end of its own: a server that stops ends it.
    let stopped = async move { context.connections.stopped().await };
    let (parts, body) = response.into_parts();
    Response::from_parts(parts, Body::from_stream(body.into_data_stream().take_until(Box::pin(stopped))))
}

/// Runs a handler with a slot. An error is a response.
async fn run<F, R>(call: Call, handler: Arc<F>) -> std::result::Result<(Response, OwnedSemaphorePermit), Response>
where
    F: Fn(Request) -> R,
    R: Future<Output = Result<Response>>,
{
    let context = Arc::clone(&call.context);
    let request = receive(call).await.map_err(|refused| refused.reply())?;
    let running = async {
        let slot = context.statement_slots.take().await?;
        Ok((handler(request).await?, slot))
    };
    running.await.map_err(|error| failed(&context, &error))
}

async fn receive(mut call: Call) -> std::result::Result<Request, Refused> {
    let mut received = call.receive().await?;
    let body = received.contents().await?;
    let Call { context, mut parts, parameters, .. } = call;
    // The listener sends no body in reply to HEAD, and handlers need not know it.
    if parts.method == Method::HEAD {
        parts.method = Method::GET;
    }
    Ok(Request { database: context.database.clone(), parts, parameters, body, _received: received })
}

/// Runs a handler, and makes the body of its response, while other tasks of the thread go on.
async fn computed(work: impl Future<Output = Result<Response>>) -> Result<Response> {
    let response = query::computing(Box::pin(work)).await?;
    if response.body().size_hint().exact().is_some() {
        return Ok(response);
    }
    let (parts, body) = response.into_parts();
    let pieces = stream::unfold(body.into_data_stream(), |mut pieces| async move {
        let piece = query::computing(pieces.next()).await?;
        Some((piece, pieces))
    });
    Ok(Response::from_parts(parts, Body::from_stream(pieces)))
}

/// Keeps the slot until the response is sent. A body that is complete needs no slot any more.
fn holding(response: Response, slot: OwnedSemaphorePermit) -> Response {
    if response.body().size_hint().exact().is_some() {
        return response;
    }
    let (parts, body) = response.into_parts();
    let pieces = stream::unfold((body.into_data_stream(), slot), |(mut pieces, slot)| async move {
        let piece = pieces.next().await?;
        Some((piece, (pieces, slot)))
    });
    Response::from_parts(parts, Body::from_stream(pieces))
}

/// Checks the prefixes of applications.
///
/// # Errors
/// 22023 if one is no path of lower-case letters, digits, `-`, `_` and `.`, or overlaps with another prefix or with a
/// path of the listener.
pub(crate) fn check_prefixes(applications: &[Application]) -> Result<()> {
    let own = routes::table();
    for (at, application) in applications.iter().enumerate() {
        let prefix = application.prefix;
        let refused = |problem: String| {
            let message = format!("prefix \"{prefix}\" of an HTTP application {problem}");
            Err(Error::new(SqlState::INVALID_PARAMETER_VALUE, message))
        };
        if !is_path(prefix) {
            return refused("is not a path such as /mgmt/bpl".to_owned());
        }
        let earlier = applications[..at].iter().map(|other| other.prefix);
        let mut others = own.iter().map(|route| route.path.as_str()).chain(earlier);
        if let Some(other) = others.find(|other| is_below(prefix, other) || is_below(other, prefix)) {
            return refused(format!("overlaps with {other}"));
        }
    }
    Ok(())
}

fn is_path(text: &str) -> bool {
    let is_name = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-_.".contains(&byte);
    let is_segment = |segment: &str| !segment.is_empty() && segment.bytes().all(is_name);
    text.strip_prefix('/').is_some_and(|rest| rest.split('/').all(is_segment))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_that_are_no_paths_or_overlap_are_refused() {
        for (prefixes, problem) in [
            (&["/mgmt/bpl", "/retrieval", "/tsm/v1", "/api/v1", "/mgmt/x"][..], None),
            (&[""], Some("is not a path")),
            (&["/"], Some("is not a path")),
            (&["toy"], Some("is not a path")),
            (&["/toy/"], Some("is not a path")),
            (&["/toy\"x"], Some("is not a path")),
            (&["/{toy}"], Some("is not a path")),
            (&["/sql"], Some("overlaps with /sql")),
            (&["/sql/toy"], Some("overlaps with /sql")),
            (&["/api"], Some("overlaps with /api/v2/write")),
            (&["/api/v2/buckets/x/y"], Some("overlaps with /api/v2/buckets")),
            (&["/a/b", "/a"], Some("overlaps with /a/b")),
            (&["/a", "/a"], Some("overlaps with /a")),
        ] {
            let applications: Vec<Application> = prefixes.iter().map(|prefix| Application::new(prefix)).collect();
            let checked = check_prefixes(&applications);
            match problem {
                None => checked.unwrap(),
                Some(problem) => {
                    let error = checked.unwrap_err();
                    assert_eq!(error.state(), SqlState::INVALID_PARAMETER_VALUE);
                    assert!(error.message().contains(problem), "{error}");
                }
            }
        }
    }
}
