//! The table of routes, the dispatch of requests to them, and their metrics.
//!
//! A row has the methods, the path, the label in metrics, the limit of the body and the handler. Applications add rows
//! below their prefixes.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::future::Future;
use std::sync::Arc;
use std::time::Instant;

use axum::Router;
use axum::body::Body;
use axum::extract::{RawPathParams, Request as HttpRequest, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, Uri};
use axum::middleware::{self, Next};
use axum::response::Response;
use axum::routing::{MethodFilter, MethodRouter, on};
use futures::future::BoxFuture;
use model::limits::HTTP_BODY_BYTES_MAX;
use serde_json::json;

use super::application::Application;
use super::body::{self, Received, Refused};
use super::{Context, INFLUX_VERSION, influx, reply, sql, write};
use crate::metrics::{Exposition, Family, Histogram};

/// Limit for the bodies of setup calls.
const SETUP_BYTES_MAX: usize = 2 << 20;
/// Limit for the bodies of routes that do not read them.
const NO_BODY: usize = 0;

/// Labels in metrics. An application's label is its prefix.
const WRITE: &str = "write";
const SQL: &str = "sql";
const OTHER: &str = "other";

/// All routes of this listener but those of applications.
pub(super) fn table() -> Vec<Route> {
    const GET: MethodFilter = MethodFilter::GET;
    const POST: MethodFilter = MethodFilter::POST;
    vec![
        Route::new(POST, "/write", WRITE, HTTP_BODY_BYTES_MAX, write::v1),
        Route::new(POST, "/api/v2/write", WRITE, HTTP_BODY_BYTES_MAX, write::v2),
        Route::new(GET, "/ping", OTHER, NO_BODY, super::ping),
        Route::new(GET, "/health", OTHER, NO_BODY, super::health),
        Route::new(GET, "/ready", OTHER, NO_BODY, influx::ready),
        Route::new(GET.or(POST), "/query", OTHER, SETUP_BYTES_MAX, influx::query),
        Route::new(GET, "/api/v2/buckets", OTHER, NO_BODY, influx::buckets),
        Route::new(POST, "/api/v2/buckets", OTHER, SETUP_BYTES_MAX, influx::create_bucket),
        Route::new(MethodFilter::DELETE, "/api/v2/buckets/{id}", OTHER, NO_BODY, influx::delete_bucket),
        Route::new(GET, "/api/v2/orgs", OTHER, NO_BODY, influx::organizations),
        Route::new(GET, "/settings", OTHER, NO_BODY, influx::settings),
        Route::new(GET, "/sql", SQL, NO_BODY, sql::get),
        Route::new(POST, "/sql", SQL, HTTP_BODY_BYTES_MAX, sql::post),
    ]
}

type Handler = Arc<dyn Fn(Call) -> BoxFuture<'static, Response> + Send + Sync>;

/// A row of the table.
#[derive(Clone)]
pub(super) struct Route {
    methods: MethodFilter,
    /// Path; `{name}` stands for any segment, `{*name}` for all that follow.
    pub(super) path: String,
    label: &'static str,
    body_bytes_max: usize,
    handler: Handler,
}

impl Route {
    pub(super) fn new<F, R>(
        methods: MethodFilter,
        path: impl Into<String>,
        label: &'static str,
        body_bytes_max: usize,
        handler: F,
    ) -> Route
    where
        F: Fn(Call) -> R + Send + Sync + 'static,
        R: Future<Output = Response> + Send + 'static,
    {
        let handler: Handler = Arc::new(move |call| Box::pin(handler(call)));
        Route { methods, path: path.into(), label, body_bytes_max, handler }
    }
}

/// A request to a route. Its body is not received yet.
pub(super) struct Call {
    pub(super) context: Arc<Context>,
    pub(super) parts: Parts,
    /// Segments of the path that the route names.
    pub(super) parameters: Vec<(String, String)>,
    body: Body,
    body_bytes_max: usize,
}

impl Call {
    pub(super) fn uri(&self) -> &Uri {
        &self.parts.uri
    }

    pub(super) fn headers(&self) -> &HeaderMap {
        &self.parts.headers
    }

    /// The segment of the path that the route calls `name`.
    pub(super) fn parameter(&self, name: &str) -> Option<&str> {
        self.parameters.iter().find(|(own, _)| own == name).map(|(_, value)| value.as_str())
    }

    /// Receives the body, once.
    ///
    /// # Errors
    /// See [`body::receive`].
    pub(super) async fn receive(&mut self) -> Result<Received, Refused> {
        let body = std::mem::take(&mut self.body);
        body::receive(&self.context, &self.parts.headers, body, self.body_bytes_max).await
    }

    /// Receives the body as text, once.
    ///
    /// # Errors
    /// See [`body::receive`]; 400 if it is not UTF-8.
    pub(super) async fn text(&mut self) -> Result<String, Refused> {
        let mut received = self.receive().await?;
        let contents = received.contents().await?;
        String::from_utf8(contents.into())
            .map_err(|error| Refused::new(StatusCode::BAD_REQUEST, format!("the body is not UTF-8: {error}")))
    }
}

/// All routes, and the metrics of their requests.
pub(super) struct Routes {
    own: Vec<Route>,
    applications: Vec<Application>,
    requests: Family<(&'static str, u16)>,
    times: BTreeMap<&'static str, Histogram>,
}

impl Routes {
    /// - `is_front_end`: whether the database is elsewhere: then only probes and applications are there.
    pub(super) fn new(applications: &[Application], is_front_end: bool) -> Routes {
        let is_probe = |route: &Route| ["/ping", "/health", "/ready"].contains(&route.path.as_str());
        let labels = [WRITE, SQL].into_iter().chain(applications.iter().map(Application::prefix));
        Routes {
            own: table().into_iter().filter(|route| !is_front_end || is_probe(route)).collect(),
            times: labels.map(|label| (label, Histogram::default())).collect(),
            applications: applications.to_vec(),
            requests: Family::default(),
        }
    }

    fn all(&self) -> impl Iterator<Item = &Route> {
        self.own.iter().chain(self.applications.iter().flat_map(Application::routes))
    }

    /// The application whose prefix the path has.
    fn application(&self, path: &str) -> Option<&Application> {
        self.applications.iter().find(|application| is_below(path, application.prefix()))
    }

    /// Label of a path in metrics.
    fn label(&self, path: &str) -> &'static str {
        let own = self.own.iter().find(|route| route.path == path).map(|route| route.label);
        own.or_else(|| self.application(path).map(Application::prefix)).unwrap_or(OTHER)
    }

    pub(super) fn expose(&self, out: &mut Exposition) {
        let requests = self.requests.list().into_iter();
        let requests =
            requests.map(|((route, status), count)| (format!("route=\"{route}\",status=\"{status}\""), count));
        out.family("millrace_http_requests_total", "counter", "HTTP requests answered.", requests);
        let times: Vec<(String, &Histogram)> =
            self.times.iter().map(|(label, time)| (format!("route=\"{label}\""), time)).collect();
        out.histograms(
            "millrace_http_request_seconds",
            "Time from the head of a request to its answer.",
            times.iter().map(|(label, time)| (label.as_str(), *time)),
        );
        self.applications.iter().for_each(|application| application.expose(out));
    }
}

/// Whether `path` is `prefix`, or has it in front of a slash.
pub(super) fn is_below(path: &str, prefix: &str) -> bool {
    path.strip_prefix(prefix).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Router over all routes.
pub(super) fn router(context: &Arc<Context>) -> Router {
    let routes = context.routes.all();
    routes
        .fold(Router::new(), |router, route| router.route(&route.path, endpoint(route)))
        .fallback(not_found)
        .method_not_allowed_fallback(method_not_allowed)
        .layer(middleware::from_fn_with_state(Arc::clone(context), observe))
        .with_state(Arc::clone(context))
}

fn endpoint(route: &Route) -> MethodRouter<Arc<Context>> {
    let (body_bytes_max, handler) = (route.body_bytes_max, Arc::clone(&route.handler));
    on(route.methods, move |State(context): State<Arc<Context>>, parameters: RawPathParams, request: HttpRequest| {
        let parameters = parameters.iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
        let (parts, body) = request.into_parts();
        handler(Call { context, parts, parameters, body, body_bytes_max })
    })
}

/// Counts every request, and sets the version header.
async fn observe(
    State(context): State<Arc<Context>>,
    request: HttpRequest,
    next: Next,
) -> Result<Response, Infallible> {
    let started = Instant::now();
    let label = context.routes.label(request.uri().path());
    let mut response = next.run(request).await;
    context.routes.requests.add((label, response.status().as_u16()));
    if let Some(time) = context.routes.times.get(label) {
        time.record(started.elapsed());
    }
    response.headers_mut().insert("x-influxdb-version", HeaderValue::from_static(INFLUX_VERSION));
    Ok(response)
}

async fn not_found(State(context): State<Arc<Context>>, uri: Uri) -> Response {
    let message = format!("no such path: {}", uri.path());
    let paths = context.routes.application(uri.path()).map(|application| {
        let paths: Vec<&str> = application.routes().iter().map(|route| route.path.as_str()).collect();
        format!("paths are {}", paths.join(", "))
    });
    let hint = paths.unwrap_or_else(|| "paths are /write, /api/v2/write, /sql, /ping and /health".to_owned());
    reply::json(
        StatusCode::NOT_FOUND,
        &json!({ "code": "not found", "error": message, "message": message, "hint": hint }),
    )
}

async fn method_not_allowed(method: Method, uri: Uri) -> Response {
    let message = format!("method {method} is not allowed for {}", uri.path());
    let body = json!({ "code": "method not allowed", "error": message, "message": message });
    reply::json(StatusCode::METHOD_NOT_ALLOWED, &body)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_has_the_label_of_its_route_or_its_application() {
        let routes = Routes::new(&[Application::new("/toy/v1")], false);
        for (path, label) in [
            ("/write", "write"),
            ("/api/v2/write", "write"),
            ("/write/x", "other"),
            ("/sql", "sql"),
            ("/ping", "other"),
            ("/toy/v1", "/toy/v1"),
            ("/toy/v1/a/b", "/toy/v1"),
            ("/toy/v12", "other"),
            ("/toy", "other"),
        ] {
            assert_eq!(routes.label(path), label, "{path}");
        }
    }
}
