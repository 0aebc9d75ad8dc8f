//! Catalog relations for bound queries: rows in the Arrow types that crate `relational` gives PostgreSQL's types.

use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::{Field, Schema, SchemaRef};
use async_trait::async_trait;
use binder::tree::{Table, TableColumn};
use bumpalo::Bump;
use catalog::{TypeId, builtin};
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::Result;
use datafusion::datasource::MemTable;
use datafusion::logical_expr::{Expr, TableType};
use datafusion::physical_plan::ExecutionPlan;
use model::{Array, Datum};
use relational::arrow::{Builder, arrow_type};
use scalar::Context;

use super::cells::{Cell, Column, Relation, Row};
use crate::functions::{StatementFacts, external};

/// A relation in one statement. Rows are made when it is scanned.
#[derive(Debug)]
pub(crate) struct SystemTable {
    relation: &'static Relation,
    facts: Arc<StatementFacts>,
    session: Arc<scalar::Session>,
    schema: SchemaRef,
}

/// The binder's description of a relation. The binder knows `tableoid`, a system column, of every table.
pub(crate) fn described(relation: &Relation) -> Table {
    let column = |column: &Column| TableColumn {
        name: column.name.into(),
        ty: TypeId(column.ty.oid),
        typmod: -1,
        ..TableColumn::default()
    };
    Table {
        oid: relation.oid,
        schema: relation.schema.into(),
        name: relation.name.into(),
        columns: relation.columns.iter().filter(|column| column.name != "tableoid").map(column).collect(),
        ..Table::default()
    }
}

impl SystemTable {
    pub(crate) fn new(
        relation: &'static Relation,
        facts: Arc<StatementFacts>,
        session: Arc<scalar::Session>,
    ) -> SystemTable {
        let zone: Arc<str> = session.zone_name.as_str().into();
        let field = |column: &Column| Field::new(column.name, arrow_type(TypeId(column.ty.oid), &zone), true);
        let schema = Arc::new(Schema::new(relation.columns.iter().map(field).collect::<Vec<_>>()));
        SystemTable { relation, facts, session, schema }
    }

    fn batch(&self, projection: &[usize]) -> model::Result<RecordBatch> {
        let rows = (self.relation.rows)(&self.facts);
        let zone: Arc<str> = self.session.zone_name.as_str().into();
        let mut arrays = Vec::with_capacity(projection.len());
        let mut arena = Bump::new();
        for at in projection {
            let column = &self.relation.columns[*at];
            let ctx = Context { arena: &arena, session: &self.session };
            let mut builder = Builder::new(TypeId(column.ty.oid), &zone, rows.len());
            for row in &rows {
                builder.push(&value(cell(row, column.name), column, &ctx)?)?;
            }
            arrays.push(builder.finish());
            arena.reset();
        }
        let schema = Arc::new(self.schema.project(projection).map_err(model::Error::bug)?);
        let options = arrow_array::RecordBatchOptions::new().with_row_count(Some(rows.len()));
        RecordBatch::try_new_with_options(schema, arrays, &options).map_err(model::Error::bug)
    }
}

fn cell<'r>(row: &'r Row, name: &str) -> Option<&'r Cell> {
    row.iter().find(|(own, _)| *own == name).map(|(_, cell)| cell)
}

/// The value of a cell. An omitted one is false, 0, the empty name or vector, and NULL for texts, arrays and times.
fn value<'a>(cell: Option<&Cell>, column: &Column, ctx: &Context<'a>) -> model::Result<Datum<'a>> {
    let ty = TypeId(column.ty.oid);
    let default = || match ty {
        TypeId::BOOL => "false",
        TypeId::NAME | TypeId::CHAR | TypeId::INT2VECTOR | TypeId::OIDVECTOR => "",
        _ => "0",
    };
    let read = |text: &str| scalar::input(text, ty, -1, ctx);
    match cell {
        Some(Cell::Null) => Ok(Datum::Null),
        None if has_default(ty) => read(default()),
        None => Ok(Datum::Null),
        Some(Cell::Bool(value)) => Ok(Datum::Bool(*value)),
        Some(Cell::Int(value)) if ty == TypeId::TIMESTAMPTZ => Ok(Datum::Timestamptz(value.div_euclid(1_000))),
        Some(Cell::Int(value)) => read(&value.to_string()),
        Some(Cell::Float(value)) => read(&value.to_string()),
        Some(Cell::Text(text)) => match ty {
            TypeId::TEXT | TypeId::NAME | TypeId::VARCHAR | TypeId::CHAR | TypeId::PG_NODE_TREE => Ok(ctx.text(text)),
            _ => read(text),
        },
        Some(Cell::Ints(values)) => {
            let numbers: Vec<String> = values.iter().map(ToString::to_string).collect();
            let is_vector = matches!(ty, TypeId::INT2VECTOR | TypeId::OIDVECTOR);
            read(&if is_vector { numbers.join(" ") } else { format!("{{{}}}", numbers.join(",")) })
        }
        Some(Cell::Texts(values)) => {
            let element = builtin().element_of(ty).unwrap_or(TypeId::TEXT);
            let items = values.iter().map(|text| ctx.text(text)).collect();
            Ok(Datum::Array(Arc::new(Array::of(element.0, items))))
        }
    }
}

/// Types whose omitted cells are not NULL.
fn has_default(ty: TypeId) -> bool {
    matches!(
        ty,
        TypeId::BOOL
            | TypeId::INT2
            | TypeId::INT4
            | TypeId::INT8
            | TypeId::OID
            | TypeId::FLOAT4
            | TypeId::FLOAT8
            | TypeId::NAME
            | TypeId::CHAR
            | TypeId::INT2VECTOR
            | TypeId::OIDVECTOR
            | TypeId::REGPROC
            | TypeId::REGCLASS
            | TypeId::REGTYPE
            | TypeId(28)
    )
}

#[async_trait]
impl TableProvider for SystemTable {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn table_type(&self) -> TableType {
        if self.relation.view { TableType::View } else { TableType::Base }
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let all: Vec<usize> = (0..self.relation.columns.len()).collect();
        let batch = self.batch(projection.unwrap_or(&all)).map_err(external)?;
        MemTable::try_new(batch.schema(), vec![vec![batch]])?.scan(state, None, filters, limit).await
    }
}
