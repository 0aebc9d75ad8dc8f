//! The types a key can have: how each is written in a file, and what else is accepted.

use jiff::Timestamp;
use jiff::tz::{Offset, TimeZone};

/// A type of configuration value. `parse(show(v)) == v`.
pub(crate) trait Value: Sized {
    /// Whether an empty text is a value of this type; else an empty value means "not set", as in the original.
    const EMPTY: bool = false;
    /// What to write, in a word or as the choices.
    fn kind() -> String;
    /// The value, or what had been expected instead.
    fn parse(text: &str) -> Result<Self, String>;
    /// The text of the value, as a file would have it.
    fn show(&self) -> String;
    /// The value as a number, where a range can bound it.
    fn number(&self) -> Option<f64> {
        None
    }
}

/// Enumerations: each value has one spelling, letter case does not matter.
macro_rules! choices {
    ($(#[$doc:meta])* $name:ident { $($(#[$variant_doc:meta])* $variant:ident = $text:literal,)+ }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $name { $($(#[$variant_doc])* $variant,)+ }

        impl $name {
            /// Every value, in the order of the documentation.
            pub const ALL: &[Self] = &[$(Self::$variant,)+];

            /// As written in a file.
            pub fn name(self) -> &'static str {
                match self { $(Self::$variant => $text,)+ }
            }
        }

        impl Value for $name {
            fn kind() -> String {
                Self::ALL.iter().map(|value| value.name()).collect::<Vec<_>>().join("|")
            }

            fn parse(text: &str) -> Result<Self, String> {
                let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
                let found = Self::ALL.iter().find(|value| value.name().eq_ignore_ascii_case(&words));
                found.copied().ok_or_else(|| format!("one of {}", Self::kind()))
            }

            fn show(&self) -> String {
                self.name().to_owned()
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.name())
            }
        }
    };
}

choices! {
    /// What a run does.
    WorkMode {
        /// Write and query by `OPERATION_PROPORTION`.
        TestWithDefaultPath = "testWithDefaultPath",
        /// Write the data set to files.
        GenerateData = "generateDataMode",
        /// Insert the files of a data set.
        VerificationWrite = "verificationWriteMode",
        /// Query every point of a data set and compare.
        VerificationQuery = "verificationQueryMode",
        /// Sample the machine: `millrace bench monitor`.
        Server = "serverMODE",
    }
}

choices! {
    /// Data model of IoTDB 2.
    Dialect {
        /// Paths of series.
        Tree = "tree",
        /// Relational tables.
        Table = "table",
    }
}

choices! {
    /// How devices are dealt to tables, and tables to groups.
    GroupStrategy {
        /// `id % n`.
        Mod = "mod",
        /// `hash(text of id) % n`.
        Hash = "hash",
        /// `(id / (total / n)) % n`.
        Div = "div",
    }
}

choices! {
    /// Unit of a timestamp.
    TimestampPrecision {
        /// 1/1,000 s.
        Ms = "ms",
        /// 1/1,000,000 s.
        Us = "us",
        /// 1/1,000,000,000 s.
        Ns = "ns",
    }
}

impl TimestampPrecision {
    /// Units in a second.
    pub fn per_second(self) -> i64 {
        1_000_000_000 / self.nanos()
    }

    /// Nanoseconds in a unit.
    pub fn nanos(self) -> i64 {
        match self {
            TimestampPrecision::Ms => 1_000_000,
            TimestampPrecision::Us => 1_000,
            TimestampPrecision::Ns => 1,
        }
    }
}

choices! {
    /// Which rows leave their place in the order of time.
    OutOfOrderMode {
        /// A row takes an earlier row's time: it overwrites, and its own slot stays empty.
        Poisson = "POISSON",
        /// The newest part is written first, then the older part.
        Batch = "BATCH",
        /// Ours: each time is written once, some arrive late.
        Late = "LATE",
    }
}

choices! {
    /// How late a late row is.
    LateDistribution {
        /// 1 ..= `LATE_MAX` rows, all alike.
        Uniform = "uniform",
        /// Mean of `LATE_MAX` / 10 rows, cut at `LATE_MAX`.
        Exponential = "exponential",
        /// Most a little, few very late: shape 1.16 (80:20), cut at `LATE_MAX`.
        Pareto = "pareto",
    }
}

choices! {
    /// Where each operation is recorded.
    Persistence {
        /// Nowhere.
        None = "None",
        /// Series of IoTDB.
        IoTDB = "IoTDB",
        /// Tables of MySQL or MariaDB.
        MySQL = "MySQL",
        /// Files under `data/csv`.
        Csv = "CSV",
        /// Ours: tables of PostgreSQL.
        PostgreSQL = "PostgreSQL",
        /// Ours: files under `data/parquet`.
        Parquet = "Parquet",
    }
}

choices! {
    /// Table compression of SQL Server.
    TableCompression {
        /// None.
        None = "NONE",
        /// By row.
        Row = "ROW",
        /// By page.
        Page = "PAGE",
    }
}

choices! {
    /// Operator of a set operation query (Q12).
    SetOperator {
        /// Without duplicates.
        Union = "union",
        /// With duplicates.
        UnionAll = "union all",
        /// Without duplicates, said aloud.
        UnionDistinct = "union distinct",
        /// Rows in all children.
        Intersect = "intersect",
        /// The same, with duplicates.
        IntersectAll = "intersect all",
        /// The same, without duplicates.
        IntersectDistinct = "intersect distinct",
        /// Rows of the first child only.
        Except = "except",
        /// The same, with duplicates.
        ExceptAll = "except all",
        /// The same, without duplicates.
        ExceptDistinct = "except distinct",
    }
}

choices! {
    /// A product that `DB_SWITCH` can name.
    Product {
        /// Apache IoTDB.
        IoTDB = "IoTDB",
        /// Two IoTDB at once.
        DoubleIoTDB = "DoubleIoTDB",
        /// InfluxDB 1.x.
        InfluxDB = "InfluxDB",
        /// InfluxDB 2.x.
        InfluxDB2 = "InfluxDB-2.x",
        /// OpenTSDB.
        OpenTSDB = "OpenTSDB",
        /// CTSDB.
        CTSDB = "CTSDB",
        /// KairosDB.
        KairosDB = "KairosDB",
        /// TimescaleDB.
        TimescaleDB = "TimescaleDB",
        /// TimescaleDB, distributed.
        TimescaleDBCluster = "TimescaleDB-cluster",
        /// Accepts everything and does nothing: measures the tool itself.
        FakeDB = "FakeDB",
        /// TDengine 2.
        TDengine = "TDengine",
        /// TDengine 3.
        TDengine3 = "TDengine-3",
        /// QuestDB.
        QuestDB = "QuestDB",
        /// DolphinDB 2 and 3.
        DolphinDB = "DolphinDB",
        /// Microsoft SQL Server.
        MsSqlServer = "MsSqlServer",
        /// VictoriaMetrics.
        VictoriaMetrics = "VictoriaMetrics",
        /// PI Archive.
        PIArchive = "PIArchive",
        /// SQLite.
        SQLite = "SQLite",
        /// IginX.
        IginX = "IginX",
        /// CnosDB.
        CnosDB = "CnosDB",
        /// Counts points in and out of order.
        SelfCheck = "SelfCheck",
        /// Ours: Millrace.
        Millrace = "Millrace",
        /// Ours: PostgreSQL without extension.
        PostgreSQL = "PostgreSQL",
    }
}

choices! {
    /// How rows are handed to the product.
    InsertMode {
        /// HTTP.
        Rest = "REST",
        /// SQL text.
        Jdbc = "JDBC",
        /// Columns of one device.
        SessionByTablet = "SESSION_BY_TABLET",
        /// One row of one device.
        SessionByRecord = "SESSION_BY_RECORD",
        /// Rows of several devices.
        SessionByRecords = "SESSION_BY_RECORDS",
        /// DolphinDB's multithreaded table writer.
        Mtw = "MTW",
        /// DolphinDB's partitioned table appender.
        Pta = "PTA",
    }
}

/// `DB_SWITCH`: product, version and insert mode in one word.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DbSwitch {
    /// As `Product` spells it, with version and mode: `IoTDB-200-SESSION_BY_TABLET`.
    pub text: String,
    /// The product.
    pub product: Product,
    /// Three digits for IoTDB (`200`), one for DolphinDB; else none.
    pub version: Option<u32>,
    /// Only IoTDB and DolphinDB have a choice.
    pub mode: Option<InsertMode>,
}

impl DbSwitch {
    fn whole(product: Product) -> Self {
        DbSwitch { text: product.name().to_owned(), product, version: None, mode: None }
    }

    fn with_mode(product: Product, version: u32, mode: InsertMode) -> Self {
        // 013 keeps its zero.
        let digits = if product == Product::IoTDB { 3 } else { 1 };
        let text = format!("{}-{version:0digits$}-{}", product.name(), mode.name());
        DbSwitch { text, product, version: Some(version), mode: Some(mode) }
    }

    /// Every accepted value: today's, and early 2023's IoTDB 0.12 and 0.13.
    pub fn all() -> Vec<DbSwitch> {
        use InsertMode::{Jdbc, Mtw, Pta, Rest, SessionByRecord, SessionByRecords, SessionByTablet};
        const SESSIONS: [InsertMode; 4] = [Jdbc, SessionByTablet, SessionByRecord, SessionByRecords];
        let mut all = Vec::new();
        for version in [200, 130, 110, 100, 13, 12] {
            let rest = (version >= 130).then_some(Rest);
            all.extend(rest.into_iter().chain(SESSIONS).map(|mode| Self::with_mode(Product::IoTDB, version, mode)));
        }
        for version in [3, 2] {
            all.extend([Mtw, Pta].map(|mode| Self::with_mode(Product::DolphinDB, version, mode)));
        }
        let others = Product::ALL.iter().filter(|&&p| p != Product::IoTDB && p != Product::DolphinDB);
        all.extend(others.map(|&product| Self::whole(product)));
        all
    }
}

impl Value for DbSwitch {
    fn kind() -> String {
        "TYPE[-VERSION][-MODE]".to_owned()
    }

    fn parse(text: &str) -> Result<Self, String> {
        let all = Self::all();
        if let Some(found) = all.iter().find(|switch| switch.text.eq_ignore_ascii_case(text)) {
            return Ok(found.clone());
        }
        let nearest = super::nearest(text, all.iter().map(|switch| switch.text.as_str()));
        let products = Product::ALL.iter().map(|product| product.name()).collect::<Vec<_>>().join(", ");
        Err(format!("a product with its version and mode, nearest {nearest}; products are {products}"))
    }

    fn show(&self) -> String {
        self.text.clone()
    }
}

impl Value for bool {
    fn kind() -> String {
        "true|false".to_owned()
    }

    fn parse(text: &str) -> Result<Self, String> {
        match text.to_ascii_lowercase().as_str() {
            "true" => Ok(true),
            "false" => Ok(false),
            _ => Err("true or false".to_owned()),
        }
    }

    fn show(&self) -> String {
        self.to_string()
    }
}

macro_rules! integers {
    ($($name:ty),+) => {$(
        impl Value for $name {
            fn kind() -> String {
                "integer".to_owned()
            }

            fn parse(text: &str) -> Result<Self, String> {
                text.parse().map_err(|_| format!("an integer in {} ..= {}", Self::MIN, Self::MAX))
            }

            fn show(&self) -> String {
                self.to_string()
            }

            fn number(&self) -> Option<f64> {
                Some(*self as f64)
            }
        }
    )+};
}
integers!(u16, u64, i64);

impl Value for f64 {
    fn kind() -> String {
        "number".to_owned()
    }

    fn parse(text: &str) -> Result<Self, String> {
        text.parse().ok().filter(|number: &f64| number.is_finite()).ok_or_else(|| "a finite number".to_owned())
    }

    fn show(&self) -> String {
        // `{:?}` keeps the ".0" by which the original's files tell a fraction from a count.
        format!("{self:?}")
    }

    fn number(&self) -> Option<f64> {
        Some(*self)
    }
}

impl Value for String {
    const EMPTY: bool = true;

    fn kind() -> String {
        "text".to_owned()
    }

    fn parse(text: &str) -> Result<Self, String> {
        Ok(text.to_owned())
    }

    fn show(&self) -> String {
        self.clone()
    }
}

impl<T: Value> Value for Vec<T> {
    const EMPTY: bool = true;

    fn kind() -> String {
        format!("{} list", T::kind())
    }

    fn parse(text: &str) -> Result<Self, String> {
        if text.trim().is_empty() {
            return Ok(Vec::new());
        }
        let item =
            |item: &str| T::parse(item.trim()).map_err(|expected| format!("items between commas, each {expected}"));
        text.split(',').map(item).collect()
    }

    fn show(&self) -> String {
        self.iter().map(Value::show).collect::<Vec<_>>().join(",")
    }
}

/// Shares between colons, `N` of them; a list of one of the shorter lengths in `shorter` is filled up with zeros.
fn parse_proportion<const N: usize>(text: &str, shorter: &[usize]) -> Result<[f64; N], String> {
    let items: Vec<&str> = text.split(':').map(str::trim).collect();
    if items.len() != N && !shorter.contains(&items.len()) {
        let lengths = shorter.iter().map(usize::to_string).collect::<Vec<_>>().join(", ");
        return Err(format!("{N} shares between colons (or {lengths}), not {}", items.len()));
    }
    let mut shares = [0.0; N];
    for (share, item) in shares.iter_mut().zip(items) {
        let number = item.parse().ok().filter(|number: &f64| number.is_finite() && *number >= 0.0);
        *share = number.ok_or_else(|| format!("shares of 0 or more between colons, not {item:?}"))?;
    }
    if shares.iter().sum::<f64>() <= 0.0 {
        return Err("a share above 0".to_owned());
    }
    Ok(shares)
}

fn show_proportion(shares: &[f64]) -> String {
    shares.iter().map(f64::to_string).collect::<Vec<_>>().join(":")
}

/// `OPERATION_PROPORTION`: write, then Q1 to Q12. Earlier tools had fewer queries.
impl Value for [f64; 13] {
    fn kind() -> String {
        "shares write:Q1:…:Q12".to_owned()
    }

    fn parse(text: &str) -> Result<Self, String> {
        parse_proportion(text, &[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12])
    }

    fn show(&self) -> String {
        show_proportion(self)
    }
}

/// `INSERT_DATATYPE_PROPORTION`: early 2023 had the first six types, later ten.
impl Value for [f64; 11] {
    fn kind() -> String {
        "shares of 11 types".to_owned()
    }

    fn parse(text: &str) -> Result<Self, String> {
        parse_proportion(text, &[6, 10])
    }

    fn show(&self) -> String {
        show_proportion(self)
    }
}

/// The zone in which the original runs: its launcher forces GMT+8.
const ORIGINAL_ZONE: Offset = jiff::tz::offset(8);

impl Value for Timestamp {
    fn kind() -> String {
        "ISO 8601 time".to_owned()
    }

    fn parse(text: &str) -> Result<Self, String> {
        let expected =
            || "a time like 2022-01-01T00:00:00+08:00 (without offset: +08:00, as in the original)".to_owned();
        let padded = pad_date(text).ok_or_else(expected)?;
        if let Ok(timestamp) = padded.parse::<Timestamp>() {
            return Ok(timestamp);
        }
        let civil: jiff::civil::DateTime = padded.parse().map_err(|_| expected())?;
        ORIGINAL_ZONE.to_timestamp(civil).map_err(|_| expected())
    }

    fn show(&self) -> String {
        self.to_zoned(TimeZone::fixed(ORIGINAL_ZONE)).strftime("%Y-%m-%dT%H:%M:%S%.f%:z").to_string()
    }
}

/// `2018-9-20T…` with month and day in two digits: old files leave the zero out.
fn pad_date(text: &str) -> Option<String> {
    let (date, rest) = text.split_once(['T', 't', ' '])?;
    let mut parts = date.splitn(3, '-');
    let (year, month, day) = (parts.next()?, parts.next()?, parts.next()?);
    Some(format!("{year:0>4}-{month:0>2}-{day:0>2}T{rest}"))
}
