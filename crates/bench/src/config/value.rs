//! Types of configuration values: their text form in files and the spellings they accept.

use jiff::Timestamp;
use jiff::tz::{Offset, TimeZone};

/// A type of configuration value. `parse(show(v)) == v`.
pub(crate) trait Value: Sized {
    /// Whether an empty text is a value. If not, an empty setting keeps the default, as in
    /// IoT-benchmark.
    const EMPTY: bool = false;
    /// Description for the list of keys: a word, or the choices.
    fn kind() -> String;
    /// Parses a value; the error describes the expected text.
    fn parse(text: &str) -> Result<Self, String>;
    /// Formats the value in file syntax.
    fn show(&self) -> String;
    /// The value as a number, for keys with a range; `None` for other types.
    fn number(&self) -> Option<f64> {
        None
    }
}

/// Defines an enumeration. Each value has one spelling; case and repeated blanks are ignored.
macro_rules! choices {
    ($(#[$doc:meta])* $name:ident { $($(#[$variant_doc:meta])* $variant:ident = $text:literal,)+ }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $name { $($(#[$variant_doc])* $variant,)+ }

        impl $name {
            /// All values, in the order of the documentation.
            pub const ALL: &[Self] = &[$(Self::$variant,)+];

            /// Spelling in a configuration file.
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
    /// Mode of a run.
    WorkMode {
        /// Write and query by `OPERATION_PROPORTION`.
        TestWithDefaultPath = "testWithDefaultPath",
        /// Write the data set to files.
        GenerateData = "generateDataMode",
        /// Write the data of files to the database.
        VerificationWrite = "verificationWriteMode",
        /// Read every point of a data set back and compare it.
        VerificationQuery = "verificationQueryMode",
        /// Sample the machine's resources; use `millrace bench monitor` instead.
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
    /// Assignment of devices to tables, and of tables to groups.
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
    /// Method of putting rows out of time order.
    OutOfOrderMode {
        /// A row takes the time of an earlier row and overwrites it; its own slot stays empty.
        Poisson = "POISSON",
        /// The newest rows are written first, then the older ones.
        Batch = "BATCH",
        /// Each time is written once, some rows arrive late; not in IoT-benchmark.
        Late = "LATE",
    }
}

choices! {
    /// Distribution of the lateness of late rows.
    LateDistribution {
        /// Uniform over 1 ..= `LATE_MAX` rows.
        Uniform = "uniform",
        /// Exponential with a mean of `LATE_MAX` / 10 rows, cut at `LATE_MAX`.
        Exponential = "exponential",
        /// Heavy-tailed with shape 1.16 (the 80:20 rule), cut at `LATE_MAX`.
        Pareto = "pareto",
    }
}

choices! {
    /// Store of the operation records.
    Persistence {
        /// Nowhere.
        None = "None",
        /// Series of IoTDB.
        IoTDB = "IoTDB",
        /// Tables of MySQL or MariaDB.
        MySQL = "MySQL",
        /// Files under `data/csv`.
        Csv = "CSV",
        /// Tables of PostgreSQL; not in IoT-benchmark.
        PostgreSQL = "PostgreSQL",
        /// Files under `data/parquet`; not in IoT-benchmark.
        Parquet = "Parquet",
    }
}

choices! {
    /// Table compression of SQL Server.
    TableCompression {
        /// No compression.
        None = "NONE",
        /// Row compression.
        Row = "ROW",
        /// Page compression.
        Page = "PAGE",
    }
}

choices! {
    /// Operator of a set operation query (Q12).
    SetOperator {
        /// Distinct rows of all children.
        Union = "union",
        /// Rows of all children, with duplicates.
        UnionAll = "union all",
        /// Same as [`SetOperator::Union`].
        UnionDistinct = "union distinct",
        /// Distinct rows that all children have.
        Intersect = "intersect",
        /// Rows that all children have, with duplicates.
        IntersectAll = "intersect all",
        /// Same as [`SetOperator::Intersect`].
        IntersectDistinct = "intersect distinct",
        /// Distinct rows of the first child that no other has.
        Except = "except",
        /// Rows of the first child that no other has, with duplicates.
        ExceptAll = "except all",
        /// Same as [`SetOperator::Except`].
        ExceptDistinct = "except distinct",
    }
}

choices! {
    /// Products of `DB_SWITCH`.
    Product {
        /// Apache IoTDB.
        IoTDB = "IoTDB",
        /// Two IoTDB databases at once.
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
        /// Distributed TimescaleDB.
        TimescaleDBCluster = "TimescaleDB-cluster",
        /// No database: discards all operations, to measure this tool itself.
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
        /// Counts points in and out of time order.
        SelfCheck = "SelfCheck",
        /// Millrace; not in IoT-benchmark.
        Millrace = "Millrace",
        /// PostgreSQL without extensions; not in IoT-benchmark.
        PostgreSQL = "PostgreSQL",
    }
}

choices! {
    /// Write interface of the product.
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
    /// Spelling in a file, with version and mode: `IoTDB-200-SESSION_BY_TABLET`.
    pub text: String,
    /// The product.
    pub product: Product,
    /// IoTDB's version as a number of three digits (`200`), DolphinDB's major version; `None` for
    /// other products.
    pub version: Option<u32>,
    /// Write interface, for IoTDB and DolphinDB; `None` for other products.
    pub mode: Option<InsertMode>,
}

impl DbSwitch {
    fn product_only(product: Product) -> Self {
        DbSwitch { text: product.name().to_owned(), product, version: None, mode: None }
    }

    fn with_mode(product: Product, version: u32, mode: InsertMode) -> Self {
        // IoTDB 0.13 is written `013`.
        let digits = if product == Product::IoTDB { 3 } else { 1 };
        let text = format!("{}-{version:0digits$}-{}", product.name(), mode.name());
        DbSwitch { text, product, version: Some(version), mode: Some(mode) }
    }

    /// All accepted values: IoT-benchmark's current ones, and IoTDB 0.12 and 0.13 of early 2023.
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
        all.extend(others.map(|&product| Self::product_only(product)));
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
        // `{:?}` keeps ".0", with which IoT-benchmark's files mark fractions.
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

/// Parses `N` shares separated by colons. A list with a length in `shorter` is padded with zeros.
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

/// `OPERATION_PROPORTION`: write, then Q1 to Q12. Older versions had fewer queries.
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

/// `INSERT_DATATYPE_PROPORTION`: older versions had six or ten types.
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

/// The time zone of IoT-benchmark: its launcher forces GMT+8.
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

/// Pads month and day to two digits: old files have `2018-9-20T…`.
fn pad_date(text: &str) -> Option<String> {
    let (date, rest) = text.split_once(['T', 't', ' '])?;
    let mut parts = date.splitn(3, '-');
    let (year, month, day) = (parts.next()?, parts.next()?, parts.next()?);
    Some(format!("{year:0>4}-{month:0>2}-{day:0>2}T{rest}"))
}
