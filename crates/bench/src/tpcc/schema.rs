//! TPC-C's nine tables (clause 1.3) in each product's SQL dialect, as the common kits create them.

use super::Product;

/// The tables, each one after the tables that it references.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Table {
    Warehouse,
    District,
    Customer,
    History,
    Orders,
    NewOrder,
    Item,
    Stock,
    OrderLine,
}

impl Table {
    pub(super) const ALL: [Table; 9] = [
        Table::Warehouse,
        Table::District,
        Table::Customer,
        Table::History,
        Table::Orders,
        Table::NewOrder,
        Table::Item,
        Table::Stock,
        Table::OrderLine,
    ];

    /// Name of the table. `order` is a reserved word in SQL, so that table is called `orders`, as
    /// in all kits.
    pub(super) fn name(self) -> &'static str {
        match self {
            Table::Warehouse => "warehouse",
            Table::District => "district",
            Table::Customer => "customer",
            Table::History => "history",
            Table::Orders => "orders",
            Table::NewOrder => "new_order",
            Table::Item => "item",
            Table::Stock => "stock",
            Table::OrderLine => "order_line",
        }
    }

    /// Names and types of the columns, separated by commas. Key columns come first; only they are
    /// NOT NULL, because of the primary key.
    fn definition(self) -> &'static str {
        match self {
            Table::Warehouse => {
                "w_id integer, w_name varchar(10), w_street_1 varchar(20), w_street_2 varchar(20), w_city varchar(20), \
                 w_state char(2), w_zip char(9), w_tax decimal(4,4), w_ytd decimal(12,2)"
            }
            Table::District => {
                "d_w_id integer, d_id integer, d_name varchar(10), d_street_1 varchar(20), d_street_2 varchar(20), \
                 d_city varchar(20), d_state char(2), d_zip char(9), d_tax decimal(4,4), d_ytd decimal(12,2), \
                 d_next_o_id integer"
            }
            Table::Customer => {
                "c_w_id integer, c_d_id integer, c_id integer, c_first varchar(16), c_middle char(2), \
                 c_last varchar(16), c_street_1 varchar(20), c_street_2 varchar(20), c_city varchar(20), \
                 c_state char(2), c_zip char(9), c_phone char(16), c_since timestamp, c_credit char(2), \
                 c_credit_lim decimal(12,2), c_discount decimal(4,4), c_balance decimal(12,2), \
                 c_ytd_payment decimal(12,2), c_payment_cnt integer, c_delivery_cnt integer, c_data varchar(500)"
            }
            Table::History => {
                "h_c_id integer, h_c_d_id integer, h_c_w_id integer, h_d_id integer, h_w_id integer, \
                 h_date timestamp, h_amount decimal(6,2), h_data varchar(24)"
            }
            Table::Orders => {
                "o_w_id integer, o_d_id integer, o_id integer, o_c_id integer, o_entry_d timestamp, \
                 o_carrier_id integer, o_ol_cnt integer, o_all_local integer"
            }
            Table::NewOrder => "no_w_id integer, no_d_id integer, no_o_id integer",
            Table::Item => {
                "i_id integer, i_im_id integer, i_name varchar(24), i_price decimal(5,2), i_data varchar(50)"
            }
            Table::Stock => {
                "s_w_id integer, s_i_id integer, s_quantity integer, s_dist_01 char(24), s_dist_02 char(24), \
                 s_dist_03 char(24), s_dist_04 char(24), s_dist_05 char(24), s_dist_06 char(24), s_dist_07 char(24), \
                 s_dist_08 char(24), s_dist_09 char(24), s_dist_10 char(24), s_ytd integer, s_order_cnt integer, \
                 s_remote_cnt integer, s_data varchar(50)"
            }
            Table::OrderLine => {
                "ol_w_id integer, ol_d_id integer, ol_o_id integer, ol_number integer, ol_i_id integer, \
                 ol_supply_w_id integer, ol_delivery_d timestamp, ol_quantity integer, ol_amount decimal(6,2), \
                 ol_dist_info char(24)"
            }
        }
    }

    /// Names of the columns.
    #[cfg(test)]
    pub(super) fn columns(self) -> impl Iterator<Item = &'static str> {
        self.definition().split(", ").filter_map(|column| column.split(' ').next())
    }

    /// Columns of the primary key; `history` has none.
    fn key(self) -> Option<&'static str> {
        match self {
            Table::Warehouse => Some("w_id"),
            Table::District => Some("d_w_id, d_id"),
            Table::Customer => Some("c_w_id, c_d_id, c_id"),
            Table::History => None,
            Table::Orders => Some("o_w_id, o_d_id, o_id"),
            Table::NewOrder => Some("no_w_id, no_d_id, no_o_id"),
            Table::Item => Some("i_id"),
            Table::Stock => Some("s_w_id, s_i_id"),
            Table::OrderLine => Some("ol_w_id, ol_d_id, ol_o_id, ol_number"),
        }
    }
}

/// Name of the schema (in MariaDB: the database) with the tables. A run with `--no-load` uses an
/// existing one.
pub(super) const SCHEMA: &str = "tpcc";

/// Secondary indexes: customers by last name, and the orders of a customer for Order-Status.
const INDEXES: [&str; 2] = [
    "CREATE INDEX customer_by_name ON customer (c_w_id, c_d_id, c_last, c_first)",
    "CREATE INDEX orders_by_customer ON orders (o_w_id, o_d_id, o_c_id, o_id)",
];

/// Foreign keys: (table, columns, referenced table, its columns).
const FOREIGN_KEYS: [(&str, &str, &str, &str); 10] = [
    ("district", "d_w_id", "warehouse", "w_id"),
    ("customer", "c_w_id, c_d_id", "district", "d_w_id, d_id"),
    ("history", "h_c_w_id, h_c_d_id, h_c_id", "customer", "c_w_id, c_d_id, c_id"),
    ("history", "h_w_id, h_d_id", "district", "d_w_id, d_id"),
    ("orders", "o_w_id, o_d_id, o_c_id", "customer", "c_w_id, c_d_id, c_id"),
    ("new_order", "no_w_id, no_d_id, no_o_id", "orders", "o_w_id, o_d_id, o_id"),
    ("order_line", "ol_w_id, ol_d_id, ol_o_id", "orders", "o_w_id, o_d_id, o_id"),
    ("order_line", "ol_supply_w_id, ol_i_id", "stock", "s_w_id, s_i_id"),
    ("stock", "s_w_id", "warehouse", "w_id"),
    ("stock", "s_i_id", "item", "i_id"),
];

/// Drops the schema of an earlier run and creates an empty one.
pub(super) fn clear(product: Product) -> Vec<String> {
    match product {
        Product::MariaDb => vec![
            format!("DROP DATABASE IF EXISTS {SCHEMA}"),
            // Binary collation, as on the other products' servers here.
            format!("CREATE DATABASE {SCHEMA} CHARACTER SET utf8mb4 COLLATE utf8mb4_bin"),
            format!("USE {SCHEMA}"),
        ],
        Product::Postgres | Product::Millrace => {
            vec![format!("DROP SCHEMA IF EXISTS {SCHEMA} CASCADE"), format!("CREATE SCHEMA {SCHEMA}")]
        }
    }
}

/// Creates the tables. PostgreSQL's keys are created after loading, as its manual recommends
/// ("Populating a Database"); InnoDB tables are organised by their primary key.
pub(super) fn create(product: Product) -> Vec<String> {
    let table = |table: Table| {
        let key = table.key().filter(|_| product != Product::Postgres);
        let key = key.map_or_else(String::new, |key| format!(", PRIMARY KEY ({key})"));
        let definition = table.definition();
        let definition = match product {
            // MariaDB's `timestamp` ends in 2038 and updates itself.
            Product::MariaDb => definition.replace(" timestamp", " datetime(6)"),
            Product::Postgres | Product::Millrace => definition.to_owned(),
        };
        format!("CREATE TABLE {} ({definition}{key})", table.name())
    };
    Table::ALL.into_iter().map(table).collect()
}

/// Creates keys, indexes and, if requested, foreign keys.
pub(super) fn complete(product: Product, foreign_keys: bool) -> Vec<String> {
    let mut statements = Vec::new();
    if product == Product::Postgres {
        let key = |table: Table| Some(format!("ALTER TABLE {} ADD PRIMARY KEY ({})", table.name(), table.key()?));
        statements.extend(Table::ALL.into_iter().filter_map(key));
    }
    statements.extend(INDEXES.map(str::to_owned));
    if foreign_keys {
        statements.extend(FOREIGN_KEYS.iter().enumerate().map(|(number, (table, columns, parent, keys))| {
            format!(
                "ALTER TABLE {table} ADD CONSTRAINT tpcc_fk_{number} FOREIGN KEY ({columns}) REFERENCES {parent} ({keys})"
            )
        }));
    }
    statements
}

/// Updates statistics, and does what else an operator would do after loading.
pub(super) fn analyze(product: Product) -> Vec<String> {
    let each = |word: &str| Table::ALL.map(|table| format!("{word} {}", table.name())).to_vec();
    match product {
        Product::Postgres => each("VACUUM ANALYZE"),
        Product::Millrace => each("ANALYZE"),
        Product::MariaDb => each("ANALYZE TABLE"),
    }
}

/// Bulk-load statement for rows of [`super::population`].
pub(super) fn bulk(product: Product, table: Table) -> String {
    let table = table.name();
    match product {
        Product::Postgres | Product::Millrace => format!("COPY {table} FROM STDIN"),
        Product::MariaDb => format!("LOAD DATA LOCAL INFILE '{table}' INTO TABLE {table} CHARACTER SET utf8mb4"),
    }
}
