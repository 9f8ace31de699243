//! The part of `icdc doctor --paths` about routes: shows and forgets by which route the data of earlier copies went to
//! hosts that ssh reaches.

use std::path::PathBuf;

use anyhow::Context as _;
use icdc_client::known_routes::{self, KnownRoute, OLDEST};
use serde_json::{Value, json};

use super::known::{table, unreadable};
use crate::clock::{self, age};
use crate::copy::summary::counted;

/// Headings of the table of known routes.
const HEADINGS: [&str; 6] = ["host", "route", "connections", "login", "age", "tried first"];

/// Known routes, to be shown.
pub(super) enum RoutesReport {
    /// Those that are in the file.
    Known { file: PathBuf, routes: Vec<KnownRoute>, now: u64 },
    /// Those that were removed from the file.
    Forgotten { file: PathBuf, routes: Vec<KnownRoute> },
}

/// Reads all known routes.
///
/// # Errors
/// There is no home, or the file cannot be read.
pub(super) fn show() -> anyhow::Result<RoutesReport> {
    let file = file()?;
    let known = known_routes::read(&file).with_context(|| unreadable(&file))?;
    Ok(RoutesReport::Known { file, routes: known.iter().cloned().collect(), now: clock::seconds_since_1970() })
}

/// Removes the routes to a host, or all without one.
///
/// # Errors
/// There is no home, or the file cannot be changed.
pub(super) fn forget(host: Option<&str>) -> anyhow::Result<RoutesReport> {
    let file = file()?;
    let is_meant = |route: &KnownRoute| {
        let name = route.host.rsplit_once('@').map_or(route.host.as_str(), |(_, name)| name);
        host.is_none_or(|host| host == route.host || host == name)
    };
    // Where there is no file there is nothing to forget, and none shall be made for it.
    let routes = match file.try_exists() {
        Ok(false) => Vec::new(),
        _ => {
            known_routes::change(&file, |routes| routes.forget(is_meant)).with_context(|| file.display().to_string())?
        }
    };
    Ok(RoutesReport::Forgotten { file, routes })
}

/// The file of known routes.
fn file() -> anyhow::Result<PathBuf> {
    known_routes::file()
        .context("what is known of routes is kept below XDG_STATE_HOME or HOME, and neither is an absolute path")
}

/// Cells of the table's row about a route, in the order of [`HEADINGS`].
fn cells(route: &KnownRoute, now: u64) -> [String; 6] {
    let by_hand = if route.unattended { "" } else { ", perhaps by hand" };
    let used =
        if route.is_young(now) { "yes".to_owned() } else { format!("no: it is older than {}", age(OLDEST.as_secs())) };
    [
        route.host.clone(),
        route.via.name().to_owned(),
        route.connections.to_string(),
        format!("{:.1} s{by_hand}", route.login_ms as f64 / 1e3),
        age(now.saturating_sub(route.seen)),
        used,
    ]
}

/// JSON object of a route.
fn object(route: &KnownRoute, now: u64) -> Value {
    json!({
        "host": route.host,
        "via": route.via.name(),
        "connections": route.connections,
        "login_seconds": route.login_ms as f64 / 1e3,
        "unattended": route.unattended,
        "seen": route.seen,
        "age_seconds": now.saturating_sub(route.seen),
        "usable": route.is_young(now),
    })
}

impl RoutesReport {
    /// Whether there is no route in it.
    pub(super) fn is_empty(&self) -> bool {
        let (Self::Known { routes, .. } | Self::Forgotten { routes, .. }) = self;
        routes.is_empty()
    }

    /// The result as lines of text; none where nothing is known.
    pub(super) fn lines(&self) -> Vec<String> {
        match self {
            _ if self.is_empty() => Vec::new(),
            Self::Known { file, routes, now } => {
                let count = counted(routes.len() as u64, "route");
                let rows: Vec<_> = routes.iter().map(|route| cells(route, *now)).collect();
                [format!("{count} known in {}", file.display())].into_iter().chain(table(&HEADINGS, &rows)).collect()
            }
            Self::Forgotten { file, routes } => {
                let count = counted(routes.len() as u64, "route");
                let each = routes.iter().map(|route| format!("  {} by {}", route.host, route.via.name()));
                [format!("{count} forgotten in {}", file.display())].into_iter().chain(each).collect()
            }
        }
    }

    /// The result as the members of a JSON object.
    pub(super) fn members(&self) -> [(&'static str, Value); 2] {
        match self {
            Self::Known { file, routes, now } => [
                ("routes_file", file.to_string_lossy().into()),
                ("routes", routes.iter().map(|route| object(route, *now)).collect()),
            ],
            Self::Forgotten { file, routes } => {
                let forgotten = routes.iter().map(|route| json!({ "host": route.host, "via": route.via.name() }));
                [("routes_file", file.to_string_lossy().into()), ("routes_forgotten", forgotten.collect())]
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use icdc_transfer::Via;

    use super::*;

    #[test]
    fn people_get_a_table() {
        const NOW: u64 = 1_800_000_000;
        let route = KnownRoute {
            host: "me@far".to_owned(),
            ssh: String::new(),
            via: Via::Ssh,
            connections: 16,
            login_ms: 2420,
            unattended: true,
            is_shared: false,
            seen: NOW - 7200,
        };
        let old = KnownRoute {
            host: "other".to_owned(),
            via: Via::Direct,
            unattended: false,
            seen: NOW - OLDEST.as_secs() - 1,
            ..route.clone()
        };
        let lines = RoutesReport::Known { file: "/s/routes.json".into(), routes: vec![route, old], now: NOW }.lines();
        assert_eq!(
            lines,
            [
                "2 routes known in /s/routes.json",
                "  host    route   connections  login                   age      tried first",
                "  me@far  ssh     16           2.4 s                   2 hours  yes",
                "  other   direct  16           2.4 s, perhaps by hand  30 days  no: it is older than 30 days",
            ]
        );
        let none = RoutesReport::Known { file: "/s/routes.json".into(), routes: Vec::new(), now: NOW };
        assert_eq!(none.lines(), Vec::<String>::new());
    }
}
