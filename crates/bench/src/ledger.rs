//! What was sent and what was acknowledged: the memory that answers and final counts are held against.

use std::collections::HashMap;
use std::sync::Mutex;

use crate::workload::Workload;

/// What is known of one unit of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// Not sent: must not be there.
    Unsent,
    /// Sent, and not acknowledged (in flight, refused, failed, timed out): may be there.
    Unknown,
    /// Acknowledged: must be there.
    Acked,
}

/// Of all devices. Two bits a unit: a billion units take 250 MB.
pub(crate) struct Ledger {
    devices: Vec<Mutex<Device>>,
}

#[derive(Default)]
struct Device {
    /// Two bits a unit: 0 unsent, 1 unknown, 2 acknowledged.
    states: Vec<u64>,
    /// One above the highest unit sent.
    bound: u64,
    /// Units without an answer yet: one a client that writes this device.
    in_flight: Vec<u64>,
    acked: u64,
    unknown: u64,
    /// Units below this were written by an earlier run.
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

/// What was known of some devices when a question was sent.
#[derive(Clone, Debug, Default)]
pub(crate) struct Before {
    devices: HashMap<u32, (u64, Vec<u64>)>,
    /// Nobody was writing: what is acknowledged now was so then.
    quiet: bool,
    /// The target may show a write later than it acknowledges it: while others write, nothing must be there.
    eventual: bool,
}

impl Before {
    /// Was nobody writing?
    pub(crate) fn is_quiet(&self) -> bool {
        self.quiet
    }
}

/// What must and may be seen by one answer.
pub(crate) struct View<'a> {
    ledger: &'a Ledger,
    before: &'a Before,
}

impl Ledger {
    /// For `devices` devices, nothing sent.
    pub(crate) fn new(devices: usize) -> Ledger {
        Ledger { devices: (0..devices).map(|_| Mutex::default()).collect() }
    }

    fn device(&self, device: u32) -> std::sync::MutexGuard<'_, Device> {
        // A panic elsewhere cannot leave half a change here: each is a few assignments.
        self.devices[device as usize].lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// Everything the workload has was written and acknowledged before this run.
    pub(crate) fn assume_all(&self, workload: &dyn Workload) {
        for number in 0..self.devices.len() as u32 {
            let units = workload.units(number);
            let mut device = self.device(number);
            device.assumed = units;
            device.bound = units;
        }
    }

    /// To be called before the first byte of a request goes out.
    pub(crate) fn sent(&self, device: u32, unit: u64) {
        let mut device = self.device(device);
        if device.get(unit) == State::Unsent {
            device.set(unit, State::Unknown);
            device.unknown += 1;
        }
        device.bound = device.bound.max(unit + 1);
        device.in_flight.push(unit);
    }

    /// To be called when the answer has come, or when it will not come.
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

    /// One above the highest unit that was sent.
    pub(crate) fn bound(&self, device: u32) -> u64 {
        self.device(device).bound
    }

    /// Units of all devices that were sent and not acknowledged.
    #[cfg(test)]
    pub(crate) fn unknown(&self) -> u64 {
        (0..self.devices.len()).map(|device| self.device(device as u32).unknown).sum()
    }

    /// To be called before a question is sent. `None`: all devices.
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

    /// What must and may be seen by an answer to a question sent at `before`.
    pub(crate) fn view<'a>(&'a self, before: &'a Before) -> View<'a> {
        View { ledger: self, before }
    }
}

impl View<'_> {
    /// Must, may or must not the unit be seen?
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

    /// One above the highest unit that may be seen.
    pub(crate) fn bound(&self, device: u32) -> u64 {
        self.ledger.bound(device)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_must_show_what_was_acknowledged_before_the_question_and_may_show_what_was_in_flight() {
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
    fn an_eventual_target_need_not_show_anything_while_others_write() {
        let ledger = Ledger::new(1);
        ledger.sent(0, 0);
        ledger.answered(0, 0, true);
        let before = ledger.before(None, false, true);
        assert_eq!(ledger.view(&before).state(0, 0), State::Unknown);
    }
}
