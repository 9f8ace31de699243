//! A Slurm of its own for one test, by `scripts/slurm.sh`.

use std::process::Command;

use tempfile::TempDir;

use super::support::process::started_by;
use super::support::{has_program, is_root, skip, succeed};

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scripts/slurm.sh");

/// Ended when dropped.
pub(crate) struct Cluster {
    directory: TempDir,
}

impl Cluster {
    /// `None` where there cannot be one, with the reason on standard error.
    pub(crate) fn up(nodes: u32) -> Option<Self> {
        if !is_root() || !has_program("slurmctld") {
            skip("a Slurm of its own needs root and the package slurm-wlm");
            return None;
        }
        let directory = tempfile::Builder::new().prefix("icdc-slurm-").tempdir().unwrap();
        let cluster = Self { directory };
        succeed(cluster.script("up").arg(nodes.to_string()));
        Some(cluster)
    }

    fn script(&self, action: &str) -> Command {
        let mut command = Command::new(SCRIPT);
        command.arg(action).arg(self.directory.path());
        command
    }

    /// A command in the cluster.
    pub(crate) fn command(&self, words: &[&str]) -> Command {
        let mut command = self.script("run");
        command.args(words);
        command
    }

    /// The same command, in the cluster.
    pub(crate) fn within(&self, command: &Command) -> Command {
        started_by(self.script("run"), command)
    }

    pub(crate) fn say(&self, words: &[&str]) {
        succeed(&mut self.command(words));
    }

    pub(crate) fn ask(&self, words: &[&str]) -> String {
        // What it is about may be gone already.
        let output = self.command(words).output().unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned()
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        let _ = self.script("down").output();
    }
}
