//! Many sources, and copies that may have few open files or little memory.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use crate::support::{ICDC, MIB, Road, Site, Start, Way, assert_no_leftovers, assert_same, data, is_root, skip};

#[test]
fn as_many_sources_as_a_command_line_holds_are_copied() {
    for way in [Way::Local, Way::Push] {
        let road = Road::new(way);
        fs::create_dir(road.path("many")).unwrap();
        let names: Vec<String> = (0..4500).map(|number| format!("many/{number:05}")).collect();
        names.iter().for_each(|name| fs::write(road.path(name), name).unwrap());
        let sources: Vec<&str> = names.iter().map(String::as_str).collect();
        road.copy(&[], &sources, "copies/").expect_code(0);
        assert_eq!(fs::read_dir(road.path("copies")).unwrap().count(), 4500, "{way:?}");
        assert_eq!(fs::read_to_string(road.path("copies/04499")).unwrap(), "many/04499");
        assert_no_leftovers(road.site.root());
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

/// A control group with so much memory, gone when dropped.
struct Group(PathBuf);

impl Group {
    fn new(most: u64) -> Option<Self> {
        if !is_root() {
            skip("control groups need root");
            return None;
        }
        let name = format!("icdc-test-memory-{}", std::process::id());
        for (root, limit) in [("/sys/fs/cgroup", "memory.max"), ("/sys/fs/cgroup/memory", "memory.limit_in_bytes")] {
            let group = Self(PathBuf::from(root).join(&name));
            if fs::create_dir(&group.0).is_ok() && fs::write(group.0.join(limit), most.to_string()).is_ok() {
                let _ = fs::write(group.0.join("memory.swap.max"), "0");
                return Some(group);
            }
        }
        skip("no control group has a limit on memory here");
        None
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.0);
    }
}

#[test]
fn a_copy_keeps_to_the_memory_of_its_control_group() {
    let Some(group) = Group::new(100 << 20) else { return };
    for way in [Way::Local, Way::Push] {
        let road = Road::new(way);
        data::file(&road.path("file"), 300 * MIB, 1);
        // The shell enters the group, and what it starts stays there.
        let script = format!("echo $$ >{}/cgroup.procs && exec \"$@\"", group.0.display());
        let mut command = Command::new("sh");
        command.args(["-c", &script, "sh"]).arg(ICDC);
        command.args(["copy", "--json", "--remote-icdc", ICDC, "--ssh", &road.site.ssh()]);
        command.arg(road.source("file")).arg(road.destination("copy"));
        road.site.settle(command).run().expect_code(0);
        assert_same(&road.path("file"), &road.path("copy"));
    }
}
