//! Sources on several disks.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::support::calm::{holds, in_a_calm_moment};
use crate::support::mounts::Mount;
use crate::support::process::Start;
use crate::support::{MIB, Signal, Site, data};

const SIZE: u64 = 64 * MIB;

/// Files below a directory, by whether anything has been written to them.
fn begun(directory: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).into_iter().flatten() {
        let path = entry.unwrap().path();
        let Ok(about) = path.symlink_metadata() else { continue };
        if about.is_dir() {
            found.extend(begun(&path));
        } else if about.len() > MIB && about.blocks() > 0 {
            found.push(path);
        }
    }
    found
}

/// Copies files to `destination` and stops before the first of them can be through: how many have begun by then. Blocks of
/// the first may wait before those of the second.
fn begun_early(site: &Site, sources: [&Path; 2], destination: &Mount) -> usize {
    let mut command = site.copy(&["--rate", "80mbit", "--ssh", &site.ssh()]);
    let run = command.args(sources).arg(site.by_ssh(destination.path())).start();
    let most_of_one = |event: &Value| event["bytes_done"].as_u64().is_some_and(|done| done >= SIZE / 4 * 3);
    assert!(run.wait_for(most_of_one), "{}", run.stderr());
    let count = begun(destination.path()).len();
    run.signal(Signal::INT);
    run.finish().expect_code(4);
    count
}

#[test]
fn sources_on_two_devices_are_read_side_by_side_and_those_on_one_in_turn() {
    let site = Site::new();
    let mount = |name| Mount::tmpfs(site.path(name), 4 * SIZE);
    let (Some(one), Some(other), Some(destination)) = (mount("one"), mount("other"), mount("destination")) else {
        return;
    };
    let a = data::file(&one.path().join("a"), SIZE, 1);
    let b = data::file(&one.path().join("b"), SIZE, 2);
    let c = data::file(&other.path().join("c"), SIZE, 3);
    assert_eq!(begun_early(&site, [&a, &b], &destination), 1);
    // Where processors are busy, one reader may be through before the other has begun.
    in_a_calm_moment(|| {
        fs::read_dir(destination.path()).unwrap().for_each(|left| fs::remove_file(left.unwrap().path()).unwrap());
        let begun = begun_early(&site, [&a, &c], &destination);
        holds(begun == 2, begun)
    });

    let again = site.copy(&["--ssh", &site.ssh()]).args([&a, &c]).arg(site.by_ssh(destination.path())).run();
    let again = again.expect_code(0);
    assert!(again.resumed() > 0, "{again}");
    for (source, name) in [(&a, "a"), (&c, "c")] {
        assert_eq!(fs::read(source).unwrap(), fs::read(destination.path().join(name)).unwrap());
    }
}
