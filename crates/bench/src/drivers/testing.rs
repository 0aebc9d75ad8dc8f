//! Helpers for driver tests against running products: a private server, a small schema with data, a
//! query.

use std::ops::Range;
use std::sync::Arc;

use super::{Connection, Driver, Opening, Target};
use crate::config::Config;
use crate::peers::{Options, Product, Server, start};
use crate::query::{Order, Query, Rows, Shape};
use crate::schema::{Batch, Device, Field, Kind, Part, Schema, Table, Unit};

/// A private server, stopped on drop.
pub(crate) struct Private {
    pub(crate) server: Server,
    _dir: tempfile::TempDir,
}

impl Private {
    pub(crate) fn start(product: Product) -> Private {
        let dir = tempfile::tempdir().expect("a folder");
        let options = Options { memory_mib: Some(1024), ..Options::default() };
        let options = if product == Product::InfluxDb { Options::default() } else { options };
        let server = start(product, dir.path(), options).unwrap_or_else(|error| panic!("{error}"));
        Private { server, _dir: dir }
    }

    pub(crate) fn target(&self, driver: &str, port: &str) -> Target {
        let address = self.server.address(port).unwrap_or_else(|error| panic!("{error}"));
        let mut target = Target::parse(&format!("{driver}://{address}")).expect("a target");
        target.network_of = self.server.network_of();
        target
    }

    /// Opens a driver for [`sample_schema`].
    pub(crate) fn driver(&self, driver: &str, port: &str) -> (Box<dyn Driver>, Arc<Schema>) {
        driver_for(self.target(driver, port))
    }
}

/// Opens a driver for [`sample_schema`].
pub(crate) fn driver_for(target: Target) -> (Box<dyn Driver>, Arc<Schema>) {
    let schema = Arc::new(sample_schema().0);
    let opening = Opening { target, schema: Arc::clone(&schema), config: Arc::new(Config::default()) };
    (super::open(opening).expect("opens"), schema)
}

/// Time of the first row, in milliseconds; a multiple of a minute.
pub(crate) const START: i64 = 1_667_059_200_000;

/// Two devices with an INT64 and a DOUBLE field, and a query for the first row of the first device.
pub(crate) fn sample_schema() -> (Schema, Query) {
    let field = |name: &str, kind| Field { name: name.to_owned(), kind };
    let table = Table {
        name: "g_0".to_owned(),
        group: "g_0".to_owned(),
        tags: vec!["device".to_owned(), "tag_0".to_owned()],
        fields: vec![field("s_0", Kind::Int64), field("s_1", Kind::Double { decimals: 2 })],
    };
    let device = |n: u32| Device { table: 0, tags: vec![format!("d_{n}"), "v".to_owned()] };
    let schema = Schema {
        database: "sample".to_owned(),
        unit: Unit::Millis,
        tables: vec![table],
        devices: (0..2).map(device).collect(),
    };
    let query = Query {
        kind: 1,
        table: 0,
        devices: Some(vec![0]),
        fields: vec![0, 1],
        window: Some(START..START + 1),
        filters: Vec::new(),
        shape: Shape::Rows,
        order: Order::Any,
        limit: None,
        set: None,
    };
    (schema, query)
}

/// Rows of both devices, one second apart: s_0 = number, s_1 = number + 0.25; negated for the
/// second device.
pub(crate) fn sample_batch(rows: Range<i64>) -> Batch {
    let part = |device: u32| {
        let sign = if device == 0 { 1 } else { -1 };
        let ints = rows.clone().map(|row| sign * row);
        let doubles = rows.clone().map(|row| sign * (100 * row + 25));
        Part {
            device,
            times: rows.clone().map(|row| START + 1000 * row).collect(),
            units: ints.chain(doubles).collect(),
        }
    };
    Batch { table: 0, fields: 0..2, parts: vec![part(0), part(1)] }
}

pub(crate) fn ask(connection: &mut dyn Connection, query: &Query) -> Rows {
    let statement = connection.statement(query).expect("can be asked");
    connection.query(query).unwrap_or_else(|error| panic!("{statement}: {error}"));
    connection.answer(query).unwrap_or_else(|error| panic!("{statement}: {error}"))
}
