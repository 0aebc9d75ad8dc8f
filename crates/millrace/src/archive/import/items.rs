//! Samples, gaps and metadata of an archive as pieces in the Appliance's PB format.

use epics::channel_archiver::{GapKind, Item};
use epics::event::{CONNECTION_LOST, CONNECTION_REGAINED, Event};
use epics::pb::{Header, Payload, Writer, fields_of};
use epics::sample::{Nanos, Value};

use super::{Import, PIECE_BYTES};
use crate::failure::Failure;

/// Bytes of an event without its value, about.
const EVENT_BYTES: usize = 32;

/// Items of one PV on their way to the server.
pub(super) struct Items {
    source: String,
    pv: String,
    /// Metadata as fields, from the next event on.
    fields: Vec<(String, String)>,
    elements: i32,
    writer: Option<Writer<Vec<u8>>>,
    bytes: usize,
    /// The gap before the next event.
    gap: Option<(Nanos, GapKind)>,
}

impl Items {
    pub(super) fn new(source: String, pv: String) -> Items {
        Items { source, pv, fields: Vec::new(), elements: 1, writer: None, bytes: 0, gap: None }
    }

    /// Takes an item. Damage is noted.
    pub(super) fn take(&mut self, import: &mut Import<'_>, item: Item) -> Result<(), Failure> {
        match item {
            Item::Sample(event) => return self.event(event).map_err(Failure::new),
            Item::Metadata { metadata, elements, .. } => {
                self.fields = fields_of(&metadata);
                self.elements = elements.into();
                // The next event begins a header.
                if let Some(writer) = &mut self.writer {
                    writer.start(header(&self.pv, self.elements, &self.fields)).map_err(Failure::new)?;
                }
            }
            Item::Gap { time, kind } => self.gap = Some(self.gap.map_or((time, kind), |(first, _)| (first, kind))),
            Item::Damaged(damage) => import.damaged(&format!("{}: {damage}", self.pv)),
        }
        Ok(())
    }

    fn event(&mut self, mut event: Event) -> std::io::Result<()> {
        if let Some((start, kind)) = self.gap.take() {
            let seconds = |time: Nanos| time.div_euclid(1_000_000_000).to_string();
            event.fields.push((CONNECTION_LOST.to_owned(), seconds(start)));
            event.fields.push((CONNECTION_REGAINED.to_owned(), seconds(event.time().max(start))));
            match kind {
                GapKind::ArchiveOff => event.fields.push(("startup".to_owned(), "true".to_owned())),
                GapKind::Disabled => event.fields.push(("resume".to_owned(), "true".to_owned())),
                GapKind::Disconnected | GapKind::WriteError => {}
            }
        }
        self.bytes += EVENT_BYTES + bytes_of(&event.sample.value);
        let writer = match &mut self.writer {
            Some(writer) => writer,
            None => {
                let writer = self.writer.insert(Writer::new(Vec::new()));
                writer.start(header(&self.pv, self.elements, &self.fields))?;
                writer
            }
        };
        writer.event(&event)
    }

    /// Whether enough is collected for a piece.
    pub(super) fn is_full(&self) -> bool {
        self.bytes >= PIECE_BYTES
    }

    /// Sends what is collected; the source is imported up to `until` then.
    pub(super) fn send(&mut self, import: &mut Import<'_>, until: u64) -> Result<(), Failure> {
        let Some(writer) = self.writer.take() else { return Ok(()) };
        self.bytes = 0;
        let piece = writer.finish().map_err(Failure::new)?;
        import.send(&self.source, until, &piece)
    }
}

/// The header's type and year follow its events.
fn header(pv: &str, elements: i32, fields: &[(String, String)]) -> Header {
    let (pv, fields) = (pv.to_owned(), fields.to_vec());
    Header { payload: Payload::Float64, pv, year: 2000, elements: Some(elements), fields }
}

fn bytes_of(value: &Value) -> usize {
    match value {
        Value::Scalar(_) => 8,
        // Eight bytes an element is what the largest have.
        Value::Array(array) => array.len() * 8,
        Value::Structure(bytes) => bytes.len(),
    }
}
