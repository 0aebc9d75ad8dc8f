//! Startup of a connection, up to the first ReadyForQuery.

use std::sync::Arc;

use ::pg::backend;
use ::pg::frontend::{self, Startup};
use model::{Error, Result, SqlState};
use query::Session;

use super::Context;
use super::cancel::Key;
use super::wire::{Lost, Wire};

/// Result of the startup packets.
pub(super) enum StartupOutcome {
    /// A session for this user, with these settings.
    Session { user: String, settings: Vec<(String, String)> },
    /// A CancelRequest, or a disconnect.
    Nothing,
}

/// Reads startup packets until one requests a session.
pub(super) async fn read_startup(wire: &mut Wire, context: &Arc<Context>) -> Result<StartupOutcome, Lost> {
    // A client may request each kind of encryption once.
    for _ in 0..3 {
        let Some(packet) = wire.startup().await? else { return Ok(StartupOutcome::Nothing) };
        match frontend::parse_startup(&packet).map_err(Lost::Fatal)? {
            Startup::Ssl | Startup::GssEnc => wire.refuse_encryption().await?,
            Startup::Cancel { process, secret } => {
                context.registry.cancel(process, secret);
                return Ok(StartupOutcome::Nothing);
            }
            Startup::Session(session) => {
                negotiate(wire, &session);
                return session_request(&session).map_err(Lost::Fatal);
            }
        }
    }
    Err(Lost::Fatal(Error::new(SqlState::PROTOCOL_VIOLATION, "encryption was requested again after it was refused")))
}

/// Sends NegotiateProtocolVersion to a client that requests a minor version above 0 or protocol
/// extensions.
fn negotiate(wire: &mut Wire, session: &frontend::Session<'_>) {
    let names = session.parameters().map(|(name, _)| name);
    let unknown: Vec<_> = names.filter(|name| name.starts_with("_pq_.")).collect();
    if session.minor > 0 || !unknown.is_empty() {
        backend::negotiate_protocol_version(&mut wire.output, 0, &unknown);
    }
}

fn session_request(session: &frontend::Session<'_>) -> Result<StartupOutcome> {
    let (mut user, mut database, mut settings) = ("", "", Vec::new());
    for (name, value) in session.parameters() {
        match name {
            "user" => user = value,
            "database" => database = value,
            "options" => settings.extend(options(value)?),
            "replication" if !matches!(value, "" | "0" | "off" | "false" | "no") => {
                return Err(Error::unsupported("replication connections are not supported"));
            }
            "replication" => (),
            _ if name.starts_with("_pq_.") => (),
            _ => settings.push((name.to_owned(), value.to_owned())),
        }
    }
    if user.is_empty() {
        return Err(Error::new(SqlState::INVALID_AUTHORIZATION, "no PostgreSQL user name specified in startup packet"));
    }
    if !["", "millrace", "postgres", user].contains(&database) {
        return Err(Error::new(SqlState::INVALID_CATALOG_NAME, format!("database \"{database}\" does not exist"))
            .with_hint("the only database is \"millrace\""));
    }
    Ok(StartupOutcome::Session { user: user.to_owned(), settings })
}

/// Parses the `options` of a startup packet: `-c name=value` and `--name=value`, with blanks
/// escaped by backslashes.
fn options(text: &str) -> Result<Vec<(String, String)>> {
    let mut settings = Vec::new();
    let mut words = words(text).into_iter();
    while let Some(word) = words.next() {
        let setting = match word.strip_prefix("--").or_else(|| word.strip_prefix("-c")) {
            Some("") => words.next().unwrap_or_default(),
            Some(setting) => setting.to_owned(),
            None => String::new(),
        };
        let (name, value) = setting.split_once('=').ok_or_else(|| {
            Error::new(SqlState::INVALID_PARAMETER_VALUE, format!("startup option \"{word}\", expected -c name=value"))
        })?;
        settings.push((name.replace('-', "_"), value.to_owned()));
    }
    Ok(settings)
}

/// Splits at blanks; a backslash escapes the next character.
fn words(text: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => words.last_mut().into_iter().for_each(|word| word.extend(chars.next())),
            c if c.is_ascii_whitespace() => words.push(String::new()),
            c => words.last_mut().into_iter().for_each(|word| word.push(c)),
        }
    }
    words.retain(|word| !word.is_empty());
    words
}

/// Applies the client's settings and appends all messages before the first ReadyForQuery.
///
/// # Errors
/// Errors of the settings.
pub(super) fn send_greeting(
    out: &mut Vec<u8>,
    session: &mut Session,
    key: Key,
    settings: &[(String, String)],
) -> Result<()> {
    for (name, value) in settings {
        session.set(name, value)?;
    }
    backend::authentication_ok(out);
    for (name, value) in session.reported_settings() {
        backend::parameter_status(out, &name, &value);
    }
    // Clear the list: all settings were just reported.
    session.changed_settings();
    backend::backend_key_data(out, key.process, key.secret);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packet(parameters: &[u8]) -> Vec<u8> {
        let mut out = (parameters.len() as u32 + 9).to_be_bytes().to_vec();
        out.extend_from_slice(&196_608u32.to_be_bytes());
        out.extend_from_slice(parameters);
        out.push(0);
        out
    }

    fn read(parameters: &[u8]) -> Result<(String, Vec<(String, String)>)> {
        let packet = packet(parameters);
        let Startup::Session(session) = frontend::parse_startup(&packet).unwrap() else { panic!("not a session") };
        session_request(&session).map(|session_request| match session_request {
            StartupOutcome::Session { user, settings } => (user, settings),
            StartupOutcome::Nothing => panic!("nothing"),
        })
    }

    #[test]
    fn user_and_settings_are_taken_from_parameters_and_options() {
        let (user, settings) =
            read(b"user\0ann\0application_name\0psql\0options\0-c a=1 --b-c=x\\ y -cd=2\0replication\0false\0")
                .unwrap();
        assert_eq!(user, "ann");
        let pairs: Vec<_> = settings.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        assert_eq!(pairs, [("application_name", "psql"), ("a", "1"), ("b_c", "x y"), ("d", "2")]);
    }

    #[test]
    fn only_the_one_database_exists() {
        for database in ["millrace", "postgres", "ann", ""] {
            assert!(read(format!("user\0ann\0database\0{database}\0").as_bytes()).is_ok(), "{database}");
        }
        let error = read(b"user\0ann\0database\0other\0").unwrap_err();
        assert_eq!(error.state(), SqlState::INVALID_CATALOG_NAME);
    }

    #[test]
    fn bad_parameters_are_refused_with_their_state() {
        for (parameters, state) in [
            (&b"database\0millrace\0"[..], "28000"),
            (b"user\0ann\0replication\0database\0", "0A000"),
            (b"user\0ann\0options\0-x\0", "22023"),
            (b"user\0ann\0options\0-c\0", "22023"),
        ] {
            assert_eq!(read(parameters).unwrap_err().state().0, state, "{}", parameters.escape_ascii());
        }
    }
}
