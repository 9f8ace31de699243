//! The daemon as a service: sessions in processes of their own, what the service manager is told, upgrades
//! while copies run, and the audit log.

#![allow(clippy::unwrap_used, reason = "a test may panic")]
#![allow(clippy::disallowed_methods, reason = "real processes need real time")]

mod audit;
mod booted;
mod manager;
mod many;
#[path = "../support/peer.rs"]
mod peer;
mod sessions;
#[path = "../support/mod.rs"]
mod support;

use std::process::Command;

use support::daemon::Daemon;
use support::{MIB, Site, data};

/// Slow enough for something to happen meanwhile.
const SLOW: &str = "8mbit";
const SIZE: u64 = 40 * MIB;

/// A daemon with a directory, and a client with a file.
struct Scene {
    site: Site,
    daemon: Daemon,
}

impl Scene {
    fn new() -> Self {
        Self::with("", |_, _| ())
    }

    /// The client's key has `options` besides, and the daemon's command is changed.
    fn with(options: &str, adapt: impl Fn(&Site, &mut Command)) -> Self {
        let site = Site::new();
        let root = site.directory("root");
        support::open_to_all(&root);
        data::file(&site.path("big"), SIZE, 1);
        let line = format!("root=\"{}\",rights=rw{options}", root.display());
        let daemon = Daemon::adapted(&site, &line, |command| adapt(&site, command));
        Self { site, daemon }
    }

    /// A push to a name beneath the daemon's root.
    fn push(&self, options: &[&str], name: &str) -> Command {
        let mut command = self.site.copy(options);
        command.arg(self.site.path("big")).arg(self.daemon.location(name));
        command
    }

    fn log(&self) -> String {
        self.daemon.run().stderr()
    }
}
