//! The far hosts of a command.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::ArgMatches;
use icdc_client::Location;
use icdc_shards::Plan;

use crate::applies::Hosts;
use crate::measure::plan::target;

/// Means by which a far host is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reach {
    /// The host is reached by ssh.
    Ssh,
    /// The host runs a daemon, which is reached directly.
    Daemon,
}

/// A far host that a command names, and how it is reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct End {
    /// Host name as the user typed it, without user and brackets.
    pub(super) host: String,
    pub(super) reach: Reach,
}

/// The far hosts that a command reaches, the destination before the source; none for what stays on
/// this host.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct FarHosts {
    pub(super) ends: Vec<End>,
}

impl FarHosts {
    /// The far hosts that a command line names; what is no host in it, the command itself refuses.
    pub(super) fn of(matches: &ArgMatches) -> Self {
        if let Some(target) = value::<OsString>(matches, "target").next() {
            return Self::to(target_of(&target));
        }
        if let Some(directory) = value::<PathBuf>(matches, "plan").next() {
            let Ok(plan) = Plan::open(&directory) else { return Self::default() };
            return Self::between(&plan.text.sources, &plan.text.destination);
        }
        let mut places: Vec<OsString> = value(matches, "places").collect();
        let Some(destination) = places.pop() else { return Self::default() };
        Self::between(&places, destination)
    }

    /// The far host of one location; none if it is local or absent.
    pub(super) fn to(location: Option<Location>) -> Self {
        Self { ends: location.and_then(|location| end(&location)).into_iter().collect() }
    }

    /// The far hosts of a copy: of the destination, and of the first source on another host.
    fn between(sources: &[impl Into<OsString> + Clone], destination: impl Into<OsString>) -> Self {
        let parse = |text: OsString| end(&Location::parse(&text).ok()?);
        let source = sources.iter().find_map(|source| parse(source.clone().into()));
        Self { ends: parse(destination.into()).into_iter().chain(source).collect() }
    }

    /// Kinds of remote hosts that take part, for options that depend on them.
    pub(super) fn hosts(&self) -> Hosts {
        let has = |reach| self.ends.iter().any(|end| end.reach == reach);
        Hosts { by_ssh: has(Reach::Ssh), by_daemon: has(Reach::Daemon), between_two: self.ends.len() > 1 }
    }
}

/// Location of a target as `icdc measure` and `icdc doctor` take it; `None` if the text names none.
pub(super) fn target_of(text: &OsString) -> Option<Location> {
    target(text).ok()
}

/// The far host of a location; `None` for a local one.
fn end(location: &Location) -> Option<End> {
    let reach = match location {
        Location::Local(_) => return None,
        Location::Ssh { .. } => Reach::Ssh,
        Location::Daemon { .. } => Reach::Daemon,
    };
    Some(End { host: location.host_name()?.to_owned(), reach })
}

/// Values of an argument; none if the command does not have it.
fn value<T: Clone + Send + Sync + 'static>(matches: &ArgMatches, id: &str) -> impl Iterator<Item = T> {
    matches.try_get_many::<T>(id).ok().flatten().into_iter().flatten().cloned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_destination_comes_first() {
        let hosts = |sources: &[&str], destination: &str| {
            let sources: Vec<OsString> = sources.iter().map(Into::into).collect();
            let ends = FarHosts::between(&sources, destination).ends;
            ends.into_iter().map(|end| format!("{} {:?}", end.host, end.reach)).collect::<Vec<_>>()
        };
        assert_eq!(hosts(&["a:x", "a:y"], "icdc://[::1]:7/z"), ["::1 Daemon", "a Ssh"]);
        assert_eq!(hosts(&["x"], "me@b:"), ["b Ssh"]);
        assert_eq!(hosts(&["u@[fd26::2]:x"], "y"), ["fd26::2 Ssh"]);
        assert!(hosts(&["x", "./a:b"], "y").is_empty());
    }
}
