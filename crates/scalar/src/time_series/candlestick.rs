//! `candlestick` and `vwap`: prices of trades.

use catalog::TypeId;
use model::{Datum, Result};

use super::points::Point;
use super::{mismatch, time_datum, time_of};
use crate::context::Context;
use crate::expr::Call;
use crate::json;
use crate::numbers::float::order;
use crate::registry::Accumulator;

/// `vwap(price, volume)`: the average price, weighted by volume; NULL if the volumes sum up to 0.
pub(super) fn vwap(_: &Call) -> Box<dyn Accumulator> {
    Box::new(Turnover::default())
}

/// `candlestick(time, price, volume)`: a `jsonb` object.
pub(super) fn candlestick(call: &Call) -> Box<dyn Accumulator> {
    let time = call.arguments.first().copied().unwrap_or(TypeId::TIMESTAMPTZ);
    Box::new(Candlestick { time, candle: None, turnover: Turnover::default() })
}

/// Sums over trades.
#[derive(Default)]
struct Turnover {
    volume: f64,
    /// Sum of price × volume.
    value: f64,
}

impl Turnover {
    fn add(&mut self, price: f64, volume: f64) {
        self.volume += volume;
        self.value += price * volume;
    }

    fn average(&self) -> Datum<'static> {
        if self.volume == 0.0 { Datum::Null } else { Datum::Float8(self.value / self.volume) }
    }
}

impl Accumulator for Turnover {
    fn update<'a>(&mut self, arguments: &[Datum<'a>], _: &Context<'a>) -> Result<()> {
        let [Datum::Float8(price), Datum::Float8(volume)] = arguments else { return Err(mismatch()) };
        self.add(*price, *volume);
        Ok(())
    }

    fn result<'a>(&self, _: &Context<'a>) -> Result<Datum<'a>> {
        Ok(self.average())
    }
}

/// The four prices of a candle, each with the time of its trade.
struct Candle {
    open: Point<f64>,
    high: Point<f64>,
    low: Point<f64>,
    close: Point<f64>,
}

impl Candle {
    /// Trades often have equal times: the first one read is the opening one, the last one read the closing one.
    fn add(&mut self, trade: Point<f64>) {
        if trade.time < self.open.time {
            self.open = trade;
        }
        if trade.time >= self.close.time {
            self.close = trade;
        }
        // The earliest of equal prices is shown.
        if order(trade.value, self.high.value).then(self.high.time.cmp(&trade.time)).is_gt() {
            self.high = trade;
        }
        if order(trade.value, self.low.value).then(trade.time.cmp(&self.low.time)).is_lt() {
            self.low = trade;
        }
    }
}

struct Candlestick {
    /// Type of the times.
    time: TypeId,
    candle: Option<Candle>,
    turnover: Turnover,
}

impl Accumulator for Candlestick {
    fn update<'a>(&mut self, arguments: &[Datum<'a>], _: &Context<'a>) -> Result<()> {
        let [time, price, volume] = arguments else { return Err(mismatch()) };
        let (false, Datum::Float8(price)) = (time.is_null(), price) else { return Ok(()) };
        let trade = Point { time: time_of(time)?, value: *price };
        match &mut self.candle {
            Some(candle) => candle.add(trade),
            None => self.candle = Some(Candle { open: trade, high: trade, low: trade, close: trade }),
        }
        // A trade without a volume has a price only.
        if let Datum::Float8(volume) = volume {
            self.turnover.add(*price, *volume);
        }
        Ok(())
    }

    fn result<'a>(&self, ctx: &Context<'a>) -> Result<Datum<'a>> {
        let Some(candle) = &self.candle else { return Ok(Datum::Null) };
        let mut members = Vec::with_capacity(10);
        let points = [
            ("open", "open_time", candle.open),
            ("high", "high_time", candle.high),
            ("low", "low_time", candle.low),
            ("close", "close_time", candle.close),
        ];
        for (price, time, point) in points {
            members.push((price.to_owned(), Datum::Float8(point.value), TypeId::FLOAT8));
            members.push((time.to_owned(), time_datum(self.time, point.time), self.time));
        }
        members.push(("volume".to_owned(), Datum::Float8(self.turnover.volume), TypeId::FLOAT8));
        members.push(("vwap".to_owned(), self.turnover.average(), TypeId::FLOAT8));
        json::object(members, ctx)
    }
}
