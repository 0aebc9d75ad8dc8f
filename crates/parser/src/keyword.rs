//! PostgreSQL 15's key words: their categories, and whether one may be a column's label without AS.
//!
//! The table is generated from `pg_get_keywords()`. A word is found by one multiplication and, mostly, one comparison.

/// Places where a key word may stand as a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Category {
    /// Anywhere.
    Unreserved,
    /// Names of columns and tables, not of functions and types.
    ColumnName,
    /// Names of functions and types, not of columns and tables.
    TypeOrFunctionName,
    /// Nowhere but behind AS and a point.
    Reserved,
}

macro_rules! keywords {
    ($($name:ident $word:literal $category:ident $label:ident;)*) => {
        /// A key word.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(u16)]
        #[expect(missing_docs, reason = "each is named for its word")]
        pub enum Keyword { $($name,)* }

        /// All of them, in the order of their words.
        pub const ALL: &[Keyword] = &[$(Keyword::$name,)*];
        const WORDS: &[&str] = &[$($word,)*];
        const CATEGORIES: &[Category] = &[$(Category::$category,)*];
        const BARE: &[bool] = &[$(is_bare(stringify!($label)),)*];
    };
}

const fn is_bare(label: &str) -> bool {
    label.as_bytes()[0] == b'B'
}

impl Keyword {
    /// The word, in lower case.
    #[must_use]
    pub fn word(self) -> &'static str {
        WORDS[self as usize]
    }

    /// Places where the word may stand as a name.
    #[must_use]
    pub fn category(self) -> Category {
        CATEGORIES[self as usize]
    }

    /// Whether it may be a column's label without AS.
    #[must_use]
    pub fn is_bare_label(self) -> bool {
        BARE[self as usize]
    }

    /// Whether it may name a column or a table.
    #[must_use]
    pub fn is_column_name(self) -> bool {
        matches!(self.category(), Category::Unreserved | Category::ColumnName)
    }

    /// Whether it may name a function or a type.
    #[must_use]
    pub fn is_type_or_function_name(self) -> bool {
        matches!(self.category(), Category::Unreserved | Category::TypeOrFunctionName)
    }

    /// The key word that a word is, in any case.
    #[must_use]
    pub fn find(word: &[u8]) -> Option<Keyword> {
        if word.len() > WORD_BYTES_MAX || word.len() < 2 {
            return None;
        }
        let mut slot = slot_of(word);
        loop {
            let number = SLOTS[slot];
            if number == EMPTY {
                return None;
            }
            let candidate = WORDS[number as usize].as_bytes();
            if candidate.len() == word.len() && candidate.iter().zip(word).all(|(a, b)| *a == b.to_ascii_lowercase()) {
                return Some(ALL[number as usize]);
            }
            slot = (slot + 1) % SLOTS_COUNT;
        }
    }
}

/// Bytes of the longest word.
const WORD_BYTES_MAX: usize = 17;
const SLOTS_COUNT: usize = 2048;
const EMPTY: u16 = u16::MAX;

/// The slot where the search for a word begins; bytes are or-ed with 0x20.
const fn slot_of(word: &[u8]) -> usize {
    let (mut hash, mut at) = (word.len() as u32, 0);
    while at < word.len() {
        hash = (hash ^ (word[at] | 0x20) as u32).wrapping_mul(0x0100_0193);
        at += 1;
    }
    (hash >> 21) as usize
}

static SLOTS: [u16; SLOTS_COUNT] = {
    let mut slots = [EMPTY; SLOTS_COUNT];
    let mut number = 0;
    while number < WORDS.len() {
        let word = WORDS[number].as_bytes();
        assert!(word.len() <= WORD_BYTES_MAX);
        let mut slot = slot_of(word);
        while slots[slot] != EMPTY {
            slot = (slot + 1) % SLOTS_COUNT;
        }
        slots[slot] = number as u16;
        number += 1;
    }
    slots
};

keywords! {
    Abort "abort" Unreserved Bare;
    Absolute "absolute" Unreserved Bare;
    Access "access" Unreserved Bare;
    Action "action" Unreserved Bare;
    Add "add" Unreserved Bare;
    Admin "admin" Unreserved Bare;
    After "after" Unreserved Bare;
    Aggregate "aggregate" Unreserved Bare;
    All "all" Reserved Bare;
    Also "also" Unreserved Bare;
    Alter "alter" Unreserved Bare;
    Always "always" Unreserved Bare;
    Analyse "analyse" Reserved Bare;
    Analyze "analyze" Reserved Bare;
    And "and" Reserved Bare;
    Any "any" Reserved Bare;
    Array "array" Reserved As;
    As "as" Reserved As;
    Asc "asc" Reserved Bare;
    Asensitive "asensitive" Unreserved Bare;
    Assertion "assertion" Unreserved Bare;
    Assignment "assignment" Unreserved Bare;
    Asymmetric "asymmetric" Reserved Bare;
    At "at" Unreserved Bare;
    Atomic "atomic" Unreserved Bare;
    Attach "attach" Unreserved Bare;
    Attribute "attribute" Unreserved Bare;
    Authorization "authorization" TypeOrFunctionName Bare;
    Backward "backward" Unreserved Bare;
    Before "before" Unreserved Bare;
    Begin "begin" Unreserved Bare;
    Between "between" ColumnName Bare;
    Bigint "bigint" ColumnName Bare;
    Binary "binary" TypeOrFunctionName Bare;
    Bit "bit" ColumnName Bare;
    Boolean "boolean" ColumnName Bare;
    Both "both" Reserved Bare;
    Breadth "breadth" Unreserved Bare;
    By "by" Unreserved Bare;
    Cache "cache" Unreserved Bare;
    Call "call" Unreserved Bare;
    Called "called" Unreserved Bare;
    Cascade "cascade" Unreserved Bare;
    Cascaded "cascaded" Unreserved Bare;
    Case "case" Reserved Bare;
    Cast "cast" Reserved Bare;
    Catalog "catalog" Unreserved Bare;
    Chain "chain" Unreserved Bare;
    Char "char" ColumnName As;
    Character "character" ColumnName As;
    Characteristics "characteristics" Unreserved Bare;
    Check "check" Reserved Bare;
    Checkpoint "checkpoint" Unreserved Bare;
    Class "class" Unreserved Bare;
    Close "close" Unreserved Bare;
    Cluster "cluster" Unreserved Bare;
    Coalesce "coalesce" ColumnName Bare;
    Collate "collate" Reserved Bare;
    Collation "collation" TypeOrFunctionName Bare;
    Column "column" Reserved Bare;
    Columns "columns" Unreserved Bare;
    Comment "comment" Unreserved Bare;
    Comments "comments" Unreserved Bare;
    Commit "commit" Unreserved Bare;
    Committed "committed" Unreserved Bare;
    Compression "compression" Unreserved Bare;
    Concurrently "concurrently" TypeOrFunctionName Bare;
    Configuration "configuration" Unreserved Bare;
    Conflict "conflict" Unreserved Bare;
    Connection "connection" Unreserved Bare;
    Constraint "constraint" Reserved Bare;
    Constraints "constraints" Unreserved Bare;
    Content "content" Unreserved Bare;
    Continue "continue" Unreserved Bare;
    Conversion "conversion" Unreserved Bare;
    Copy "copy" Unreserved Bare;
    Cost "cost" Unreserved Bare;
    Create "create" Reserved As;
    Cross "cross" TypeOrFunctionName Bare;
    Csv "csv" Unreserved Bare;
    Cube "cube" Unreserved Bare;
    Current "current" Unreserved Bare;
    CurrentCatalog "current_catalog" Reserved Bare;
    CurrentDate "current_date" Reserved Bare;
    CurrentRole "current_role" Reserved Bare;
    CurrentSchema "current_schema" TypeOrFunctionName Bare;
    CurrentTime "current_time" Reserved Bare;
    CurrentTimestamp "current_timestamp" Reserved Bare;
    CurrentUser "current_user" Reserved Bare;
    Cursor "cursor" Unreserved Bare;
    Cycle "cycle" Unreserved Bare;
    Data "data" Unreserved Bare;
    Database "database" Unreserved Bare;
    Day "day" Unreserved As;
    Deallocate "deallocate" Unreserved Bare;
    Dec "dec" ColumnName Bare;
    Decimal "decimal" ColumnName Bare;
    Declare "declare" Unreserved Bare;
    Default "default" Reserved Bare;
    Defaults "defaults" Unreserved Bare;
    Deferrable "deferrable" Reserved Bare;
    Deferred "deferred" Unreserved Bare;
    Definer "definer" Unreserved Bare;
    Delete "delete" Unreserved Bare;
    Delimiter "delimiter" Unreserved Bare;
    Delimiters "delimiters" Unreserved Bare;
    Depends "depends" Unreserved Bare;
    Depth "depth" Unreserved Bare;
    Desc "desc" Reserved Bare;
    Detach "detach" Unreserved Bare;
    Dictionary "dictionary" Unreserved Bare;
    Disable "disable" Unreserved Bare;
    Discard "discard" Unreserved Bare;
    Distinct "distinct" Reserved Bare;
    Do "do" Reserved Bare;
    Document "document" Unreserved Bare;
    Domain "domain" Unreserved Bare;
    Double "double" Unreserved Bare;
    Drop "drop" Unreserved Bare;
    Each "each" Unreserved Bare;
    Else "else" Reserved Bare;
    Enable "enable" Unreserved Bare;
    Encoding "encoding" Unreserved Bare;
    Encrypted "encrypted" Unreserved Bare;
    End "end" Reserved Bare;
    Enum "enum" Unreserved Bare;
    Escape "escape" Unreserved Bare;
    Event "event" Unreserved Bare;
    Except "except" Reserved As;
    Exclude "exclude" Unreserved Bare;
    Excluding "excluding" Unreserved Bare;
    Exclusive "exclusive" Unreserved Bare;
    Execute "execute" Unreserved Bare;
    Exists "exists" ColumnName Bare;
    Explain "explain" Unreserved Bare;
    Expression "expression" Unreserved Bare;
    Extension "extension" Unreserved Bare;
    External "external" Unreserved Bare;
    Extract "extract" ColumnName Bare;
    False "false" Reserved Bare;
    Family "family" Unreserved Bare;
    Fetch "fetch" Reserved As;
    Filter "filter" Unreserved As;
    Finalize "finalize" Unreserved Bare;
    First "first" Unreserved Bare;
    Float "float" ColumnName Bare;
    Following "following" Unreserved Bare;
    For "for" Reserved As;
    Force "force" Unreserved Bare;
    Foreign "foreign" Reserved Bare;
    Forward "forward" Unreserved Bare;
    Freeze "freeze" TypeOrFunctionName Bare;
    From "from" Reserved As;
    Full "full" TypeOrFunctionName Bare;
    Function "function" Unreserved Bare;
    Functions "functions" Unreserved Bare;
    Generated "generated" Unreserved Bare;
    Global "global" Unreserved Bare;
    Grant "grant" Reserved As;
    Granted "granted" Unreserved Bare;
    Greatest "greatest" ColumnName Bare;
    Group "group" Reserved As;
    Grouping "grouping" ColumnName Bare;
    Groups "groups" Unreserved Bare;
    Handler "handler" Unreserved Bare;
    Having "having" Reserved As;
    Header "header" Unreserved Bare;
    Hold "hold" Unreserved Bare;
    Hour "hour" Unreserved As;
    Identity "identity" Unreserved Bare;
    If "if" Unreserved Bare;
    Ilike "ilike" TypeOrFunctionName Bare;
    Immediate "immediate" Unreserved Bare;
    Immutable "immutable" Unreserved Bare;
    Implicit "implicit" Unreserved Bare;
    Import "import" Unreserved Bare;
    In "in" Reserved Bare;
    Include "include" Unreserved Bare;
    Including "including" Unreserved Bare;
    Increment "increment" Unreserved Bare;
    Index "index" Unreserved Bare;
    Indexes "indexes" Unreserved Bare;
    Inherit "inherit" Unreserved Bare;
    Inherits "inherits" Unreserved Bare;
    Initially "initially" Reserved Bare;
    Inline "inline" Unreserved Bare;
    Inner "inner" TypeOrFunctionName Bare;
    Inout "inout" ColumnName Bare;
    Input "input" Unreserved Bare;
    Insensitive "insensitive" Unreserved Bare;
    Insert "insert" Unreserved Bare;
    Instead "instead" Unreserved Bare;
    Int "int" ColumnName Bare;
    Integer "integer" ColumnName Bare;
    Intersect "intersect" Reserved As;
    Interval "interval" ColumnName Bare;
    Into "into" Reserved As;
    Invoker "invoker" Unreserved Bare;
    Is "is" TypeOrFunctionName Bare;
    Isnull "isnull" TypeOrFunctionName As;
    Isolation "isolation" Unreserved Bare;
    Join "join" TypeOrFunctionName Bare;
    Key "key" Unreserved Bare;
    Label "label" Unreserved Bare;
    Language "language" Unreserved Bare;
    Large "large" Unreserved Bare;
    Last "last" Unreserved Bare;
    Lateral "lateral" Reserved Bare;
    Leading "leading" Reserved Bare;
    Leakproof "leakproof" Unreserved Bare;
    Least "least" ColumnName Bare;
    Left "left" TypeOrFunctionName Bare;
    Level "level" Unreserved Bare;
    Like "like" TypeOrFunctionName Bare;
    Limit "limit" Reserved As;
    Listen "listen" Unreserved Bare;
    Load "load" Unreserved Bare;
    Local "local" Unreserved Bare;
    Localtime "localtime" Reserved Bare;
    Localtimestamp "localtimestamp" Reserved Bare;
    Location "location" Unreserved Bare;
    Lock "lock" Unreserved Bare;
    Locked "locked" Unreserved Bare;
    Logged "logged" Unreserved Bare;
    Mapping "mapping" Unreserved Bare;
    Match "match" Unreserved Bare;
    Matched "matched" Unreserved Bare;
    Materialized "materialized" Unreserved Bare;
    Maxvalue "maxvalue" Unreserved Bare;
    Merge "merge" Unreserved Bare;
    Method "method" Unreserved Bare;
    Minute "minute" Unreserved As;
    Minvalue "minvalue" Unreserved Bare;
    Mode "mode" Unreserved Bare;
    Month "month" Unreserved As;
    Move "move" Unreserved Bare;
    Name "name" Unreserved Bare;
    Names "names" Unreserved Bare;
    National "national" ColumnName Bare;
    Natural "natural" TypeOrFunctionName Bare;
    Nchar "nchar" ColumnName Bare;
    New "new" Unreserved Bare;
    Next "next" Unreserved Bare;
    Nfc "nfc" Unreserved Bare;
    Nfd "nfd" Unreserved Bare;
    Nfkc "nfkc" Unreserved Bare;
    Nfkd "nfkd" Unreserved Bare;
    No "no" Unreserved Bare;
    None "none" ColumnName Bare;
    Normalize "normalize" ColumnName Bare;
    Normalized "normalized" Unreserved Bare;
    Not "not" Reserved Bare;
    Nothing "nothing" Unreserved Bare;
    Notify "notify" Unreserved Bare;
    Notnull "notnull" TypeOrFunctionName As;
    Nowait "nowait" Unreserved Bare;
    Null "null" Reserved Bare;
    Nullif "nullif" ColumnName Bare;
    Nulls "nulls" Unreserved Bare;
    Numeric "numeric" ColumnName Bare;
    Object "object" Unreserved Bare;
    Of "of" Unreserved Bare;
    Off "off" Unreserved Bare;
    Offset "offset" Reserved As;
    Oids "oids" Unreserved Bare;
    Old "old" Unreserved Bare;
    On "on" Reserved As;
    Only "only" Reserved Bare;
    Operator "operator" Unreserved Bare;
    Option "option" Unreserved Bare;
    Options "options" Unreserved Bare;
    Or "or" Reserved Bare;
    Order "order" Reserved As;
    Ordinality "ordinality" Unreserved Bare;
    Others "others" Unreserved Bare;
    Out "out" ColumnName Bare;
    Outer "outer" TypeOrFunctionName Bare;
    Over "over" Unreserved As;
    Overlaps "overlaps" TypeOrFunctionName As;
    Overlay "overlay" ColumnName Bare;
    Overriding "overriding" Unreserved Bare;
    Owned "owned" Unreserved Bare;
    Owner "owner" Unreserved Bare;
    Parallel "parallel" Unreserved Bare;
    Parameter "parameter" Unreserved Bare;
    Parser "parser" Unreserved Bare;
    Partial "partial" Unreserved Bare;
    Partition "partition" Unreserved Bare;
    Passing "passing" Unreserved Bare;
    Password "password" Unreserved Bare;
    Placing "placing" Reserved Bare;
    Plans "plans" Unreserved Bare;
    Policy "policy" Unreserved Bare;
    Position "position" ColumnName Bare;
    Preceding "preceding" Unreserved Bare;
    Precision "precision" ColumnName As;
    Prepare "prepare" Unreserved Bare;
    Prepared "prepared" Unreserved Bare;
    Preserve "preserve" Unreserved Bare;
    Primary "primary" Reserved Bare;
    Prior "prior" Unreserved Bare;
    Privileges "privileges" Unreserved Bare;
    Procedural "procedural" Unreserved Bare;
    Procedure "procedure" Unreserved Bare;
    Procedures "procedures" Unreserved Bare;
    Program "program" Unreserved Bare;
    Publication "publication" Unreserved Bare;
    Quote "quote" Unreserved Bare;
    Range "range" Unreserved Bare;
    Read "read" Unreserved Bare;
    Real "real" ColumnName Bare;
    Reassign "reassign" Unreserved Bare;
    Recheck "recheck" Unreserved Bare;
    Recursive "recursive" Unreserved Bare;
    Ref "ref" Unreserved Bare;
    References "references" Reserved Bare;
    Referencing "referencing" Unreserved Bare;
    Refresh "refresh" Unreserved Bare;
    Reindex "reindex" Unreserved Bare;
    Relative "relative" Unreserved Bare;
    Release "release" Unreserved Bare;
    Rename "rename" Unreserved Bare;
    Repeatable "repeatable" Unreserved Bare;
    Replace "replace" Unreserved Bare;
    Replica "replica" Unreserved Bare;
    Reset "reset" Unreserved Bare;
    Restart "restart" Unreserved Bare;
    Restrict "restrict" Unreserved Bare;
    Return "return" Unreserved Bare;
    Returning "returning" Reserved As;
    Returns "returns" Unreserved Bare;
    Revoke "revoke" Unreserved Bare;
    Right "right" TypeOrFunctionName Bare;
    Role "role" Unreserved Bare;
    Rollback "rollback" Unreserved Bare;
    Rollup "rollup" Unreserved Bare;
    Routine "routine" Unreserved Bare;
    Routines "routines" Unreserved Bare;
    Row "row" ColumnName Bare;
    Rows "rows" Unreserved Bare;
    Rule "rule" Unreserved Bare;
    Savepoint "savepoint" Unreserved Bare;
    Schema "schema" Unreserved Bare;
    Schemas "schemas" Unreserved Bare;
    Scroll "scroll" Unreserved Bare;
    Search "search" Unreserved Bare;
    Second "second" Unreserved As;
    Security "security" Unreserved Bare;
    Select "select" Reserved Bare;
    Sequence "sequence" Unreserved Bare;
    Sequences "sequences" Unreserved Bare;
    Serializable "serializable" Unreserved Bare;
    Server "server" Unreserved Bare;
    Session "session" Unreserved Bare;
    SessionUser "session_user" Reserved Bare;
    Set "set" Unreserved Bare;
    Setof "setof" ColumnName Bare;
    Sets "sets" Unreserved Bare;
    Share "share" Unreserved Bare;
    Show "show" Unreserved Bare;
    Similar "similar" TypeOrFunctionName Bare;
    Simple "simple" Unreserved Bare;
    Skip "skip" Unreserved Bare;
    Smallint "smallint" ColumnName Bare;
    Snapshot "snapshot" Unreserved Bare;
    Some "some" Reserved Bare;
    Sql "sql" Unreserved Bare;
    Stable "stable" Unreserved Bare;
    Standalone "standalone" Unreserved Bare;
    Start "start" Unreserved Bare;
    Statement "statement" Unreserved Bare;
    Statistics "statistics" Unreserved Bare;
    Stdin "stdin" Unreserved Bare;
    Stdout "stdout" Unreserved Bare;
    Storage "storage" Unreserved Bare;
    Stored "stored" Unreserved Bare;
    Strict "strict" Unreserved Bare;
    Strip "strip" Unreserved Bare;
    Subscription "subscription" Unreserved Bare;
    Substring "substring" ColumnName Bare;
    Support "support" Unreserved Bare;
    Symmetric "symmetric" Reserved Bare;
    Sysid "sysid" Unreserved Bare;
    System "system" Unreserved Bare;
    Table "table" Reserved Bare;
    Tables "tables" Unreserved Bare;
    Tablesample "tablesample" TypeOrFunctionName Bare;
    Tablespace "tablespace" Unreserved Bare;
    Temp "temp" Unreserved Bare;
    Template "template" Unreserved Bare;
    Temporary "temporary" Unreserved Bare;
    Text "text" Unreserved Bare;
    Then "then" Reserved Bare;
    Ties "ties" Unreserved Bare;
    Time "time" ColumnName Bare;
    Timestamp "timestamp" ColumnName Bare;
    To "to" Reserved As;
    Trailing "trailing" Reserved Bare;
    Transaction "transaction" Unreserved Bare;
    Transform "transform" Unreserved Bare;
    Treat "treat" ColumnName Bare;
    Trigger "trigger" Unreserved Bare;
    Trim "trim" ColumnName Bare;
    True "true" Reserved Bare;
    Truncate "truncate" Unreserved Bare;
    Trusted "trusted" Unreserved Bare;
    Type "type" Unreserved Bare;
    Types "types" Unreserved Bare;
    Uescape "uescape" Unreserved Bare;
    Unbounded "unbounded" Unreserved Bare;
    Uncommitted "uncommitted" Unreserved Bare;
    Unencrypted "unencrypted" Unreserved Bare;
    Union "union" Reserved As;
    Unique "unique" Reserved Bare;
    Unknown "unknown" Unreserved Bare;
    Unlisten "unlisten" Unreserved Bare;
    Unlogged "unlogged" Unreserved Bare;
    Until "until" Unreserved Bare;
    Update "update" Unreserved Bare;
    User "user" Reserved Bare;
    Using "using" Reserved Bare;
    Vacuum "vacuum" Unreserved Bare;
    Valid "valid" Unreserved Bare;
    Validate "validate" Unreserved Bare;
    Validator "validator" Unreserved Bare;
    Value "value" Unreserved Bare;
    Values "values" ColumnName Bare;
    Varchar "varchar" ColumnName Bare;
    Variadic "variadic" Reserved Bare;
    Varying "varying" Unreserved As;
    Verbose "verbose" TypeOrFunctionName Bare;
    Version "version" Unreserved Bare;
    View "view" Unreserved Bare;
    Views "views" Unreserved Bare;
    Volatile "volatile" Unreserved Bare;
    When "when" Reserved Bare;
    Where "where" Reserved As;
    Whitespace "whitespace" Unreserved Bare;
    Window "window" Reserved As;
    With "with" Reserved As;
    Within "within" Unreserved As;
    Without "without" Unreserved As;
    Work "work" Unreserved Bare;
    Wrapper "wrapper" Unreserved Bare;
    Write "write" Unreserved Bare;
    Xml "xml" Unreserved Bare;
    Xmlattributes "xmlattributes" ColumnName Bare;
    Xmlconcat "xmlconcat" ColumnName Bare;
    Xmlelement "xmlelement" ColumnName Bare;
    Xmlexists "xmlexists" ColumnName Bare;
    Xmlforest "xmlforest" ColumnName Bare;
    Xmlnamespaces "xmlnamespaces" ColumnName Bare;
    Xmlparse "xmlparse" ColumnName Bare;
    Xmlpi "xmlpi" ColumnName Bare;
    Xmlroot "xmlroot" ColumnName Bare;
    Xmlserialize "xmlserialize" ColumnName Bare;
    Xmltable "xmltable" ColumnName Bare;
    Year "year" Unreserved As;
    Yes "yes" Unreserved Bare;
    Zone "zone" Unreserved Bare;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_word_is_found_in_any_case_and_others_are_not() {
        for keyword in ALL {
            assert_eq!(Keyword::find(keyword.word().as_bytes()), Some(*keyword));
            assert_eq!(Keyword::find(keyword.word().to_uppercase().as_bytes()), Some(*keyword));
        }
        for word in ["", "a", "selec", "selects", "current\x7fdate", "currentXdate", "current_timestamp_of"] {
            assert_eq!(Keyword::find(word.as_bytes()), None, "{word}");
        }
    }
}
