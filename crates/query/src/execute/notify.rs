//! LISTEN, UNLISTEN and NOTIFY: outside a transaction block they act at once, in one when it commits.

use model::Result;
use parser::ast::Notify;

use crate::result::Outcome;
use crate::session::Session;

/// Executes LISTEN.
///
/// # Errors
/// 0A000 for a session that cannot get notifications; 22023.
pub(super) fn listen(session: &mut Session, channel: &str) -> Result<Outcome> {
    session.outbox.lock().listen(channel)?;
    Ok(done(session, "LISTEN"))
}

/// Executes UNLISTEN of a channel, or of all.
pub(super) fn unlisten(session: &mut Session, channel: Option<&str>) -> Outcome {
    session.outbox.lock().unlisten(channel);
    done(session, "UNLISTEN")
}

/// Executes NOTIFY.
///
/// # Errors
/// 22023; 54000 and 53200 beyond the limits of memory.
pub(super) fn notify(session: &mut Session, notify: &Notify) -> Result<Outcome> {
    let payload = notify.payload.as_deref().unwrap_or_default();
    session.outbox.lock().notify(&notify.channel, payload)?;
    Ok(done(session, "NOTIFY"))
}

fn done(session: &mut Session, tag: &'static str) -> Outcome {
    if session.block.is_none() {
        session.tell();
    }
    Outcome::command(tag)
}
