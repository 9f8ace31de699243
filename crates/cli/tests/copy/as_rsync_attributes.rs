//! Modes, special items and access control lists, beside rsync: random trees under random options
//! arrive as Debian's rsync copies them, the first time and the second.
//!
//! `ICDC_TEST_RULES` is the number of trees, `ICDC_TEST_SEED` repeats a run.

use std::collections::BTreeMap;
use std::fs::{self, Permissions};
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::acls::{ACCESS, DEFAULT, get, list, set};
use crate::delete::pipe;
use crate::specials::touch;
use crate::support::process::Start;
use crate::support::{Noise, Site, data, has_program, skip, succeed};

/// Unless `ICDC_TEST_RULES` says otherwise.
const TREES: u64 = 60;

/// Changes of modes that both programs know.
const CHANGES: [&str; 18] = [
    "D2755,F644",
    "Du=rwx,go=rx,Fu=rw,go=r",
    "u=rwX,go=rX",
    "go-w",
    "+X",
    "a-x,+X",
    "g=u",
    "go=u,go-w",
    "o=",
    "ug=rwX,o-rwx",
    "F600",
    "D700",
    "Dg+s",
    "Dg-s,o+t",
    "+w",
    "=rw,+X",
    "u+x,g-x",
    "Fa-x,D+t",
];

fn some<'a>(noise: &mut Noise, of: &[&'a str]) -> &'a str {
    of[noise.below(of.len() as u64) as usize]
}

/// Makes a tree; its owner may read and write everything.
fn tree(noise: &mut Noise, path: &Path, depth: u64, has_acls: bool) {
    fs::create_dir(path).unwrap();
    for number in 0..=noise.below(4) {
        let path = path.join(number.to_string());
        match noise.below(6) {
            0 | 1 if depth < 3 => tree(noise, &path, depth + 1, has_acls),
            2 => std::os::unix::fs::symlink("0", &path).unwrap(),
            3 => pipe(&path),
            _ => fs::write(&path, noise.next().to_le_bytes()).unwrap(),
        }
        let found = fs::symlink_metadata(&path).unwrap();
        if found.is_symlink() {
            continue;
        }
        if !found.is_dir() {
            fs::set_permissions(&path, Permissions::from_mode(0o600 | (noise.below(0o2000) as u32 & 0o1177))).unwrap();
        }
        if has_acls && !found.file_type().is_fifo() && noise.below(3) == 0 {
            set(&path, ACCESS, &list(1000 + noise.below(9) as u32, noise.below(8) as u16));
        }
        if has_acls && found.is_dir() && noise.below(3) == 0 {
            set(&path, DEFAULT, &list(1000 + noise.below(9) as u32, noise.below(8) as u16));
        }
        if !found.is_dir() {
            // rsync keeps the time that a new item has within the same second.
            touch(&path, 1_000_000_000 + noise.below(1 << 20) as i64);
        }
    }
    fs::set_permissions(path, Permissions::from_mode(0o700 | (noise.below(0o2000) as u32 & 0o1077))).unwrap();
    data::age(path, 1_000_000_000 + noise.below(1 << 20), 0);
}

/// What is compared of an item: type and mode, size, time, contents and lists.
#[derive(Debug, PartialEq, Eq)]
struct Seen {
    mode: u32,
    size: u64,
    time: (i64, i64),
    contents: Vec<u8>,
    lists: [Option<Vec<u8>>; 2],
}

fn seen(path: &Path) -> BTreeMap<PathBuf, Seen> {
    let mut all = BTreeMap::new();
    let mut left = vec![path.to_owned()];
    while let Some(next) = left.pop() {
        let found = fs::symlink_metadata(&next).unwrap();
        let is_other = found.is_symlink() || found.file_type().is_fifo();
        if found.is_dir() {
            left.extend(fs::read_dir(&next).unwrap().map(|entry| entry.unwrap().path()));
        }
        let contents = match found.file_type() {
            kind if kind.is_file() => fs::read(&next).unwrap(),
            kind if kind.is_symlink() => fs::read_link(&next).unwrap().into_os_string().into_encoded_bytes(),
            _ => Vec::new(),
        };
        let lists = [ACCESS, DEFAULT].map(|kind| if is_other { None } else { get(&next, kind) });
        let (size, time) = (if found.is_dir() { 0 } else { found.size() }, (found.mtime(), found.mtime_nsec()));
        // A link has no mode of its own.
        let mode = if found.is_symlink() { 0 } else { found.mode() };
        let time = if found.is_symlink() { (0, 0) } else { time };
        all.insert(next.strip_prefix(path).unwrap().to_owned(), Seen { mode, size, time, contents, lists });
    }
    all
}

#[test]
fn attributes_are_those_that_rsync_gives() {
    if !has_program("rsync") {
        return skip("rsync is not installed");
    }
    let version = succeed(Command::new("rsync").arg("--version"));
    let has_acls = !version.contains("no ACLs");
    let mut noise = Noise::logged(version.lines().next().unwrap_or_default());
    let trees = std::env::var("ICDC_TEST_RULES").ok().map_or(TREES, |text| text.parse().unwrap());
    for number in 0..trees {
        let site = Site::new();
        tree(&mut noise, &site.path("tree"), 0, has_acls);
        let (mut of_rsync, mut kept) = (vec!["-rlptD".to_owned()], "mode,times,links,specials".to_owned());
        if has_acls && noise.below(2) == 0 {
            of_rsync.push("-A".into());
            kept += ",acl";
        }
        let mut of_icdc = vec!["--skip-equal".into(), "--preserve".into(), kept];
        // rsync also changes the entry of the owning group, where chmod(1) changes the mask alone.
        let has_lists = of_icdc.iter().any(|word: &String| word.ends_with(",acl"));
        for _ in 0..if has_lists { 0 } else { noise.below(3) } {
            let change = format!("--chmod={}", some(&mut noise, &CHANGES));
            of_rsync.push(change.clone());
            of_icdc.push(change);
        }
        for round in 0..2 {
            let mut rsync = Command::new("rsync");
            let rsync = rsync.env("LC_ALL", "C").current_dir(site.root()).args(&of_rsync).args(["tree/", "theirs/"]);
            let rsync = rsync.output().unwrap();
            assert!(rsync.status.success(), "tree {number}, {of_rsync:?}: {rsync:?}");
            let ended = site.copy(&[]).args(&of_icdc).args(["tree/", "ours/"]).run();
            assert_eq!(ended.code, Some(0), "tree {number}, {of_icdc:?}: {ended}");
            if round == 1 {
                assert_eq!(ended.number("bytes_sent"), 0, "tree {number}, {of_icdc:?}: {ended}");
            }
            let (theirs, ours) = (seen(&site.path("theirs")), seen(&site.path("ours")));
            let names = |seen: &BTreeMap<PathBuf, Seen>| seen.keys().cloned().collect::<Vec<_>>();
            assert_eq!(names(&theirs), names(&ours), "tree {number}, {of_icdc:?}");
            for (path, theirs) in &theirs {
                assert_eq!(theirs, &ours[path], "tree {number}, {}, {of_rsync:?}, {of_icdc:?}", path.display());
            }
        }
    }
}
