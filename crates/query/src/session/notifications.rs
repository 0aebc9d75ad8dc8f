//! LISTEN and NOTIFY: what transactions tell, and the sessions that listen.
//!
//! Always true:
//! - A session gets the notifications of a channel whose transactions commit after its LISTEN has, each once, in the order
//!   of these commits.
//! - Who notifies does not wait for who listens. All notifications together have a limit of memory; a session that leaves
//!   the most unread is ended when they reach it.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use engine::{MemoryBudget, Work};
use model::limits::{NOTIFICATION_BYTES_MAX, NOTIFICATION_TXN_BYTES_MAX, NOTIFY_PAYLOAD_BYTES_MAX};
use model::{Error, Lsn, Result, SqlState};
use parking_lot::Mutex;
use rustc_hash::{FxHashMap, FxHashSet};

/// Memory of a notification, and of its places in queues, next to its texts.
const OVERHEAD: u64 = 128;
/// Bytes of a channel's name from which it is too long (`NAMEDATALEN` of PostgreSQL).
const CHANNEL_BYTES_MAX: usize = 64;

/// A message of one session to those that listen to a channel.
#[derive(Debug)]
pub struct Notification {
    /// The channel's name.
    pub channel: Arc<str>,
    /// The text; empty if NOTIFY had none.
    pub payload: Arc<str>,
    /// `pg_backend_pid()` of the session that sent it.
    pub pid: i32,
    held: Held,
}

impl Notification {
    fn bytes(&self) -> u64 {
        self.held.bytes
    }
}

/// Memory of a notification while it exists.
struct Held {
    channels: Channels,
    bytes: u64,
}

impl std::fmt::Debug for Held {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} bytes", self.bytes)
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        *self.channels.0.used.lock() -= self.bytes;
        self.channels.0.memory.release(Work::Results, self.bytes);
    }
}

/// An event that a listening session learns of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wake {
    /// It has notifications.
    Notified,
    /// It must end, because it left too many unread.
    Overrun,
}

/// Called by other sessions; must not block.
pub(crate) type OnWake = Arc<dyn Fn(Wake) + Send + Sync>;

/// The channels of a database. Clones share them.
#[derive(Clone)]
pub(crate) struct Channels(Arc<Inner>);

struct Inner {
    memory: MemoryBudget,
    /// Bytes of all notifications.
    used: Mutex<u64>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    listeners: BTreeMap<i32, Listener>,
    /// Listeners by channel.
    channels: FxHashMap<Arc<str>, BTreeSet<i32>>,
    /// Commits with notifications that have begun, and have not ended.
    committing: BTreeSet<u64>,
    next_ticket: u64,
    /// Notifications of ended commits, in the order of delivery. A commit that began before one of them ended may come
    /// before it.
    waiting: BTreeMap<(Lsn, u64), Told>,
}

/// Notifications of a commit.
struct Told {
    /// Commits with this ticket or a later one began when this one had ended.
    next_ticket: u64,
    notifications: Vec<Arc<Notification>>,
}

struct Listener {
    channels: BTreeSet<Arc<str>>,
    queue: VecDeque<Arc<Notification>>,
    bytes: u64,
    is_overrun: bool,
    on_wake: OnWake,
}

impl Channels {
    pub(crate) fn new(memory: MemoryBudget) -> Channels {
        Channels(Arc::new(Inner { memory, used: Mutex::default(), state: Mutex::default() }))
    }

    /// Part of the memory of notifications that is in use, from 0 to 1.
    pub(crate) fn usage(&self) -> f64 {
        *self.0.used.lock() as f64 / NOTIFICATION_BYTES_MAX as f64
    }

    /// The channels that a session listens to, in order.
    pub(crate) fn of(&self, pid: i32) -> Vec<String> {
        let state = self.0.state.lock();
        let listener = state.listeners.get(&pid);
        listener.into_iter().flat_map(|listener| &listener.channels).map(|channel| channel.to_string()).collect()
    }

    /// A notification, which no session has yet.
    fn notification(&self, channel: Arc<str>, payload: &str, pid: i32) -> Result<Notification> {
        let bytes = (channel.len() + payload.len()) as u64 + OVERHEAD;
        while !self.hold(bytes)? {
            // Sessions share notifications, so that one of them may free nothing.
            if !self.end_slowest() {
                return Err(too_many());
            }
        }
        let held = Held { channels: self.clone(), bytes };
        Ok(Notification { channel, payload: payload.into(), pid, held })
    }

    /// Counts the bytes of a notification; false beyond the limit.
    fn hold(&self, bytes: u64) -> Result<bool> {
        let mut used = self.0.used.lock();
        if *used + bytes > NOTIFICATION_BYTES_MAX {
            return Ok(false);
        }
        self.0.memory.reserve(Work::Results, bytes)?;
        *used += bytes;
        Ok(true)
    }

    /// Ends the session with the most unread notifications; false if there is none.
    fn end_slowest(&self) -> bool {
        let ended = {
            let mut state = self.0.state.lock();
            let slowest = state.listeners.values_mut().filter(|listener| !listener.is_overrun);
            let slowest = slowest.max_by_key(|listener| listener.bytes).filter(|listener| listener.bytes > 0);
            slowest.map(|listener| {
                listener.is_overrun = true;
                listener.bytes = 0;
                (std::mem::take(&mut listener.queue), Arc::clone(&listener.on_wake))
            })
        };
        let Some((queue, on_wake)) = ended else { return false };
        // The lock is free by then: the end of a notification counts its memory.
        drop(queue);
        on_wake(Wake::Overrun);
        true
    }

    fn begin_commit(&self) -> u64 {
        let mut state = self.0.state.lock();
        state.next_ticket += 1;
        let ticket = state.next_ticket;
        state.committing.insert(ticket);
        ticket
    }

    /// Ends a commit: delivers what waited for it, and its own notifications if it has an LSN.
    fn end_commit(&self, ticket: u64, committed: Option<(Lsn, Vec<Arc<Notification>>)>) {
        let mut woken = Vec::new();
        let mut delivered = Vec::new();
        {
            let mut state = self.0.state.lock();
            state.committing.remove(&ticket);
            if let Some((lsn, notifications)) = committed {
                let next_ticket = state.next_ticket + 1;
                state.waiting.insert((lsn, ticket), Told { next_ticket, notifications });
            }
            let state = &mut *state;
            while let Some(first) = state.waiting.first_entry() {
                if state.committing.first().is_some_and(|oldest| *oldest < first.get().next_ticket) {
                    break;
                }
                for notification in first.remove().notifications {
                    let listeners = state.channels.get(&notification.channel);
                    for pid in listeners.into_iter().flatten() {
                        let Some(listener) = state.listeners.get_mut(pid).filter(|one| !one.is_overrun) else {
                            continue;
                        };
                        if listener.queue.is_empty() {
                            woken.push(Arc::clone(&listener.on_wake));
                        }
                        listener.bytes += notification.bytes();
                        listener.queue.push_back(Arc::clone(&notification));
                    }
                    delivered.push(notification);
                }
            }
        }
        woken.iter().for_each(|on_wake| on_wake(Wake::Notified));
    }

    fn listen(&self, pid: i32, channel: &Arc<str>, on_wake: &OnWake) {
        let mut state = self.0.state.lock();
        let listener = state.listeners.entry(pid).or_insert_with(|| Listener {
            channels: BTreeSet::new(),
            queue: VecDeque::new(),
            bytes: 0,
            is_overrun: false,
            on_wake: Arc::clone(on_wake),
        });
        listener.channels.insert(Arc::clone(channel));
        state.channels.entry(Arc::clone(channel)).or_default().insert(pid);
    }

    /// Ends listening to a channel, or to all. Notifications that wait are still delivered.
    fn unlisten(&self, pid: i32, channel: Option<&Arc<str>>) {
        let mut state = self.0.state.lock();
        let state = &mut *state;
        let Some(listener) = state.listeners.get_mut(&pid) else { return };
        let ended = match channel {
            Some(channel) => listener.channels.take(channel).into_iter().collect(),
            None => std::mem::take(&mut listener.channels),
        };
        for channel in ended {
            if let Some(pids) = state.channels.get_mut(&channel) {
                pids.remove(&pid);
                if pids.is_empty() {
                    state.channels.remove(&channel);
                }
            }
        }
    }

    /// Removes a session.
    fn leave(&self, pid: i32) {
        self.unlisten(pid, None);
        let left = self.0.state.lock().listeners.remove(&pid);
        drop(left);
    }

    /// Takes notifications of a session, oldest first, of at most about `bytes`.
    fn take(&self, pid: i32, bytes: u64) -> Result<Vec<Arc<Notification>>> {
        let mut state = self.0.state.lock();
        let Some(listener) = state.listeners.get_mut(&pid) else { return Ok(Vec::new()) };
        if listener.is_overrun {
            let text = "terminating connection because its notifications were not read";
            let hint = "Read notifications soon, and LISTEN outside long transactions.";
            return Err(Error::new(SqlState::PROGRAM_LIMIT_EXCEEDED, text).with_hint(hint));
        }
        let (mut taken, mut size) = (Vec::new(), 0);
        while size < bytes
            && let Some(notification) = listener.queue.pop_front()
        {
            size += notification.bytes();
            taken.push(notification);
        }
        listener.bytes -= size;
        Ok(taken)
    }
}

fn too_many() -> Error {
    Error::new(SqlState::PROGRAM_LIMIT_EXCEEDED, "too many notifications in the NOTIFY queue")
}

/// Checks a channel's name and a payload.
///
/// # Errors
/// 22023.
pub(crate) fn check(channel: &str, payload: &str) -> Result<()> {
    let refused = |text| Err(Error::new(SqlState::INVALID_PARAMETER_VALUE, text));
    match (channel.len(), payload.len()) {
        (0, _) => refused("channel name cannot be empty"),
        (CHANNEL_BYTES_MAX.., _) => refused("channel name too long"),
        (_, NOTIFY_PAYLOAD_BYTES_MAX..) => refused("payload string too long"),
        _ => Ok(()),
    }
}

enum Act {
    Listen(Arc<str>),
    /// `None`: all channels.
    Unlisten(Option<Arc<str>>),
    Notify(Arc<Notification>),
}

/// An outbox that the session and its running statement share.
pub(crate) type SharedOutbox = Arc<Mutex<Outbox>>;

/// Channels of a session, and the changes of them that its transaction makes when it commits.
pub(crate) struct Outbox {
    channels: Channels,
    pid: i32,
    /// Each has the number of savepoints at the time.
    acts: Vec<(Act, usize)>,
    /// Savepoints of the transaction.
    savepoints: usize,
    /// Channels and payloads of the notifications in `acts`: each goes out once.
    known: FxHashSet<(Arc<str>, Arc<str>)>,
    bytes: u64,
    on_wake: Option<OnWake>,
    /// Whether the session may get notifications.
    is_listening: bool,
}

impl Outbox {
    pub(crate) fn new(channels: Channels, pid: i32) -> Outbox {
        let (acts, known) = (Vec::new(), FxHashSet::default());
        Outbox { channels, pid, acts, savepoints: 0, known, bytes: 0, on_wake: None, is_listening: false }
    }

    pub(crate) fn set_wake(&mut self, on_wake: OnWake) {
        self.on_wake = Some(on_wake);
    }

    pub(crate) fn is_listening(&self) -> bool {
        self.is_listening
    }

    /// Plans LISTEN.
    ///
    /// # Errors
    /// 0A000 for a session that cannot get notifications; 22023.
    pub(crate) fn listen(&mut self, channel: &str) -> Result<()> {
        check(channel, "")?;
        if self.on_wake.is_none() {
            return Err(Error::unsupported("LISTEN is not supported over this protocol")
                .with_hint("Connect by the PostgreSQL protocol; NOTIFY works over every protocol."));
        }
        self.acts.push((Act::Listen(channel.into()), self.savepoints));
        Ok(())
    }

    /// Plans UNLISTEN.
    pub(crate) fn unlisten(&mut self, channel: Option<&str>) {
        self.acts.push((Act::Unlisten(channel.map(Arc::from)), self.savepoints));
    }

    /// Plans a notification, unless it is there already.
    ///
    /// # Errors
    /// 22023; 54000 and 53200 beyond the limits of memory.
    pub(crate) fn notify(&mut self, channel: &str, payload: &str) -> Result<()> {
        check(channel, payload)?;
        let notification = self.channels.notification(channel.into(), payload, self.pid)?;
        let key = (Arc::clone(&notification.channel), Arc::clone(&notification.payload));
        if self.known.contains(&key) {
            return Ok(());
        }
        if self.bytes + notification.bytes() > NOTIFICATION_TXN_BYTES_MAX {
            return Err(too_many());
        }
        self.bytes += notification.bytes();
        self.known.insert(key);
        self.acts.push((Act::Notify(Arc::new(notification)), self.savepoints));
        Ok(())
    }

    /// Notes that the transaction has one more savepoint.
    pub(crate) fn add_savepoint(&mut self) {
        self.savepoints += 1;
    }

    /// Forgets what the transaction planned while it had `savepoints` savepoints or more.
    pub(crate) fn undo(&mut self, savepoints: usize) {
        self.savepoints = self.savepoints.min(savepoints);
        while let Some((act, _)) = self.acts.pop_if(|(_, planned)| *planned >= savepoints) {
            self.forget(&act);
        }
    }

    /// Number of plans of the transaction so far.
    pub(crate) fn len(&self) -> usize {
        self.acts.len()
    }

    /// Forgets all but the first `len` plans: those of a statement that will run again.
    pub(crate) fn truncate(&mut self, len: usize) {
        while self.acts.len() > len
            && let Some((act, _)) = self.acts.pop()
        {
            self.forget(&act);
        }
    }

    fn forget(&mut self, act: &Act) {
        if let Act::Notify(notification) = act {
            self.bytes -= notification.bytes();
            self.known.remove(&(Arc::clone(&notification.channel), Arc::clone(&notification.payload)));
        }
    }

    /// Assigns what was planned since to the enclosing savepoint after RELEASE left `savepoints` savepoints.
    pub(crate) fn release_savepoint(&mut self, savepoints: usize) {
        self.savepoints = self.savepoints.min(savepoints);
        self.acts.iter_mut().for_each(|(_, planned)| *planned = savepoints.min(*planned));
    }

    /// Takes what the transaction planned; its commit begins now. `None` if it planned nothing.
    pub(crate) fn begin_commit(&mut self) -> Option<Outgoing> {
        self.savepoints = 0;
        if self.acts.is_empty() {
            return None;
        }
        (self.known, self.bytes) = (FxHashSet::default(), 0);
        let acts = std::mem::take(&mut self.acts).into_iter().map(|(act, _)| act).collect();
        Some(Outgoing { channels: self.channels.clone(), ticket: self.channels.begin_commit(), acts, committed: None })
    }

    /// Does what the transaction planned: it committed as `lsn`.
    pub(crate) fn end_commit(&mut self, mut outgoing: Outgoing, lsn: Lsn) {
        let mut notifications = Vec::new();
        for act in std::mem::take(&mut outgoing.acts) {
            match (act, &self.on_wake) {
                (Act::Listen(channel), Some(on_wake)) => {
                    self.channels.listen(self.pid, &channel, on_wake);
                    self.is_listening = true;
                }
                (Act::Listen(_), None) => {}
                (Act::Unlisten(channel), _) => self.channels.unlisten(self.pid, channel.as_ref()),
                (Act::Notify(notification), _) => notifications.push(notification),
            }
        }
        outgoing.committed = Some((lsn, notifications));
    }

    /// Notifications for this session, oldest first, of at most about `bytes`; the rest stays.
    ///
    /// # Errors
    /// 54000 if the session must end because it left too many unread.
    pub(crate) fn received(&self, bytes: u64) -> Result<Vec<Arc<Notification>>> {
        if self.is_listening { self.channels.take(self.pid, bytes) } else { Ok(Vec::new()) }
    }
}

impl Outbox {
    /// Ends listening, when the session ends.
    pub(crate) fn close(&mut self) {
        self.undo(0);
        if std::mem::take(&mut self.is_listening) {
            self.channels.leave(self.pid);
        }
    }
}

impl Drop for Outbox {
    fn drop(&mut self) {
        self.close();
    }
}

/// Changes of channels by a committing transaction. Dropping it ends the commit.
pub(crate) struct Outgoing {
    channels: Channels,
    ticket: u64,
    acts: Vec<Act>,
    committed: Option<(Lsn, Vec<Arc<Notification>>)>,
}

impl Drop for Outgoing {
    fn drop(&mut self) {
        self.channels.end_commit(self.ticket, self.committed.take());
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use env::RealEnv;

    use super::*;

    /// Channels of an empty database, and its folder.
    fn channels() -> (Channels, tempfile::TempDir) {
        let dir = tempfile::tempdir().unwrap();
        let opened = engine::Engine::open(Arc::new(RealEnv::new()), dir.path(), engine::Options::default());
        (Channels::new(opened.unwrap().0.memory().clone()), dir)
    }

    /// A session that counts how often it is woken and ended.
    fn session(channels: &Channels, pid: i32) -> (Outbox, Arc<[AtomicUsize; 2]>) {
        let mut outbox = Outbox::new(channels.clone(), pid);
        let woken: Arc<[AtomicUsize; 2]> = Arc::default();
        let counts = Arc::clone(&woken);
        outbox.set_wake(Arc::new(move |wake| {
            counts[usize::from(wake == Wake::Overrun)].fetch_add(1, Ordering::Relaxed);
        }));
        (outbox, woken)
    }

    fn commit(outbox: &mut Outbox, lsn: u64) {
        let outgoing = outbox.begin_commit().unwrap();
        outbox.end_commit(outgoing, Lsn(lsn));
    }

    fn texts(outbox: &Outbox) -> Vec<String> {
        let received = outbox.received(u64::MAX).unwrap();
        received.iter().map(|one| format!("{}:{} of {}", one.channel, one.payload, one.pid)).collect()
    }

    #[test]
    fn a_committed_listener_gets_each_notification_once_and_a_savepoint_takes_its_own_back() {
        let (channels, _dir) = channels();
        let (mut listener, woken) = session(&channels, 1);
        let (mut sender, _) = session(&channels, 2);
        listener.listen("a").unwrap();
        sender.notify("a", "early").unwrap();
        commit(&mut sender, 1);
        commit(&mut listener, 2);
        sender.notify("a", "x").unwrap();
        sender.notify("b", "x").unwrap();
        sender.add_savepoint();
        sender.notify("a", "x").unwrap();
        sender.notify("a", "undone").unwrap();
        sender.add_savepoint();
        sender.notify("a", "undone too").unwrap();
        sender.release_savepoint(1);
        sender.undo(1);
        sender.add_savepoint();
        sender.notify("a", "y").unwrap();
        sender.release_savepoint(0);
        commit(&mut sender, 3);
        assert_eq!(texts(&listener), ["a:x of 2", "a:y of 2"]);
        assert_eq!(texts(&listener), [""; 0]);
        assert_eq!(woken[0].load(Ordering::Relaxed), 1);
        listener.unlisten(None);
        commit(&mut listener, 4);
        sender.notify("a", "late").unwrap();
        commit(&mut sender, 5);
        assert_eq!(texts(&listener), [""; 0]);
        assert!(channels.usage() == 0.0, "nothing is kept");
    }

    #[test]
    fn notifications_arrive_in_the_order_of_commits_whoever_ends_first() {
        let (channels, _dir) = channels();
        let (mut listener, _) = session(&channels, 1);
        listener.listen("a").unwrap();
        commit(&mut listener, 1);
        let mut senders: Vec<Outbox> = (2..6).map(|pid| session(&channels, pid).0).collect();
        senders.iter_mut().for_each(|sender| sender.notify("a", "").unwrap());
        let [first, second, third, fourth] = &mut senders[..] else { panic!() };
        let one = first.begin_commit().unwrap();
        let two = second.begin_commit().unwrap();
        let three = third.begin_commit();
        second.end_commit(two, Lsn(11));
        assert_eq!(texts(&listener), [""; 0], "others may have committed before");
        first.end_commit(one, Lsn(10));
        drop(three);
        assert_eq!(texts(&listener), ["a: of 2", "a: of 3"], "the third was rolled back");
        commit(fourth, 12);
        assert_eq!(texts(&listener), ["a: of 5"]);
    }

    #[test]
    fn the_slowest_listener_ends_when_memory_is_full_and_a_transaction_has_a_limit() {
        let (channels, _dir) = channels();
        let (mut slow, woken) = session(&channels, 1);
        let (mut quick, _) = session(&channels, 2);
        let (mut sender, _) = session(&channels, 3);
        slow.listen("a").unwrap();
        commit(&mut slow, 1);
        quick.listen("a").unwrap();
        commit(&mut quick, 2);
        let text = "x".repeat(7_000);
        let count = NOTIFICATION_BYTES_MAX as usize / text.len() + 10;
        for lsn in 0..count {
            sender.notify("a", &format!("{lsn}{text}")).unwrap();
            commit(&mut sender, lsn as u64 + 3);
            assert_eq!(quick.received(u64::MAX).unwrap().len(), 1);
        }
        assert_eq!(woken[1].load(Ordering::Relaxed), 1);
        assert_eq!(slow.received(u64::MAX).unwrap_err().state(), SqlState::PROGRAM_LIMIT_EXCEEDED);
        let mut sent = 0_u64;
        let error = loop {
            match sender.notify("a", &format!("{sent}{text}")) {
                Ok(()) => sent += 1,
                Err(error) => break error,
            }
        };
        assert_eq!(error.message(), "too many notifications in the NOTIFY queue");
        assert!((1..=NOTIFICATION_TXN_BYTES_MAX / 7_000).contains(&sent), "{sent}");
        sender.undo(0);
        sender.notify("a", "again").unwrap();
        assert_eq!(sender.notify("", "").unwrap_err().message(), "channel name cannot be empty");
        assert_eq!(sender.notify("a", &"x".repeat(8_000)).unwrap_err().message(), "payload string too long");
        assert_eq!(sender.notify(&"x".repeat(64), "").unwrap_err().message(), "channel name too long");
    }
}
