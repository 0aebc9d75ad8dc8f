//! Distributed runs: the `--cluster-…` options.

use std::process::ExitCode;
use std::sync::Arc;

use super::options::RunOptions;
use super::{INTERRUPTED, print_result, stop_at_interrupt, verdict};
use crate::cluster::{self, ClusterResults, Coordinator, Identity, Member};
use crate::config::{Config, Source};
use crate::error::{Error, Result};
use crate::result::RunResult;

/// Runs as the coordinator: waits for the members and reports their measurements as one result.
pub(super) fn coordinate(workload: &str, options: &RunOptions, config: &Config, address: &str) -> Result<ExitCode> {
    refuse_options(options)?;
    stop_at_interrupt();
    let members = options.members.unwrap_or(0);
    let identity = Identity::new(workload, config, options.shared());
    let coordinator = Coordinator::bind(&cluster::address(address), members, &options.cluster_token, identity)?;
    eprintln!("waiting for {members} members at {}", coordinator.address()?);
    let ClusterResults { results, missing, notes } = coordinator.run(&INTERRUPTED, &mut |text| eprintln!("{text}"))?;
    let mut result = cluster::merge(results)?;
    result.notes.extend(notes);
    if !missing.is_empty() {
        let missing = format!("part of the run is missing: {}", missing.join("; "));
        result.stopped = Some(result.stopped.map_or(missing.clone(), |why| format!("{why}; {missing}")));
    }
    print_result(&result, options.verbose);
    let results = [result];
    options.write(&results)?;
    options.say_files();
    Ok(verdict(&results))
}

/// Joins a coordinator's run and takes the devices it assigns, if `--cluster-join` is given.
pub(super) fn join(workload: &str, options: &RunOptions, config: &mut Config) -> Result<Option<Arc<Member>>> {
    let Some(address) = &options.cluster_join else { return Ok(None) };
    refuse_options(options)?;
    match options.target.as_slice() {
        [] => {}
        [target] if target.contains("://") || target.starts_with("null") => {}
        [_] => {
            return Err(Error::setup("--cluster-join: expected the --target of a running server (NAME://HOST:PORT)"));
        }
        _ => return Err(Error::setup("--cluster-join: expected one --target")),
    }
    let identity = Identity::new(workload, config, options.shared());
    let member = Member::join(&cluster::address(address), &options.cluster_token, &identity, &INTERRUPTED)?;
    eprintln!("member {} of {}", member.index, member.members);
    config.set("BENCHMARK_CLUSTER", "true", Source::CommandLine)?;
    config.set("BENCHMARK_INDEX", &member.index.to_string(), Source::CommandLine)?;
    Ok(Some(Arc::new(member)))
}

/// Sends the outcome to the coordinator, if there is one. Returns the exit code of this tool.
pub(super) fn finish(member: Option<&Member>, outcome: Result<Vec<RunResult>>) -> Result<ExitCode> {
    if let Some(member) = member {
        let nothing = || Error::setup("interrupted before anything was measured");
        let handed_in = match &outcome {
            Ok(results) => results.first().cloned().ok_or_else(nothing),
            Err(error) => Err(error.clone()),
        };
        let arrived = member.finish(&handed_in);
        // A failure of the run itself takes precedence over a failure to send it.
        return outcome.and_then(|results| arrived.map(|()| verdict(&results)));
    }
    outcome.map(|results| verdict(&results))
}

fn refuse_options(options: &RunOptions) -> Result {
    match options.not_in_a_cluster() {
        None => Ok(()),
        Some(option) => Err(Error::setup(format!("{option} is not supported in a distributed run"))),
    }
}

/// The command line for reports, with the token masked.
pub(super) fn command_line(arguments: impl Iterator<Item = String>) -> Vec<String> {
    const TOKEN: &str = "--cluster-token";
    let mut secret = false;
    let masked = |argument: String| {
        if std::mem::replace(&mut secret, argument == TOKEN) {
            return "******".to_owned();
        }
        if argument.starts_with(TOKEN) && argument[TOKEN.len()..].starts_with('=') {
            return format!("{TOKEN}=******");
        }
        argument
    };
    arguments.map(masked).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn token_is_masked_in_the_command_line() {
        let typed = ["bench", "iot", "--cluster-token", "secret", "--cluster-token=secret", "--cluster-join", "h:1"];
        let kept = command_line(typed.into_iter().map(str::to_owned));
        let expected = ["bench", "iot", "--cluster-token", "******", "--cluster-token=******", "--cluster-join", "h:1"];
        assert_eq!(kept, expected);
    }
}
