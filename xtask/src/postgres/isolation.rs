//! PostgreSQL's isolation tests: transactions of several sessions in given orders, in both servers.
//!
//! A step that has not answered after [`WAITS`] counts as waiting for another session; the next steps are sent meanwhile, and
//! its answer is taken where it arrives. Two traces are equal if the same steps wait and answer the same.

use std::path::Path;
use std::time::Duration;

use super::outcome::{self, Outcome};
use super::servers::{Millrace, Postgres};
use super::spec::{Entry, Spec};
use super::text;
use super::wire::{Answer, Client};
use crate::Result;

/// A step that takes longer waits for another session.
const WAITS: Duration = Duration::from_millis(300);
/// Time after which a waiting step is cancelled once nothing else is to be sent.
const PATIENCE: Duration = Duration::from_secs(4);

/// One step's part in a permutation.
pub(super) struct Event {
    step: String,
    text: String,
    waited: bool,
    answer: Answer,
}

/// A server that sessions can be opened to.
pub(super) trait Server {
    fn connect(&self) -> Result<Client>;
}

impl Server for Millrace {
    fn connect(&self) -> Result<Client> {
        Millrace::connect(self)
    }
}

impl Server for Postgres {
    fn connect(&self) -> Result<Client> {
        Postgres::connect(self, "isolation")
    }
}

/// Traces of one permutation in both servers.
pub(super) struct Permutation {
    pub(super) outcome: Outcome,
    pub(super) steps: String,
    pub(super) ours: String,
    pub(super) theirs: String,
}

/// Runs every permutation of a specification.
pub(super) fn run(path: &Path, millrace: &Millrace, postgres: &Postgres) -> Result<Vec<Permutation>> {
    let text = std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
    let spec = Spec::parse(&text).map_err(|error| format!("{}: {error}", path.display()))?;
    spec.permutations().iter().map(|order| permutation(&spec, order, millrace, postgres)).collect()
}

fn permutation(spec: &Spec, order: &[Entry], millrace: &Millrace, postgres: &Postgres) -> Result<Permutation> {
    let name = |entry: &Entry| spec.sessions[entry.session].steps[entry.step].name.as_str();
    let steps = order.iter().map(name).collect::<Vec<_>>().join(" ");
    // Some tests end their own sessions, and what is left cannot be compared.
    let theirs = match trace(spec, order, postgres) {
        Ok(events) => events,
        Err(error) => return Ok(Permutation { outcome: Outcome::Volatile, steps, ours: String::new(), theirs: error }),
    };
    let ours = match trace(spec, order, millrace) {
        Ok(events) => events,
        Err(refusal) => {
            return Ok(Permutation { outcome: Outcome::Unsupported, steps, ours: refusal, theirs: print(&theirs) });
        }
    };
    Ok(Permutation { outcome: compare(&ours, &theirs), steps, ours: print(&ours), theirs: print(&theirs) })
}

/// Runs one order of steps; the steps in the order of their answers.
fn trace(spec: &Spec, order: &[Entry], server: &dyn Server) -> Result<Vec<Event>> {
    let mut control = server.connect()?;
    for text in &spec.setup {
        set_up(&mut control, text)?;
    }
    let mut sessions = Sessions::open(spec, server)?;
    let result = sessions.setup(spec).and_then(|()| sessions.steps(spec, order));
    drop(sessions);
    if let Some(text) = &spec.teardown {
        control.run(text)?;
    }
    result
}

/// Runs a text that must succeed, in a form that Millrace accepts if need be.
fn set_up(client: &mut Client, text: &str) -> Result {
    let answer = client.run(text)?;
    let Some((code, message)) = answer.error() else { return Ok(()) };
    for other in text::without_extras(text.trim()) {
        if client.run(&other)?.error().is_none() {
            return Ok(());
        }
    }
    Err(format!("{code} {message}"))
}

struct Sessions<'a> {
    spec: &'a Spec,
    clients: Vec<Client>,
    /// The step that each session has not answered yet.
    waiting: Vec<Option<Entry>>,
    events: Vec<Event>,
}

impl<'a> Sessions<'a> {
    fn open(spec: &'a Spec, server: &dyn Server) -> Result<Sessions<'a>> {
        let clients: Vec<Client> = spec.sessions.iter().map(|_| server.connect()).collect::<Result<_>>()?;
        Ok(Sessions { spec, waiting: vec![None; clients.len()], clients, events: Vec::new() })
    }

    fn setup(&mut self, spec: &Spec) -> Result {
        for (session, client) in spec.sessions.iter().zip(&mut self.clients) {
            if let Some(text) = &session.setup {
                set_up(client, text)?;
            }
        }
        Ok(())
    }

    fn steps(&mut self, spec: &Spec, order: &[Entry]) -> Result<Vec<Event>> {
        for entry in order {
            // A session that still waits must answer before its next step can be sent.
            if self.waiting[entry.session].is_some() {
                self.finish(entry.session)?;
            }
            self.clients[entry.session].send(&spec.sessions[entry.session].steps[entry.step].text)?;
            self.take(*entry, WAITS, entry.waits)?;
            self.wake()?;
        }
        while let Some(session) = self.waiting.iter().position(Option::is_some) {
            self.finish(session)?;
        }
        for (session, client) in spec.sessions.iter().zip(&mut self.clients) {
            if let Some(text) = &session.teardown {
                client.run(text)?;
            }
        }
        Ok(std::mem::take(&mut self.events))
    }

    /// Takes the answer to `entry` if it comes in time; else the session waits.
    fn take(&mut self, entry: Entry, patience: Duration, waited: bool) -> Result {
        self.waiting[entry.session] = Some(entry);
        if let Some(answer) = self.clients[entry.session].poll(patience, &mut || None)? {
            self.waiting[entry.session] = None;
            self.event(entry, waited, answer);
        }
        Ok(())
    }

    /// Takes the answers of sessions whose wait the last step ended, as long as there are some.
    fn wake(&mut self) -> Result {
        loop {
            let before = self.events.len();
            for session in 0..self.clients.len() {
                if let Some(entry) = self.waiting[session] {
                    self.take(entry, WAITS / 3, true)?;
                }
            }
            if self.events.len() == before {
                return Ok(());
            }
        }
    }

    /// Waits for a session, and cancels what it runs when that takes too long.
    fn finish(&mut self, session: usize) -> Result {
        let Some(entry) = self.waiting[session] else { return Ok(()) };
        self.take(entry, PATIENCE, true)?;
        if self.waiting[session].is_some() {
            self.clients[session].cancel()?;
            self.take(entry, PATIENCE, true)?;
        }
        match self.waiting[session] {
            None => Ok(()),
            Some(_) => Err(format!("step {} did not end after a cancel", self.step(entry).0)),
        }
    }

    fn step(&self, entry: Entry) -> (&str, &str) {
        let step = &self.spec.sessions[entry.session].steps[entry.step];
        (&step.name, &step.text)
    }

    fn event(&mut self, entry: Entry, waited: bool, answer: Answer) {
        let (step, text) = self.step(entry);
        let (step, text) = (step.to_owned(), text.to_owned());
        self.events.push(Event { step, text, waited, answer });
    }
}

/// Codes by which a transaction loses against another one.
const ABORTS: [&str; 2] = ["40001", "40P01"];

fn compare(ours: &[Event], theirs: &[Event]) -> Outcome {
    let mut ours: Vec<&Event> = ours.iter().collect();
    let mut theirs: Vec<&Event> = theirs.iter().collect();
    // Steps that wake together may answer in either order.
    ours.sort_by(|a, b| a.step.cmp(&b.step));
    theirs.sort_by(|a, b| a.step.cmp(&b.step));
    let same = |(ours, theirs): (&&Event, &&Event)| {
        let text = &ours.text;
        ours.waited == theirs.waited
            && outcome::compare(text, &ours.answer, &theirs.answer, &theirs.answer, false) == Outcome::Identical
    };
    if ours.iter().zip(&theirs).all(same) {
        return Outcome::Identical;
    }
    let code = |event: &&&Event| event.answer.error().map(|(code, _)| code.to_owned());
    let refuses = |code: &String| code == "0A000" || code.starts_with("42");
    let aborts = |events: &[&Event]| {
        events.iter().filter_map(|event| code(&event)).filter(|code| ABORTS.contains(&code.as_str())).count()
    };
    let refused = ours
        .iter()
        .zip(&theirs)
        .any(|(ours, theirs)| code(&ours).is_some_and(|code| refuses(&code)) && theirs.answer.error().is_none());
    match (refused, aborts(&ours), aborts(&theirs)) {
        (true, ..) => Outcome::Unsupported,
        // Fewer aborts than PostgreSQL's: a candidate for an anomaly.
        (_, ours, theirs) if ours < theirs => Outcome::Accepted,
        (_, ours, theirs) if ours > theirs => Outcome::Code,
        _ => Outcome::Rows,
    }
}

fn print(events: &[Event]) -> String {
    let one = |event: &Event| {
        let waited = if event.waited { " (waited)" } else { "" };
        format!("{}{waited}: {}", event.step, super::short(&event.answer.parts).trim())
    };
    events.iter().map(one).collect::<Vec<_>>().join("\n    ")
}
