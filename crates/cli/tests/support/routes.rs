//! The routes that a copy can take, so that one test can hold for all of them.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use super::daemon::Daemon;
use super::process::{Ended, Run, Start};
use super::{HERE, Site};

/// Where the two ends of a copy are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Route {
    /// Both in one process.
    Local,
    /// The destination at a far end that ssh starts.
    Push,
    /// The sources there.
    Pull,
    /// The destination at a daemon.
    ToDaemon,
    /// The sources there.
    FromDaemon,
}

impl Route {
    pub const ALL: [Self; 5] = [Self::Local, Self::Push, Self::Pull, Self::ToDaemon, Self::FromDaemon];
}

/// A site with everything that one way needs.
pub struct RoutedSite {
    pub site: Site,
    pub route: Route,
    ssh: String,
    daemon: Option<Daemon>,
}

impl RoutedSite {
    pub fn new(route: Route) -> Self {
        let site = Site::new();
        let daemon = match route {
            Route::ToDaemon | Route::FromDaemon => {
                let grant = format!("root=\"{}\",rights=rw,owner=keep", site.root().display());
                Some(Daemon::named(&site, "daemon", &grant))
            }
            _ => None,
        };
        let ssh = site.ssh();
        Self { site, route, ssh, daemon }
    }

    pub fn path(&self, name: impl AsRef<Path>) -> PathBuf {
        self.site.path(name)
    }

    /// A path of the site as the source end is addressed.
    pub fn source(&self, name: impl AsRef<Path>) -> OsString {
        self.address(name.as_ref(), matches!(self.route, Route::Pull), matches!(self.route, Route::FromDaemon))
    }

    /// A path of the site as the destination end is addressed.
    pub fn destination(&self, name: impl AsRef<Path>) -> OsString {
        self.address(name.as_ref(), matches!(self.route, Route::Push), matches!(self.route, Route::ToDaemon))
    }

    /// Starts a copy between paths of the site.
    pub fn start(&self, options: &[&str], sources: &[&str], destination: &str) -> Run {
        let mut command = self.site.copy(&["--ssh", &self.ssh]);
        command.args(options).arg("--");
        command.args(sources.iter().map(|source| self.source(source)));
        command.arg(self.destination(destination)).start()
    }

    /// Copies between paths of the site.
    pub fn copy(&self, options: &[&str], sources: &[&str], destination: &str) -> Ended {
        self.start(options, sources, destination).finish()
    }

    fn address(&self, name: &Path, by_ssh: bool, by_daemon: bool) -> OsString {
        let mut text = OsString::new();
        match &self.daemon {
            _ if by_ssh => {
                text.push(format!("{HERE}:"));
                text.push(self.path(name));
            }
            Some(daemon) if by_daemon => {
                text.push(daemon.location(""));
                text.push(name);
            }
            _ => text.push(self.path(name)),
        }
        text
    }
}
