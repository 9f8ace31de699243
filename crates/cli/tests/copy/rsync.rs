//! `icdc rsync` beside Debian's rsync: of the same command line, the same tree.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, Output};

use crate::support::compare::differences;
use crate::support::{ICDC, Site, data, has_program, is_root, open_to_all, skip};

const DESTINATIONS: [&str; 2] = ["theirs", "ours"];

/// A file of this age.
fn file(path: &Path, text: &str, age: u64) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
    data::age(path, 1_500_000_000 - age, 0);
}

/// Two trees to copy, and for each of the two programs a destination that has some of it.
fn site() -> Site {
    let site = Site::new();
    for (name, text) in [
        ("src/same.nc", "same"),
        ("src/changed.nc", "a longer text"),
        ("src/newer-there", "old"),
        ("src/new", "new"),
        ("src/scratch/x.tmp", "x"),
        ("src/results/deep/y.nc", "y"),
        ("src/results/z.txt", "z"),
        ("more/same.nc", "another of this name"),
        ("more/only", "only"),
        ("single", "single"),
        ("names", "same.nc\nresults/deep/y.nc\nlink\n./new\n"),
    ] {
        file(&site.path(name), text, 1000);
    }
    symlink("same.nc", site.path("src/link")).unwrap();
    fs::hard_link(site.path("src/new"), site.path("src/new-too")).unwrap();
    for destination in DESTINATIONS {
        for (name, text, age) in [
            ("same.nc", "same", 1000),
            ("changed.nc", "a text", 2000),
            ("newer-there", "new", 10),
            ("extra/file", "extra", 10),
        ] {
            file(&site.path(destination).join(name), text, age);
        }
        data::age(&site.path(destination).join("extra"), 1_400_000_000, 0);
        data::age(&site.path(destination), 1_400_000_000, 0);
    }
    // rsync keeps the time that a new directory has within the same second.
    for (number, name) in ["src/scratch", "src/results/deep", "src/results", "src", "more"].iter().enumerate() {
        data::age(&site.path(name), 1_400_000_000 + number as u64, 0);
    }
    site
}

fn run(site: &Site, program: &str, words: &[&str], destination: &str) -> Output {
    let words = words.iter().map(|word| word.replace("DST", destination));
    let mut command = match program {
        "rsync" => site.settle(Command::new("rsync")),
        _ => site.icdc(&["rsync", "--remote-icdc", ICDC]),
    };
    command.env("LC_ALL", "C").env_remove("RSYNC_RSH").args(words).output().unwrap()
}

#[test]
fn the_same_command_line_makes_the_same_tree() {
    if !has_program("rsync") {
        return skip("rsync is not installed");
    }
    let programs = Site::new();
    let ssh = programs.ssh();
    let shell = format!("--rsh={ssh}");
    let mut differing: Vec<String> = Vec::new();
    for words in [
        &["-a", "src/", "DST"] as &[&str],
        &["-avzP", "src/", "DST/"],
        &["-a", "src", "DST"],
        &["-a", "src", "more", "DST"],
        &["-a", "src/", "more/", "DST"],
        &["-a", "more/", "src/", "DST"],
        &["-a", "src", "DST/new"],
        &["-a", "src/", "DST/new"],
        &["-a", "single", "DST/new"],
        &["-a", "single", "DST"],
        &["-t", "-p", "single", "DST"],
        &["-a", "--delete", "src/", "DST"],
        &["-a", "--delete-before", "--exclude=extra", "src/", "DST"],
        &["-a", "--delete", "--max-delete=10", "src/", "DST"],
        &["-au", "src/", "DST"],
        &["-an", "src/", "DST"],
        &["-rtp", "src/", "DST"],
        &["-rltpH", "src/", "DST"],
        &["-aH", "src/", "DST"],
        &["-a", "--include=*/", "--include=*.nc", "--exclude=*", "src/", "DST"],
        &["-am", "--include=*/", "--include=*.nc", "--exclude=*", "src/", "DST"],
        &["-a", "--files-from=names", "src/", "DST"],
        &["-a", "-f", "- /src/results/", "--exclude", "*.tmp", "src", "DST"],
        &["-a", "--min-size=2", "--max-size=1k", "src/", "DST"],
        &["-a", &shell, "src/", "127.0.0.1:ROOT/DST"],
        &["-a", &shell, "--delete", "127.0.0.1:ROOT/src/", "DST"],
        &["-ae", &ssh, "127.0.0.1:ROOT/src", ":ROOT/more", "DST"],
    ] {
        let site = site();
        let root = site.root().to_str().unwrap().to_owned();
        let words: Vec<String> = words.iter().map(|word| word.replace("ROOT", &root)).collect();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let [theirs, ours] = DESTINATIONS.map(|name| site.path(name));
        let rsync = run(&site, "rsync", &words, "theirs");
        let icdc = run(&site, "icdc", &words, "ours");
        assert!(rsync.status.success(), "{words:?}: {rsync:?}");
        assert_eq!(icdc.status.code(), Some(0), "{words:?}: {icdc:?}");
        // Directories that got an item, and their time by that.
        let is_filled = words.contains(&"src/") && !words.contains(&"more/") && !words.contains(&"--files-from=names");
        let filled = words.last().filter(|_| is_filled).map(|last| last.replace("DST", "ours"));
        let touched: Vec<String> = ["ours", "ours/new"]
            .into_iter()
            .filter(|name| filled.as_deref().is_none_or(|filled| filled.trim_end_matches('/') != *name))
            .map(|name| format!("{}: has time", site.path(name).display()))
            .collect();
        differing.extend(
            differences(&theirs, &ours)
                .into_iter()
                .filter(|difference| !touched.iter().any(|touched| difference.starts_with(touched)))
                .map(|difference| format!("{words:?}: {difference}")),
        );
    }
    assert!(differing.is_empty(), "{differing:#?}");
}

#[test]
fn the_command_that_runs_is_printed_and_can_be_pasted() {
    let site = site();
    let output = run(&site, "icdc", &["-rlptz", "--exclude=*.tmp", "src/", "new place"], "");
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let told = String::from_utf8(output.stderr).unwrap();
    let (command, rest) = told.split_once('\n').unwrap();
    assert_eq!(command, format!("icdc sync '--compress=auto' --remote-icdc {ICDC} --exclude '*.tmp' src/ 'new place'"));
    assert!(rest.contains("icdc: -z: data is compressed by zstd"), "{told}");
    // Nothing differs the second time, neither here nor as it was printed.
    let pasted = command.replacen("icdc", ICDC, 1);
    let mut shell = site.settle(Command::new("sh"));
    let output = shell.args(["-c", &pasted]).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stdout).starts_with("0 files"), "{output:?}");
    let output = run(&site, "icdc", &["-rlptzq", "src/", "new place"], "");
    assert!(output.stderr.is_empty() && output.stdout.is_empty(), "{output:?}");
}

#[test]
fn owners_are_set_by_root_alone() {
    if !is_root() {
        return skip("only root can give a file to others");
    }
    let site = site();
    std::os::unix::fs::chown(site.path("src/same.nc"), Some(7), Some(8)).unwrap();
    let output = run(&site, "icdc", &["-a", "src/", "DST"], "ours");
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let owner = |name: &str| {
        use std::os::unix::fs::MetadataExt as _;
        let found = site.path(name).metadata().unwrap();
        (found.uid(), found.gid())
    };
    assert_eq!(owner("ours/same.nc"), (7, 8));
    open_to_all(site.root());
    let mut command = site.unprivileged();
    let output = command.args(["rsync", "-a", "src/", "theirs-too"]).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert_eq!(owner("theirs-too/same.nc"), owner("theirs-too"));
    assert!(String::from_utf8_lossy(&output.stderr).contains("only root can set others"), "{output:?}");
}

#[test]
fn nothing_is_run_of_what_cannot_be_translated() {
    for words in [
        &["-a", "--append", "src/", "DST"] as &[&str],
        &["-a", "--delete", "--ignore-errors", "src/", "DST"],
        &["--delete", "src/", "DST"],
        &["src", "DST"],
        &["-a", "src/", "host::module"],
        &["-a", "src/"],
    ] {
        let site = site();
        let output = run(&site, "icdc", words, "ours");
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{words:?}: {told}");
        assert!(told.starts_with("icdc: ") && told.lines().count() == 1, "{words:?}: {told}");
        assert_eq!(differences(&site.path("theirs"), &site.path("ours")), Vec::<String>::new(), "{words:?}");
    }
    let site = site();
    for words in [&[] as &[&str], &["--help"], &["-h"]] {
        let output = site.icdc(&["rsync"]).args(words).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        assert!(String::from_utf8_lossy(&output.stdout).contains("icdc rsync -avz --delete"), "{output:?}");
    }
}
