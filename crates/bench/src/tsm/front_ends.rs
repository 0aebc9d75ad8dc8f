//! Front ends that a run starts over its private store: processes `millrace tsm`, each with the same CPU
//! quota or with none.
//!
//! Always true: front ends end before their control groups and directories are removed, also after an
//! error.

use std::path::PathBuf;

use crate::error::{Error, Result};
use crate::peers::{self, CpuQuota, Options, Product, Server};
use crate::run::target_server::{TargetServer, TargetServerOptions};

/// The front ends of one store.
pub(super) struct FrontEnds {
    /// Flight SQL address of the store; `None`: it is not a private one.
    store: Option<String>,
    parent_dir: PathBuf,
    options: Options,
    running: Vec<FrontEnd>,
}

/// Fields are dropped in this order.
struct FrontEnd {
    server: Server,
    address: String,
    quota: Option<CpuQuota>,
    _directory: tempfile::TempDir,
}

impl FrontEnds {
    /// No front ends yet. They get the settings and the memory limit of the store.
    pub(super) fn of(place: &TargetServer, placing: &TargetServerOptions) -> FrontEnds {
        let store = place.server.as_ref().and_then(|_| place.target.options.get("flight").cloned());
        FrontEnds {
            options: Options {
                settings: placing.settings.clone(),
                memory_mib: placing.memory_mib,
                front_end_of: store.clone(),
                ..Options::default()
            },
            store,
            parent_dir: placing.parent_dir.clone().unwrap_or_else(std::env::temp_dir),
            running: Vec::new(),
        }
    }

    /// Starts and stops front ends until there are `count`, and sets their quotas.
    ///
    /// - `cpus`: processors of each; `None`: no limit.
    ///
    /// # Errors
    /// The store is not private, a front end does not start, or quotas are impossible on this machine.
    pub(super) fn resize(&mut self, count: usize, cpus: Option<f64>) -> Result<()> {
        if count > 0 && self.store.is_none() {
            return Err(Error::setup(format!(
                "{count} front ends of a running store: expected a private store; start them with `millrace tsm --store \
                 grpc://HOST:PORT`, and name each by --url"
            )));
        }
        self.running.truncate(count);
        while self.running.len() < count {
            let front_end = self.start()?;
            self.running.push(front_end);
        }
        self.running.iter_mut().try_for_each(|front_end| front_end.limit(cpus))
    }

    fn start(&self) -> Result<FrontEnd> {
        let directory = tempfile::Builder::new().prefix("millrace-bench-front-end-").tempdir_in(&self.parent_dir);
        let directory = directory.map_err(|error| {
            Error::setup(format!("{}: cannot create a directory: {error}", self.parent_dir.display()))
        })?;
        let server = peers::start(Product::Millrace, &directory.path().join("server"), self.options.clone())?;
        let address = server.address("http")?;
        Ok(FrontEnd { server, address, quota: None, _directory: directory })
    }

    /// `HOST:PORT` of each.
    pub(super) fn addresses(&self) -> Vec<String> {
        self.running.iter().map(|front_end| front_end.address.clone()).collect()
    }

    /// Root processes.
    pub(super) fn pids(&self) -> Vec<u32> {
        self.running.iter().flat_map(|front_end| front_end.server.root_pids()).collect()
    }

    /// Checks that each is running.
    ///
    /// # Errors
    /// One has ended; the message has the end of its log.
    pub(super) fn check_alive(&mut self) -> Result<()> {
        self.running.iter_mut().try_for_each(|front_end| front_end.server.check_alive())
    }
}

impl FrontEnd {
    fn limit(&mut self, cpus: Option<f64>) -> Result<()> {
        if let Some(quota) = &self.quota {
            return quota.set(cpus);
        }
        if cpus.is_some() {
            // Stored before it has processes: a group can be removed only after they have ended.
            let quota = self.quota.insert(CpuQuota::create()?);
            quota.set(cpus)?;
            self.server.root_pids().into_iter().try_for_each(|pid| quota.add(pid))?;
        }
        Ok(())
    }
}
