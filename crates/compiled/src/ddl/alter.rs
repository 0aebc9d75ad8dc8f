//! ALTER TABLE.

use model::{Error, Result, RowIndex, RowSchemaRef, SequenceRef, SqlState, TableName, TriggerFiring, ViewSpec};
use parser::ast::{
    self, AlterTableAction as A, ColumnConstraintKind, ColumnRef, DropBehavior, Expr, Firing, Ident, Name, RelOption,
    RenamePart, ReplicaIdentity, TypeName,
};

use super::column::{check_collation, check_name};
use super::draft::Draft;
use super::inheritance::Following;
use super::{
    Catalog, Change, Definition, Notice, constraints, create, expressions, inheritance, is_taken, names, partition,
    sequence, types, view,
};
use crate::statement::Session;

const TAG: &str = "ALTER TABLE";
const VIEW_TAG: &str = "ALTER MATERIALIZED VIEW";
/// The text of a notice.
pub(super) const NO_OWNERS: &str = "OWNER TO is ignored: every user has all privileges";

/// Execution order of the actions of one statement. Source: PostgreSQL's `AlterTablePass`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Pass {
    Drop,
    Type,
    AddColumn,
    Column,
    Constraint,
    Other,
}

/// Plans an ALTER TABLE; `None` for a table of the other store.
pub(super) fn alter(
    alter: &ast::AlterTable,
    catalog: &dyn Catalog,
    session: Session<'_>,
) -> Result<Option<Definition>> {
    let table = match altered(&alter.name, alter.if_exists, catalog)? {
        Altered::Table(table) => of_kind(table, alter.kind, catalog)?,
        Altered::Missing(definition) => return Ok(Some(definition)),
        Altered::OfOtherStore => return Ok(None),
        Altered::OfOtherKind(name) => return of_other_kind(alter, &name).map(Some),
    };
    if catalog.materialized_view(table.id).is_some() {
        return of_materialized_view(alter, &table.name.table).map(Some);
    }
    match alter.actions.as_slice() {
        [A::AttachPartition { name, bound: Some(bound) }] => {
            return partition::attach(&table, name, bound, catalog, session).map(Some);
        }
        [A::DetachPartition { name, mode }] => {
            return partition::detach(&table, name, *mode, catalog, session).map(Some);
        }
        _ => {}
    }
    let mut following = Following { only: alter.only, ..Following::default() };
    let mut draft = Draft::of(&table, catalog, session);
    let mut actions: Vec<&A> = alter.actions.iter().collect();
    actions.sort_by_key(|action| pass(action));
    let mut new_constraints = Vec::new();
    for action in actions {
        check_inherited(&draft, action, alter.only)?;
        note_following(action, &mut following);
        match action {
            A::AddColumn { column, if_not_exists } => {
                let name = &column.name;
                if *if_not_exists && draft.next.column(name).is_some() {
                    let relation = &draft.next.name.table;
                    let text = format!("column \"{name}\" of relation \"{relation}\" already exists, skipping");
                    draft.notices.push(Notice::new(text));
                    continue;
                }
                draft.add_column(column, &mut new_constraints)?;
            }
            A::AddConstraint(constraint) => new_constraints.push(draft.new_constraint(constraint)?),
            action => act(&mut draft, action, alter.only)?,
        }
    }
    draft.add_all(new_constraints)?;
    inheritance::finish(draft, TAG, &following).map(Some)
}

/// Plans an ALTER TABLE … RENAME; `None` for a table of the other store.
pub(super) fn rename(
    written: &Name,
    rename: &ast::Rename,
    catalog: &dyn Catalog,
    session: Session<'_>,
) -> Result<Option<Definition>> {
    let table = match altered(written, rename.if_exists, catalog)? {
        Altered::Table(table) => of_kind(table, rename.kind, catalog)?,
        Altered::Missing(definition) => return Ok(Some(definition)),
        Altered::OfOtherStore => return Ok(None),
        Altered::OfOtherKind(name) => return Err(other_kind(&name)),
    };
    let mut draft = Draft::of(&table, catalog, session);
    let view = catalog.materialized_view(table.id);
    let mut following = Following { only: rename.only, ..Following::default() };
    match &rename.part {
        None => {
            draft.check_relation(&rename.to)?;
            draft.next.name.table = rename.to.to_string();
        }
        Some(RenamePart::Column(old) | RenamePart::Attribute(old)) if let Some(view) = &view => {
            let mut view = view::next_version(view);
            view::rename_column(&mut view, old, &rename.to)?;
            rename_column(&mut draft, old, &rename.to)?;
            draft.after.push(Change::AlterView(view));
            return draft.finish(VIEW_TAG).map(Some);
        }
        Some(RenamePart::Column(old) | RenamePart::Attribute(old)) => {
            if let Some(at) = draft.next.column(old)
                && draft.next.lineage.column(at).is_some()
            {
                let text = format!("cannot rename inherited column \"{old}\"");
                return Err(Error::new(SqlState::INVALID_TABLE_DEFINITION, text));
            }
            rename_column(&mut draft, old, &rename.to)?;
        }
        Some(RenamePart::Constraint(old)) => {
            following.renamed = renamed_check(&draft, old, rename)?;
            rename_constraint(&mut draft, old, &rename.to)?;
        }
    }
    let name = draft.next.name.clone();
    let tag = if view.is_some() { VIEW_TAG } else { TAG };
    draft.after.extend(view.map(|view| Change::AlterView(ViewSpec { name, ..view::next_version(&view) })));
    inheritance::finish(draft, tag, &following).map(Some)
}

/// Old and new names of a CHECK constraint that children inherit; `None` for other constraints.
fn renamed_check(draft: &Draft<'_>, old: &str, rename: &ast::Rename) -> Result<Option<[String; 2]>> {
    let wrong = |text: String| Err(Error::new(SqlState::INVALID_TABLE_DEFINITION, text));
    let lineage = &draft.next.lineage;
    if lineage.check(old).is_some_and(|entry| entry.parents > 0) {
        return wrong(format!("cannot rename inherited constraint \"{old}\""));
    }
    let is_check = draft.next.checks.iter().any(|check| check.name == *old);
    if !is_check || lineage.check(old).is_some_and(|entry| entry.no_inherit) {
        return Ok(None);
    }
    if rename.only && !lineage.children.is_empty() {
        return wrong(format!("inherited constraint \"{old}\" must be renamed in child tables too"));
    }
    Ok(Some([old.to_owned(), rename.to.to_string()]))
}

/// ALTER MATERIALIZED VIEW, or ALTER TABLE of one.
fn of_materialized_view(alter: &ast::AlterTable, name: &str) -> Result<Definition> {
    let is_harmless = |action: &&A| matches!(action, A::OwnerTo(_) | A::SetOptions(_) | A::ResetOptions(_));
    match alter.actions.iter().find(|action| !is_harmless(action)) {
        None => Ok(Definition { notices: vec![Notice::new(NO_OWNERS)], ..Definition::new(VIEW_TAG) }),
        Some(action) => {
            let text = format!("ALTER action {} cannot be performed on relation \"{name}\"", view::words(action));
            Err(Error::new(SqlState::WRONG_OBJECT_TYPE, text)
                .with_detail("This operation is not supported for materialized views."))
        }
    }
}

/// Plans an ALTER TABLE … SET SCHEMA; `None` for a table of the other store. The table's indexes and sequences move with it.
pub(super) fn set_schema(
    alter: &ast::AlterSchema,
    written: &Name,
    catalog: &dyn Catalog,
    session: Session<'_>,
) -> Result<Option<Definition>> {
    let table = match altered(written, alter.if_exists, catalog)? {
        Altered::Table(table) => of_kind(table, alter.kind, catalog)?,
        Altered::Missing(definition) => return Ok(Some(definition)),
        Altered::OfOtherStore => return Ok(None),
        Altered::OfOtherKind(name) => return Err(other_kind(&name)),
    };
    let schema = alter.schema.to_string();
    if schema == table.name.schema {
        return Ok(Some(Definition::new(TAG)));
    }
    names::check_move(&table.name, &schema, catalog)?;
    let mut draft = Draft::of(&table, catalog, session);
    draft.next.name.schema.clone_from(&schema);
    let indexes = super::indexes(&table).map(|index| &index.name);
    for name in std::iter::once(&table.name.table).chain(indexes) {
        names::check_free(&TableName { schema: schema.clone(), table: name.clone() }, catalog)?;
    }
    let is_own = |sequence: &SequenceRef| sequence.owner.is_some_and(|owner| owner.table == table.id);
    let own: Vec<SequenceRef> = catalog.sequences().into_iter().filter(is_own).collect();
    let moved = own.iter().map(|sequence| sequence::moved(sequence, &schema, catalog)).collect::<Result<Vec<_>>>()?;
    let names: Vec<(&TableName, &TableName)> =
        own.iter().zip(&moved).map(|(old, new)| (&old.name, &new.name)).collect();
    for default in draft.next.columns.iter_mut().filter_map(|column| column.default.as_mut()) {
        if let Some(qualified) = expressions::with_schemas(default, &table.name, catalog)? {
            *default = qualified;
        }
        for (old, new) in &names {
            if let Some(renamed) = expressions::renamed_sequence(default, &table.name, [*old, *new], catalog)? {
                *default = renamed;
            }
        }
    }
    draft.after.extend(sequence::renamed_defaults(&names, Some(table.id), catalog)?);
    draft.after.extend(moved.into_iter().map(|next| Change::AlterSequence { next, restart: None }));
    let name = draft.next.name.clone();
    let view = catalog.materialized_view(table.id);
    let tag = if view.is_some() { VIEW_TAG } else { TAG };
    draft.after.extend(view.map(|view| Change::AlterView(ViewSpec { name, ..view::next_version(&view) })));
    draft.finish(tag).map(Some)
}

/// The object that the name in an ALTER TABLE refers to.
enum Altered {
    Table(RowSchemaRef),
    /// Nothing; with IF EXISTS this is no error.
    Missing(Definition),
    OfOtherStore,
    /// An index or a sequence of this name.
    OfOtherKind(String),
}

fn altered(written: &Name, if_exists: bool, catalog: &dyn Catalog) -> Result<Altered> {
    let name = names::relation(written, catalog)?;
    if let Some(table) = catalog.table(&name) {
        return Ok(Altered::Table(table));
    }
    if catalog.is_other(&name) {
        return Ok(Altered::OfOtherStore);
    }
    if is_taken(catalog, &name) {
        return Ok(Altered::OfOtherKind(name.table));
    }
    super::missing_relation(TAG, if_exists, &name, written).map(Altered::Missing)
}

/// Refuses an ordinary table in ALTER MATERIALIZED VIEW.
fn of_kind(table: RowSchemaRef, kind: ast::ObjectKind, catalog: &dyn Catalog) -> Result<RowSchemaRef> {
    if kind == ast::ObjectKind::MaterializedView && catalog.materialized_view(table.id).is_none() {
        let text = format!("\"{}\" is not a materialized view", table.name.table);
        return Err(Error::new(SqlState::WRONG_OBJECT_TYPE, text));
    }
    Ok(table)
}

/// ALTER TABLE on an index or sequence: only OWNER TO, which dumps contain, is accepted.
fn of_other_kind(alter: &ast::AlterTable, name: &str) -> Result<Definition> {
    if alter.actions.iter().all(|action| matches!(action, A::OwnerTo(_))) {
        return Ok(Definition { notices: vec![Notice::new(NO_OWNERS)], ..Definition::new(TAG) });
    }
    Err(other_kind(name))
}

fn other_kind(name: &str) -> Error {
    Error::unsupported(format!("ALTER TABLE cannot be used on \"{name}\""))
        .with_hint("use ALTER INDEX or ALTER SEQUENCE")
}

/// Refuses changes of columns and constraints that only the parents may change.
fn check_inherited(draft: &Draft<'_>, action: &A, only: bool) -> Result<()> {
    let invalid = |text: String| Err(Error::new(SqlState::INVALID_TABLE_DEFINITION, text));
    let inherited = |name: &Ident| {
        let at = draft.next.column(name)?;
        draft.next.lineage.column(at).filter(|entry| entry.parents > 0)
    };
    match action {
        A::AddColumn { .. } if draft.next.lineage.bound.is_some() => {
            Err(Error::new(SqlState::WRONG_OBJECT_TYPE, "cannot add column to a partition"))
        }
        A::DropColumn { name, .. } if inherited(name).is_some() => {
            invalid(format!("cannot drop inherited column \"{name}\""))
        }
        A::DropColumn { name, .. } => match draft.next.column(name) {
            Some(at) => draft.check_not_in_key(at, "drop"),
            None => Ok(()),
        },
        A::DropExpression { column, .. } if inherited(column).is_some() => {
            invalid("cannot drop generation expression from inherited column".to_owned())
        }
        A::DropExpression { .. } if only && !draft.next.lineage.children.is_empty() => {
            invalid("ALTER TABLE / DROP EXPRESSION must be applied to child tables too".to_owned())
        }
        A::AddColumn { column, .. }
            if !draft.next.lineage.children.is_empty()
                && column.constraints.iter().any(|one| matches!(one.kind, ColumnConstraintKind::Identity { .. })) =>
        {
            invalid("cannot recursively add identity column to table that has child tables".to_owned())
        }
        A::AlterColumnType { column, .. } if inherited(column).is_some() => {
            invalid(format!("cannot alter inherited column \"{column}\""))
        }
        A::AlterColumnType { column, .. } => match draft.next.column(column) {
            Some(at) => draft.check_not_in_key(at, "alter"),
            None => Ok(()),
        },
        A::DropNotNull(column) if draft.next.lineage.bound.is_some() => {
            let parent = draft.next.lineage.parents.first().and_then(|id| draft.catalog.by_id(*id));
            let is_marked =
                parent.is_some_and(|parent| parent.column(column).is_some_and(|at| parent.columns[at].not_null));
            if is_marked { invalid(format!("column \"{column}\" is marked NOT NULL in parent table")) } else { Ok(()) }
        }
        A::AttachPartition { .. } | A::DetachPartition { .. } => {
            let text = format!("ALTER TABLE … {action} together with other actions is not supported");
            Err(Error::unsupported(text).with_hint("use a statement of its own"))
        }
        _ => Ok(()),
    }
}

/// Notes what children need to follow an action.
fn note_following<'s>(action: &'s A, following: &mut Following<'s>) {
    match action {
        A::AlterColumnType { column, using, .. } => {
            following.using.insert(column.to_string(), using.as_ref());
        }
        A::SetDefault { column, .. } | A::DropDefault(column) => following.defaults.push(column.to_string()),
        A::SetNotNull(column) | A::DropNotNull(column) => following.nulls.push(column.to_string()),
        A::DropColumn { behavior, .. } | A::DropConstraint { behavior, .. } => {
            following.cascade |= *behavior == DropBehavior::Cascade;
        }
        _ => {}
    }
}

fn pass(action: &A) -> Pass {
    match action {
        A::DropColumn { .. } | A::DropConstraint { .. } | A::DropNotNull(_) | A::DropDefault(_) => Pass::Drop,
        A::DropExpression { .. } => Pass::Drop,
        A::AlterColumnType { .. } => Pass::Type,
        A::AddColumn { .. } => Pass::AddColumn,
        A::SetNotNull(_) | A::SetDefault { .. } | A::AddIdentity { .. } => Pass::Column,
        A::AddConstraint(_) => Pass::Constraint,
        _ => Pass::Other,
    }
}

/// Applies any action except adding columns and constraints. `only`: children do not follow.
fn act(draft: &mut Draft<'_>, action: &A, only: bool) -> Result<()> {
    match action {
        A::DropColumn { name, if_exists, behavior } => {
            drop_column(draft, name, *if_exists, *behavior == DropBehavior::Cascade)
        }
        A::DropConstraint { name, if_exists, behavior } => {
            if draft.drop_constraint(name, *behavior == DropBehavior::Cascade)? {
                return Ok(());
            }
            let text = format!("constraint \"{name}\" of relation \"{}\" does not exist", draft.next.name.table);
            if !if_exists {
                return Err(Error::new(SqlState::UNDEFINED_OBJECT, text));
            }
            draft.notices.push(Notice::new(format!("{text}, skipping")));
            Ok(())
        }
        A::SetNotNull(column) => {
            let at = draft.column(column)?;
            draft.set_not_null(at);
            Ok(())
        }
        A::DropNotNull(column) => drop_not_null(draft, column),
        A::SetDefault { column, expr } => {
            let at = draft.column(column)?;
            refuse_identity(draft, at)?;
            draft.refuse_generated(at)?;
            draft.set_default(at, expr).map(|_| ())
        }
        A::DropDefault(column) => {
            let at = draft.column(column)?;
            let hint = "Use ALTER TABLE ... ALTER COLUMN ... DROP IDENTITY instead.";
            refuse_identity(draft, at).map_err(|error| error.with_hint(hint))?;
            let hint = "Use ALTER TABLE ... ALTER COLUMN ... DROP EXPRESSION instead.";
            draft.refuse_generated(at).map_err(|error| error.with_hint(hint))?;
            draft.next.columns[at].default = None;
            Ok(())
        }
        A::DropExpression { column, if_exists } => draft.drop_expression(column, *if_exists),
        A::AlterColumnType { column, ty, collation, using, .. } => {
            set_type(draft, column, ty, collation.as_ref(), using.as_ref())
        }
        A::AddIdentity { column, always, options } => {
            let at = draft.column(column)?;
            draft.add_identity(at, *always, options)
        }
        A::EnableTrigger { name, firing } => super::trigger::set_firing(draft, name, trigger_firing(*firing), only),
        A::DisableTrigger(name) => super::trigger::set_firing(draft, name, TriggerFiring::Disabled, only),
        A::ValidateConstraint(name) => draft.validate(name),
        A::AlterConstraint { name, attributes } => draft.alter_constraint(name, *attributes),
        A::DropIdentity { column, if_exists } => draft.drop_identity(column, *if_exists),
        A::Inherit(parent) => inheritance::add(draft, parent),
        A::NoInherit(parent) => inheritance::remove(draft, parent),
        // Properties of files, which rows tables do not have. Names are checked.
        A::SetStatistics { column: ColumnRef::Name(column), .. }
        | A::SetStorage { column, .. }
        | A::SetCompression { column, .. }
        | A::SetColumnOptions { column, .. }
        | A::ResetColumnOptions { column, .. } => draft.column(column).map(|_| ()),
        A::ClusterOn(index) => has_index(draft, index),
        A::ReplicaIdentity(identity) => set_replica_identity(draft, identity),
        A::SetWithoutCluster | A::SetWithoutOids | A::SetLogged | A::SetUnlogged | A::ResetOptions(_) => Ok(()),
        A::SetOptions(options) => set_options(draft, options),
        A::OwnerTo(_) => {
            draft.notices.push(Notice::new(NO_OWNERS));
            Ok(())
        }
        other => Err(create::unsupported(&format!("ALTER TABLE … {other}"))),
    }
}

/// Error 42704 if the table has no such index.
fn has_index(draft: &Draft<'_>, index: &str) -> Result<()> {
    if super::has_index(&draft.next, index) {
        return Ok(());
    }
    let text = format!("index \"{index}\" for table \"{}\" does not exist", draft.next.name.table);
    Err(Error::new(SqlState::UNDEFINED_OBJECT, text))
}

/// REPLICA IDENTITY, with PostgreSQL's checks of an index.
fn set_replica_identity(draft: &mut Draft<'_>, written: &ReplicaIdentity) -> Result<()> {
    draft.next.replica_identity = match written {
        ReplicaIdentity::Default => model::ReplicaIdentity::Default,
        ReplicaIdentity::Nothing => model::ReplicaIdentity::Nothing,
        ReplicaIdentity::Full => model::ReplicaIdentity::Full,
        ReplicaIdentity::Index(index) => {
            has_index(draft, index)?;
            model::ReplicaIdentity::Index(identifying_index(draft, index)?)
        }
    };
    Ok(())
}

/// The number of an index that identifies rows at all times.
fn identifying_index(draft: &Draft<'_>, name: &str) -> Result<u32> {
    let table = &draft.next;
    let Some((index, _)) = table.indexes().find(|(own, _)| own.name == name) else {
        return Err(Error::bug("an index of another table"));
    };
    let wrong = |text: String| Err(Error::new(SqlState::WRONG_OBJECT_TYPE, text));
    if !index.is_key() {
        return wrong(format!("cannot use non-unique index \"{name}\" as replica identity"));
    }
    if index.is_deferrable() {
        let text = format!("cannot use non-immediate index \"{name}\" as replica identity");
        return Err(Error::unsupported(text));
    }
    if index.columns.iter().any(|at| table.columns[*at].is_hidden()) {
        return Err(Error::unsupported(format!("cannot use expression index \"{name}\" as replica identity")));
    }
    if index.predicate.is_some() {
        return Err(Error::unsupported(format!("cannot use partial index \"{name}\" as replica identity")));
    }
    match index.columns.iter().map(|at| &table.columns[*at]).find(|column| !column.not_null) {
        None => Ok(index.id),
        Some(column) => {
            let column = &column.name;
            wrong(format!(
                "index \"{name}\" cannot be used as replica identity because column \"{column}\" is nullable"
            ))
        }
    }
}

fn trigger_firing(written: Firing) -> TriggerFiring {
    match written {
        Firing::Origin => TriggerFiring::Origin,
        Firing::Replica => TriggerFiring::Replica,
        Firing::Always => TriggerFiring::Always,
    }
}

fn drop_column(draft: &mut Draft<'_>, name: &str, if_exists: bool, cascade: bool) -> Result<()> {
    match draft.next.column(name) {
        Some(at) => draft.drop_column(at, cascade),
        None if if_exists => {
            let relation = &draft.next.name.table;
            let text = format!("column \"{name}\" of relation \"{relation}\" does not exist, skipping");
            draft.notices.push(Notice::new(text));
            Ok(())
        }
        None => Err(super::no_column(name, &draft.next.name.table)),
    }
}

/// Error 42601 for an identity column.
fn refuse_identity(draft: &Draft<'_>, at: usize) -> Result<()> {
    let column = &draft.next.columns[at];
    if column.identity.is_none() {
        return Ok(());
    }
    let (name, table) = (&column.name, &draft.next.name.table);
    let text = format!("column \"{name}\" of relation \"{table}\" is an identity column");
    Err(Error::new(SqlState::SYNTAX_ERROR, text))
}

fn drop_not_null(draft: &mut Draft<'_>, name: &str) -> Result<()> {
    let at = draft.column(name)?;
    refuse_identity(draft, at)?;
    if draft.next.primary_key().is_some_and(|primary| primary.columns.contains(&at)) {
        let text = format!("column \"{name}\" is in a primary key");
        return Err(Error::new(SqlState::INVALID_TABLE_DEFINITION, text));
    }
    let identity = draft.next.replica_identity;
    let is_identity = |index: &RowIndex| identity == model::ReplicaIdentity::Index(index.id);
    if super::indexes(&draft.next).any(|index| is_identity(index) && index.columns.contains(&at)) {
        let text = format!("column \"{name}\" is in index used as replica identity");
        return Err(Error::new(SqlState::INVALID_TABLE_DEFINITION, text));
    }
    draft.drop_not_null(at);
    Ok(())
}

fn set_type(
    draft: &mut Draft<'_>,
    name: &str,
    ty: &TypeName,
    collation: Option<&Name>,
    using: Option<&Expr>,
) -> Result<()> {
    let at = draft.column(name)?;
    let declared = types::declared(ty, name, draft.session.facts()?)?;
    if declared.is_serial {
        return Err(Error::new(SqlState::UNDEFINED_OBJECT, format!("type \"{ty}\" does not exist")));
    }
    let collation = match collation {
        Some(collation) => check_collation(collation, declared.ty)?,
        None => None,
    };
    draft.set_type(at, (declared.ty, declared.domain), using)?;
    draft.next.columns[at].collation = collation;
    Ok(())
}

fn rename_column(draft: &mut Draft<'_>, old: &str, new: &Ident) -> Result<()> {
    let at = draft
        .next
        .column(old)
        .ok_or_else(|| Error::new(SqlState::UNDEFINED_COLUMN, format!("column \"{old}\" does not exist")))?;
    if draft.next.column(new).is_some() {
        let text = format!("column \"{new}\" of relation \"{}\" already exists", draft.next.name.table);
        return Err(Error::new(SqlState::DUPLICATE_COLUMN, text));
    }
    check_name(new)?;
    draft.rename_column(at, new.to_string())
}

fn rename_constraint(draft: &mut Draft<'_>, old: &str, new: &Ident) -> Result<()> {
    let table = &draft.next.name.table;
    if constraints(&draft.next).all(|name| name != old) {
        let text = format!("constraint \"{old}\" for table \"{table}\" does not exist");
        return Err(Error::new(SqlState::UNDEFINED_OBJECT, text));
    }
    draft.check_constraint(new)?;
    if super::has_index(&draft.next, old) {
        draft.check_relation(new)?;
    }
    let next = &mut draft.next;
    for entry in next.lineage.checks.iter_mut().filter(|entry| entry.name == old) {
        entry.name = new.to_string();
    }
    for name in next.lineage.foreign_keys.iter_mut().filter(|name| *name == old) {
        *name = new.to_string();
    }
    let keys = next.primary.iter_mut().chain(&mut next.secondary).filter(|index| index.constraint);
    let all = keys.map(|index| &mut index.name);
    let checks = next.checks.iter_mut().map(|check| &mut check.name);
    for name in all.chain(checks).chain(next.foreign_keys.iter_mut().map(|key| &mut key.name)) {
        if name == old {
            *name = new.to_string();
            break;
        }
    }
    Ok(())
}

pub(super) fn set_options(draft: &mut Draft<'_>, options: &[RelOption]) -> Result<()> {
    for option in options {
        draft.notices.push(create::ignored_option(&option.full_name())?);
    }
    Ok(())
}
