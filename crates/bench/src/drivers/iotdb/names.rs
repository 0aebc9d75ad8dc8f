//! Names of tables, devices and fields in both dialects, and their quoting.

use std::collections::HashMap;

use crate::error::{Error, Result};
use crate::schema::Schema;

/// Names of a schema in one dialect, built once.
#[derive(Debug)]
pub(crate) struct Names {
    /// Database of each table. Tree: `root.test.g_0`; table: `test_g_0`.
    pub(crate) databases: Vec<String>,
    /// Prefix of the device paths of each table; in the table dialect, its name.
    pub(crate) targets: Vec<String>,
    /// Path of each device; in the table dialect, its name.
    pub(crate) devices: Vec<String>,
    /// Device numbers, by table and name (or unquoted path).
    numbers: Vec<HashMap<String, u32>>,
    /// Name of each field by table, quoted if necessary.
    pub(crate) fields: Vec<Vec<String>>,
}

impl Names {
    /// Paths `root.DATABASE.GROUP.[TABLE.][TAG.…]DEVICE`, as in IoT-benchmark. The table is
    /// included only if several tables share a group, which IoT-benchmark does not have.
    pub(crate) fn of_tree(schema: &Schema) -> Names {
        let database = |group: &str| format!("root.{}.{}", node(&schema.database), node(group));
        let shared = |group: &str| schema.tables.iter().filter(|table| table.group == group).count() > 1;
        let target = |table: &crate::schema::Table| {
            let own = if shared(&table.group) { format!(".{}", node(&table.name)) } else { String::new() };
            database(&table.group) + &own
        };
        let targets: Vec<String> = schema.tables.iter().map(target).collect();
        let path = |device: &crate::schema::Device| {
            let mut path = targets[device.table as usize].clone();
            // The first tag is the device, which is the last node.
            for tag in device.tags[1..].iter().chain(&device.tags[..1]) {
                path.push('.');
                path.push_str(&node(tag));
            }
            path
        };
        let devices = schema.devices.iter().map(path).collect();
        let databases = schema.tables.iter().map(|table| database(&table.group)).collect();
        Names { databases, targets, devices, numbers: Vec::new(), fields: fields(schema, node) }
            .numbered(schema, unquoted)
    }

    /// Databases `DATABASE_GROUP`.
    ///
    /// # Errors
    /// A table name that write requests cannot refer to: the server parses it as a path, but keeps
    /// the quotes.
    pub(crate) fn of_tables(schema: &Schema) -> Result<Names> {
        if let Some(table) = schema.tables.iter().find(|table| !is_plain(&table.name)) {
            return Err(Error::setup(format!(
                "IoTDB's table dialect: table {:?} cannot be written; expected a letter, then letters, digits and _",
                table.name
            )));
        }
        Ok(Names {
            databases: schema.tables.iter().map(|table| format!("{}_{}", schema.database, table.group)).collect(),
            targets: schema.tables.iter().map(|table| table.name.clone()).collect(),
            devices: schema.devices.iter().map(|device| device.tags[0].clone()).collect(),
            numbers: Vec::new(),
            fields: fields(schema, identifier),
        }
        .numbered(schema, str::to_owned))
    }

    fn numbered(mut self, schema: &Schema, key: fn(&str) -> String) -> Names {
        self.numbers = vec![HashMap::new(); schema.tables.len()];
        for (number, device) in schema.devices.iter().enumerate() {
            self.numbers[device.table as usize].insert(key(&self.devices[number]), number as u32);
        }
        self
    }

    /// Number of a device of `table` by its name, or by its unquoted path in the tree dialect.
    pub(crate) fn device(&self, table: u32, name: &str) -> Option<u32> {
        self.numbers[table as usize].get(name).copied()
    }

    /// The devices of a table in ascending order.
    pub(crate) fn devices_of(&self, table: u32) -> Vec<u32> {
        let mut devices: Vec<u32> = self.numbers[table as usize].values().copied().collect();
        devices.sort_unstable();
        devices
    }
}

fn fields(schema: &Schema, quote: fn(&str) -> String) -> Vec<Vec<String>> {
    schema.tables.iter().map(|table| table.fields.iter().map(|field| quote(&field.name)).collect()).collect()
}

fn is_plain(name: &str) -> bool {
    let mut letters = name.bytes();
    letters.next().is_some_and(|first| first.is_ascii_alphabetic() || first == b'_')
        && letters.all(|letter| letter.is_ascii_alphanumeric() || letter == b'_')
}

/// Quotes a node of a path if necessary.
pub(crate) fn node(name: &str) -> String {
    let reserved = ["root", "time", "timestamp"].iter().any(|word| name.eq_ignore_ascii_case(word));
    if is_plain(name) && !reserved { name.to_owned() } else { format!("`{}`", name.replace('`', "``")) }
}

/// Removes the quotes of a path or an expression, because the server omits unnecessary ones in its
/// answers. Dots between nodes become U+0001, which distinguishes them from dots in nodes.
pub(crate) fn unquoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let (mut quoted, mut letters) = (false, text.chars().peekable());
    while let Some(letter) = letters.next() {
        match letter {
            '`' if quoted && letters.next_if_eq(&'`').is_some() => out.push('`'),
            '`' => quoted = !quoted,
            '.' if !quoted => out.push('\u{1}'),
            _ => out.push(letter),
        }
    }
    out
}

/// Quotes a name in the table dialect if it might be an SQL keyword; names with a digit are not.
pub(crate) fn identifier(name: &str) -> String {
    let no_word = name == "device" || name.bytes().any(|letter| letter.is_ascii_digit());
    if is_plain(name) && no_word { name.to_owned() } else { format!("\"{}\"", name.replace('"', "\"\"")) }
}

/// Quotes a text in the table dialect.
pub(crate) fn literal(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quoted_nodes_are_unquoted_to_their_names() {
        let path = |name: &str| format!("root.{}.s", node(name));
        for name in ["d_0", "a.b", "`", "a``b", "1", "eu-west-1", "(x)"] {
            assert_eq!(unquoted(&path(name)), format!("root\u{1}{name}\u{1}s"));
        }
        assert_eq!(unquoted("max_value(root.`g-0`.s)"), "max_value(root\u{1}g-0\u{1}s)");
        assert_eq!(node("Root"), "`Root`");
        assert_eq!((identifier("order"), identifier("s_1")), ("\"order\"".to_owned(), "s_1".to_owned()));
        assert_eq!((identifier("a\"b"), literal("it's")), ("\"a\"\"b\"".to_owned(), "'it''s'".to_owned()));
    }
}
