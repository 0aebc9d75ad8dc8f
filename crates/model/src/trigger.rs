//! Triggers of `rows` tables.

/// A trigger of a `rows` table: a function that statements on the table call.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RowTrigger {
    /// Number, unique among tables, indexes and routines too.
    pub id: u32,
    /// Name, unique within the table. Triggers of one event run in the order of their names.
    pub name: String,
    /// Whether it runs before or after the change.
    pub timing: TriggerTiming,
    /// The statements that run it.
    pub events: TriggerEvents,
    /// FOR EACH ROW
    pub each_row: bool,
    /// Positions of the columns of UPDATE OF, ascending; empty for all.
    pub columns: Vec<usize>,
    /// WHEN, as SQL.
    pub condition: Option<String>,
    /// Number of the function.
    pub routine: u32,
    /// Arguments of the function.
    pub arguments: Vec<String>,
    /// Sessions in which it runs.
    pub firing: TriggerFiring,
    /// Whether CREATE CONSTRAINT TRIGGER made it.
    pub constraint: bool,
}

/// When a trigger runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum TriggerTiming {
    /// BEFORE
    #[default]
    Before = 0,
    /// AFTER
    After = 1,
}

impl TriggerTiming {
    /// Decodes the code in a file; `None` if it is unknown.
    #[must_use]
    pub fn from_code(code: u8) -> Option<TriggerTiming> {
        [TriggerTiming::Before, TriggerTiming::After].into_iter().find(|one| *one as u8 == code)
    }

    /// The word in SQL.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            TriggerTiming::Before => "BEFORE",
            TriggerTiming::After => "AFTER",
        }
    }
}

/// The sessions in which a trigger runs, by their `session_replication_role`. All sessions have the role `origin`, so that a
/// trigger of replicas never runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum TriggerFiring {
    /// All but replicas: ENABLE TRIGGER, as a new trigger.
    #[default]
    Origin = 0,
    /// No session: DISABLE TRIGGER
    Disabled = 1,
    /// Replicas: ENABLE REPLICA TRIGGER
    Replica = 2,
    /// All: ENABLE ALWAYS TRIGGER
    Always = 3,
}

impl TriggerFiring {
    /// Decodes the code in a file; `None` if it is unknown.
    #[must_use]
    pub fn from_code(code: u8) -> Option<TriggerFiring> {
        use TriggerFiring::{Always, Disabled, Origin, Replica};
        [Origin, Disabled, Replica, Always].into_iter().find(|one| *one as u8 == code)
    }

    /// The letter in `tgenabled`.
    #[must_use]
    pub fn letter(self) -> &'static str {
        match self {
            TriggerFiring::Origin => "O",
            TriggerFiring::Disabled => "D",
            TriggerFiring::Replica => "R",
            TriggerFiring::Always => "A",
        }
    }
}

/// A kind of change that runs triggers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum TriggerEvent {
    /// INSERT
    Insert = 1,
    /// DELETE
    Delete = 2,
    /// UPDATE
    Update = 4,
    /// TRUNCATE
    Truncate = 8,
}

impl TriggerEvent {
    /// All of them, in the order in which PostgreSQL lists those of a trigger.
    pub const ALL: [TriggerEvent; 4] =
        [TriggerEvent::Insert, TriggerEvent::Delete, TriggerEvent::Update, TriggerEvent::Truncate];

    /// The word in SQL.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            TriggerEvent::Insert => "INSERT",
            TriggerEvent::Delete => "DELETE",
            TriggerEvent::Update => "UPDATE",
            TriggerEvent::Truncate => "TRUNCATE",
        }
    }
}

/// A set of [`TriggerEvent`]s; the code in a file is the sum of theirs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TriggerEvents(u8);

impl TriggerEvents {
    /// Decodes the code in a file; `None` if it is none.
    #[must_use]
    pub fn from_code(code: u8) -> Option<TriggerEvents> {
        (1..16).contains(&code).then_some(TriggerEvents(code))
    }

    /// The code in a file.
    #[must_use]
    pub fn code(self) -> u8 {
        self.0
    }

    /// Adds an event; returns whether it was missing.
    pub fn add(&mut self, event: TriggerEvent) -> bool {
        let is_new = !self.has(event);
        self.0 |= event as u8;
        is_new
    }

    /// Whether the set contains an event.
    #[must_use]
    pub fn has(self, event: TriggerEvent) -> bool {
        self.0 & event as u8 != 0
    }
}

impl RowTrigger {
    /// Whether it runs in sessions of the role `origin`.
    #[must_use]
    pub fn is_enabled(&self) -> bool {
        matches!(self.firing, TriggerFiring::Origin | TriggerFiring::Always)
    }

    /// Whether a change runs it. `changed`: whether an UPDATE sets the column at a position.
    pub fn fires(&self, event: TriggerEvent, changed: impl Fn(usize) -> bool) -> bool {
        let is_of =
            event != TriggerEvent::Update || self.columns.is_empty() || self.columns.iter().any(|at| changed(*at));
        self.is_enabled() && self.events.has(event) && is_of
    }
}
