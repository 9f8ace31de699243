//! Many sources, and copies that may have few open files or little memory.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support::process::eventually;
use crate::support::{
    Ended, ICDC, MIB, Route, RoutedSite, Site, Start, assert_no_leftovers, assert_same, data, is_root, skip,
};

#[test]
fn as_many_sources_as_a_command_line_holds_are_copied() {
    for route in [Route::Local, Route::Push] {
        let routed = RoutedSite::new(route);
        fs::create_dir(routed.path("many")).unwrap();
        let names: Vec<String> = (0..4500).map(|number| format!("many/{number:05}")).collect();
        names.iter().for_each(|name| fs::write(routed.path(name), name).unwrap());
        let sources: Vec<&str> = names.iter().map(String::as_str).collect();
        routed.copy(&[], &sources, "copies/").expect_code(0);
        assert_eq!(fs::read_dir(routed.path("copies")).unwrap().count(), 4500, "{route:?}");
        assert_eq!(fs::read_to_string(routed.path("copies/04499")).unwrap(), "many/04499");
        assert_no_leftovers(routed.site.root());
    }
}

#[test]
fn a_tree_is_copied_with_few_open_files() {
    let site = Site::new();
    for number in 0..200 {
        let directory = site.directory(format!("tree/{number:03}/inner"));
        ["one", "two"].iter().for_each(|name| fs::write(directory.join(name), name).unwrap());
    }
    data::file(&site.path("tree/large"), 9 * MIB, 1);
    for most in [100, 140] {
        let copy = format!("copy-{most}");
        let mut command = Command::new("prlimit");
        command.arg(format!("--nofile={most}:{most}")).arg(ICDC).args(["copy", "tree", &copy]);
        site.settle(command).run().expect_code(0);
        assert_same(&site.path("tree"), &site.path(&copy));
    }
    assert_no_leftovers(site.root());
}

/// A control group whose memory is limited, gone when dropped.
struct Group {
    path: PathBuf,
    /// The file that limits it.
    limit: PathBuf,
}

impl Group {
    fn new(test: &str) -> Option<Self> {
        if !is_root() {
            skip("control groups need root");
            return None;
        }
        let name = format!("icdc-test-memory-{}-{test}", std::process::id());
        for (root, limit) in [("/sys/fs/cgroup", "memory.max"), ("/sys/fs/cgroup/memory", "memory.limit_in_bytes")] {
            let path = Path::new(root).join(&name);
            if fs::create_dir(&path).is_err() {
                continue;
            }
            let group = Self { limit: path.join(limit), path };
            // Where the groups are not mounted it is a directory like any other.
            if group.limit.exists() && group.path.join("cgroup.procs").exists() {
                return Some(group);
            }
        }
        skip("no control group has a limit on memory here");
        None
    }

    /// Runs `icdc copy WORDS…` of a road's site within, with so many MiB.
    fn copy(&self, mebibytes: u64, routed: &RoutedSite, words: &[&str], copy: &str) -> Ended {
        fs::write(&self.limit, (mebibytes << 20).to_string()).unwrap();
        let _ = fs::write(self.path.join("memory.swap.max"), "0");
        // The shell enters the group, and what it starts stays there.
        let script = format!("echo $$ >{}/cgroup.procs && exec \"$@\"", self.path.display());
        let mut command = Command::new("sh");
        command.args(["-c", &script, "sh"]).arg(ICDC);
        command.args(["copy", "--json", "--remote-icdc", ICDC, "--ssh", &routed.site.ssh()]).args(words);
        command.arg(routed.source("file")).arg(routed.destination(copy));
        routed.site.settle(command).run()
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // A process that has just ended keeps it for a moment.
        eventually(|| fs::remove_dir(&self.path).is_ok() || !self.path.exists());
    }
}

#[test]
fn a_copy_keeps_to_the_memory_of_its_control_group() {
    let Some(group) = Group::new("kept") else { return };
    for route in [Route::Local, Route::Push] {
        let routed = RoutedSite::new(route);
        data::file(&routed.path("file"), 300 * MIB, 1);
        group.copy(100, &routed, &[], "copy").expect_code(0);
        assert_same(&routed.path("file"), &routed.path("copy"));
        let ended = group.copy(100, &routed, &["--ring", "512MiB"], "other").expect_code(1);
        assert!(ended.stderr.contains("memory for the ring") && ended.stderr.contains("raise the limit"), "{ended}");
        assert!(!routed.path("other").exists(), "{ended}");
    }
}

#[test]
fn where_a_control_group_has_too_little_memory_a_copy_says_so_and_is_not_killed() {
    let Some(group) = Group::new("little") else { return };
    for route in [Route::Local, Route::Push] {
        let routed = RoutedSite::new(route);
        data::file(&routed.path("file"), 100 * MIB, 1);
        for mebibytes in [16, 32, 48, 64, 100] {
            let copy = format!("copy-{mebibytes}");
            let ended = group.copy(mebibytes, &routed, &[], &copy);
            match ended.code {
                Some(0) => assert_same(&routed.path("file"), &routed.path(&copy)),
                Some(1) => assert!(
                    ended.stderr.contains("the control group") && ended.stderr.contains("raise the limit"),
                    "{route:?} {mebibytes}: {ended}"
                ),
                _ => panic!("{route:?} {mebibytes}: {ended}"),
            }
        }
    }
}
