//! What a copy and a daemon tell others: a command and a web server when something has ended, fireflies
//! while it lasts.

#![allow(clippy::unwrap_used, reason = "a test may panic")]
#![allow(clippy::disallowed_methods, reason = "real processes need real time")]

mod command;
mod fireflies;
mod server;
mod sessions;
#[path = "../support/mod.rs"]
mod support;
mod webhook;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;
use support::daemon::Daemon;
use support::{MIB, Site, data};

/// Slow enough for something to happen meanwhile.
const SLOW: &str = "8mbit";
const SIZE: u64 = 8 * MIB;

/// A site with a file to copy.
fn site() -> Site {
    let site = Site::new();
    data::file(&site.path("big"), SIZE, 1);
    site
}

/// `icdc copy OPTIONS big copied`
fn local(site: &Site, options: &[&str]) -> Command {
    let mut command = direct(site.copy(options));
    command.arg(site.path("big")).arg(site.path("copied"));
    command
}

/// Without a proxy that whoever runs the tests may have.
fn direct(mut command: Command) -> Command {
    for name in ["http_proxy", "https_proxy", "all_proxy", "no_proxy"] {
        command.env_remove(name).env_remove(name.to_uppercase());
    }
    command
}

/// A daemon with these options, and its root.
fn daemon(site: &Site, options: &[&str]) -> Daemon {
    let root = site.directory("root");
    support::open_to_all(&root);
    Daemon::adapted(site, &format!("root=\"{}\",rights=rw", root.display()), |command| {
        command.args(options);
        let clean = direct(Command::new("true"));
        for (name, _) in clean.get_envs() {
            command.env_remove(name);
        }
    })
}

/// A push of the file to a daemon.
fn push(site: &Site, daemon: &Daemon, options: &[&str]) -> Command {
    let mut command = direct(site.copy(options));
    command.arg(site.path("big")).arg(daemon.location("pushed"));
    command
}

fn json(path: &Path) -> Value {
    serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap()
}

/// Lines of `NAME=VALUE`.
fn variables(path: &Path) -> BTreeMap<String, String> {
    let text = fs::read_to_string(path).unwrap();
    text.lines().filter_map(|line| line.split_once('=')).map(|(name, value)| (name.into(), value.into())).collect()
}
