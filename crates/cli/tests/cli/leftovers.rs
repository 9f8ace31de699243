//! `icdc leftovers`: what interrupted copies have left, and what running ones hold.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};

use serde_json::Value;

use crate::support::mounts::Mount;
use crate::support::process::eventually;
use crate::support::{MIB, Run, Site, Start, assert_same, data, is_root, open_to_all, skip};

/// Events of the command about `place`: each file, and all.
fn leftovers(site: &Site, words: &[&str]) -> (Vec<Value>, Value) {
    let ended = site.icdc(&["leftovers", "--json"]).args(words).run().expect_code(0);
    let mut lines = ended.events;
    let all = lines.pop().unwrap();
    assert_eq!(all["type"], "leftovers", "{all}");
    (lines, all)
}

fn contents(found: &[Value]) -> Vec<&str> {
    let mut contents: Vec<_> = found.iter().map(|file| file["holds"].as_str().unwrap()).collect();
    contents.sort_unstable();
    contents
}

/// A copy of `tree/` to `out` that takes seconds.
fn slow_copy(site: &Site) -> Run {
    let mut command = site.copy(&["--rate", "60mbit", "--ssh", &site.ssh(), "tree/"]);
    command.arg(site.by_ssh("out")).start()
}

/// Kills a copy, and waits until its far end holds nothing any more.
fn kill(site: &Site, run: Run) {
    run.kill();
    let is_held = || leftovers(site, &["out"]).0.iter().any(|file| file["in_use"] == true);
    assert!(eventually(|| !is_held()));
}

#[test]
fn what_another_spelling_of_the_destination_has_left_is_listed_and_removed() {
    let site = Site::new();
    site.directory("tree");
    data::file(&site.path("tree/large"), 40 * MIB, 1);
    data::file(&site.path("tree/small"), 1000, 2);
    let run = slow_copy(&site);
    assert!(run.wait_for_bytes(12 * MIB), "{}", run.finish());

    // Its own are not touched while it runs, from wherever they are looked at.
    let (found, all) = leftovers(&site, &["--remove", "out"]);
    assert!(found.iter().all(|file| file["in_use"] == true && file["removed"] == false), "{found:?}");
    assert!(contents(&found).contains(&"journal of a run") && contents(&found).contains(&"data"), "{found:?}");
    assert_eq!((&all["removed"], &all["errors"]), (&0.into(), &0.into()), "{all}");
    kill(&site, run);

    let (found, _) = leftovers(&site, &["."]);
    assert!(found.iter().all(|file| file["in_use"] == false && file["removed"] == false), "{found:?}");
    assert!(contents(&found).contains(&"data"), "{found:?}");
    let bytes = found.iter().map(|file| file["bytes"].as_u64().unwrap()).sum::<u64>();
    assert!(bytes > 4 * MIB, "{found:?}");
    // The same tree by another spelling is another run, which leaves the journal of the first.
    site.copy(&[]).args(["tree/.", "out/."]).run().expect_code(0);
    let (left, _) = leftovers(&site, &["out"]);
    assert!(contents(&left).contains(&"journal of a run"), "{left:?}");
    let (removed, all) = leftovers(&site, &["out", "--remove"]);
    assert_eq!(contents(&removed), contents(&left));
    assert!(removed.iter().all(|file| file["removed"] == true), "{removed:?}");
    assert_eq!(all["removed"], left.len());
    assert_eq!(leftovers(&site, &["out"]).0, [Value::Null; 0]);
    assert_same(&site.path("tree"), &site.path("out"));
}

#[test]
fn small_files_below_the_journal_of_a_running_copy_are_in_use() {
    let site = Site::new();
    fs::create_dir_all(site.path("tree/sub")).unwrap();
    data::file(&site.path("tree/sub/large"), 40 * MIB, 1);
    let run = slow_copy(&site);
    assert!(run.wait_for_bytes(8 * MIB), "{}", run.finish());
    // As a small file that it is about to name; nothing locks those.
    let small = site.path("out/sub/.icdc-0123456789abcdef.part");
    fs::write(&small, "small").unwrap();
    for place in ["out", "out/sub"] {
        let (found, _) = leftovers(&site, &["--remove", place]);
        assert!(found.len() >= 2 && found.iter().all(|file| file["in_use"] == true), "{place}: {found:?}");
    }
    kill(&site, run);
    let (_, all) = leftovers(&site, &["--remove", "out/sub"]);
    assert!(all["removed"].as_u64().unwrap() >= 2 && !small.exists(), "{all}");
}

#[test]
fn only_unfinished_files_are_removed_and_no_link_is_followed() {
    let site = Site::new();
    let (out, elsewhere) = (site.directory("out"), site.directory("elsewhere"));
    let name = ".icdc-0123456789abcdef.part";
    fs::write(elsewhere.join(name), "not below").unwrap();
    symlink(&elsewhere, out.join("link")).unwrap();
    // Links wait for their names, too.
    symlink("../elsewhere/target", out.join(name)).unwrap();
    for other in
        [".icdc-0123456789abcdef.bak", ".icdc-0123456789ABCDEF.part", "icdc-0123456789abcdef.part", ".icdc-012.part"]
    {
        fs::write(out.join(other), "the user's").unwrap();
    }
    fs::create_dir(out.join(".icdc-00000000000000ff.run")).unwrap();
    fs::write(out.join(".icdc-00000000000000aa.run"), "of a run that was interrupted").unwrap();
    let (found, _) = leftovers(&site, &["--remove", "out"]);
    assert_eq!(found.len(), 2, "{found:?}");
    assert_eq!(fs::read_dir(&out).unwrap().count(), 6);
    assert!(elsewhere.join(name).exists());
    // For people, and where there is nothing.
    fs::write(out.join(name), "again").unwrap();
    fs::write(out.join(".icdc-00000000000000aa.run"), "again").unwrap();
    let told = site.icdc(&["leftovers", "out"]).run().expect_code(0).text;
    assert!(told.contains("out/.icdc-0123456789abcdef.part: data, "), "{told}");
    assert!(told.contains("2 unfinished files, ") && told.contains("icdc leftovers --remove out"), "{told}");
    for wrong in ["missing", "far.example.org:out", "elsewhere/.icdc-0123456789abcdef.part"] {
        site.icdc(&["leftovers", wrong]).run().expect_code(2);
    }
}

/// A copy of one small file, which has no lock and no journal, may be about to give it its name.
#[test]
fn a_small_file_that_no_journal_tells_of_stays_for_a_while() {
    let site = Site::new();
    let small = site.directory("out").join(".icdc-0123456789abcdef.part");
    fs::write(&small, "small").unwrap();
    let (found, all) = leftovers(&site, &["--remove", "out"]);
    assert!(found[0]["in_use"] == true && found[0]["reason"].as_str().unwrap().contains("holds no lock"), "{found:?}");
    assert_eq!((&all["in_use"], &all["removed"]), (&1.into(), &0.into()), "{all}");
    let told = site.icdc(&["leftovers", "--remove", "out"]).run().expect_code(0).text;
    assert!(told.contains("it stays for ten minutes"), "{told}");
    assert!(small.exists());
    // One that was interrupted is told by its journal. Nothing else of such a name is one.
    fs::create_dir(site.path("out/.icdc-00000000000000ff.run")).unwrap();
    assert_eq!(leftovers(&site, &["--remove", "out"]).1["removed"], 0);
    fs::write(site.path(".icdc-00000000000000aa.run"), "of a run that was interrupted").unwrap();
    assert_eq!(leftovers(&site, &["--remove", "out"]).1["removed"], 1);
    assert!(!small.exists());
}

#[test]
fn those_of_other_users_are_left_alone() {
    if !is_root() {
        return skip("it needs root to make files of two users");
    }
    let site = Site::new();
    let out = site.directory("out");
    open_to_all(&out);
    fs::write(out.join(".icdc-0123456789abcdef.part"), "root's").unwrap();
    let mut command = site.unprivileged();
    command.args(["leftovers", "--json", "--remove"]).arg(&out);
    let ended = command.run().expect_code(0);
    assert_eq!((ended.events.len(), &ended.events[0]["of_others"]), (1, &1.into()), "{ended}");
    assert!(out.join(".icdc-0123456789abcdef.part").exists());
}

#[test]
fn directories_of_snapshots_and_mirrors_are_removed_with_what_is_in_them() {
    let site = Site::new();
    let (out, elsewhere) = (site.directory("out"), site.directory("elsewhere"));
    fs::write(elsewhere.join("precious"), "precious").unwrap();
    let names = [".icdc-0123456789abcdef.snapshot", ".icdc-0123456789abcdef.part"];
    for name in names {
        let inner = site.directory(format!("out/{name}/inner"));
        fs::write(inner.join("file"), "file").unwrap();
        fs::hard_link(elsewhere.join("precious"), inner.join("linked")).unwrap();
        symlink("../../../elsewhere", inner.join("link")).unwrap();
        fs::set_permissions(&inner, fs::Permissions::from_mode(0o555)).unwrap();
    }
    let (found, all) = leftovers(&site, &["out"]);
    assert_eq!(contents(&found), ["unfinished directory of a mirror", "unfinished snapshot"]);
    assert!(found.iter().all(|found| found["in_use"] == false && found["bytes"].as_u64().unwrap() > 0), "{found:?}");
    assert_eq!((&all["files"], &all["removed"]), (&2.into(), &0.into()), "{all}");
    // A run that is in progress holds them.
    let run = fs::File::create(out.join(".icdc-00000000000000aa.run")).unwrap();
    assert!(rustix::fs::flock(&run, rustix::fs::FlockOperation::NonBlockingLockExclusive).is_ok());
    let (found, all) = leftovers(&site, &["--remove", "out"]);
    assert!(found.iter().all(|found| found["in_use"] == true), "{found:?}");
    assert_eq!(all["removed"], 0, "{all}");
    drop(run);
    let (_, all) = leftovers(&site, &["--remove", "out"]);
    assert_eq!((&all["removed"], &all["errors"]), (&3.into(), &0.into()), "{all}");
    assert_eq!(fs::read_dir(&out).unwrap().count(), 0);
    assert_eq!(fs::read_to_string(elsewhere.join("precious")).unwrap(), "precious");
}

#[test]
fn a_snapshot_that_was_interrupted_is_removed_once_nobody_makes_it() {
    let site = Site::new();
    site.directory("tree");
    data::file(&site.path("tree/large"), 40 * MIB, 1);
    site.directory("out");
    let mut command = site.icdc(&["sync", "--snapshot", "--json", "--remote-icdc", crate::support::ICDC]);
    let run = command.args(["--rate", "60mbit", "--ssh", &site.ssh(), "tree/"]).arg(site.by_ssh("out")).start();
    assert!(run.wait_for_bytes(8 * MIB), "{}", run.finish());
    let (found, all) = leftovers(&site, &["--remove", "out"]);
    assert!(contents(&found).contains(&"unfinished snapshot"), "{found:?}");
    assert!(found.iter().all(|found| found["in_use"] == true) && all["removed"] == 0, "{found:?}");
    kill(&site, run);
    let (_, all) = leftovers(&site, &["--remove", "out"]);
    assert_eq!(all["errors"], 0, "{all}");
    assert_eq!(fs::read_dir(site.path("out")).unwrap().count(), 0, "{all}");
}

#[test]
fn a_file_system_that_is_mounted_in_such_a_directory_stays() {
    let site = Site::new();
    site.directory("out/.icdc-0123456789abcdef.snapshot");
    let Some(mount) = Mount::tmpfs(site.path("out/.icdc-0123456789abcdef.snapshot/mounted"), MIB) else { return };
    fs::write(mount.path().join("precious"), "precious").unwrap();
    let ended = site.icdc(&["leftovers", "--remove", "out"]).run().expect_code(1);
    assert!(ended.stderr.contains("a file system is mounted there"), "{ended}");
    assert!(mount.path().join("precious").exists());
}
