//! Order in which the slots of a device arrive, and the inverse: the batches that contain a slot.

use crate::config::{Config, LateDistribution, OutOfOrderMode};
use crate::error::{Error, Result};
use crate::generate::{draw, stream, unit_interval};

/// Maximum number of batches of a run that ends by the clock instead of `LOOP`.
const BATCHES_MAX: u64 = 1 << 40;
/// Number of quantiles that approximate the distribution of delays.
const QUANTILES: usize = 32;
/// Stream of random numbers that decides whether and how far a row is displaced.
const DISPLACED: u64 = u64::MAX - 2;

/// Order of arrival, the same rule for every device.
pub(super) struct Arrival {
    seed: u64,
    /// Rows of a batch.
    rows: u64,
    batches: u64,
    order: Order,
}

enum Order {
    /// In order of time.
    Time,
    /// Row k overwrites the slot of row k − Δ.
    Overwrite(Delays),
    /// Row k has the slot (k + shift) mod `slots`.
    Rotated { shift: u64, slots: u64 },
    /// A late row of slot s arrives with the rows of slot s + Δ.
    Late(Delays),
}

/// Distribution of displacements.
struct Delays {
    /// Share of displaced rows.
    ratio: f64,
    /// (distance in slots, cumulative share of displaced rows); distances increase.
    steps: Vec<(u64, f64)>,
}

impl Delays {
    /// Displacement of row (or slot) `k`, if it is displaced.
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
        // In a run that ends by the clock, LOOP is not a limit, but it defines the BATCH mode.
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
                // The original ignores the rows of a batch here, and so writes LOOP slots
                // BATCH_SIZE_PER_WRITE times.
                let slots = if config.compat { config.loop_ } else { config.loop_ * rows };
                let shift = (slots as f64 * config.out_of_order_ratio).floor() as u64;
                Order::Rotated { shift, slots: slots.max(1) }
            }
        };
        Ok(Arrival { seed: config.data_seed as u64, rows, batches, order })
    }

    /// Number of slots before the start time, for rows that are moved to earlier slots.
    pub(super) fn base(&self) -> u64 {
        match &self.order {
            Order::Overwrite(delays) => delays.longest(),
            _ => 0,
        }
    }

    /// Total batches of a device, including further batches for late rows of the last ones.
    pub(super) fn batches(&self) -> u64 {
        match &self.order {
            Order::Late(delays) => self.batches + delays.longest().div_ceil(self.rows),
            _ => self.batches,
        }
    }

    /// Upper bound (exclusive) of the slots in the first `batches` batches.
    pub(super) fn slot_bound(&self, batches: u64) -> u64 {
        let rows = batches.saturating_mul(self.rows);
        match &self.order {
            Order::Time => rows,
            Order::Overwrite(delays) => rows.saturating_add(delays.longest()),
            Order::Rotated { slots, .. } => *slots,
            Order::Late(_) => rows.min(self.batches * self.rows),
        }
    }

    /// Appends the slots of a batch in order of arrival.
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

    /// Appends the batches that contain a slot, in order of arrival.
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

/// The original's displacement: a Poisson-distributed number of steps for a mean below 500; above,
/// a Poisson-distributed number of strides, limited to `MAX_K`.
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

/// Poisson probability of `n` events for a mean of `mean`.
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
