//! `icdc doctor --paths`: shows and forgets what is remembered of paths, without measuring anything.

use std::collections::BTreeMap;
use std::net::{IpAddr, ToSocketAddrs};
use std::path::PathBuf;

use anyhow::{Context as _, ensure};
use icdc_doctor::facts;
use icdc_rate::known_paths::{KnownPath, OLDEST};
use icdc_tuning::known_paths;
use icdc_units::Prefix;
use serde_json::{Value, json};

use super::known::{table, unreadable};
use super::plan::PathsTask;
use super::routes::{self, RoutesReport};
use crate::clock::{self, age};
use crate::console::Console;
use crate::copy::summary::counted;
use crate::values::PathsDestination;

/// Runs `icdc doctor --paths`: shows, or forgets, what earlier copies have learned about paths.
///
/// # Errors
/// There is no home, the file cannot be read or written, or a host has no address.
pub(super) fn run(task: &PathsTask, as_json: bool, console: &Console) -> anyhow::Result<()> {
    let file = known_paths::file()
        .context("what is known of paths is kept below XDG_STATE_HOME or HOME, and neither is an absolute path")?;
    let (paths, routes) = match task {
        PathsTask::Show => (show(file)?, Some(routes::show()?)),
        PathsTask::Forget(destination) => match destination {
            Some(destination @ PathsDestination::Host(host)) => {
                let routes = routes::forget(Some(host))?;
                // A name of ssh's configuration may have no address.
                let paths = match forget(file.clone(), Some(destination)) {
                    Err(_) if !routes.is_empty() => PathsReport::Forgotten { file, paths: Vec::new() },
                    paths => paths?,
                };
                (paths, Some(routes))
            }
            Some(destination @ PathsDestination::Prefix(_)) => (forget(file, Some(destination))?, None),
            None => (forget(file, None)?, Some(routes::forget(None)?)),
        },
    };
    if as_json {
        let mut object = paths.json();
        for (name, value) in routes.iter().flat_map(RoutesReport::members) {
            object[name] = value;
        }
        console.json(&object.to_string());
    } else {
        let lines = paths.lines().into_iter().chain(routes.iter().flat_map(RoutesReport::lines));
        lines.for_each(|line| console.result(&line));
    }
    Ok(())
}

/// Result of `icdc doctor --paths`, to be shown.
enum PathsReport {
    /// The known paths that are in the file.
    Known { file: PathBuf, paths: Vec<Shown> },
    /// The known paths that were removed from the file.
    Forgotten { file: PathBuf, paths: Vec<KnownPath> },
}

/// A known path as it is shown.
struct Shown {
    known: KnownPath,
    /// Name of the device that has the local address now.
    interface: Option<String>,
    age: u64,
    /// Reason why no connection will begin with the path's values; `None` if some may.
    obstacle: Option<String>,
}

/// Reads all known paths from the file.
fn show(file: PathBuf) -> anyhow::Result<PathsReport> {
    let known = known_paths::read(&file).with_context(|| unreadable(&file))?;
    // Without them, nothing is said of addresses that are gone.
    let interfaces = facts::addresses().ok();
    let now = clock::seconds_since_1970();
    let paths = known.iter().map(|known| Shown::new(known, interfaces.as_ref(), now)).collect();
    Ok(PathsReport::Known { file, paths })
}

/// Removes from the file the known paths that lead to a place, or all without one.
fn forget(file: PathBuf, destination: Option<&PathsDestination>) -> anyhow::Result<PathsReport> {
    let meant = match destination {
        None => vec![],
        Some(PathsDestination::Prefix(prefix)) => vec![*prefix],
        Some(PathsDestination::Host(host)) => addresses(host)?,
    };
    let is_meant = |path: &KnownPath| destination.is_none() || meant.iter().any(|prefix| prefix.overlaps(&path.to));
    // Where there is no file there is nothing to forget, and none shall be made for it.
    let paths = match file.try_exists() {
        Ok(false) => Vec::new(),
        _ => known_paths::change(&file, |paths| paths.forget(is_meant)).with_context(|| file.display().to_string())?,
    };
    Ok(PathsReport::Forgotten { file, paths })
}

/// Addresses of a host, each as a prefix of its own; an error if there are none.
fn addresses(host: &str) -> anyhow::Result<Vec<Prefix>> {
    let addresses = (host, 0).to_socket_addrs();
    let addresses =
        addresses.with_context(|| format!("cannot resolve {host}; give the address or the prefix instead"))?;
    let prefixes: Vec<Prefix> = addresses.map(|address| address.ip().into()).collect();
    ensure!(!prefixes.is_empty(), "{host} has no address; give the prefix instead");
    Ok(prefixes)
}

impl Shown {
    /// A known path, with whether it is used again; `now` in seconds since 1970. `interfaces` are
    /// the names of devices by their addresses; `None` if they cannot be listed.
    fn new(known: &KnownPath, interfaces: Option<&BTreeMap<IpAddr, String>>, now: u64) -> Self {
        let interface = interfaces.and_then(|all| all.get(&known.from)).cloned();
        let obstacle = if !known.is_young(now) {
            Some(format!("it is older than {}", age(OLDEST.as_secs())))
        } else if interfaces.is_some() && interface.is_none() {
            Some(format!("no interface here has {}", known.from))
        } else {
            None
        };
        Self { known: known.clone(), interface, age: now.saturating_sub(known.seen), obstacle }
    }

    /// Cells of the table's row about this path, in the order of [`HEADINGS`].
    fn cells(&self) -> [String; 7] {
        let Self { known, interface, age: seconds, obstacle } = self;
        let used = match obstacle {
            None => {
                let fits = known.round_trips();
                format!("yes, if the handshake takes {} to {}", fits.start(), fits.end())
            }
            Some(why) => format!("no: {why}"),
        };
        [
            known.to.to_string(),
            known.from.to_string(),
            interface.clone().unwrap_or_else(|| "-".to_owned()),
            known.rate.to_string(),
            known.round_trip.to_string(),
            age(*seconds),
            used,
        ]
    }

    /// JSON object of this path.
    fn json(&self) -> Value {
        let (known, fits) = (&self.known, self.known.round_trips());
        json!({
            "to": known.to.to_string(),
            "from": known.from.to_string(),
            "interface": self.interface,
            "rate_bps": known.rate.as_bits_per_second(),
            "rtt_seconds": known.round_trip.as_secs_f64(),
            "rtt_least_seconds": fits.start().as_secs_f64(),
            "rtt_most_seconds": fits.end().as_secs_f64(),
            "seen": known.seen,
            "age_seconds": self.age,
            "usable": self.obstacle.is_none(),
            "why_not": self.obstacle,
        })
    }
}

/// Headings of the table of known paths.
const HEADINGS: [&str; 7] = ["to", "from", "interface", "rate", "round trip", "age", "used again"];

impl PathsReport {
    /// The result as lines of text.
    fn lines(&self) -> Vec<String> {
        match self {
            Self::Known { file, paths } if paths.is_empty() => vec![format!("no path is known in {}", file.display())],
            Self::Known { file, paths } => {
                let count = counted(paths.len() as u64, "path");
                let rows: Vec<[String; 7]> = paths.iter().map(Shown::cells).collect();
                [format!("{count} known in {}", file.display())].into_iter().chain(table(&HEADINGS, &rows)).collect()
            }
            Self::Forgotten { file, paths } => {
                let count = counted(paths.len() as u64, "path");
                let each = paths.iter().map(|path| format!("  {} from {}", path.to, path.from));
                [format!("{count} forgotten in {}", file.display())].into_iter().chain(each).collect()
            }
        }
    }

    /// The result as a JSON object.
    fn json(&self) -> Value {
        match self {
            Self::Known { file, paths } => json!({
                "file": file.to_string_lossy(),
                "paths": paths.iter().map(Shown::json).collect::<Value>(),
            }),
            Self::Forgotten { file, paths } => json!({
                "file": file.to_string_lossy(),
                "forgotten": paths.iter().map(|path| json!({
                    "to": path.to.to_string(),
                    "from": path.from.to_string(),
                })).collect::<Value>(),
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use icdc_units::{Rate, Span};

    use super::*;

    const NOW: u64 = 1_800_000_000;

    fn shown(from: &str, seen: u64) -> Shown {
        let known = KnownPath {
            to: "198.51.100.0/24".parse().unwrap(),
            from: from.parse().unwrap(),
            rate: Rate::from_bits_per_second(915_000_000),
            round_trip: Span::from_millis(300),
            seen,
        };
        let interfaces = BTreeMap::from([("192.0.2.1".parse().unwrap(), "eth0".to_owned())]);
        Shown::new(&known, Some(&interfaces), NOW)
    }

    #[test]
    fn a_path_is_used_again_while_it_is_young_and_its_address_is_here() {
        for (shown, interface, obstacle) in [
            (shown("192.0.2.1", NOW - 7200), Some("eth0"), None),
            (shown("192.0.2.1", NOW - OLDEST.as_secs() - 1), Some("eth0"), Some("it is older than 30 days")),
            (shown("192.0.2.9", NOW), None, Some("no interface here has 192.0.2.9")),
        ] {
            assert_eq!((shown.interface.as_deref(), shown.obstacle.as_deref()), (interface, obstacle));
        }
        let unseen = Shown::new(&shown("192.0.2.9", NOW).known, None, NOW);
        assert_eq!(unseen.obstacle, None, "what cannot be seen is not taken for missing");
    }

    #[test]
    fn people_get_a_table() {
        let paths = vec![shown("192.0.2.1", NOW - 7200), shown("192.0.2.9", NOW)];
        let lines = PathsReport::Known { file: "/s/paths.json".into(), paths }.lines();
        assert_eq!(
            lines,
            [
                "2 paths known in /s/paths.json",
                "  to               from       interface  rate        round trip  age        used again",
                "  198.51.100.0/24  192.0.2.1  eth0       915 Mbit/s  300ms       2 hours    yes, if the handshake takes 260.5ms to 339.5ms",
                "  198.51.100.0/24  192.0.2.9  -          915 Mbit/s  300ms       0 seconds  no: no interface here has 192.0.2.9",
            ]
        );
    }
}
