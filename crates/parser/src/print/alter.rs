//! ALTER TABLE, and what is done to objects of any kind.

use super::Printer;
use crate::ast::{
    AlterTable, AlterTableAction, ColumnRef, DetachMode, DropBehavior, Firing, FunctionParameter, FunctionSignature,
    ObjectKind, ObjectName, OperatorSignature, ParameterMode, Rename, RenamePart, ReplicaIdentity, SequenceOption,
    TriggerName, TypeName,
};

/// The words of a kind.
pub(super) fn kind_words(kind: ObjectKind) -> &'static str {
    use ObjectKind as O;
    match kind {
        O::AccessMethod => "ACCESS METHOD",
        O::Aggregate => "AGGREGATE",
        O::Cast => "CAST",
        O::Collation => "COLLATION",
        O::Column => "COLUMN",
        O::Conversion => "CONVERSION",
        O::Database => "DATABASE",
        O::Domain => "DOMAIN",
        O::DomainConstraint | O::TableConstraint => "CONSTRAINT",
        O::EventTrigger => "EVENT TRIGGER",
        O::Extension => "EXTENSION",
        O::ForeignDataWrapper => "FOREIGN DATA WRAPPER",
        O::ForeignTable => "FOREIGN TABLE",
        O::Function => "FUNCTION",
        O::Index => "INDEX",
        O::Language => "LANGUAGE",
        O::LargeObject => "LARGE OBJECT",
        O::MaterializedView => "MATERIALIZED VIEW",
        O::Operator => "OPERATOR",
        O::OperatorClass => "OPERATOR CLASS",
        O::OperatorFamily => "OPERATOR FAMILY",
        O::Policy => "POLICY",
        O::Procedure => "PROCEDURE",
        O::Publication => "PUBLICATION",
        O::Role => "ROLE",
        O::Routine => "ROUTINE",
        O::Rule => "RULE",
        O::Schema => "SCHEMA",
        O::Sequence => "SEQUENCE",
        O::Server => "SERVER",
        O::Statistics => "STATISTICS",
        O::Subscription => "SUBSCRIPTION",
        O::Table => "TABLE",
        O::Tablespace => "TABLESPACE",
        O::TextSearchConfiguration => "TEXT SEARCH CONFIGURATION",
        O::TextSearchDictionary => "TEXT SEARCH DICTIONARY",
        O::TextSearchParser => "TEXT SEARCH PARSER",
        O::TextSearchTemplate => "TEXT SEARCH TEMPLATE",
        O::Transform => "TRANSFORM",
        O::Trigger => "TRIGGER",
        O::Type => "TYPE",
        O::View => "VIEW",
    }
}

impl Printer<'_> {
    pub(super) fn behavior(&mut self, behavior: DropBehavior) {
        self.put_if(behavior == DropBehavior::Cascade, " CASCADE");
    }

    pub(super) fn kind(&mut self, kind: ObjectKind) {
        self.put(kind_words(kind));
        self.put(" ");
    }

    pub(super) fn object(&mut self, kind: ObjectKind, object: &ObjectName) {
        match object {
            ObjectName::Name(name) => self.name(name),
            ObjectName::Function(signature) => self.signature(signature),
            ObjectName::Operator(signature) => self.operator_signature(signature),
            ObjectName::Type(ty) => self.type_name(ty),
            ObjectName::On(name, of) => {
                self.ident(name);
                self.put(if kind == ObjectKind::DomainConstraint { " ON DOMAIN " } else { " ON " });
                self.name(of);
            }
            ObjectName::Cast(from, to) => {
                self.put("(");
                self.type_name(from);
                self.put(" AS ");
                self.type_name(to);
                self.put(")");
            }
            ObjectName::Using(name, method) => {
                self.name(name);
                self.put(" USING ");
                self.ident(method);
            }
            ObjectName::Transform(ty, language) => {
                self.put("FOR ");
                self.type_name(ty);
                self.put(" LANGUAGE ");
                self.ident(language);
            }
            ObjectName::LargeObject(number) => self.numeric(number),
        }
    }

    pub(super) fn signature(&mut self, signature: &FunctionSignature) {
        self.name(&signature.name);
        let Some(args) = &signature.args else { return };
        self.put("(");
        self.put_if(signature.star, "*");
        match signature.direct_args {
            None => self.list(args, Self::parameter),
            Some(direct) => {
                self.list(&args[..direct], Self::parameter);
                self.put_if(direct > 0, " ");
                self.put("ORDER BY ");
                self.list(&args[direct..], Self::parameter);
            }
        }
        self.put(")");
    }

    pub(super) fn parameter(&mut self, parameter: &FunctionParameter) {
        self.put(match parameter.mode {
            ParameterMode::Default | ParameterMode::Table => "",
            ParameterMode::In => "IN ",
            ParameterMode::Out => "OUT ",
            ParameterMode::InOut => "INOUT ",
            ParameterMode::Variadic => "VARIADIC ",
        });
        if let Some(name) = &parameter.name {
            self.ident(name);
            self.put(" ");
        }
        self.type_name(&parameter.ty);
        self.opt(" DEFAULT ", parameter.default.as_ref(), Self::expr);
    }

    pub(super) fn operator_signature(&mut self, signature: &OperatorSignature) {
        self.plain_operator(&signature.name);
        self.put(" (");
        self.type_or_none(signature.left.as_ref());
        self.put(", ");
        self.type_or_none(signature.right.as_ref());
        self.put(")");
    }

    fn type_or_none(&mut self, ty: Option<&TypeName>) {
        match ty {
            Some(ty) => self.type_name(ty),
            None => self.put("NONE"),
        }
    }

    pub(super) fn rename(&mut self, rename: &Rename) {
        self.put("ALTER ");
        self.kind(rename.kind);
        self.put_if(rename.if_exists, "IF EXISTS ");
        self.put_if(rename.only, "ONLY ");
        self.object(rename.kind, &rename.object);
        self.put(" RENAME");
        if let Some(part) = &rename.part {
            let (words, name) = match part {
                RenamePart::Column(name) => (" COLUMN ", name),
                RenamePart::Attribute(name) => (" ATTRIBUTE ", name),
                RenamePart::Constraint(name) => (" CONSTRAINT ", name),
            };
            self.put(words);
            self.ident(name);
        }
        self.put(" TO ");
        self.ident(&rename.to);
        self.behavior(rename.behavior);
    }

    pub(super) fn alter_table(&mut self, alter: &AlterTable) {
        self.put("ALTER ");
        self.kind(alter.kind);
        self.put_if(alter.if_exists, "IF EXISTS ");
        self.put_if(alter.only, "ONLY ");
        self.name(&alter.name);
        self.put(" ");
        self.list(&alter.actions, Self::action);
    }

    fn if_exists(&mut self, is: bool) {
        self.put_if(is, "IF EXISTS ");
    }

    /// Words and a name.
    fn named(&mut self, words: &str, name: &str) {
        self.put(words);
        self.ident(name);
    }

    fn column_action(&mut self, column: &str, words: &str) {
        self.named("ALTER COLUMN ", column);
        self.put(words);
    }

    #[expect(clippy::too_many_lines, reason = "one line or two for each of the actions")]
    pub(super) fn action(&mut self, action: &AlterTableAction) {
        use AlterTableAction as A;
        match action {
            A::AddColumn { column, if_not_exists } => {
                self.put("ADD COLUMN ");
                self.put_if(*if_not_exists, "IF NOT EXISTS ");
                self.column_def(column);
            }
            A::DropColumn { name, if_exists, behavior } => {
                self.put("DROP COLUMN ");
                self.if_exists(*if_exists);
                self.ident(name);
                self.behavior(*behavior);
            }
            A::SetDefault { column, expr } => {
                self.column_action(column, " SET DEFAULT ");
                self.expr(expr);
            }
            A::DropDefault(column) => self.column_action(column, " DROP DEFAULT"),
            A::SetNotNull(column) => self.column_action(column, " SET NOT NULL"),
            A::DropNotNull(column) => self.column_action(column, " DROP NOT NULL"),
            A::DropExpression { column, if_exists } => {
                self.column_action(column, " DROP EXPRESSION");
                self.put_if(*if_exists, " IF EXISTS");
            }
            A::SetStatistics { column, value } => {
                self.put("ALTER COLUMN ");
                match column {
                    ColumnRef::Name(name) => self.ident(name),
                    ColumnRef::Number(number) => self.number(number),
                }
                self.put(" SET STATISTICS ");
                self.number(value);
            }
            A::SetColumnOptions { column, options } => {
                self.column_action(column, " SET ");
                self.parens(options, Self::rel_option);
            }
            A::ResetColumnOptions { column, options } => {
                self.column_action(column, " RESET ");
                self.parens(options, Self::rel_option);
            }
            A::SetStorage { column, storage } => {
                self.column_action(column, " SET STORAGE ");
                self.ident(storage);
            }
            A::SetCompression { column, method } => {
                self.column_action(column, " SET COMPRESSION ");
                self.ident_or_default(method);
            }
            A::AddIdentity { column, always, options } => {
                self.column_action(column, " ADD GENERATED ");
                self.put(if *always { "ALWAYS AS IDENTITY" } else { "BY DEFAULT AS IDENTITY" });
                self.identity_options(options);
            }
            A::SetIdentity { column, options } => {
                self.named("ALTER COLUMN ", column);
                for option in options {
                    self.put_if(!matches!(option, SequenceOption::Restart(_)), " SET");
                    self.put(" ");
                    self.sequence_option(option);
                }
            }
            A::DropIdentity { column, if_exists } => {
                self.column_action(column, " DROP IDENTITY");
                self.put_if(*if_exists, " IF EXISTS");
            }
            A::AlterColumnType { column, ty, collation, using, .. } => {
                self.column_action(column, " TYPE ");
                self.type_name(ty);
                self.opt(" COLLATE ", collation.as_ref(), Self::name);
                self.opt(" USING ", using.as_ref(), Self::expr);
            }
            A::AlterColumnGenericOptions { column, options } => {
                self.named("ALTER COLUMN ", column);
                self.generic_options(options);
            }
            A::AddConstraint(constraint) => {
                self.put("ADD ");
                self.table_constraint(constraint);
            }
            A::AlterConstraint { name, attributes } => {
                self.named("ALTER CONSTRAINT ", name);
                self.constraint_attributes(*attributes);
            }
            A::ValidateConstraint(name) => self.named("VALIDATE CONSTRAINT ", name),
            A::DropConstraint { name, if_exists, behavior } => {
                self.put("DROP CONSTRAINT ");
                self.if_exists(*if_exists);
                self.ident(name);
                self.behavior(*behavior);
            }
            A::SetWithoutOids => self.put("SET WITHOUT OIDS"),
            A::ClusterOn(name) => self.named("CLUSTER ON ", name),
            A::SetWithoutCluster => self.put("SET WITHOUT CLUSTER"),
            A::SetLogged => self.put("SET LOGGED"),
            A::SetUnlogged => self.put("SET UNLOGGED"),
            A::EnableTrigger { name, firing } => {
                self.firing(*firing);
                self.put("TRIGGER ");
                self.trigger_name(name);
            }
            A::DisableTrigger(name) => {
                self.put("DISABLE TRIGGER ");
                self.trigger_name(name);
            }
            A::EnableRule { name, firing } => {
                self.firing(*firing);
                self.named("RULE ", name);
            }
            A::DisableRule(name) => self.named("DISABLE RULE ", name),
            A::Inherit(name) => self.opt("INHERIT ", Some(name), Self::name),
            A::NoInherit(name) => self.opt("NO INHERIT ", Some(name), Self::name),
            A::Of(name) => self.opt("OF ", Some(name), Self::name),
            A::NotOf => self.put("NOT OF"),
            A::OwnerTo(role) => self.opt("OWNER TO ", Some(role), Self::role),
            A::SetAccessMethod(name) => self.named("SET ACCESS METHOD ", name),
            A::SetTablespace(name) => self.named("SET TABLESPACE ", name),
            A::SetOptions(options) => self.opt_parens("SET ", options, Self::rel_option),
            A::ResetOptions(options) => self.opt_parens("RESET ", options, Self::rel_option),
            A::ReplicaIdentity(identity) => {
                self.put("REPLICA IDENTITY ");
                match identity {
                    ReplicaIdentity::Nothing => self.put("NOTHING"),
                    ReplicaIdentity::Full => self.put("FULL"),
                    ReplicaIdentity::Default => self.put("DEFAULT"),
                    ReplicaIdentity::Index(name) => self.named("USING INDEX ", name),
                }
            }
            A::EnableRowSecurity => self.put("ENABLE ROW LEVEL SECURITY"),
            A::DisableRowSecurity => self.put("DISABLE ROW LEVEL SECURITY"),
            A::ForceRowSecurity => self.put("FORCE ROW LEVEL SECURITY"),
            A::NoForceRowSecurity => self.put("NO FORCE ROW LEVEL SECURITY"),
            A::GenericOptions(options) => self.generic_options(options),
            A::AttachPartition { name, bound } => {
                self.put("ATTACH PARTITION ");
                self.name(name);
                self.opt(" ", bound.as_ref(), Self::partition_bound);
            }
            A::DetachPartition { name, mode } => {
                self.put("DETACH PARTITION ");
                self.name(name);
                self.put(match mode {
                    DetachMode::Plain => "",
                    DetachMode::Concurrently => " CONCURRENTLY",
                    DetachMode::Finalize => " FINALIZE",
                });
            }
        }
    }

    fn firing(&mut self, firing: Firing) {
        self.put(match firing {
            Firing::Origin => "ENABLE ",
            Firing::Always => "ENABLE ALWAYS ",
            Firing::Replica => "ENABLE REPLICA ",
        });
    }

    fn trigger_name(&mut self, name: &TriggerName) {
        match name {
            TriggerName::Name(name) => self.ident(name),
            TriggerName::All => self.put("ALL"),
            TriggerName::User => self.put("USER"),
        }
    }
}
