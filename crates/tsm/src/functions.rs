//! Functions of SQL in the schema `tsm`: `SELECT * FROM tsm.read('Meter', '2025-01-01', '2025-02-01', step => 'Day')`.
//!
//! Each reads and changes by transactions of its own, as requests do.

use std::fmt;
use std::sync::Arc;

use arrow_array::builder::StringBuilder;
use arrow_array::{ArrayRef, Float64Array, Int16Array, Int64Array, RecordBatch, StringArray, TimestampNanosecondArray};
use arrow_schema::{Field, Schema};
use futures::future::BoxFuture;
use futures::stream::BoxStream;
use futures::{FutureExt, StreamExt, TryStreamExt, stream};
use jiff::tz::TimeZone;
use model::{Error, Result};
use query::client::SqlClient;
use query::{ApplicationRows, Database, TypeId};
use serde_json::json;
use timeseries::stamp::{self, Form};
use tokio::sync::OnceCell;

use crate::data_routes::wanted_of;
use crate::defining::{changed, created};
use crate::definition_json::SeriesJson;
use crate::definitions::{self, Series};
use crate::parameters::{Parameters, Range};
use crate::reading::Reading;
use crate::sources;
use crate::store::{self, AsOf, Timed};
use crate::tables::{self, invalid};
use crate::units::Units;

/// A function, and whether the schema `tsm` is there.
struct Function {
    what: &'static Description,
    installed: Arc<OnceCell<()>>,
}

/// Facts about a function.
struct Description {
    name: &'static str,
    arguments: &'static [&'static str],
    needed: usize,
    columns: &'static [(&'static str, TypeId)],
    rows: fn(Call) -> BoxFuture<'static, Result<Batches>>,
}

/// The rows of a call.
type Batches = BoxStream<'static, Result<RecordBatch>>;

/// A call of a function.
struct Call {
    database: Database,
    sql: SqlClient,
    names: &'static [&'static str],
    arguments: Vec<Option<String>>,
}

const POINTS: &[(&str, TypeId)] =
    &[("time", TypeId::TIMESTAMPTZ), ("value", TypeId::FLOAT8), ("flag", TypeId::INT2), ("local", TypeId::TEXT)];
const DEFINITION: &[(&str, TypeId)] = &[("id", TypeId::INT8), ("name", TypeId::TEXT)];

static FUNCTIONS: [Description; 6] = [
    Description {
        name: "read",
        arguments: &[
            "series",
            "start",
            "finish",
            "step",
            "multiplier",
            "unit",
            "aggregation",
            "time_zone",
            "period",
            "as_of",
            "audit",
            "exact_audit",
            "quotation",
            "quotation_before",
            "exact_quotation",
            "versions",
            "repository",
        ],
        needed: 1,
        columns: POINTS,
        rows: |call| read(call).boxed(),
    },
    Description {
        name: "evaluate",
        arguments: &[
            "formula",
            "start",
            "finish",
            "step",
            "multiplier",
            "unit",
            "time_zone",
            "period",
            "as_of",
            "quotation",
            "quotation_before",
            "exact_quotation",
            "versions",
            "repository",
        ],
        needed: 4,
        columns: POINTS,
        rows: |call| evaluate(call).boxed(),
    },
    Description {
        name: "changes",
        arguments: &["series", "repository"],
        needed: 1,
        columns: &[
            ("time", TypeId::TIMESTAMPTZ),
            ("changed_by", TypeId::TEXT),
            ("change", TypeId::TEXT),
            ("start", TypeId::TIMESTAMPTZ),
            ("finish", TypeId::TIMESTAMPTZ),
            ("points", TypeId::INT8),
        ],
        rows: |call| changes(call).boxed(),
    },
    Description {
        name: "quotations",
        arguments: &["series", "repository"],
        needed: 1,
        columns: &[("quotation", TypeId::TIMESTAMPTZ)],
        rows: |call| quotations(call).boxed(),
    },
    Description {
        name: "define",
        arguments: &["name", "definition", "changed_by", "repository"],
        needed: 2,
        columns: DEFINITION,
        rows: |call| define(call).boxed(),
    },
    Description {
        name: "remove",
        arguments: &["name", "changed_by", "repository"],
        needed: 1,
        columns: DEFINITION,
        rows: |call| remove(call).boxed(),
    },
];

/// All functions.
pub(crate) fn all(installed: &Arc<OnceCell<()>>) -> Vec<Arc<dyn ApplicationRows>> {
    let function = |what| Arc::new(Function { what, installed: Arc::clone(installed) }) as Arc<dyn ApplicationRows>;
    FUNCTIONS.iter().map(function).collect()
}

impl fmt::Debug for Function {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "tsm.{}", self.what.name)
    }
}

impl ApplicationRows for Function {
    fn name(&self) -> (&'static str, &'static str) {
        (tables::SCHEMA, self.what.name)
    }

    fn columns(&self) -> &'static [(&'static str, TypeId)] {
        self.what.columns
    }

    fn arguments(&self) -> &'static [&'static str] {
        self.what.arguments
    }

    fn needed(&self) -> usize {
        self.what.needed
    }

    fn rows(&self, database: &Database, arguments: Vec<Option<String>>) -> Batches {
        let (what, database, installed) = (self.what, database.clone(), Arc::clone(&self.installed));
        let opened = async move {
            let mut sql = SqlClient::new(&database);
            installed.get_or_try_init(async || tables::install(&mut sql).await).await?;
            (what.rows)(Call { database, sql, names: what.arguments, arguments }).await
        };
        stream::once(opened).try_flatten().boxed()
    }
}

impl Call {
    /// Takes an argument.
    fn take(&mut self, name: &str) -> Option<String> {
        let place = self.names.iter().position(|own| *own == name)?;
        self.arguments[place].take()
    }

    /// Takes an argument that the binder has checked to be there.
    fn needed(&mut self, name: &str) -> Result<String> {
        self.take(name).ok_or_else(|| Error::bug(format!("no argument {name}")))
    }

    fn repository(&mut self) -> String {
        self.take("repository").unwrap_or_else(|| "default".to_owned())
    }

    fn user(&mut self) -> String {
        self.take("changed_by").unwrap_or_else(|| "sql".to_owned())
    }

    async fn series(&mut self) -> Result<Series> {
        let (name, repository) = (self.needed("series")?, self.repository());
        definitions::find(&mut self.sql, &repository, &name).await
    }

    fn now(&self) -> i64 {
        self.database.engine().env().now_ns()
    }

    /// The other arguments as parameters of a request for points.
    fn range(&mut self) -> Result<Range> {
        let parameters = self.names.iter().zip(&mut self.arguments).filter_map(|(name, value)| {
            let name = match *name {
                "start" => "from".to_owned(),
                "finish" => "to".to_owned(),
                "step" => "interval".to_owned(),
                "multiplier" => "intervalMultiplier".to_owned(),
                other => other.replace('_', ""),
            };
            Some((name, value.take()?))
        });
        let mut parameters = Parameters::from_pairs(parameters.collect());
        let range = Range::take(&mut parameters)?;
        parameters.finish()?;
        Ok(range)
    }
}

async fn read(mut call: Call) -> Result<Batches> {
    let series = call.series().await?;
    points(call, series).await
}

async fn evaluate(mut call: Call) -> Result<Batches> {
    let (formula, repository) = (call.needed("formula")?, call.repository());
    let member = |call: &Call, name: &str| {
        call.names.iter().position(|own| *own == name).and_then(|place| call.arguments[place].clone())
    };
    let multiplier = member(&call, "multiplier").unwrap_or_else(|| "1".to_owned());
    let multiplier: u32 =
        multiplier.parse().map_err(|_| invalid(format!("argument multiplier: \"{multiplier}\" is not a number")))?;
    let definition = json!({
        "Formula": formula,
        "Interval": { "Value": member(&call, "step"), "Multiplier": multiplier },
        "Unit": member(&call, "unit"),
        "TimeZone": member(&call, "time_zone"),
    });
    let mut series = SeriesJson::parse(definition.to_string().as_bytes())?.formula(&repository)?;
    let units = Units::load(&mut call.sql).await?;
    series.formulas = sources::resolved(&mut call.sql, &units, &series).await?;
    points(call, series).await
}

/// The points of a series, by the other arguments.
async fn points(mut call: Call, series: Series) -> Result<Batches> {
    let (range, now) = (call.range()?, call.now());
    let units = Units::load(&mut call.sql).await?;
    let wanted = wanted_of(&mut call.sql, &series, &range, now).await?;
    let zone = range.calendar(&series).zone().clone();
    let mut reading = Reading::new(&mut call.sql, series, &units, &wanted).await?;
    reading.begin(&mut call.sql, &units).await?;
    let windows = stream::try_unfold((call.sql, reading), move |(mut sql, mut reading)| {
        let zone = zone.clone();
        async move {
            let Some(timed) = reading.next(&mut sql).await? else { return Ok(None) };
            Ok(Some((batch_of(&timed, &zone)?, (sql, reading))))
        }
    });
    Ok(windows.boxed())
}

fn batch_of(timed: &Timed, zone: &TimeZone) -> Result<RecordBatch> {
    let points = &timed.points;
    let mut local = StringBuilder::with_capacity(timed.times.len(), timed.times.len() * 20);
    let mut text = Vec::new();
    for time in &timed.times {
        text.clear();
        stamp::write(&mut text, *time, zone, Form::Local);
        local.append_value(std::str::from_utf8(&text).map_err(Error::bug)?);
    }
    batch(
        POINTS,
        vec![
            times(timed.times.clone()),
            Arc::new(points.iter().map(|(value, _)| value).collect::<Float64Array>()),
            Arc::new(Int16Array::from_iter_values(points.flags.iter().map(|flag| flag.id()))),
            Arc::new(local.finish()),
        ],
    )
}

async fn changes(mut call: Call) -> Result<Batches> {
    let series = call.series().await?;
    let all = store::modifications(&mut call.sql, &series, (i64::MIN / 2, i64::MAX)).await?;
    let columns: Vec<ArrayRef> = vec![
        times(all.iter().map(|change| change.time).collect()),
        Arc::new(StringArray::from_iter_values(all.iter().map(|change| &change.user))),
        Arc::new(StringArray::from_iter_values(all.iter().map(|change| &change.change))),
        times(all.iter().map(|change| change.from).collect()),
        times(all.iter().map(|change| change.to).collect()),
        Arc::new(Int64Array::from_iter_values(all.iter().map(|change| change.points))),
    ];
    Ok(one(batch(FUNCTIONS[2].columns, columns)))
}

async fn quotations(mut call: Call) -> Result<Batches> {
    let series = call.series().await?;
    let all = if series.quotation { store::versions(&mut call.sql, &series, AsOf::Now).await? } else { Vec::new() };
    Ok(one(batch(FUNCTIONS[3].columns, vec![times(all)])))
}

async fn define(mut call: Call) -> Result<Batches> {
    let (name, repository, user) = (call.needed("name")?, call.repository(), call.user());
    let given = SeriesJson::parse(call.needed("definition")?.as_bytes())?.named(&name);
    let known = definitions::find_named(&mut call.sql, &repository, std::slice::from_ref(&name)).await?.remove(&name);
    let series = match known {
        Some(series) => changed(&mut call.sql, &series, given, &user).await?,
        None => created(&mut call.sql, &repository, given, &user).await?,
    };
    definition(&series)
}

async fn remove(mut call: Call) -> Result<Batches> {
    let (name, repository, user) = (call.needed("name")?, call.repository(), call.user());
    let series = definitions::find(&mut call.sql, &repository, &name).await?;
    definitions::delete(&mut call.sql, &series, &user).await?;
    definition(&series)
}

fn definition(series: &Series) -> Result<Batches> {
    let (id, name) = (Int64Array::from(vec![series.id]), StringArray::from(vec![series.name.as_str()]));
    Ok(one(batch(DEFINITION, vec![Arc::new(id), Arc::new(name)])))
}

fn times(times: Vec<i64>) -> ArrayRef {
    Arc::new(TimestampNanosecondArray::from(times).with_timezone("UTC"))
}

fn one(batch: Result<RecordBatch>) -> Batches {
    stream::iter([batch]).boxed()
}

fn batch(columns: &[(&'static str, TypeId)], arrays: Vec<ArrayRef>) -> Result<RecordBatch> {
    let fields =
        columns.iter().zip(&arrays).map(|((name, _), array)| Field::new(*name, array.data_type().clone(), true));
    let schema = Schema::new(fields.collect::<Vec<_>>());
    RecordBatch::try_new(Arc::new(schema), arrays).map_err(Error::bug)
}
