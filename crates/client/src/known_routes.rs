//! Routes to hosts that ssh reaches, remembered between runs as the first to be tried:
//! `$XDG_STATE_HOME/icdc/routes.json`, else `~/.local/state/icdc/routes.json`.
//!
//! It is a convenience: whatever is wrong with it, a run finds its route without.

use std::io;
use std::path::{Path, PathBuf};

use icdc_transfer::Via;
use icdc_tuning::{seconds_since_1970, state_file};
use icdc_units::Span;
use serde::{Deserialize, Serialize};

/// Greatest age of an entry, because firewalls change. Chosen: a month, as of paths.
pub const OLDEST: Span = Span::from_secs(30 * 24 * 3600);
/// Age from which an entry is written again though nothing of it has changed: its age is what counts then.
const REFRESHED: Span = Span::from_secs(24 * 3600);
/// Most entries; the oldest go first.
const MOST: usize = 500;
/// Maximum size of a file that is read, in bytes: [`MOST`] hosts take less.
const MAX_LENGTH: u64 = 1 << 20;
/// Part by which a login's time may differ from the one that is remembered without being remembered instead.
const LOGIN_TOLERANCE: u64 = 4;

/// A host and the route of the data by which it was reached last.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KnownRoute {
    /// The host as the user wrote it, `[USER@]HOST`.
    pub host: String,
    /// Digest of the ssh command by which it was reached: the command itself may hold a secret.
    pub ssh: String,
    /// Route of the data.
    pub via: Via,
    /// Number of connections that were begun at once.
    pub connections: u8,
    /// Time from the start of ssh to the far end's answer, in milliseconds.
    pub login_ms: u64,
    /// Whether the login needed no answer by hand.
    pub unattended: bool,
    /// Whether several ssh servers share the host's name.
    #[serde(default)]
    pub is_shared: bool,
    /// Time at which it worked, in seconds since 1970.
    pub seen: u64,
}

impl KnownRoute {
    /// Whether the entry is no older than [`OLDEST`] at `now`, in seconds since 1970.
    #[must_use]
    pub fn is_young(&self, now: u64) -> bool {
        now.saturating_sub(self.seen) <= OLDEST.as_secs()
    }

    /// Whether this tells the same as `other` at about the same time.
    fn says_what(&self, other: &Self) -> bool {
        let is_near = self.login_ms.abs_diff(other.login_ms) <= other.login_ms / LOGIN_TOLERANCE;
        is_near
            && self.seen.abs_diff(other.seen) < REFRESHED.as_secs()
            && *self == Self { login_ms: self.login_ms, seen: self.seen, ..other.clone() }
    }

    fn is_of(&self, host: &str, ssh: &str) -> bool {
        self.host == host && self.ssh == ssh
    }
}

/// Remembered routes, the newest first, as a file keeps them from one run to the next.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct KnownRoutes {
    routes: Vec<KnownRoute>,
}

impl KnownRoutes {
    /// All remembered routes, the newest first.
    pub fn iter(&self) -> impl Iterator<Item = &KnownRoute> {
        self.routes.iter()
    }

    /// The route to a host by an ssh command of this digest, at `now` in seconds since 1970; `None` if it is not known, or
    /// the entry is too old.
    #[must_use]
    pub fn find(&self, host: &str, ssh: &str, now: u64) -> Option<&KnownRoute> {
        self.routes.iter().find(|route| route.is_of(host, ssh)).filter(|route| route.is_young(now))
    }

    /// Stores a route in place of an older one to the same host; beyond [`MOST`] the oldest entry is dropped.
    fn remember(&mut self, route: KnownRoute) {
        self.routes.retain(|other| !other.is_of(&route.host, &route.ssh));
        self.routes.insert(0, route);
        self.routes.truncate(MOST);
    }

    /// Removes the routes for which `meant` is true, and returns them.
    pub fn forget(&mut self, meant: impl Fn(&KnownRoute) -> bool) -> Vec<KnownRoute> {
        let (forgotten, kept) = std::mem::take(&mut self.routes).into_iter().partition(meant);
        self.routes = kept;
        forgotten
    }
}

/// Path of the file that remembers this user's routes; `None` as in [`state_file::path`].
#[must_use]
pub fn file() -> Option<PathBuf> {
    state_file::path("routes.json")
}

/// Reads the known routes from `file`; empty if it does not exist.
///
/// # Errors
/// The file cannot be read, or is invalid.
pub fn read(file: &Path) -> io::Result<KnownRoutes> {
    state_file::read(file, MAX_LENGTH)
}

/// Changes the known routes in `file`, as [`state_file::change`] does.
///
/// # Errors
/// Those of [`state_file::change`].
pub fn change<T>(file: &Path, change: impl FnOnce(&mut KnownRoutes) -> T) -> io::Result<T> {
    state_file::change(file, MAX_LENGTH, change)
}

/// Digest by which an ssh command is told from others.
pub(crate) fn digest_of(command: &str) -> String {
    let digest = blake3::derive_key("icdc 2026-11-30 ssh command of a known route", command.as_bytes());
    digest[..8].iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The route that this user remembers to a host, `[USER@]HOST`, by the ssh command `ssh`.
#[must_use]
pub fn recall(host: &str, ssh: &str) -> Option<KnownRoute> {
    let known: KnownRoutes = state_file::read_or_default(&file()?, MAX_LENGTH);
    let route = known.find(host, &digest_of(ssh), seconds_since_1970())?.clone();
    tracing::debug!(host, ?route, "the route is known");
    Some(route)
}

/// Remembers a route for later runs, unless the same is remembered already.
pub(crate) fn remember(route: KnownRoute) {
    let Some(file) = file() else { return };
    let known: KnownRoutes = state_file::read_or_default(&file, MAX_LENGTH);
    if known.find(&route.host, &route.ssh, route.seen).is_some_and(|known| route.says_what(known)) {
        return;
    }
    if let Err(error) = change(&file, |routes| routes.remember(route)) {
        tracing::debug!("{}: {error}", file.display());
    }
}

/// Forgets the route to a host, which has failed.
pub(crate) fn forget(host: &str, ssh: &str) {
    let Some(file) = file() else { return };
    let known: KnownRoutes = state_file::read_or_default(&file, MAX_LENGTH);
    if !known.iter().any(|route| route.is_of(host, ssh)) {
        return;
    }
    if let Err(error) = change(&file, |routes| routes.forget(|route| route.is_of(host, ssh))) {
        tracing::debug!("{}: {error}", file.display());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: u64 = 1_800_000_000;

    fn route(host: &str, via: Via, seen: u64) -> KnownRoute {
        let (ssh, connections) = (digest_of("ssh"), 16);
        let (login_ms, unattended, is_shared) = (2400, true, false);
        KnownRoute { host: host.to_owned(), ssh, via, connections, login_ms, unattended, is_shared, seen }
    }

    #[test]
    fn the_latest_route_to_a_host_is_found_for_a_month() {
        let mut routes = KnownRoutes::default();
        routes.remember(route("me@far", Via::Direct, NOW));
        routes.remember(route("me@far", Via::Ssh, NOW + 1));
        routes.remember(route("other", Via::Back, NOW));
        let ssh = digest_of("ssh");
        assert_eq!(routes.find("me@far", &ssh, NOW + 2).map(|route| route.via), Some(Via::Ssh));
        assert_eq!(routes.find("far", &ssh, NOW), None, "another user may have other rights");
        assert_eq!(routes.find("me@far", &digest_of("ssh -J gate"), NOW), None);
        assert_eq!(routes.find("other", &ssh, NOW + OLDEST.as_secs() + 1), None);
        assert_eq!(routes.forget(|route| route.host == "me@far").len(), 1);
        assert_eq!(routes.iter().count(), 1);
    }

    #[test]
    fn there_is_a_limit_and_the_oldest_go_first() {
        let mut routes = KnownRoutes::default();
        (0..MOST + 3).for_each(|number| routes.remember(route(&format!("host{number}"), Via::Direct, NOW)));
        assert_eq!((routes.iter().count(), routes.iter().any(|route| route.host == "host2")), (MOST, false));
        assert!(serde_json::to_vec_pretty(&routes).unwrap().len() < MAX_LENGTH as usize);
    }

    #[test]
    fn what_is_known_is_not_written_again_each_time() {
        let known = route("far", Via::Ssh, NOW);
        assert!(KnownRoute { login_ms: 2600, seen: NOW + 60, ..known.clone() }.says_what(&known));
        let others = [
            KnownRoute { via: Via::Direct, ..known.clone() },
            KnownRoute { unattended: false, ..known.clone() },
            KnownRoute { connections: 5, ..known.clone() },
            KnownRoute { login_ms: 9000, ..known.clone() },
            KnownRoute { seen: NOW + REFRESHED.as_secs(), ..known.clone() },
        ];
        for other in others {
            assert!(!other.says_what(&known), "{other:?}");
        }
    }

    #[test]
    fn no_secret_of_a_command_is_kept() {
        let digest = digest_of("sshpass -p secret ssh");
        assert!(digest.len() == 16 && digest != digest_of("ssh"), "{digest}");
    }
}
