//! The ledger of writes: which units were sent and which were acknowledged. The oracle checks query
//! answers and final counts against it.

use std::collections::HashMap;
use std::sync::Mutex;

use crate::workload::Workload;

/// Delivery state of one unit of a device. A unit is the part of one write request that belongs to
/// one device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// The unit was not sent: the target must not have it.
    Unsent,
    /// Sent but not acknowledged (in flight, refused, failed, timed out): the target may have it.
    Unknown,
    /// Acknowledged: the target must have it.
    Acked,
}

/// Delivery states of all devices. A unit takes two bits: a billion units take 250 MB.
pub(crate) struct Ledger {
    devices: Vec<Mutex<Device>>,
}

#[derive(Default)]
struct Device {
    /// Two bits a unit: 0 unsent, 1 unknown, 2 acknowledged.
    states: Vec<u64>,
    /// Highest unit sent, plus one.
    bound: u64,
    /// Units without an answer yet: at most one for each client that writes this device.
    in_flight: Vec<u64>,
    acked: u64,
    unknown: u64,
    /// Units below this number were written by an earlier run and count as acknowledged.
    assumed: u64,
}

const PER_WORD: u64 = 32;

impl Device {
    fn get(&self, unit: u64) -> State {
        if unit < self.assumed {
            return State::Acked;
        }
        let word = self.states.get((unit / PER_WORD) as usize).copied().unwrap_or(0);
        match (word >> (2 * (unit % PER_WORD))) & 3 {
            0 => State::Unsent,
            1 => State::Unknown,
            _ => State::Acked,
        }
    }

    fn set(&mut self, unit: u64, state: State) {
        let word = (unit / PER_WORD) as usize;
        if word >= self.states.len() {
            self.states.resize(word + 1, 0);
        }
        let shift = 2 * (unit % PER_WORD);
        let code = match state {
            State::Unsent => 0,
            State::Unknown => 1,
            State::Acked => 2,
        };
        self.states[word] = self.states[word] & !(3 << shift) | (code << shift);
    }
}

/// State of some devices at the moment a query was sent.
#[derive(Clone, Debug, Default)]
pub(crate) struct Before {
    devices: HashMap<u32, (u64, Vec<u64>)>,
    /// No client was writing, so whatever is acknowledged now was acknowledged then.
    quiet: bool,
    /// The target may make a write visible after acknowledging it: while clients write, no unit is
    /// required to be visible.
    eventual: bool,
}

impl Before {
    /// Returns whether no client was writing when the query was sent.
    pub(crate) fn is_quiet(&self) -> bool {
        self.quiet
    }
}

/// Units that an answer must contain, and units that it may contain.
pub(crate) struct View<'a> {
    ledger: &'a Ledger,
    before: &'a Before,
}

impl Ledger {
    /// Creates a ledger of `devices` devices with nothing sent.
    pub(crate) fn new(devices: usize) -> Ledger {
        Ledger { devices: (0..devices).map(|_| Mutex::default()).collect() }
    }

    fn device(&self, device: u32) -> std::sync::MutexGuard<'_, Device> {
        // A panic elsewhere cannot leave a device half-updated: each update is a few assignments.
        self.devices[device as usize].lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// Marks all units of the workload as written and acknowledged before this run.
    pub(crate) fn assume_all(&self, workload: &dyn Workload) {
        for number in 0..self.devices.len() as u32 {
            let units = workload.units(number);
            let mut device = self.device(number);
            device.assumed = units;
            device.bound = units;
        }
    }

    /// Records a unit as sent. Call it before the first byte of the request is written to the
    /// socket.
    pub(crate) fn sent(&self, device: u32, unit: u64) {
        let mut device = self.device(device);
        if device.get(unit) == State::Unsent {
            device.set(unit, State::Unknown);
            device.unknown += 1;
        }
        device.bound = device.bound.max(unit + 1);
        device.in_flight.push(unit);
    }

    /// Records the outcome of a request. Call it when the answer arrives, or when no answer can
    /// arrive any more.
    pub(crate) fn answered(&self, device: u32, unit: u64, acknowledged: bool) {
        let mut device = self.device(device);
        if let Some(at) = device.in_flight.iter().position(|other| *other == unit) {
            device.in_flight.swap_remove(at);
        }
        if acknowledged && device.get(unit) != State::Acked {
            device.set(unit, State::Acked);
            device.acked += 1;
            device.unknown -= 1;
        }
    }

    /// Returns the highest unit sent, plus one.
    pub(crate) fn bound(&self, device: u32) -> u64 {
        self.device(device).bound
    }

    /// Counts the units of all devices that were sent and not acknowledged.
    #[cfg(test)]
    pub(crate) fn unknown(&self) -> u64 {
        (0..self.devices.len()).map(|device| self.device(device as u32).unknown).sum()
    }

    /// Takes a snapshot before a query is sent. `devices`: the devices that the query reads; `None`
    /// means all.
    pub(crate) fn before(&self, devices: Option<&[u32]>, quiet: bool, eventual: bool) -> Before {
        if quiet {
            return Before { quiet, ..Before::default() };
        }
        let note = |device: u32| {
            let state = self.device(device);
            (device, (state.bound, state.in_flight.clone()))
        };
        let devices = match devices {
            Some(devices) => devices.iter().copied().map(note).collect(),
            None => (0..self.devices.len() as u32).map(note).collect(),
        };
        Before { devices, quiet, eventual }
    }

    /// Returns the units that an answer must and may contain, for a query sent at `before`.
    pub(crate) fn view<'a>(&'a self, before: &'a Before) -> View<'a> {
        View { ledger: self, before }
    }
}

impl View<'_> {
    /// Returns whether an answer must (`Acked`), may (`Unknown`) or must not (`Unsent`) contain the
    /// unit.
    pub(crate) fn state(&self, device: u32, unit: u64) -> State {
        match self.ledger.device(device).get(unit) {
            State::Acked if !self.was_acked(device, unit) => State::Unknown,
            state => state,
        }
    }

    fn was_acked(&self, device: u32, unit: u64) -> bool {
        if self.before.quiet {
            return true;
        }
        let Some((bound, in_flight)) = self.before.devices.get(&device) else { return false };
        !self.before.eventual && unit < *bound && !in_flight.contains(&unit)
    }

    /// Returns the highest unit that an answer may contain, plus one.
    pub(crate) fn bound(&self, device: u32) -> u64 {
        self.ledger.bound(device)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_must_contain_writes_acknowledged_before_the_query_and_may_contain_those_in_flight() {
        let ledger = Ledger::new(2);
        for unit in 0..3 {
            ledger.sent(1, unit);
        }
        ledger.answered(1, 0, true);
        ledger.answered(1, 1, false);
        let before = ledger.before(Some(&[1]), false, false);
        ledger.answered(1, 2, true);
        ledger.sent(1, 3);
        ledger.answered(1, 3, true);
        let view = ledger.view(&before);
        let states: Vec<State> = (0..5).map(|unit| view.state(1, unit)).collect();
        use State::{Acked, Unknown, Unsent};
        assert_eq!(states, [Acked, Unknown, Unknown, Unknown, Unsent]);
        let quiet = ledger.before(None, true, false);
        let states: Vec<State> = (0..5).map(|unit| ledger.view(&quiet).state(1, unit)).collect();
        assert_eq!(states, [Acked, Unknown, Acked, Acked, Unsent]);
        assert_eq!((ledger.bound(1), ledger.bound(0), ledger.unknown()), (4, 0, 1));
    }

    #[test]
    fn an_eventually_consistent_target_need_not_show_any_write_while_clients_write() {
        let ledger = Ledger::new(1);
        ledger.sent(0, 0);
        ledger.answered(0, 0, true);
        let before = ledger.before(None, false, true);
        assert_eq!(ledger.view(&before).state(0, 0), State::Unknown);
    }
}
