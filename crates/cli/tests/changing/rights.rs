//! Which keys may change: those that may read and write, beneath their root.

use std::fs;
use std::os::unix::fs::symlink;

use serde_json::Value;

use crate::support::daemon::{Daemon, with_user};
use crate::support::{Site, Start};

#[test]
fn a_key_changes_what_its_rights_say() {
    for (rights, may) in [("r", [false; 3]), ("w", [true, false, false]), ("rw", [true; 3]), ("drop-box", [false; 3])] {
        let site = Site::new();
        let root = site.directory("root");
        fs::write(root.join("file"), "1").unwrap();
        fs::write(root.join("other"), "1").unwrap();
        let daemon = Daemon::start(&site, &root, rights);
        let [file, other, made, renamed] = ["file", "other", "made", "renamed"].map(|name| daemon.location(name));
        let lines: [&[&str]; 3] = [&["mkdir", &made], &["rm", &file], &["mv", &other, &renamed]];
        for (line, may) in lines.into_iter().zip(may) {
            let ended = site.icdc(line).run();
            assert_eq!(ended.code, Some(if may { 0 } else { 3 }), "{rights} {line:?}: {ended}");
            assert!(may || ended.stderr.contains("this key may not"), "{rights} {line:?}: {ended}");
        }
        let is_there = ["made", "renamed"].map(|name| root.join(name).exists());
        assert_eq!(is_there, [may[0], may[2]], "{rights}");
        assert_eq!(root.join("file").exists(), !may[1], "{rights}");
    }
}

#[test]
fn a_key_changes_beneath_its_root_only() {
    let site = Site::new();
    let root = site.directory("root");
    fs::write(root.join("file"), "1").unwrap();
    fs::write(site.directory("outside").join("secret"), "1").unwrap();
    symlink("../outside", root.join("out")).unwrap();
    let daemon = Daemon::start(&site, &root, "rw");
    let file = daemon.location("file");
    for path in ["../outside/secret", "out/secret", "a/../../outside/secret", "out/", "..", ""] {
        let place = daemon.location(path);
        for line in [
            &["rm", "-r", "--yes", &place][..],
            &["mkdir", "-p", &place],
            &["mv", &place, &file],
            &["mv", &file, &place],
        ] {
            // `mkdir -p` and `mv file` find the root there.
            let is_root = path.is_empty();
            let ended = site.icdc(line).run();
            assert!(is_root || ended.code == Some(1), "{line:?}: {ended}");
            assert!(root.join("file").exists() && site.path("outside/secret").exists(), "{line:?}: {ended}");
        }
    }
    assert_eq!(fs::read_dir(site.path("outside")).unwrap().count(), 1);
}

#[test]
fn each_change_is_in_the_audit_log() {
    let site = Site::new();
    let root = site.directory("root");
    fs::write(root.join("file"), "1").unwrap();
    let options = with_user(&format!("root=\"{}\",rights=rw", root.display()));
    let log = site.path("audit.log");
    let daemon = Daemon::adapted(&site, &options, |command| {
        command.arg("--audit").arg(&log);
    });
    let [file, made, renamed] = ["file", "made", "renamed"].map(|name| daemon.location(name));
    site.icdc(&["mkdir", &made]).run().expect_code(0);
    site.icdc(&["mv", &file, &renamed]).run().expect_code(0);
    site.icdc(&["rm", &renamed]).run().expect_code(0);
    daemon.stop();
    let lines: Vec<Value> =
        fs::read_to_string(&log).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let ends = lines.iter().filter(|line| line["event"] == "session_end");
    let told: Vec<_> = ends.map(|line| (line["job"].as_str().unwrap(), line["path"].as_str().unwrap())).collect();
    assert_eq!(told, [("make directories", "/made"), ("rename", "/file and 1 more"), ("remove", "/renamed")]);
    assert!(lines.iter().filter(|line| line["event"] == "session_end").all(|line| line["result"] == "complete"));
}
