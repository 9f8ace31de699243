//! A copy in shards: what all of them make together, and what goes wrong on the way.

#![allow(clippy::unwrap_used, reason = "a test may panic")]
#![allow(clippy::disallowed_methods, reason = "real processes need real time")]

mod refused;
#[path = "../support/mod.rs"]
mod support;
mod whole;

use std::ffi::OsStr;
use std::process::Command;

use serde_json::Value;
use support::process::{Ended, Run, Start};
use support::{ICDC, Site, succeed};

/// `icdc plan` of `tree` to `destination`, into `plan`.
fn plan(site: &Site, shards: u32, destination: &OsStr) -> Value {
    plan_of(site, &["tree"], shards, destination)
}

fn plan_of(site: &Site, sources: &[&str], shards: u32, destination: &OsStr) -> Value {
    plan_with(site, &[], sources, shards, destination)
}

fn plan_with(site: &Site, options: &[&str], sources: &[&str], shards: u32, destination: &OsStr) -> Value {
    let shards = shards.to_string();
    let mut command = site.icdc(&["plan", "--json", "--shards", &shards, "--out", "plan"]);
    command.args(options).args(sources).arg(destination);
    serde_json::from_str(&succeed(&mut command)).unwrap()
}

/// `icdc copy --plan plan WORDS…`
fn copy_shard(site: &Site, words: &[&str]) -> Command {
    let mut command = site.copy(&["--plan", "plan", "--ssh", &ssh(site)]);
    command.args(words);
    command
}

/// [`Site::ssh`], written once: others may be about to execute it.
fn ssh(site: &Site) -> String {
    let path = site.path("ssh-here");
    if path.exists() { path.to_str().unwrap().to_owned() } else { site.ssh() }
}

/// Copies these shards at the same time.
fn copy_shards(site: &Site, shards: impl IntoIterator<Item = u32>) -> Vec<Ended> {
    let shard = |shard: u32| copy_shard(site, &["--shard", &shard.to_string()]).start();
    let runs: Vec<Run> = shards.into_iter().map(shard).collect();
    runs.into_iter().map(Run::finish).collect()
}

fn join(site: &Site) -> Ended {
    join_with(site, &[])
}

fn join_with(site: &Site, options: &[&str]) -> Ended {
    site.icdc(&["plan", "join", "--json", "--remote-icdc", ICDC, "--ssh", &ssh(site), "plan"]).args(options).run()
}

fn status(site: &Site) -> Value {
    let ended = site.icdc(&["plan", "status", "--json", "plan"]).run();
    ended.events[0].clone()
}

/// Digest of one copy of `tree` into a new directory.
fn digest_of_one_copy(site: &Site, name: &str) -> Value {
    let directory = site.directory(name);
    let digest = site.copy(&["tree"]).arg(directory).run().expect_code(0).summary()["tree_digest"].clone();
    assert!(digest.is_string());
    digest
}
