//! A target that does nothing: its rate is that of this tool, the upper bound of every other
//! figure.
//!
//! `null` drops generated batches; `null?encode=line` and `null?encode=copy` encode them first.

use std::ops::Range;
use std::sync::Arc;

use super::line::Encoder;
use super::{About, Connection, Driver, Entry, Opening, Proof};
use crate::error::{Error, Result};
use crate::query::{Query, Rows};
use crate::schema::{Batch, Schema};

pub(crate) const ENTRY: Entry = Entry {
    name: "null",
    summary: "no target: measures only this tool (encode=none|line|copy)",
    proof: Proof::Product("this tool"),
    open: |opening| Ok(Box::new(Null::open(opening)?)),
};

struct Null {
    schema: Arc<Schema>,
    lines: Arc<Encoder>,
    encode: &'static str,
}

impl Null {
    fn open(opening: Opening) -> Result<Null> {
        opening.target.only(&["encode"])?;
        let encode = opening.target.choice("encode", &["none", "line", "copy"])?;
        let lines = Arc::new(Encoder::new(&opening.schema, super::line::ALL_TYPED));
        Ok(Null { schema: opening.schema, lines, encode })
    }
}

impl Driver for Null {
    fn about(&self) -> About {
        About {
            product: "nothing",
            write_path: format!("generated, encoded ({}), dropped", self.encode),
            why: "the rate of this tool only",
            durability: "none".to_owned(),
            durable: false,
            visible_at_once: false,
            replaces: true,
        }
    }

    fn connect(&self, _client: usize) -> Result<Box<dyn Connection>> {
        Ok(Box::new(NullConnection {
            schema: Arc::clone(&self.schema),
            lines: Arc::clone(&self.lines),
            encode: self.encode,
            buffer: Vec::new(),
        }))
    }
}

struct NullConnection {
    schema: Arc<Schema>,
    lines: Arc<Encoder>,
    encode: &'static str,
    buffer: Vec<u8>,
}

impl Connection for NullConnection {
    fn version(&mut self) -> Result<String> {
        Ok(env!("CARGO_PKG_VERSION").to_owned())
    }

    fn clear(&mut self) -> Result<()> {
        Ok(())
    }

    fn create(&mut self, _devices: Range<u32>) -> Result<()> {
        Ok(())
    }

    fn encode(&mut self, batch: &Batch) -> Result<()> {
        self.buffer.clear();
        match self.encode {
            "line" => self.lines.encode(batch, &mut self.buffer),
            "copy" => super::copy::rows(&self.schema, batch, 0..u32::MAX, &mut self.buffer),
            _ => {}
        }
        std::hint::black_box(&self.buffer);
        Ok(())
    }

    fn send(&mut self) -> Result<()> {
        Ok(())
    }

    fn statement(&self, _query: &Query) -> Result<String> {
        Err(Error::unsupported("the null target answers nothing"))
    }

    fn query(&mut self, _query: &Query) -> Result<()> {
        Err(Error::unsupported("the null target answers nothing"))
    }

    fn answer(&mut self, _query: &Query) -> Result<Rows> {
        Err(Error::unsupported("the null target answers nothing"))
    }
}
