//! `icdc copy --follow`: what appears and changes in a directory travels when it has settled.

#![allow(clippy::unwrap_used, reason = "a test may panic")]
#![allow(clippy::disallowed_methods, reason = "real processes need real time")]

mod ends;
mod growing;
mod interrupted;
mod limits;
mod settled;
#[path = "../support/mod.rs"]
mod support;

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::support::Run;

/// Whether an event tells that this item is durable.
fn is_followed(event: &Value, path: &str) -> bool {
    event["type"] == "followed" && event["path"] == path
}

/// Waits until this item is durable.
#[track_caller]
fn await_followed(run: &Run, path: &str) {
    assert!(run.wait_for(|event| is_followed(event, path)), "{path} has not arrived\n{}", run.stderr());
}

/// Paths of the items that have become durable, in their order.
fn followed(events: &[Value]) -> Vec<String> {
    let followed = events.iter().filter(|event| event["type"] == "followed");
    followed.map(|event| event["path"].as_str().unwrap().to_owned()).collect()
}

/// Writes a file aside and renames it, as careful programs do.
fn write_aside(path: &Path, contents: &[u8]) {
    let aside = path.with_extension("part");
    fs::write(&aside, contents).unwrap();
    fs::rename(aside, path).unwrap();
}
