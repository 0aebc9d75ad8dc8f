//! Inputs of the terminals: how kinds of transactions are chosen, and their values (clauses 2.4 to
//! 2.8, 5.2).

use super::population::DISTRICTS;
use super::random::{Constants, ITEMS, Random, last_name};

/// The five kinds of transactions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    NewOrder,
    Payment,
    OrderStatus,
    Delivery,
    StockLevel,
}

impl Kind {
    pub(super) const ALL: [Kind; 5] =
        [Kind::NewOrder, Kind::Payment, Kind::OrderStatus, Kind::Delivery, Kind::StockLevel];

    /// Keying time, and mean think time, in seconds (clause 5.2.5.7).
    pub(super) fn pauses_s(self) -> (f64, f64) {
        match self {
            Kind::NewOrder => (18.0, 12.0),
            Kind::Payment => (3.0, 12.0),
            Kind::OrderStatus => (2.0, 10.0),
            Kind::Delivery => (2.0, 5.0),
            Kind::StockLevel => (2.0, 5.0),
        }
    }
}

/// Method of choosing the kind of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Draw {
    /// From a deck of cards with the proportions of the mix, reshuffled when it is empty: exact
    /// shares.
    Deck,
    /// Independently, by weight.
    Weighted,
}

/// Chooses the kinds of one client's transactions.
pub(super) struct Dealer {
    draw: Draw,
    mix: [u32; 5],
    cards: Vec<Kind>,
    dealt: usize,
}

impl Dealer {
    pub(super) fn new(draw: Draw, mix: [u32; 5]) -> Dealer {
        let common = mix.into_iter().fold(0, greatest_common_divisor).max(1);
        let cards = Kind::ALL.iter().zip(mix).flat_map(|(kind, weight)| vec![*kind; (weight / common) as usize]);
        let cards: Vec<Kind> = cards.collect();
        Dealer { draw, mix, dealt: cards.len(), cards }
    }

    pub(super) fn next(&mut self, random: &mut Random) -> Kind {
        if self.draw == Draw::Weighted {
            let total: u32 = self.mix.iter().sum();
            let mut at = random.within(0, total as i32 - 1) as u32;
            for (kind, weight) in Kind::ALL.into_iter().zip(self.mix) {
                if at < weight {
                    return kind;
                }
                at -= weight;
            }
        }
        if self.dealt == self.cards.len() {
            random.shuffle(&mut self.cards);
            self.dealt = 0;
        }
        self.dealt += 1;
        self.cards[self.dealt - 1]
    }
}

fn greatest_common_divisor(a: u32, b: u32) -> u32 {
    if b == 0 { a } else { greatest_common_divisor(b, a % b) }
}

/// A line of a new order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Line {
    pub(super) item: i32,
    pub(super) supply: i32,
    pub(super) quantity: i32,
}

/// Selection of a customer by a terminal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Who {
    Number(i32),
    /// By last name: the middle one of the customers with this name.
    Name(String),
}

/// A transaction with its values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Input {
    /// Lines are sorted by item, so that two orders cannot deadlock on stock rows.
    NewOrder {
        warehouse: i32,
        district: i32,
        customer: i32,
        lines: Vec<Line>,
    },
    Payment {
        warehouse: i32,
        district: i32,
        home: (i32, i32),
        who: Who,
        cents: i64,
    },
    OrderStatus {
        warehouse: i32,
        district: i32,
        who: Who,
    },
    Delivery {
        warehouse: i32,
        carrier: i32,
    },
    StockLevel {
        warehouse: i32,
        district: i32,
        threshold: i32,
    },
}

/// A terminal: warehouse and district.
#[derive(Clone, Copy, Debug)]
pub(super) struct Terminal {
    pub(super) warehouse: i32,
    /// District whose stock level it queries.
    pub(super) district: i32,
}

/// Generates the values of transactions.
pub(super) struct Inputs {
    pub(super) warehouses: i32,
    pub(super) constants: Constants,
}

impl Inputs {
    /// Generates the values of one transaction of a terminal.
    pub(super) fn make(&self, kind: Kind, terminal: Terminal, random: &mut Random) -> Input {
        let warehouse = terminal.warehouse;
        match kind {
            Kind::NewOrder => self.new_order(warehouse, random),
            Kind::Payment => self.payment(warehouse, random),
            Kind::OrderStatus => {
                Input::OrderStatus { warehouse, district: random.within(1, DISTRICTS), who: self.who(random) }
            }
            Kind::Delivery => Input::Delivery { warehouse, carrier: random.within(1, 10) },
            Kind::StockLevel => {
                Input::StockLevel { warehouse, district: terminal.district, threshold: random.within(10, 20) }
            }
        }
    }

    fn new_order(&self, warehouse: i32, random: &mut Random) -> Input {
        let (district, customer) = (random.within(1, DISTRICTS), self.constants.customer(random));
        let count = random.within(5, 15);
        let line = |_| {
            let item = self.constants.item(random);
            let supply =
                if self.warehouses > 1 && random.percent(1) { self.other(warehouse, random) } else { warehouse };
            Line { item, supply, quantity: random.within(1, 10) }
        };
        let mut lines: Vec<Line> = (0..count).map(line).collect();
        if random.percent(1) {
            // A user error: the item does not exist, and the transaction is rolled back.
            if let Some(last) = lines.last_mut() {
                last.item = ITEMS + 1;
            }
        }
        lines.sort();
        Input::NewOrder { warehouse, district, customer, lines }
    }

    fn payment(&self, warehouse: i32, random: &mut Random) -> Input {
        let district = random.within(1, DISTRICTS);
        let home = if self.warehouses > 1 && random.percent(15) {
            (self.other(warehouse, random), random.within(1, DISTRICTS))
        } else {
            (warehouse, district)
        };
        let cents = i64::from(random.within(100, 500_000));
        Input::Payment { warehouse, district, home, who: self.who(random), cents }
    }

    fn who(&self, random: &mut Random) -> Who {
        if random.percent(60) {
            Who::Name(last_name(self.constants.last_name(random)))
        } else {
            Who::Number(self.constants.customer(random))
        }
    }

    /// Returns any warehouse except this one.
    fn other(&self, warehouse: i32, random: &mut Random) -> i32 {
        let chosen = random.within(1, self.warehouses - 1);
        if chosen >= warehouse { chosen + 1 } else { chosen }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn inputs(warehouses: i32) -> Inputs {
        Inputs { warehouses, constants: Constants::of_run(3) }
    }

    const TERMINAL: Terminal = Terminal { warehouse: 2, district: 4 };

    fn share(count: usize, of: usize) -> f64 {
        count as f64 / of as f64
    }

    #[test]
    fn a_deck_has_exactly_the_mix_and_weights_have_it_nearly() {
        let (mut random, mix) = (Random::new(1, 1, 1), [45, 43, 4, 4, 4]);
        for draw in [Draw::Deck, Draw::Weighted] {
            let mut dealer = Dealer::new(draw, mix);
            let mut counts = [0_u32; 5];
            (0..10_000).for_each(|_| counts[dealer.next(&mut random) as usize] += 1);
            for (count, weight) in counts.into_iter().zip(mix) {
                let allowed = if draw == Draw::Deck { 0 } else { 250 };
                assert!(count.abs_diff(weight * 100) <= allowed, "{draw:?} {counts:?}");
            }
        }
        assert_eq!(Dealer::new(Draw::Deck, [100, 0, 0, 0, 0]).cards, [Kind::NewOrder]);
    }

    #[test]
    fn new_orders_have_the_standards_lines_mistakes_and_remote_warehouses() {
        let (mut random, inputs) = (Random::new(5, 1, 1), inputs(5));
        let (mut wrong, mut remote, mut all) = (0, 0, 0);
        for _ in 0..20_000 {
            let Input::NewOrder { warehouse: 2, lines, .. } = inputs.make(Kind::NewOrder, TERMINAL, &mut random) else {
                panic!("another kind or warehouse")
            };
            assert!((5..=15).contains(&lines.len()) && lines.is_sorted());
            assert!(lines.iter().all(|line| (1..=10).contains(&line.quantity) && (1..=5).contains(&line.supply)));
            wrong += usize::from(lines.last().is_some_and(|line| line.item > ITEMS));
            remote += lines.iter().filter(|line| line.supply != 2).count();
            all += lines.len();
        }
        assert!((0.007..0.013).contains(&share(wrong, 20_000)), "{wrong}");
        assert!((0.008..0.012).contains(&share(remote, all)), "{remote} of {all}");
    }

    #[test]
    fn payments_are_remote_for_15_percent_and_by_name_for_60() {
        let (mut random, inputs) = (Random::new(6, 1, 1), inputs(3));
        let (mut remote, mut names) = (0, 0);
        for _ in 0..20_000 {
            let Input::Payment { warehouse: 2, district, home, who, cents } =
                inputs.make(Kind::Payment, TERMINAL, &mut random)
            else {
                panic!("another kind or warehouse")
            };
            assert!(home.0 != 2 || home.1 == district);
            assert!((100..=500_000).contains(&cents));
            remote += usize::from(home.0 != 2);
            names += usize::from(matches!(who, Who::Name(_)));
        }
        assert!((0.14..0.16).contains(&share(remote, 20_000)), "{remote}");
        assert!((0.58..0.62).contains(&share(names, 20_000)), "{names}");
    }

    #[test]
    fn with_one_warehouse_nothing_is_remote() {
        let (mut random, inputs) = (Random::new(6, 1, 1), inputs(1));
        let terminal = Terminal { warehouse: 1, district: 1 };
        for _ in 0..1000 {
            let order = inputs.make(Kind::NewOrder, terminal, &mut random);
            assert!(matches!(order, Input::NewOrder { lines, .. } if lines.iter().all(|line| line.supply == 1)));
            let payment = inputs.make(Kind::Payment, terminal, &mut random);
            assert!(matches!(payment, Input::Payment { home: (1, _), .. }));
        }
    }
}
