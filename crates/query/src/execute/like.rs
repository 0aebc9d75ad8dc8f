//! `CREATE TABLE (LIKE …)`: the columns of another table or view, and what else of it is asked for, as if the statement
//! had them.

use std::fmt::Write;

use engine::Catalog;
use model::limits::COLUMNS_PER_TABLE_MAX;
use model::{Deferral, Error, Identity, Result, RowSchema, SequenceOwner, SqlState, TableName, Type, user_types};
use parser::ast::{CreateTable, LikeClause, LikeOption, Statement, TableElement};
use parser::print::quoted_name;

use crate::binding::default_in;
use crate::session::Session;
use crate::session::context::StatementContext;
use crate::tables::{Named, find_table};

/// Limit for the columns and constraints that stand for LIKE.
const ELEMENTS_MAX: usize = 2 * COLUMNS_PER_TABLE_MAX;

/// Replaces LIKE, in the definition of table `target`, by the elements that it stands for. Also returns statements that create
/// the indexes.
///
/// # Errors
/// 42P01 for an unknown relation; 42809 for one without columns; 0A000 for a column of a type that tables cannot have.
pub(super) fn expanded(
    session: &mut Session,
    create: &CreateTable,
    target: &TableName,
) -> Result<Option<(CreateTable, Vec<Statement>)>> {
    if !create.elements.iter().any(|element| matches!(element, TableElement::Like(_))) {
        return Ok(None);
    }
    let context = session.context_of_newest();
    let (mut expanded, mut indexes) = (CreateTable { elements: Vec::new(), ..create.clone() }, Vec::new());
    if context.reads.snapshot.catalog().has_relation(target) {
        // An error, or skipped by IF NOT EXISTS.
        return Ok(Some((expanded, indexes)));
    }
    for element in &create.elements {
        let TableElement::Like(like) = element else {
            expanded.elements.push(element.clone());
            continue;
        };
        let source = Source::find(&context, like)?;
        let elements = source.elements(context.reads.snapshot.catalog());
        let text = format!("CREATE TABLE t ({})", elements.join(", "));
        let Some(Statement::CreateTable(table)) = parsed(&text)? else { return Err(Error::bug("no table definition")) };
        expanded.elements.extend(table.elements);
        if expanded.elements.len() > ELEMENTS_MAX {
            let text = format!("tables can have at most {COLUMNS_PER_TABLE_MAX} columns");
            return Err(Error::new(SqlState::TOO_MANY_COLUMNS, text));
        }
        for index in source.indexes(target) {
            indexes.extend(parsed(&index)?);
        }
    }
    Ok(Some((expanded, indexes)))
}

fn parsed(text: &str) -> Result<Option<Statement>> {
    Ok(parser::parse_all(text)?.pop().map(|one| one.statement))
}

/// A relation that LIKE names.
struct Source<'a> {
    like: &'a LikeClause,
    /// Names, types as SQL, and whether NULL is refused.
    columns: Vec<(String, String, bool)>,
    rows: Option<model::RowSchemaRef>,
}

impl<'a> Source<'a> {
    fn find(context: &StatementContext, like: &'a LikeClause) -> Result<Source<'a>> {
        let named = Named { snapshot: &context.reads.snapshot, settings: &context.settings };
        let of_rows = |schema: model::RowSchemaRef| {
            let columns = schema.shown().map(|(_, column)| (column.name.clone(), column.type_sql(), column.not_null));
            Source { like, columns: columns.collect(), rows: Some(schema) }
        };
        let no_type = |name: &str| Error::unsupported(format!("column \"{name}\" has a type that a table cannot have"));
        if let Some(table) = named.find(&like.table) {
            return Ok(of_rows(table.schema.clone()));
        }
        let columns = match named.view(&like.table) {
            Some(view) => {
                let column = |column: &model::ViewColumn| {
                    let ty = Type::from_oid(column.ty, column.typmod).ok_or_else(|| no_type(&column.name))?;
                    Ok((column.name.clone(), user_types::type_sql(ty.oid(), ty), false))
                };
                view.columns.iter().map(column).collect::<Result<_>>()?
            }
            None => {
                let table = find_table(context, &like.table)?;
                if !table.rules.is_empty() {
                    return Ok(of_rows(table.as_row_schema().into()));
                }
                let column = |column: &model::Column| {
                    let oid = ingest::copy::oid_of(column.ty);
                    let ty = Type::from_oid(oid, -1).ok_or_else(|| no_type(&column.name))?;
                    Ok((column.name.clone(), ty.to_string(), !column.nullable))
                };
                table.columns.iter().map(column).collect::<Result<_>>()?
            }
        };
        Ok(Source { like, columns, rows: None })
    }

    /// Whether the last option about a part includes it.
    fn includes(&self, part: LikeOption) -> bool {
        let about = |(_, option): &&(bool, LikeOption)| *option == part || *option == LikeOption::All;
        self.like.options.iter().rfind(about).is_some_and(|(is_included, _)| *is_included)
    }

    /// The elements as text: columns, then constraints.
    fn elements(&self, catalog: &Catalog) -> Vec<String> {
        let mut elements = Vec::with_capacity(self.columns.len());
        let shown = self.rows.as_ref().map(|rows| rows.shown().collect::<Vec<_>>());
        for (at, (name, ty, not_null)) in self.columns.iter().enumerate() {
            let mut text = format!("{} {ty}", quoted_name(name));
            let column = shown.as_ref().and_then(|shown| shown.get(at)).map(|(_, column)| column);
            if let Some(collation) = column.and_then(|column| column.collation.as_deref()) {
                // Writing to a string cannot fail.
                let _ = write!(text, " COLLATE {}", quoted_name(collation));
            }
            text.push_str(if *not_null { " NOT NULL" } else { "" });
            if let (Some(rows), Some((number, column))) = (&self.rows, shown.as_ref().and_then(|shown| shown.get(at))) {
                if let Some(generated) = column.generated.as_ref().filter(|_| self.includes(LikeOption::Generated)) {
                    // Writing to a string cannot fail.
                    let _ = write!(text, " GENERATED ALWAYS AS ({generated}) STORED");
                }
                match (&column.default, column.identity) {
                    (_, Some(identity)) if self.includes(LikeOption::Identity) => {
                        text.push_str(&identity_text(identity, rows, *number, catalog));
                    }
                    (Some(default), None) if self.includes(LikeOption::Defaults) => {
                        // Writing to a string cannot fail.
                        let _ = write!(text, " DEFAULT {}", default_in(&rows.name, default, catalog));
                    }
                    _ => {}
                }
            }
            elements.push(text);
        }
        let Some(rows) = &self.rows else { return elements };
        if self.includes(LikeOption::Constraints) {
            let check = |check: &model::RowCheck| {
                format!("CONSTRAINT {} CHECK ({})", quoted_name(&check.name), check.condition)
            };
            elements.extend(rows.checks.iter().map(check));
        }
        if self.includes(LikeOption::Indexes) {
            let keys = rows.indexes().filter(|(index, _)| index.constraint);
            elements.extend(keys.map(|(index, is_primary)| {
                let kind = if is_primary { "PRIMARY KEY" } else { "UNIQUE" };
                let (columns, include) = (column_list(rows, &index.columns), included(rows, index));
                format!("{kind}{} ({columns}){include}{}", nulls(index), deferral(index))
            }));
        }
        elements
    }

    /// Statements that create the indexes which belong to no constraint.
    fn indexes(&self, target: &TableName) -> Vec<String> {
        let Some(rows) = self.rows.as_ref().filter(|_| self.includes(LikeOption::Indexes)) else { return Vec::new() };
        let target = format!("{}.{}", quoted_name(&target.schema), quoted_name(&target.table));
        let plain = rows.secondary.iter().filter(|index| !index.constraint);
        let statement = |index: &model::RowIndex| {
            let unique = if index.unique { "UNIQUE " } else { "" };
            let method = index.method.name();
            let keys: Vec<String> = (0..index.columns.len()).map(|at| key(rows, index, at)).collect();
            let predicate = index.predicate.and_then(|at| rows.columns[at].generated.as_ref());
            let filter = predicate.map_or_else(String::new, |predicate| format!(" WHERE {predicate}"));
            let (keys, include) = (keys.join(", "), included(rows, index));
            let nulls = nulls(index);
            format!("CREATE {unique}INDEX ON {target} USING {method} ({keys}){include}{nulls}{filter}")
        };
        plain.map(statement).collect()
    }
}

/// A key of an index: a column or an expression, with its properties.
fn key(rows: &RowSchema, index: &model::RowIndex, at: usize) -> String {
    let column = &rows.columns[index.columns[at]];
    let mut text = match &column.generated {
        Some(expr) if column.is_hidden() => format!("({expr})"),
        _ => quoted_name(&column.name),
    };
    if let Some(properties) = index.keys.get(at) {
        let model::RowIndexKey { descending, nulls_first, operator_class, collation } = properties;
        text.extend(collation.iter().map(|name| format!(" COLLATE {}", quoted_name(name))));
        text.extend(operator_class.iter().map(|name| format!(" {}", quoted_name(name))));
        if index.method != model::IndexMethod::Gin {
            text.push_str(if *descending { " DESC" } else { "" });
            text.push_str(if *nulls_first { " NULLS FIRST" } else { " NULLS LAST" });
        }
    }
    text
}

fn nulls(index: &model::RowIndex) -> &'static str {
    if index.nulls_not_distinct { " NULLS NOT DISTINCT" } else { "" }
}

fn deferral(index: &model::RowIndex) -> &'static str {
    match index.deferral {
        Deferral::Never => "",
        Deferral::Immediate => " DEFERRABLE",
        Deferral::Deferred => " DEFERRABLE INITIALLY DEFERRED",
    }
}

/// INCLUDE of an index, if it has any columns.
fn included(rows: &RowSchema, index: &model::RowIndex) -> String {
    if index.include.is_empty() { String::new() } else { format!(" INCLUDE ({})", column_list(rows, &index.include)) }
}

fn column_list(rows: &RowSchema, columns: &[usize]) -> String {
    columns.iter().map(|at| quoted_name(&rows.columns[*at].name)).collect::<Vec<_>>().join(", ")
}

/// GENERATED … AS IDENTITY, with the options of the sequence.
fn identity_text(identity: Identity, rows: &RowSchema, column: usize, catalog: &Catalog) -> String {
    let kind = match identity {
        Identity::Always => "ALWAYS",
        Identity::ByDefault => "BY DEFAULT",
    };
    let owner = Some(SequenceOwner { table: rows.id, column });
    let options = catalog.sequences().find(|sequence| sequence.owner == owner).map(|sequence| {
        let cycle = if sequence.cycle { "CYCLE" } else { "NO CYCLE" };
        format!(
            " (INCREMENT {} MINVALUE {} MAXVALUE {} START {} CACHE {} {cycle})",
            sequence.increment, sequence.min, sequence.max, sequence.start, sequence.cache
        )
    });
    format!(" GENERATED {kind} AS IDENTITY{}", options.unwrap_or_default())
}
