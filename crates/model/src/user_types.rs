//! Types that users created: enum types and domains. A catalog has their definitions; the functions here find a definition
//! by the OID that columns and expressions have.
//!
//! OIDs are drawn at random, and an OID that was committed is not used again, so one list serves all databases of the process. A
//! type is in it from its creation, and in the version of the last commit.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::{Arc, PoisonError, RwLock};

use crate::{Error, Result, SqlState, TableName, Type, limits};

/// OIDs of enum types and of their arrays: an even number, and the next one.
const ENUMS: Range<u32> = 1 << 29..5 << 27;
/// OIDs of domains and of their arrays: an even number, and the next one.
const DOMAINS: Range<u32> = 5 << 27..6 << 27;
/// OIDs of composite types and of their arrays: an even number, and the next one.
const COMPOSITES: Range<u32> = 6 << 27..7 << 27;
/// Start of the name by which stored expressions refer to a user type; its OID follows.
const REFERENCE: char = '#';

/// A type of a user. Immutable: a change makes a new value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TypeSpec {
    /// Number of the type among all objects; not reused in the database.
    pub id: u32,
    /// Schema and name.
    pub name: TableName,
    /// 1 when created; each change adds 1.
    pub version: u32,
    /// OID in `pg_type`.
    pub oid: u32,
    /// Definition by kind.
    pub kind: UserType,
}

/// Types are shared, never copied.
pub type TypeSpecRef = Arc<TypeSpec>;

/// The definition of a type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UserType {
    /// Labels, in order.
    Enum(Vec<EnumLabel>),
    /// Another type with constraints.
    Domain(Domain),
    /// Attributes, in order.
    Composite(Vec<Attribute>),
}

/// A column of a composite type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attribute {
    /// Name, unique in the type.
    pub name: String,
    /// The type of its values.
    pub ty: Type,
}

/// A label of an enum type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EnumLabel {
    /// The stored value, a [`crate::Datum::Oid`]: ascending, with gaps for labels that are added in between.
    pub number: u32,
    /// `enumsortorder` of `pg_enum`, as the bits of a `float4`: ascending.
    pub sort_order: u32,
    /// Text.
    pub label: String,
}

/// A domain. Values are those of its base type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Domain {
    /// The type that it constrains, which is no domain.
    pub base: Type,
    /// OID of the domain that it constrains further, whose constraints hold too; 0 for none.
    pub over: u32,
    /// NOT NULL
    pub not_null: bool,
    /// SQL of the value of columns without a default of their own.
    pub default: Option<String>,
    /// CHECK constraints, by name.
    pub checks: Vec<DomainCheck>,
}

/// A CHECK constraint of a domain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DomainCheck {
    /// Name, unique in the domain.
    pub name: String,
    /// SQL of a condition on VALUE.
    pub condition: String,
    /// Whether stored values are known to satisfy it; false after NOT VALID.
    pub is_valid: bool,
}

/// Maximum length of a label in bytes, as in PostgreSQL.
pub const LABEL_BYTES_MAX: usize = 63;
/// Number of the first label of a new type.
const FIRST_LABEL: u32 = 1 << 31;
/// Largest distance of the numbers of neighbours.
const LABEL_GAP_MAX: u32 = 1 << 25;

impl TypeSpec {
    /// OID of the array type.
    #[must_use]
    pub fn array_oid(&self) -> u32 {
        self.oid + 1
    }

    /// Labels of an enum type; none of a domain.
    #[must_use]
    pub fn labels(&self) -> &[EnumLabel] {
        match &self.kind {
            UserType::Enum(labels) => labels,
            UserType::Domain(_) | UserType::Composite(_) => &[],
        }
    }

    /// Attributes of a composite type; `None` for another type.
    #[must_use]
    pub fn attributes(&self) -> Option<&[Attribute]> {
        match &self.kind {
            UserType::Composite(attributes) => Some(attributes),
            UserType::Enum(_) | UserType::Domain(_) => None,
        }
    }

    /// The definition, if it is a domain.
    #[must_use]
    pub fn domain(&self) -> Option<&Domain> {
        match &self.kind {
            UserType::Domain(domain) => Some(domain),
            UserType::Enum(_) | UserType::Composite(_) => None,
        }
    }

    /// The stored expressions of a domain, as SQL.
    pub fn texts(&self) -> impl Iterator<Item = &str> {
        let domain = self.domain().into_iter();
        domain
            .flat_map(|domain| domain.default.iter().chain(domain.checks.iter().map(|check| &check.condition)))
            .map(String::as_str)
    }

    /// The label with a number.
    #[must_use]
    pub fn label(&self, number: u32) -> Option<&str> {
        let labels = self.labels();
        let at = labels.binary_search_by_key(&number, |label| label.number).ok()?;
        Some(&labels[at].label)
    }

    /// The number of a label.
    #[must_use]
    pub fn number(&self, label: &str) -> Option<u32> {
        self.labels().iter().find(|one| one.label == label).map(|one| one.number)
    }

    /// Adds a label before the one at a place. `is_behind`: the statement names the label before that place, not this one.
    ///
    /// # Errors
    /// 54000 if there is no number left for it.
    pub fn add(&mut self, at: usize, label: &str, is_behind: bool) -> Result<()> {
        let UserType::Enum(labels) = &mut self.kind else { return Err(Error::bug("a label of no enum")) };
        let before = at.checked_sub(1).and_then(|at| labels.get(at)).map(|label| label.number);
        let next = labels.get(at).map(|label| label.number);
        let number = match (before, next) {
            (None, None) => Some(FIRST_LABEL),
            (Some(before), None) => Some(before + ((u32::MAX - before) / 64).min(LABEL_GAP_MAX)),
            (None, Some(next)) => Some(next - (next / 64).min(LABEL_GAP_MAX)),
            // Further labels are often added at the same neighbour, so that its side gets the larger part.
            (Some(before), Some(next)) => Some(match is_behind {
                true => next - (next - before) / 8 * 3 - u32::from(next - before < 8),
                false => before + (next - before) / 8 * 3 + u32::from(next - before < 8),
            }),
        };
        let number = number.filter(|number| before < Some(*number) && next.is_none_or(|next| *number < next));
        let Some(number) = number else {
            let text = format!("type {} has no room for another value at this place", self.name);
            let hint = "Create another type with the values in this order, and change the columns to it.";
            return Err(Error::new(SqlState::PROGRAM_LIMIT_EXCEEDED, text).with_hint(hint));
        };
        let sort_order = new_sort_order(labels, at);
        labels.insert(at, EnumLabel { number, sort_order, label: label.to_owned() });
        Ok(())
    }

    /// Checks the invariants that all code relies on.
    ///
    /// # Errors
    /// 42602, XX001.
    pub fn check(&self) -> Result<()> {
        let is_valid = |label: &EnumLabel| label.label.len() <= LABEL_BYTES_MAX && !label.label.contains('\0');
        if let Some(wrong) = self.labels().iter().find(|label| !is_valid(label)) {
            let text = format!("invalid enum label \"{}\"", wrong.label);
            let detail = format!("Labels must be {LABEL_BYTES_MAX} bytes or less.");
            return Err(Error::new(SqlState("42602"), text).with_detail(detail));
        }
        let is_sound = match &self.kind {
            UserType::Enum(labels) => {
                let is_before = |one: &EnumLabel, other: &EnumLabel| {
                    one.number < other.number && f32::from_bits(one.sort_order) < f32::from_bits(other.sort_order)
                };
                ENUMS.contains(&self.oid) && labels.is_sorted_by(is_before)
            }
            UserType::Domain(domain) => {
                let has_over = domain.over == 0 || is_domain(domain.over) && domain.over != self.oid;
                let is_unique = |at: usize| domain.checks[..at].iter().all(|one| one.name != domain.checks[at].name);
                is_domain(self.oid) && has_over && (0..domain.checks.len()).all(is_unique)
            }
            UserType::Composite(attributes) => {
                let is_unique = |at: usize| attributes[..at].iter().all(|one| one.name != attributes[at].name);
                let is_other = |one: &Attribute| one.ty.oid() & !1 != self.oid;
                is_composite(self.oid)
                    && attributes.len() <= limits::ATTRIBUTES_MAX
                    && attributes.iter().all(is_other)
                    && (0..attributes.len()).all(is_unique)
            }
        };
        if !is_sound || !self.oid.is_multiple_of(2) {
            return Err(Error::corrupt(format!("type {} has an invalid definition", self.name)));
        }
        Ok(())
    }
}

/// An enum type with these labels.
pub fn enumeration<'l>(labels: impl ExactSizeIterator<Item = &'l str>) -> UserType {
    let gap = (FIRST_LABEL / (labels.len() as u32).saturating_add(2)).clamp(1, LABEL_GAP_MAX);
    let label = |(number, label): (u32, &str)| EnumLabel {
        number: FIRST_LABEL.saturating_add(number.saturating_mul(gap)),
        sort_order: ((number + 1) as f32).to_bits(),
        label: label.to_owned(),
    };
    UserType::Enum((0..).zip(labels).map(label).collect())
}

/// `enumsortorder` of a label that is added before the one at a place, by PostgreSQL's rules.
fn new_sort_order(labels: &mut [EnumLabel], at: usize) -> u32 {
    let order = |label: &EnumLabel| f32::from_bits(label.sort_order);
    let between = |labels: &[EnumLabel]| match (at.checked_sub(1).and_then(|at| labels.get(at)), labels.get(at)) {
        (None, None) => Some(1.0),
        (Some(before), None) => Some(order(before) + 1.0),
        (None, Some(next)) => Some(order(next) - 1.0),
        (Some(before), Some(next)) => {
            let (before, next) = (order(before), order(next));
            let middle = before + (next - before) / 2.0;
            (before < middle && middle < next).then_some(middle)
        }
    };
    let found = between(labels).unwrap_or_else(|| {
        for (label, place) in labels.iter_mut().zip(1_u16..) {
            label.sort_order = f32::from(place).to_bits();
        }
        between(labels).unwrap_or(0.0)
    });
    found.to_bits()
}

/// The types that this process knows.
struct Registry {
    types: BTreeMap<u32, Known>,
    /// OIDs of types that no transaction committed, for new types: nothing refers to them.
    unused: BTreeSet<u32>,
    /// Number of types at which those are removed that no catalog has any more.
    sweep_at: usize,
}

struct Known {
    spec: TypeSpecRef,
    /// Whether the type is in a committed catalog.
    is_committed: bool,
    /// Names of the type and of its array, for messages.
    names: [&'static str; 2],
}

static REGISTRY: RwLock<Registry> =
    RwLock::new(Registry { types: BTreeMap::new(), unused: BTreeSet::new(), sweep_at: SWEEP_MIN });

/// Least number of types at which a sweep is worth its cost.
const SWEEP_MIN: usize = 1_000;

impl Registry {
    /// Removes the types that are in no catalog: they were dropped, or their transaction was rolled back.
    fn sweep(&mut self) {
        let Registry { types, unused, .. } = self;
        types.retain(|oid, known| {
            let is_used = Arc::strong_count(&known.spec) > 1;
            if !is_used && !known.is_committed {
                unused.insert(*oid);
            }
            is_used
        });
        self.sweep_at = SWEEP_MIN + 2 * self.types.len();
    }
}

/// Whether an OID is one of user types or their arrays.
#[must_use]
pub fn is_user(oid: u32) -> bool {
    ENUMS.contains(&oid) || DOMAINS.contains(&oid) || COMPOSITES.contains(&oid)
}

/// Whether an OID is that of an enum type.
#[must_use]
pub fn is_enum(oid: u32) -> bool {
    ENUMS.contains(&oid) && oid.is_multiple_of(2)
}

/// Whether an OID is that of the array of a user type.
#[must_use]
pub fn is_array(oid: u32) -> bool {
    is_user(oid) && oid % 2 == 1
}

/// Whether an OID is that of a domain.
#[must_use]
pub fn is_domain(oid: u32) -> bool {
    DOMAINS.contains(&oid) && oid.is_multiple_of(2)
}

/// Whether an OID is that of a composite type.
#[must_use]
pub fn is_composite(oid: u32) -> bool {
    COMPOSITES.contains(&oid) && oid.is_multiple_of(2)
}

/// The attributes of the composite type with an OID; `None` for another type.
#[must_use]
pub fn attributes(oid: u32) -> Option<Vec<Attribute>> {
    if !is_composite(oid) {
        return None;
    }
    with(oid, |known| known.spec.attributes().map(<[Attribute]>::to_vec)).flatten()
}

/// Whether an OID is that of a domain or of the array of one: values have another type, and satisfy its constraints.
#[must_use]
pub fn is_constrained(oid: u32) -> bool {
    DOMAINS.contains(&oid)
}

/// An OID that no type of this process has, from a random number.
///
/// # Errors
/// 54000 for more types than the process keeps.
pub fn new_oid(kind: &UserType, random: u64) -> Result<u32> {
    let oids = match kind {
        UserType::Enum(_) => ENUMS,
        UserType::Domain(_) => DOMAINS,
        UserType::Composite(_) => COMPOSITES,
    };
    let mut registry = REGISTRY.write().unwrap_or_else(PoisonError::into_inner);
    if registry.types.len() >= registry.sweep_at.min(limits::USER_TYPES_MAX) {
        registry.sweep();
    }
    if registry.types.len() >= limits::USER_TYPES_MAX {
        let text = format!("the server would have more than {} types of users", limits::USER_TYPES_MAX);
        return Err(Error::new(SqlState::PROGRAM_LIMIT_EXCEEDED, text));
    }
    if let Some(oid) = registry.unused.range(oids.clone()).next().copied() {
        registry.unused.remove(&oid);
        return Ok(oid);
    }
    let pairs = u64::from((oids.end - oids.start) / 2);
    let mut pair = random % pairs;
    loop {
        let oid = oids.start + 2 * pair as u32;
        if !registry.types.contains_key(&oid) {
            return Ok(oid);
        }
        pair = (pair + 1) % pairs;
    }
}

/// Names in messages, which are kept for as long as the process runs.
static NAMES: RwLock<BTreeSet<&'static str>> = RwLock::new(BTreeSet::new());

/// The name for as long as the process runs. Beyond a limit that only endless renaming meets, all types share a name.
fn lasting(name: &str) -> &'static str {
    let mut names = NAMES.write().unwrap_or_else(PoisonError::into_inner);
    match names.get(name) {
        Some(name) => name,
        None if names.len() >= 4 * limits::USER_TYPES_MAX => "user type",
        None => {
            let name: &'static str = name.to_owned().leak();
            names.insert(name);
            name
        }
    }
}

/// Adds a type, or replaces it by another version. `is_committed`: it is in a committed catalog.
pub fn register(spec: &TypeSpecRef, is_committed: bool) {
    let mut registry = REGISTRY.write().unwrap_or_else(PoisonError::into_inner);
    let name = spec.name.table.as_str();
    let names = match registry.types.get(&spec.oid) {
        Some(Known { names, .. }) if names[0] == name => *names,
        _ => [lasting(name), lasting(&format!("{name}[]"))],
    };
    registry.types.insert(spec.oid, Known { spec: Arc::clone(spec), is_committed, names });
}

/// The type with an OID, or of the array with it.
#[must_use]
pub fn find(oid: u32) -> Option<TypeSpecRef> {
    with(oid, |known| Arc::clone(&known.spec))
}

/// Whether a label of an enum type is only known to the transaction that added it.
#[must_use]
pub fn is_uncommitted(oid: u32, number: u32) -> bool {
    with(oid, |known| known.spec.label(number).is_none()).unwrap_or(false)
}

/// The name of a user type or array, without schema, for messages.
#[must_use]
pub fn name(oid: u32) -> Option<&'static str> {
    with(oid, |known| known.names[usize::from(is_array(oid))])
}

fn with<T>(oid: u32, of: impl FnOnce(&Known) -> T) -> Option<T> {
    if !is_user(oid) {
        return None;
    }
    REGISTRY.read().unwrap_or_else(PoisonError::into_inner).types.get(&(oid & !1)).map(of)
}

/// The name, in schema `pg_catalog`, by which stored expressions refer to a type: it outlives other names.
#[must_use]
pub fn reference(oid: u32) -> String {
    format!("{REFERENCE}{oid}")
}

/// The OID of a type by its [`reference()`]; `None` for other names and unknown types.
#[must_use]
pub fn referred(name: &str) -> Option<u32> {
    let oid = name.strip_prefix(REFERENCE)?.parse().ok()?;
    with(oid, |_| oid)
}

/// The types, without those of arrays, to which the text of a stored expression refers.
pub fn named_in(sql: &str) -> impl Iterator<Item = u32> {
    let number = |rest: &str| rest.split('"').next()?.parse::<u32>().ok();
    let found = sql.match_indices("\"#").filter_map(move |(at, start)| number(&sql[at + start.len()..]));
    found.filter(|oid| is_user(*oid)).map(|oid| oid & !1)
}

/// Whether the text of a stored expression refers to a type or to its array.
#[must_use]
pub fn is_named_in(oid: u32, sql: &str) -> bool {
    named_in(sql).any(|named| named == oid)
}

/// SQL that names the type with an OID, whose values have type `ty`, in a definition: it has the same meaning with every
/// search path.
#[must_use]
pub fn type_sql(oid: u32, ty: Type) -> String {
    if !is_user(oid) {
        return ty.to_string();
    }
    let brackets = if is_array(oid) { "[]" } else { "" };
    format!("pg_catalog.\"{}\"{brackets}", reference(oid & !1))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(labels: &[&str]) -> TypeSpec {
        let kind = enumeration(labels.iter().copied());
        let oid = new_oid(&kind, 7).unwrap();
        TypeSpec { id: 1, name: TableName::public("mood"), version: 1, oid, kind }
    }

    #[test]
    fn labels_are_added_at_any_place_and_stay_in_order() {
        let mut spec = spec(&["sad", "happy"]);
        spec.add(1, "ok", false).unwrap();
        spec.add(0, "awful", false).unwrap();
        spec.add(4, "ecstatic", false).unwrap();
        let labels: Vec<_> = spec.labels().iter().map(|label| label.label.as_str()).collect();
        assert_eq!(labels, ["awful", "sad", "ok", "happy", "ecstatic"]);
        spec.check().unwrap();
        assert_eq!(spec.label(spec.number("ok").unwrap()), Some("ok"));
        assert_eq!(spec.number("none"), None);
    }

    #[test]
    fn labels_between_two_others_are_limited() {
        let added = |at: fn(usize) -> usize, is_behind: bool| {
            let mut spec = spec(&["a", "z"]);
            let added =
                (0..64).take_while(|count| spec.add(at(*count), &format!("l{count}"), is_behind).is_ok()).count();
            spec.check().unwrap();
            added
        };
        // Before `z`, behind `a`, behind the last one, before the last one.
        let counts =
            [added(|count| count + 1, false), added(|_| 1, true), added(|count| count + 1, true), added(|_| 1, false)];
        assert!(counts[0] >= 30 && counts[1] >= 30 && counts[2] >= 16 && counts[3] >= 16, "{counts:?}");
    }

    #[test]
    fn many_labels_are_added_at_both_ends() {
        let mut spec = spec(&[]);
        for count in 0..500 {
            spec.add(0, &format!("a{count}"), false).unwrap();
            spec.add(spec.labels().len(), &format!("z{count}"), true).unwrap();
        }
        spec.check().unwrap();
    }

    #[test]
    fn sort_orders_are_those_of_postgresql() {
        let mut spec = spec(&["venus", "earth", "mars", "uranus"]);
        for (at, label) in [(0, "mercury"), (4, "saturn"), (4, "jupiter"), (7, "neptune")] {
            spec.add(at, label, false).unwrap();
        }
        let orders: Vec<f32> = spec.labels().iter().map(|label| f32::from_bits(label.sort_order)).collect();
        assert_eq!(orders, [0.0, 1.0, 2.0, 3.0, 3.25, 3.5, 4.0, 5.0]);
        // The precision of a float4 ends: all are numbered again.
        for count in 0..25 {
            spec.add(2 + count, &format!("l{count}"), false).unwrap();
        }
        let orders: Vec<f32> = spec.labels().iter().take(4).map(|label| f32::from_bits(label.sort_order)).collect();
        assert_eq!(orders, [1.0, 2.0, 3.0, 4.0]);
        spec.check().unwrap();
    }

    #[test]
    fn types_are_found_by_their_oid_and_that_of_their_array() {
        let spec = Arc::new(spec(&["a"]));
        register(&spec, true);
        let array = spec.array_oid();
        assert!(is_uncommitted(spec.oid, 1) && !is_uncommitted(spec.oid, spec.number("a").unwrap()));
        assert_eq!(find(array), Some(Arc::clone(&spec)));
        assert_eq!((name(spec.oid), name(array)), (Some("mood"), Some("mood[]")));
        assert_ne!(new_oid(&spec.kind, 7).unwrap(), spec.oid);
        assert_eq!((find(26), find(spec.oid + 100)), (None, None));
        assert_eq!(referred(&reference(array)), Some(array));
        assert_eq!((referred("mood"), referred("#26"), referred("#x")), (None, None, None));
        assert!(is_named_in(spec.oid, &format!("'a'::pg_catalog.\"{}\"", reference(spec.oid))));
        let sql = type_sql(array, Type::Text);
        assert_eq!(named_in(&sql).collect::<Vec<_>>(), [spec.oid]);
        assert_eq!(named_in("'\"#12\" \"#' || \"#x\"").count(), 0);
    }

    #[test]
    fn oids_of_types_that_were_rolled_back_are_used_again() {
        let created = |random: usize| {
            let kind = enumeration(["a"].into_iter());
            let oid = new_oid(&kind, random as u64 * 1_009).unwrap();
            let one = TypeSpec { id: 1, name: TableName::public("mood"), version: 1, oid, kind };
            register(&Arc::new(one), false);
            oid
        };
        let oids: BTreeSet<u32> = (0..10 * SWEEP_MIN).map(created).collect();
        assert!(oids.len() <= 2 * SWEEP_MIN, "{}", oids.len());
    }

    #[test]
    fn domains_have_oids_of_their_own_and_unique_checks() {
        let check = |name: &str| DomainCheck { name: name.into(), condition: "VALUE > 0".into(), is_valid: true };
        let mut domain =
            Domain { base: Type::Int4, over: 0, not_null: true, default: None, checks: vec![check("a"), check("b")] };
        let of = |domain: &Domain| {
            let kind = UserType::Domain(domain.clone());
            let oid = new_oid(&kind, 3).unwrap();
            TypeSpec { id: 2, name: TableName::public("d"), version: 1, oid, kind }
        };
        let spec = of(&domain);
        spec.check().unwrap();
        assert!(is_domain(spec.oid) && !is_enum(spec.oid) && is_user(spec.oid));
        let array = spec.array_oid();
        assert!(!is_domain(array) && is_array(array) && is_constrained(array));
        domain.checks.push(check("a"));
        assert!(of(&domain).check().is_err());
    }
}
