//! Choice of the statement, and commands of sessions, transactions, cursors and maintenance.

use super::Printer;
use crate::ast::{
    Copy, CopySource, DefinitionItem, Discard, Execute, Fetch, FetchDirection, IsolationLevel, LockMode, Name,
    OptionValue, ReindexKind, Set, SetAction, SetScope, SetValue, Show, Statement, Transaction, TransactionMode,
};

impl Printer<'_> {
    #[expect(clippy::too_many_lines, reason = "one arm for each kind of statement")]
    pub(super) fn statement(&mut self, statement: &Statement) {
        use Statement as S;
        match statement {
            S::Query(query) => self.query(query),
            S::Insert(insert) => self.insert(insert),
            S::Update(update) => self.update(update),
            S::Delete(delete) => self.delete(delete),
            S::Merge(merge) => self.merge(merge),
            S::Copy(copy) => self.copy(copy),
            S::Transaction(transaction) => self.transaction(transaction),
            S::Prepare(prepare) => {
                self.words_name("PREPARE ", &prepare.name);
                self.opt_parens("", &prepare.types, Self::type_name);
                self.put(" AS ");
                self.statement(&prepare.statement);
            }
            S::Execute(execute) => self.execute(execute),
            S::Deallocate(name) => self.name_or("DEALLOCATE ", name.as_deref(), "ALL"),
            S::DeclareCursor(cursor) => {
                self.words_name("DECLARE ", &cursor.name);
                self.put_if(cursor.binary, " BINARY");
                self.put(match cursor.insensitive {
                    None => "",
                    Some(true) => " INSENSITIVE",
                    Some(false) => " ASENSITIVE",
                });
                self.put(match cursor.scroll {
                    None => "",
                    Some(true) => " SCROLL",
                    Some(false) => " NO SCROLL",
                });
                self.put(if cursor.hold { " CURSOR WITH HOLD FOR " } else { " CURSOR FOR " });
                self.query(&cursor.query);
            }
            S::Fetch(fetch) => self.fetch(fetch),
            S::CloseCursor(name) => self.name_or("CLOSE ", name.as_deref(), "ALL"),
            S::Set(set) => self.set(set),
            S::Show(Show::All) => self.put("SHOW ALL"),
            S::Show(Show::Variable(name)) => {
                self.put("SHOW ");
                self.variable(name);
            }
            S::SetConstraints(set) => {
                self.put("SET CONSTRAINTS ");
                self.put_if(set.names.is_empty(), "ALL");
                self.list(&set.names, Self::name);
                self.put(if set.deferred { " DEFERRED" } else { " IMMEDIATE" });
            }
            S::Discard(discard) => self.put(match discard {
                Discard::All => "DISCARD ALL",
                Discard::Temp => "DISCARD TEMP",
                Discard::Plans => "DISCARD PLANS",
                Discard::Sequences => "DISCARD SEQUENCES",
            }),
            S::Listen(channel) => self.words_name("LISTEN ", channel),
            S::Unlisten(channel) => self.name_or("UNLISTEN ", channel.as_deref(), "*"),
            S::Notify(notify) => {
                self.words_name("NOTIFY ", &notify.channel);
                self.opt(", ", notify.payload.as_ref(), |out, text| out.text(text));
            }
            S::Lock(lock) => {
                self.put("LOCK TABLE ");
                self.relations(&lock.tables);
                self.put(lock_mode(lock.mode));
                self.put_if(lock.nowait, " NOWAIT");
            }
            S::Explain(explain) => {
                self.put("EXPLAIN ");
                self.options(&explain.options);
                self.statement(&explain.statement);
            }
            S::Vacuum(vacuum) => {
                self.put(if vacuum.analyze { "ANALYZE " } else { "VACUUM " });
                self.options(&vacuum.options);
                self.list(&vacuum.tables, |out, (name, columns)| {
                    out.name(name);
                    out.opt_parens(" ", columns, |out, name| out.ident(name));
                });
                self.trim();
            }
            S::Cluster(cluster) => {
                self.put("CLUSTER ");
                self.options_before(&cluster.options, cluster.table.is_some());
                self.opt("", cluster.table.as_ref(), Self::name);
                self.opt(" USING ", cluster.index.as_ref(), |out, index| out.ident(index));
                self.trim();
            }
            S::Reindex(reindex) => {
                self.put("REINDEX ");
                self.options(&reindex.options);
                self.put(match reindex.kind {
                    ReindexKind::Index => "INDEX ",
                    ReindexKind::Table => "TABLE ",
                    ReindexKind::Schema => "SCHEMA ",
                    ReindexKind::System => "SYSTEM ",
                    ReindexKind::Database => "DATABASE ",
                });
                self.name(&reindex.name);
            }
            S::Checkpoint => self.put("CHECKPOINT"),
            S::Load(file) => {
                self.put("LOAD ");
                self.text(file);
            }
            S::Call(call) => {
                self.put("CALL ");
                self.call(call);
            }
            S::Do(items) => {
                self.put("DO");
                for item in items {
                    self.put(if item.name == "language" { " LANGUAGE " } else { " " });
                    self.opt("", item.value.as_ref(), Self::option_value);
                }
            }
            S::Truncate(truncate) => {
                self.put("TRUNCATE TABLE ");
                self.relations(&truncate.tables);
                self.put_if(truncate.restart_identity, " RESTART IDENTITY");
                self.behavior(truncate.behavior);
            }
            S::RefreshMaterializedView(refresh) => {
                self.put("REFRESH MATERIALIZED VIEW ");
                self.put_if(refresh.concurrently, "CONCURRENTLY ");
                self.name(&refresh.name);
                self.put_if(refresh.no_data, " WITH NO DATA");
            }
            S::CreateTable(table) => self.create_table(table),
            S::CreateTableAs(create) => self.create_table_as(create),
            S::CreateIndex(index) => self.create_index(index),
            S::CreateView(view) => self.create_view(view),
            S::CreateSequence(sequence) => self.create_sequence(sequence),
            S::AlterSequence(sequence) => {
                self.put("ALTER SEQUENCE ");
                self.put_if(sequence.if_exists, "IF EXISTS ");
                self.name(&sequence.name);
                self.sequence_options(&sequence.options);
            }
            S::CreateStatistics(statistics) => self.create_statistics(statistics),
            S::AlterTable(alter) => self.alter_table(alter),
            S::Rename(rename) => self.rename(rename),
            S::ShowTables => self.put("SHOW TABLES"),
            S::Describe(name) => {
                self.put("DESCRIBE ");
                self.name(name);
            }
            S::ShowCreateTable(name) => {
                self.put("SHOW CREATE TABLE ");
                self.name(name);
            }
            S::Summarize(query) => {
                self.put("SUMMARIZE ");
                self.query(query);
            }
            S::Unsupported { command } => self.put(command),
            definition => self.definition(definition),
        }
    }

    /// Drops a blank at the end.
    fn trim(&mut self) {
        self.out.truncate(self.out.trim_end().len());
    }

    pub(super) fn words_name(&mut self, words: &str, name: &str) {
        self.put(words);
        self.ident(name);
    }

    fn name_or(&mut self, words: &str, name: Option<&str>, otherwise: &str) {
        self.put(words);
        match name {
            Some(name) => self.ident(name),
            None => self.put(otherwise),
        }
    }

    fn relations(&mut self, relations: &[(Name, bool)]) {
        self.list(relations, |out, (name, only)| {
            out.put_if(*only, "ONLY ");
            out.name(name);
        });
    }

    /// `(options) `, if there are some.
    fn options(&mut self, options: &[DefinitionItem]) {
        if !options.is_empty() {
            self.parens(options, Self::word_option);
            self.put(" ");
        }
    }

    /// Options of CLUSTER; of all tables it takes no parentheses.
    fn options_before(&mut self, options: &[DefinitionItem], parens: bool) {
        if parens {
            self.options(options);
        } else {
            self.separated(options, " ", |out, option| out.put(&option.name.to_uppercase()));
        }
    }

    pub(super) fn execute(&mut self, execute: &Execute) {
        self.words_name("EXECUTE ", &execute.name);
        self.opt_parens("", &execute.args, Self::expr);
    }

    fn copy(&mut self, copy: &Copy) {
        self.put("COPY ");
        match &copy.source {
            CopySource::Table(name, columns) => {
                self.name(name);
                self.opt_parens(" ", columns, |out, name| out.ident(name));
            }
            CopySource::Query(query) => {
                self.put("(");
                self.statement(query);
                self.put(")");
            }
        }
        self.put(if copy.from { " FROM " } else { " TO " });
        self.put_if(copy.program, "PROGRAM ");
        match &copy.file {
            Some(file) => self.text(file),
            None => self.put(if copy.from { "STDIN" } else { "STDOUT" }),
        }
        self.opt_parens(" WITH ", &copy.options, Self::word_option);
        self.opt(" WHERE ", copy.filter.as_ref(), Self::expr);
    }

    fn transaction(&mut self, transaction: &Transaction) {
        use Transaction as X;
        match transaction {
            X::Begin(modes) => {
                self.put("BEGIN");
                self.opt_list(" ", modes, |out, mode| out.mode(*mode));
            }
            X::Start(modes) => {
                self.put("START TRANSACTION");
                self.opt_list(" ", modes, |out, mode| out.mode(*mode));
            }
            X::Commit { chain } => self.put(if *chain { "COMMIT AND CHAIN" } else { "COMMIT" }),
            X::Rollback { chain } => self.put(if *chain { "ROLLBACK AND CHAIN" } else { "ROLLBACK" }),
            X::Savepoint(name) => self.words_name("SAVEPOINT ", name),
            X::Release(name) => self.words_name("RELEASE SAVEPOINT ", name),
            X::RollbackTo(name) => self.words_name("ROLLBACK TO SAVEPOINT ", name),
            X::Prepare(name) => self.opt("PREPARE TRANSACTION ", Some(name), |out, name| out.text(name)),
            X::CommitPrepared(name) => self.opt("COMMIT PREPARED ", Some(name), |out, name| out.text(name)),
            X::RollbackPrepared(name) => self.opt("ROLLBACK PREPARED ", Some(name), |out, name| out.text(name)),
        }
    }

    fn mode(&mut self, mode: TransactionMode) {
        self.put(match mode {
            TransactionMode::Isolation(IsolationLevel::ReadUncommitted) => "ISOLATION LEVEL READ UNCOMMITTED",
            TransactionMode::Isolation(IsolationLevel::ReadCommitted) => "ISOLATION LEVEL READ COMMITTED",
            TransactionMode::Isolation(IsolationLevel::RepeatableRead) => "ISOLATION LEVEL REPEATABLE READ",
            TransactionMode::Isolation(IsolationLevel::Serializable) => "ISOLATION LEVEL SERIALIZABLE",
            TransactionMode::ReadOnly(true) => "READ ONLY",
            TransactionMode::ReadOnly(false) => "READ WRITE",
            TransactionMode::Deferrable(true) => "DEFERRABLE",
            TransactionMode::Deferrable(false) => "NOT DEFERRABLE",
        });
    }

    fn fetch(&mut self, fetch: &Fetch) {
        self.put(if fetch.is_move { "MOVE " } else { "FETCH " });
        let (words, count) = match fetch.direction {
            FetchDirection::Forward(count) => ("FORWARD ", Some(count)),
            FetchDirection::Backward(count) => ("BACKWARD ", Some(count)),
            FetchDirection::Absolute(count) => ("ABSOLUTE ", Some(count)),
            FetchDirection::Relative(count) => ("RELATIVE ", Some(count)),
            FetchDirection::ForwardAll => ("FORWARD ALL", None),
            FetchDirection::BackwardAll => ("BACKWARD ALL", None),
        };
        self.put(words);
        self.opt("", count.as_ref(), |out, count| out.number(count));
        self.words_name(" FROM ", &fetch.cursor);
    }

    /// SET or RESET as a statement, or as a clause of another one.
    pub(super) fn set(&mut self, set: &Set) {
        let local = if set.scope == SetScope::Local { "SET LOCAL " } else { "SET " };
        match &set.action {
            SetAction::Values(name, values) => {
                self.put(local);
                // An interval is the value of TIME ZONE only.
                if let [SetValue::Interval(text, ty)] = &values[..] {
                    self.put("TIME ZONE ");
                    let text = crate::ast::Expr::new(crate::ast::ExprKind::String(text.clone()), Default::default());
                    let syntax = crate::ast::CastSyntax::Literal;
                    let cast = crate::ast::Cast { expr: text, ty: ty.clone(), syntax };
                    let kind = crate::ast::ExprKind::Cast(Box::new(cast));
                    return self.expr(&crate::ast::Expr::new(kind, Default::default()));
                }
                self.variable(name);
                self.put(" TO ");
                self.list(values, |out, value| match value {
                    SetValue::Text(text) | SetValue::Interval(text, _) => out.text(text),
                    SetValue::Number(number) => out.numeric(number),
                });
            }
            SetAction::Default(name) => {
                self.put(local);
                self.variable(name);
                self.put(" TO DEFAULT");
            }
            SetAction::Current(name) => {
                self.put(local);
                self.variable(name);
                self.put(" FROM CURRENT");
            }
            SetAction::Transaction(modes) => {
                self.put(local);
                self.opt_list("TRANSACTION ", modes, |out, mode| out.mode(*mode));
            }
            SetAction::SessionCharacteristics(modes) => {
                self.put(local);
                self.opt_list("SESSION CHARACTERISTICS AS TRANSACTION ", modes, |out, mode| out.mode(*mode));
            }
            SetAction::TransactionSnapshot(name) => {
                self.put(local);
                self.put("TRANSACTION SNAPSHOT ");
                self.text(name);
            }
            SetAction::Reset(name) => {
                self.put("RESET ");
                self.variable(name);
            }
            SetAction::ResetAll => self.put("RESET ALL"),
        }
    }

    /// A value as a word, where no quoted text may stand.
    pub(super) fn value_or_default(&mut self, value: Option<&OptionValue>) {
        match value {
            Some(value) => self.option_value(value),
            None => self.put("DEFAULT"),
        }
    }
}

fn lock_mode(mode: LockMode) -> &'static str {
    match mode {
        LockMode::AccessShare => " IN ACCESS SHARE MODE",
        LockMode::RowShare => " IN ROW SHARE MODE",
        LockMode::RowExclusive => " IN ROW EXCLUSIVE MODE",
        LockMode::ShareUpdateExclusive => " IN SHARE UPDATE EXCLUSIVE MODE",
        LockMode::Share => " IN SHARE MODE",
        LockMode::ShareRowExclusive => " IN SHARE ROW EXCLUSIVE MODE",
        LockMode::Exclusive => " IN EXCLUSIVE MODE",
        LockMode::AccessExclusive => " IN ACCESS EXCLUSIVE MODE",
    }
}
