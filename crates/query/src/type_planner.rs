//! SQL type names that DataFusion does not support, or maps to other types than PostgreSQL.

use std::sync::Arc;

use arrow_schema::{DataType as Arrow, Field, FieldRef};
use datafusion::error::Result;
use datafusion::logical_expr::planner::TypePlanner;
use datafusion::sql::sqlparser::ast::{self, DataType as Sql};
use pg::types::oid;

use crate::types::{NUMERIC_SCALE, OID_KEY, timestamptz};

/// Resolves PostgreSQL's type names for DataFusion.
#[derive(Debug)]
pub(crate) struct Types {
    /// The session's time zone.
    pub(crate) zone: String,
}

impl TypePlanner for Types {
    fn plan_type_field(&self, ty: &Sql) -> Result<Option<FieldRef>> {
        let with_oid = |arrow: Arrow, oid: u32| {
            let field = Field::new("", arrow, true).with_metadata([(OID_KEY.to_owned(), oid.to_string())].into());
            Some(Arc::new(field))
        };
        let plain = |arrow: Arrow| Some(Arc::new(Field::new("", arrow, true)));
        Ok(match ty {
            Sql::Timestamp(_, ast::TimezoneInfo::Tz | ast::TimezoneInfo::WithTimeZone) => {
                plain(timestamptz(&self.zone))
            }
            Sql::Numeric(ast::ExactNumberInfo::None) | Sql::Decimal(ast::ExactNumberInfo::None) => {
                plain(Arrow::Decimal128(38, NUMERIC_SCALE))
            }
            Sql::JSON => with_oid(Arrow::Utf8, oid::JSON),
            Sql::JSONB => with_oid(Arrow::Utf8, oid::JSONB),
            Sql::Uuid => with_oid(Arrow::Utf8, oid::UUID),
            Sql::Character(_) | Sql::Char(_) => plain(Arrow::Utf8),
            Sql::Bytea => plain(Arrow::Binary),
            Sql::Regclass => with_oid(Arrow::Int64, oid::REGCLASS),
            Sql::Custom(name, _) => {
                match name.0.last().and_then(|part| part.as_ident()).map(|part| part.value.to_lowercase()).as_deref() {
                    Some("name") => with_oid(Arrow::Utf8, oid::NAME),
                    Some("oid") => with_oid(Arrow::Int64, oid::OID),
                    Some("int2") => plain(Arrow::Int16),
                    Some("int4") => plain(Arrow::Int32),
                    Some("int8") => plain(Arrow::Int64),
                    Some("float4") => plain(Arrow::Float32),
                    Some("float8") => plain(Arrow::Float64),
                    Some("bool") => plain(Arrow::Boolean),
                    Some("text" | "varchar" | "bpchar") => plain(Arrow::Utf8),
                    Some("timestamptz") => plain(timestamptz(&self.zone)),
                    Some("numeric") => plain(Arrow::Decimal128(38, NUMERIC_SCALE)),
                    Some("bytea") => plain(Arrow::Binary),
                    _ => None,
                }
            }
            _ => None,
        })
    }
}
