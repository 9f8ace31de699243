//! Every command of ours on the page "Coming from rsync, scp, rclone, Globus" does what the page
//! says that it does: it is run, each in directories of its own.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use crate::support::{ICDC, Site, data};

const PAGE: &str = include_str!("../../../../docs/coming-from.md");

/// Files that the page speaks of; those of `host` are on the other host.
const FILES: [&str; 10] = [
    "src/a.nc",
    "src/b.txt",
    "src/deep/c.nc",
    "src/cache/d.tmp",
    "big.img",
    "list",
    "host/src/a.nc",
    "host/dst/a.nc",
    "host/dst/extra",
    "dst/a.nc",
];

/// A directory with the files, an `icdc` in `PATH`, and an ssh by which every host is the directory
/// `host`.
fn site() -> Site {
    let site = Site::new();
    for name in FILES {
        let path = site.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, if name == "list" { "a.nc\ndeep/c.nc\n" } else { name }).unwrap();
        // Older at the destination.
        data::age(&path, if name.contains("dst") { 1_400_000_000 } else { 1_500_000_000 }, 0);
    }
    let ssh = site
        .program("ssh-here", &format!("shift\nHOME={}\nexport HOME\nexec sh -c \"$*\"", site.path("host").display()));
    let config = format!("ssh = \"{ssh}\"\nremote-icdc = \"{ICDC}\"\n");
    fs::write(site.path("home/config.toml"), config).unwrap();
    symlink(ICDC, site.directory("bin").join("icdc")).unwrap();
    site
}

/// Runs lines by a shell, with this host for all others; each must succeed.
fn run(site: &Site, lines: &str) {
    let hosts = ["host:", "one:", "two:"];
    let lines = hosts.iter().fold(without_ssh(lines), |lines, host| lines.replace(host, "127.0.0.1:"));
    let path = format!("{}:{}", site.path("bin").display(), std::env::var("PATH").unwrap());
    let mut command = site.settle(Command::new("sh"));
    command.args(["-ec", &lines]).env("PATH", path).env("ICDC_CONFIG", site.path("home/config.toml"));
    let output = command.env("ICDC_SYSTEM_CONFIG", "").output().unwrap();
    assert!(output.status.success(), "{lines}: {output:?}");
}

/// The lines without their `--ssh '…'`, instead of which the settings name an ssh.
fn without_ssh(lines: &str) -> String {
    let mut parts = lines.split("--ssh '");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |lines, part| lines + part.split_once("' ").unwrap().1)
}

/// The blocks of commands on the page, by the headings above them.
fn blocks() -> Vec<(&'static str, &'static str)> {
    let mut heading = "";
    let mut found = Vec::new();
    for (index, part) in PAGE.split("```").enumerate() {
        if index % 2 == 1 {
            found.extend(part.strip_prefix("sh\n").map(|lines| (heading, lines)));
        } else {
            heading = part.lines().filter_map(|line| line.strip_prefix("### ")).next_back().unwrap_or(heading);
        }
    }
    found
}

/// Commands of ours in the second cells of the page's tables.
fn cells() -> BTreeSet<&'static str> {
    let rows = PAGE.lines().filter(|line| line.starts_with("| "));
    let cells = rows.filter_map(|row| row.split(" | ").nth(1));
    cells.flat_map(|cell| cell.split('`').skip(1).step_by(2)).filter(|code| code.starts_with("icdc ")).collect()
}

#[test]
fn every_command_of_the_tables_runs() {
    let cells = cells();
    assert!(cells.len() > 30, "{cells:?}");
    for command in cells {
        run(&site(), command);
    }
}

#[test]
fn every_job_of_the_page_is_done() {
    let blocks = blocks();
    let is_there = |path: &Path| path.symlink_metadata().is_ok();
    let mut tried = Vec::new();
    for (heading, lines) in blocks {
        let site = site();
        run(&site, lines);
        let has = |name: &str| is_there(&site.path(name));
        let text = |name: &str| fs::read_to_string(site.path(name)).unwrap();
        tried.push(heading);
        match heading {
            "The same command line" => assert!(has("host/dst/deep/c.nc") && !has("host/dst/extra"), "{lines}"),
            "A nightly mirror" => assert!(has("host/dst/deep/c.nc") && !has("host/dst/extra"), "{lines}"),
            "Only what is newer" => assert_eq!(text("host/dst/a.nc"), "src/a.nc"),
            "Only *.nc" => assert!(has("host/dst/src/deep/c.nc") && !has("host/dst/src/b.txt"), "{lines}"),
            "Are both sides equal?" => assert!(has("host/dst/deep/c.nc"), "{lines}"),
            "A snapshot every night" => assert!(has("host/dst/latest/deep/c.nc") && has("host/dst/extra"), "{lines}"),
            "Off the instrument" => assert!(has("host/dst/deep/c.nc") && !has("src/a.nc"), "{lines}"),
            other => panic!("{other:?} is not tried"),
        }
    }
    assert!(tried.len() >= 6, "{tried:?}");
}
