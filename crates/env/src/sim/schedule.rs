//! Scheduler: picks one of the workers that can run, by the seed.

use std::collections::BTreeMap;

use super::Rng;
use crate::Step;

pub(super) type StepFn = Box<dyn FnMut() -> Step + Send>;

pub(super) struct Schedule {
    rng: Rng,
    workers: BTreeMap<u64, Entry>,
    next_id: u64,
}

struct Entry {
    name: String,
    /// The step; `None` while it runs.
    step: Option<StepFn>,
    wants: Step,
    /// Woken while the step ran.
    woken: bool,
}

impl Entry {
    fn can_run(&self, now: u64) -> bool {
        self.step.is_some()
            && match self.wants {
                Step::Again => true,
                Step::Until(deadline) => deadline <= now,
                Step::Idle | Step::Finished => false,
            }
    }
}

impl Schedule {
    pub(super) fn new(seed: u64) -> Schedule {
        Schedule { rng: Rng(seed), workers: BTreeMap::new(), next_id: 0 }
    }

    pub(super) fn add(&mut self, name: &str, step: StepFn) -> u64 {
        self.next_id += 1;
        let entry = Entry { name: name.to_owned(), step: Some(step), wants: Step::Again, woken: false };
        self.workers.insert(self.next_id, entry);
        self.next_id
    }

    /// Removes a worker that can run, until [`Schedule::put_back`].
    pub(super) fn pick(&mut self, now: u64) -> Option<(u64, StepFn)> {
        let count = self.workers.values().filter(|entry| entry.can_run(now)).count() as u64;
        let nth = usize::try_from(self.rng.below(count)).ok()?;
        let (id, entry) = self.workers.iter_mut().filter(|(_, entry)| entry.can_run(now)).nth(nth)?;
        entry.woken = false;
        Some((*id, entry.step.take()?))
    }

    /// Returns the step to the scheduler; hands it back to the caller if its worker has ended.
    pub(super) fn put_back(&mut self, id: u64, step: StepFn, wants: Step) -> Option<StepFn> {
        let Some(entry) = self.workers.get_mut(&id) else {
            return Some(step);
        };
        if wants == Step::Finished {
            self.workers.remove(&id);
            return Some(step);
        }
        assert!(entry.step.is_none(), "BUG: two steps of worker \"{}\" ran at the same time", entry.name);
        entry.wants = if entry.woken { Step::Again } else { wants };
        entry.step = Some(step);
        None
    }

    pub(super) fn wake(&mut self, id: u64) {
        if let Some(entry) = self.workers.get_mut(&id) {
            entry.woken = true;
            entry.wants = Step::Again;
        }
    }

    pub(super) fn stop(&mut self, id: u64) -> Option<StepFn> {
        self.workers.remove(&id)?.step
    }

    pub(super) fn clear(&mut self) -> Vec<StepFn> {
        std::mem::take(&mut self.workers).into_values().filter_map(|entry| entry.step).collect()
    }

    /// Time of the next timer.
    pub(super) fn earliest(&self) -> Option<u64> {
        let deadlines =
            self.workers.values().filter(|entry| entry.step.is_some()).filter_map(|entry| match entry.wants {
                Step::Until(deadline) => Some(deadline),
                _ => None,
            });
        deadlines.min()
    }

    pub(super) fn describe(&self, now: u64) -> String {
        let workers = self.workers.values().map(|entry| match (&entry.step, entry.wants) {
            (None, _) => format!("{} is running", entry.name),
            (_, Step::Until(deadline)) => format!("{} waits {} ns", entry.name, deadline.saturating_sub(now)),
            (_, wants) => format!("{} is {wants:?}", entry.name),
        });
        let workers: Vec<String> = workers.collect();
        if workers.is_empty() { "there are no workers".to_owned() } else { workers.join(", ") }
    }
}
