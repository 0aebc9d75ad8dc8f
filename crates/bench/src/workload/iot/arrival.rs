//! In which order the slots of a device arrive, and the way back: which batches carry a slot.

use crate::config::{Config, LateDistribution, OutOfOrderMode};
use crate::error::{Error, Result};
use crate::generate::{draw, stream, unit_interval};

/// Batches that a run without `LOOP` as its end may reach.
const BATCHES_MAX: u64 = 1 << 40;
/// Different delays of late rows: quantiles of their distribution.
const QUANTILES: usize = 32;
/// Stream of the draws that decide whether and how far a row is displaced.
const DISPLACED: u64 = u64::MAX - 2;

/// The order of arrival of every device.
pub(super) struct Arrival {
    seed: u64,
    /// Rows in a batch.
    rows: u64,
    batches: u64,
    order: Order,
}

enum Order {
    /// Oldest first.
    Time,
    /// Row k takes the slot of row k − Δ and overwrites it.
    Overwrite(Delays),
    /// Row k has slot (k + shift) mod `slots`.
    Rotated { shift: u64, slots: u64 },
    /// A late row of slot s comes with the rows of slot s + Δ.
    Late(Delays),
}

/// Who is displaced, and how far.
struct Delays {
    /// Share of displaced rows.
    ratio: f64,
    /// Distance in slots, and the share of displaced rows that go so far or less. Distances increase.
    steps: Vec<(u64, f64)>,
}

impl Delays {
    /// By how much row (or slot) `k` is displaced.
    fn of(&self, stream: u64, k: u64) -> Option<u64> {
        let u = unit_interval(draw(stream, k));
        if u >= self.ratio {
            return None;
        }
        let v = u / self.ratio;
        let at = self.steps.partition_point(|(_, share)| *share <= v);
        Some(self.steps[at.min(self.steps.len() - 1)].0)
    }

    fn longest(&self) -> u64 {
        self.steps.last().map_or(0, |(delay, _)| *delay)
    }
}

impl Arrival {
    pub(super) fn new(config: &Config) -> Result<Arrival> {
        let rows = config.batch_size_per_write;
        // With an end by the clock, LOOP is no limit, but the BATCH mode is defined by it.
        let rotated = config.is_out_of_order && config.out_of_order_mode == OutOfOrderMode::Batch;
        let by_clock = config.run_seconds > 0.0 && !rotated;
        let batches = if by_clock { BATCHES_MAX } else { config.loop_ };
        if batches.checked_mul(rows).is_none_or(|slots| slots > 1 << 50) {
            return Err(Error::setup(format!(
                "LOOP={batches} x BATCH_SIZE_PER_WRITE={rows}: expected at most 2^50 rows"
            )));
        }
        let order = match (config.is_out_of_order, config.out_of_order_mode) {
            (false, _) => Order::Time,
            (true, OutOfOrderMode::Poisson) => Order::Overwrite(poisson(config)),
            (true, OutOfOrderMode::Late) => Order::Late(late(config)),
            (true, OutOfOrderMode::Batch) => {
                // The original forgets the rows of a batch here, and so writes LOOP slots BATCH_SIZE_PER_WRITE times.
                let slots = if config.compat { config.loop_ } else { config.loop_ * rows };
                let shift = (slots as f64 * config.out_of_order_ratio).floor() as u64;
                Order::Rotated { shift, slots: slots.max(1) }
            }
        };
        Ok(Arrival { seed: config.data_seed as u64, rows, batches, order })
    }

    /// Slots before the time that regular rows begin at: rows may be moved to before the start.
    pub(super) fn base(&self) -> u64 {
        match &self.order {
            Order::Overwrite(delays) => delays.longest(),
            _ => 0,
        }
    }

    /// Batches of a device in all; late rows of the last ones come in further batches.
    pub(super) fn batches(&self) -> u64 {
        match &self.order {
            Order::Late(delays) => self.batches + delays.longest().div_ceil(self.rows),
            _ => self.batches,
        }
    }

    /// Slots above those that the first `batches` carry.
    pub(super) fn slot_bound(&self, batches: u64) -> u64 {
        let rows = batches.saturating_mul(self.rows);
        match &self.order {
            Order::Time => rows,
            Order::Overwrite(delays) => rows.saturating_add(delays.longest()),
            Order::Rotated { slots, .. } => *slots,
            Order::Late(_) => rows.min(self.batches * self.rows),
        }
    }

    /// Slots of a batch in the order of arrival.
    pub(super) fn slots(&self, device: u64, batch: u64, slots: &mut Vec<u64>) {
        let rows = batch * self.rows..(batch + 1) * self.rows;
        let stream = stream(self.seed, DISPLACED, device);
        match &self.order {
            Order::Time => slots.extend(rows),
            Order::Overwrite(delays) => {
                let base = delays.longest();
                slots.extend(rows.map(|k| base + k - delays.of(stream, k).unwrap_or(0)));
            }
            Order::Rotated { shift, slots: all } => slots.extend(rows.map(|k| (k + shift) % all)),
            Order::Late(delays) => {
                let all = self.batches * self.rows;
                for tick in rows {
                    if tick < all && delays.of(stream, tick).is_none() {
                        slots.push(tick);
                    }
                    let due = |(delay, _): &(u64, f64)| {
                        let slot = tick.checked_sub(*delay).filter(|slot| *slot < all)?;
                        (delays.of(stream, slot) == Some(*delay)).then_some(slot)
                    };
                    slots.extend(delays.steps.iter().filter_map(due));
                }
            }
        }
    }

    /// Batches that carry a slot, in the order of arrival.
    pub(super) fn batches_of(&self, device: u64, slot: u64, batches: &mut Vec<u64>) {
        let stream = stream(self.seed, DISPLACED, device);
        match &self.order {
            Order::Time => batches.push(slot / self.rows),
            Order::Overwrite(delays) => {
                let own = slot.checked_sub(delays.longest());
                let own = own.filter(|k| delays.of(stream, *k).is_none());
                let moved = delays.steps.iter().filter_map(|(delay, _)| {
                    let k = (slot + delay).checked_sub(delays.longest())?;
                    (delays.of(stream, k) == Some(*delay)).then_some(k)
                });
                batches.extend(own.into_iter().chain(moved).map(|k| k / self.rows));
            }
            Order::Rotated { shift, slots } => {
                let first = (slot + slots - shift % slots) % slots;
                batches.extend((first..self.batches * self.rows).step_by(*slots as usize).map(|k| k / self.rows));
            }
            Order::Late(delays) => batches.push((slot + delays.of(stream, slot).unwrap_or(0)) / self.rows),
        }
    }
}

/// The original's displacement: for a mean below 500 a Poisson number of steps; above, a Poisson number of strides up
/// to `MAX_K`.
fn poisson(config: &Config) -> Delays {
    let (lambda, longest) = (config.lambda, config.max_k as f64);
    let mut steps = Vec::new();
    if lambda < 500.0 {
        let furthest = (lambda + 12.0 * lambda.sqrt() + 40.0).min(longest).max(1.0) as u64;
        let mut share = 0.0;
        for n in 0..furthest {
            share += poisson_share(lambda, n);
            steps.push((1 + n, share));
        }
    } else {
        let stride = lambda / 10.0;
        let mut share = 0.0;
        for n in 1..=25u64 {
            share += poisson_share(10.0, n - 1);
            let step = if n <= 10 { stride } else { (longest - lambda) / 15.0 };
            let delay = (lambda + (n as f64 - 10.0) * step).max(1.0) as u64;
            match steps.last_mut() {
                Some((last, sum)) if *last >= delay => *sum = share,
                _ => steps.push((delay, share)),
            }
        }
    }
    Delays { ratio: config.out_of_order_ratio, steps }
}

/// Probability of `n` events where `mean` are expected.
fn poisson_share(mean: f64, n: u64) -> f64 {
    if mean == 0.0 {
        return if n == 0 { 1.0 } else { 0.0 };
    }
    let log = n as f64 * mean.ln() - mean - (1..=n).map(|i| (i as f64).ln()).sum::<f64>();
    log.exp()
}

fn late(config: &Config) -> Delays {
    let longest = config.late_max as f64;
    let quantile = |q: f64| match config.late_distribution {
        LateDistribution::Uniform => q * longest,
        LateDistribution::Exponential => -(1.0 - q).ln() * longest / 10.0,
        LateDistribution::Pareto => (1.0 - q).powf(-1.0 / 1.16),
    };
    let mut steps: Vec<(u64, f64)> = Vec::new();
    for n in 0..QUANTILES {
        let share = (n + 1) as f64 / QUANTILES as f64;
        let middle = (n as f64 + 0.5) / QUANTILES as f64;
        let delay = quantile(middle).clamp(1.0, longest) as u64;
        match steps.last_mut() {
            Some((last, sum)) if *last >= delay => *sum = share,
            _ => steps.push((delay, share)),
        }
    }
    Delays { ratio: config.out_of_order_ratio, steps }
}
