//! What is chosen, beside rsync: random trees under random rules arrive as Debian's rsync copies
//! them, and what is at the destination already is treated as by rsync.
//!
//! `ICDC_TEST_RULES` is the number of trees, `ICDC_TEST_SEED` repeats a run.

use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;
use std::process::Command;

use crate::support::compare::differences;
use crate::support::process::Start;
use crate::support::{Noise, Site, data, has_program, skip, succeed};

/// Unless `ICDC_TEST_RULES` says otherwise.
const TREES: u64 = 300;

/// Names that patterns of [`PIECES`] meet: with blanks, brackets, a backslash, and bytes that are no
/// text.
const NAMES: [&[u8]; 18] = [
    b"a", b"b", b"ab", b"aab", b"a.o", b"b.o", b"ab.c", b"A1", b"x y", b"[a]", b"-c", b"a*b", b"\\a", b"!a", b"#a",
    b"caf\xe9", b"\xff", b".a",
];

const PIECES: [&[u8]; 28] = [
    b"a",
    b"b",
    b"ab",
    b".o",
    b"x y",
    b"1",
    b"A",
    b"-c",
    b"\xff",
    b"*",
    b"*",
    b"?",
    b"**",
    b"**",
    b"***",
    b"/",
    b"/",
    b"/",
    b"[ab]",
    b"[!a]",
    b"[^b]",
    b"[a-c.]",
    b"[[:upper:]]",
    b"[[:digit:]a]",
    b"[]a]",
    b"\\a",
    b"\\*",
    b"[a]",
];

/// Patterns that are written as they are here.
const USUAL: [&[u8]; 16] = [
    b"*",
    b"*/",
    b"**",
    b"/*",
    b"/a",
    b"/a/",
    b"/tree/a",
    b"/tree/*/b",
    b"*.o",
    b"a/***",
    b"/tree/b/**",
    b"a/*/",
    b"**/a.o",
    b"**b",
    b"a/**/b",
    b"?",
];

fn pattern(noise: &mut Noise) -> Vec<u8> {
    if noise.below(3) == 0 {
        return USUAL[noise.below(USUAL.len() as u64) as usize].to_vec();
    }
    let mut pattern = Vec::new();
    if noise.below(4) == 0 {
        pattern.push(b'/');
    }
    for _ in 0..=noise.below(5) {
        pattern.extend(PIECES[noise.below(PIECES.len() as u64) as usize]);
    }
    match noise.below(8) {
        0 => pattern.push(b'/'),
        1 => pattern.extend(b"/***"),
        _ => {}
    }
    pattern
}

/// Rules as pairs of sign and pattern; often the last one leaves out everything else.
fn rules(noise: &mut Noise) -> Vec<(u8, Vec<u8>)> {
    let mut rules: Vec<_> =
        (0..=noise.below(5)).map(|_| (if noise.below(2) == 0 { b'+' } else { b'-' }, pattern(noise))).collect();
    if noise.below(3) == 0 {
        if noise.below(2) == 0 {
            rules.push((b'+', b"*/".to_vec()));
        }
        rules.push((b'-', b"*".to_vec()));
    }
    rules
}

fn tree(noise: &mut Noise, path: &Path, depth: u64) {
    fs::create_dir(path).unwrap();
    for _ in 0..=noise.below(5) {
        let name = NAMES[noise.below(NAMES.len() as u64) as usize];
        let path = path.join(OsString::from_vec(name.to_vec()));
        if path.symlink_metadata().is_ok() {
            continue;
        }
        match noise.below(5) {
            0 | 1 if depth < 4 => tree(noise, &path, depth + 1),
            2 => std::os::unix::fs::symlink("a", path).unwrap(),
            _ => fs::write(path, noise.next().to_le_bytes()).unwrap(),
        }
    }
    // rsync keeps the time that a new directory has within the same second.
    data::age(path, 1_000_000_000 + noise.below(1 << 20), 0);
}

fn option(name: &str, value: &[u8]) -> OsString {
    let mut option = OsString::from(format!("{name}="));
    option.push(OsString::from_vec(value.to_vec()));
    option
}

/// The options of both programs that give these rules: each by itself, or in a file.
fn options(noise: &mut Noise, site: &Site, rules: &[(u8, Vec<u8>)]) -> [Vec<OsString>; 2] {
    let line = |(sign, pattern): &(u8, Vec<u8>)| [&[*sign, b' '], pattern.as_slice()].concat();
    match noise.below(3) {
        0 => {
            let lines: Vec<Vec<u8>> = rules.iter().map(line).collect();
            let path = site.path("rules");
            fs::write(&path, lines.join(&b'\n')).unwrap();
            let merge = [b"merge ", path.as_os_str().as_bytes()].concat();
            [vec![option("--filter", &merge)], vec![option("--filter-from", path.as_os_str().as_bytes())]]
        }
        1 => {
            let both = rules.iter().map(|rule| option("--filter", &line(rule)));
            [both.clone().collect(), both.collect()]
        }
        _ => {
            let both = rules
                .iter()
                .map(|(sign, pattern)| option(if *sign == b'+' { "--include" } else { "--exclude" }, pattern));
            [both.clone().collect(), both.collect()]
        }
    }
}

#[test]
fn rules_choose_what_rsync_copies() {
    if !has_program("rsync") {
        return skip("rsync is not installed");
    }
    let version = succeed(Command::new("rsync").arg("--version"));
    let version = version.lines().next().unwrap_or_default();
    let mut noise = Noise::logged(version);
    let trees = std::env::var("ICDC_TEST_RULES").ok().map_or(TREES, |text| text.parse().unwrap());
    for number in 0..trees {
        let site = Site::new();
        tree(&mut noise, &site.path("tree"), 0);
        let rules = rules(&mut noise);
        let [mut of_rsync, mut of_icdc] = options(&mut noise, &site, &rules);
        if noise.below(3) == 0 {
            [&mut of_rsync, &mut of_icdc].into_iter().for_each(|options| options.push("-m".into()));
        }
        for source in ["tree", "tree/"] {
            let shown = || {
                let rules = rules.iter().map(|(sign, pattern)| format!("{} {}", *sign as char, pattern.escape_ascii()));
                format!("tree {number}, {source}, {version}: {:#?}", rules.collect::<Vec<_>>())
            };
            let [theirs, ours] = ["theirs", "ours"].map(|name| site.path(name));
            for path in [&theirs, &ours] {
                let _ = fs::remove_dir_all(path);
                fs::create_dir(path).unwrap();
            }
            let rsync = Command::new("rsync")
                .env("LC_ALL", "C")
                .current_dir(site.root())
                .arg("-a")
                .args(&of_rsync)
                .args([source, "theirs/"])
                .output()
                .unwrap();
            assert!(rsync.status.success(), "{}: {rsync:?}", shown());
            let ended = site.copy(&[]).args(&of_icdc).args([source, "ours/"]).run();
            assert_eq!(ended.code, Some(0), "{}: {ended}", shown());
            // Where nothing was chosen, the directory is as it was made.
            let root_is_copied = source == "tree/";
            let differences: Vec<String> = differences(&theirs, &ours)
                .into_iter()
                .filter(|difference| root_is_copied || !difference.starts_with(&format!("{}: ", ours.display())))
                .collect();
            assert!(differences.is_empty(), "{}: {differences:#?}", shown());
        }
    }
}

/// Options of both programs that concern what is at the destination already; the first are those of
/// rsync, which skips what is equal unless told otherwise.
const EXISTING: [(&[&str], &[&str]); 11] = [
    (&[], &["--skip-equal"]),
    (&["--existing"], &["--skip-equal", "--existing"]),
    (&["--ignore-existing"], &["--ignore-existing"]),
    (&["--existing", "--ignore-existing"], &["--existing", "--ignore-existing"]),
    (&["--size-only"], &["--skip-equal", "--size-only"]),
    (&["--size-only", "--existing"], &["--skip-equal", "--size-only", "--existing"]),
    (&["--checksum"], &["--skip-equal", "--checksum"]),
    (&["--update"], &["--update"]),
    (&["--update", "--checksum"], &["--update", "--checksum"]),
    (&["--update", "--size-only"], &["--update", "--size-only"]),
    (&["--update", "--existing"], &["--update", "--existing"]),
];

/// Makes at `there` some of what is at `source`: equal, changed, older, newer, or a link in its
/// place. Directories stay directories.
fn earlier(noise: &mut Noise, source: &Path, there: &Path) {
    fs::create_dir(there).unwrap();
    for entry in fs::read_dir(source).unwrap().map(Result::unwrap) {
        let (from, to) = (entry.path(), there.join(entry.file_name()));
        let kind = entry.file_type().unwrap();
        if noise.below(3) == 0 {
            continue;
        }
        if kind.is_dir() {
            earlier(noise, &from, &to);
            continue;
        }
        match noise.below(6) {
            0 => std::os::unix::fs::symlink(["a", "b"][noise.below(2) as usize], &to).unwrap(),
            1 => fs::write(&to, "another size").unwrap(),
            _ => fs::write(&to, noise.next().to_le_bytes()).unwrap(),
        }
        if !to.is_symlink() {
            data::age(&to, AGE + noise.below(3) - 1, 0);
        }
    }
    data::age(there, AGE + noise.below(1 << 20), 0);
}

/// Seconds since 1970 of files whose age is compared.
const AGE: u64 = 1_400_000_000;

/// Gives the files of a tree one modification time.
fn at_one_age(path: &Path) {
    for entry in fs::read_dir(path).unwrap().map(Result::unwrap) {
        match entry.file_type().unwrap() {
            kind if kind.is_dir() => at_one_age(&entry.path()),
            kind if kind.is_file() => data::age(&entry.path(), AGE, 0),
            _ => {}
        }
    }
}

#[test]
fn what_exists_is_treated_as_by_rsync() {
    if !has_program("rsync") {
        return skip("rsync is not installed");
    }
    let mut noise = Noise::logged("trees that are partly there");
    let trees = std::env::var("ICDC_TEST_RULES").ok().map_or(TREES, |text| text.parse().unwrap());
    for number in 0..trees {
        let site = Site::new();
        tree(&mut noise, &site.path("tree"), 0);
        at_one_age(&site.path("tree"));
        earlier(&mut noise, &site.path("tree"), &site.path("theirs"));
        let (of_rsync, of_icdc) = EXISTING[noise.below(EXISTING.len() as u64) as usize];
        succeed(Command::new("cp").current_dir(site.root()).args(["-a", "theirs", "ours"]));
        let rsync = Command::new("rsync")
            .env("LC_ALL", "C")
            .current_dir(site.root())
            .arg("-a")
            .args(of_rsync)
            .args(["tree/", "theirs/"])
            .output()
            .unwrap();
        assert!(rsync.status.success(), "tree {number}, {of_rsync:?}: {rsync:?}");
        let ended = site.copy(&[]).args(of_icdc).args(["tree/", "ours/"]).run();
        assert_eq!(ended.code, Some(0), "tree {number}, {of_icdc:?}: {ended}");
        let differences = differences(&site.path("theirs"), &site.path("ours"));
        assert!(differences.is_empty(), "tree {number}, {of_icdc:?}: {differences:#?}");
    }
}

/// Removes from both what has a name that an item of another kind has at the source: rules exclude that one, so icdc leaves alone
/// whatever has its name, and rsync deletes what no rule excludes.
fn remove_kept([ours, theirs]: [&Path; 2], source: &Path) {
    for entry in fs::read_dir(ours).unwrap() {
        let name = entry.unwrap().file_name();
        let [ours, theirs, source] = [ours, theirs, source].map(|directory| directory.join(&name));
        let found = ours.symlink_metadata().unwrap();
        match source.symlink_metadata() {
            Ok(original) if original.file_type() != found.file_type() => {
                remove(&ours);
                remove(&theirs);
            }
            Ok(_) if found.is_dir() => remove_kept([&ours, &theirs], &source),
            _ => {}
        }
    }
}

fn remove(path: &Path) {
    match path.symlink_metadata() {
        Ok(found) if found.is_dir() => fs::remove_dir_all(path).unwrap(),
        Ok(_) => fs::remove_file(path).unwrap(),
        Err(_) => {}
    }
}

#[test]
fn a_mirror_is_the_one_that_rsync_makes() {
    if !has_program("rsync") {
        return skip("rsync is not installed");
    }
    let version = succeed(Command::new("rsync").arg("--version"));
    let version = version.lines().next().unwrap_or_default();
    let mut noise = Noise::logged(version);
    let trees = std::env::var("ICDC_TEST_RULES").ok().map_or(TREES / 3, |text| text.parse().unwrap());
    let mut refused = 0;
    for number in 0..trees {
        let site = Site::new();
        tree(&mut noise, &site.path("tree"), 0);
        fs::create_dir(site.path("there")).unwrap();
        tree(&mut noise, &site.path("there/tree"), 0);
        let rules = if noise.below(2) == 0 { Vec::new() } else { rules(&mut noise) };
        let [mut of_rsync, mut of_icdc] = options(&mut noise, &site, &rules);
        if noise.below(3) == 0 {
            of_rsync.push("--delete-excluded".into());
            of_icdc.extend(["--delete-excluded".into(), "--yes".into()]);
        }
        if noise.below(3) == 0 {
            [&mut of_rsync, &mut of_icdc].into_iter().for_each(|options| options.push("-m".into()));
        }
        for (source, destination) in [("tree", ""), ("tree/", "/tree")] {
            let [theirs, ours] = ["theirs", "ours"].map(|name| site.path(name));
            for path in [&theirs, &ours] {
                let _ = fs::remove_dir_all(path);
                succeed(Command::new("cp").arg("-a").arg(site.path("there")).arg(path));
            }
            let mut rsync = Command::new("rsync");
            let rsync = rsync.env("LC_ALL", "C").current_dir(site.root()).args(["-aI", "--delete", "--delete-after"]);
            let rsync = rsync.args(&of_rsync).args([source, &format!("theirs{destination}")]).output().unwrap();
            let mut copy = site.copy(&["--delete", "--yes-empty"]);
            let ended = copy.args(&of_icdc).args([source, &format!("ours{destination}")]).run();
            let shown = || {
                let rules = rules.iter().map(|(sign, pattern)| format!("{} {}", *sign as char, pattern.escape_ascii()));
                format!("tree {number}, {source}, {version}: {:#?} {rsync:?} {ended}", rules.collect::<Vec<_>>())
            };
            // What a rule keeps is in the way: rsync replaces it, or fails, too, and deletes other things all the same.
            if ended.stderr.contains("is in the way of an item of the source") {
                assert!(matches!(rsync.status.code(), Some(0 | 23)) && ended.code == Some(1), "{}", shown());
                refused += 1;
                continue;
            }
            assert!(rsync.status.success() && ended.code == Some(0), "{}", shown());
            remove_kept([&ours.join("tree"), &theirs.join("tree")], &site.path("tree"));
            let differences = differences_but_times(&theirs, &ours);
            assert!(differences.is_empty(), "{}: {differences:#?}", shown());
        }
    }
    assert!(refused < trees, "most trees are compared");
}

/// Moves some directories of a destination to `.kept` in it, and puts links to them in their places. `place` is the
/// directory whose directories they are, `depth` the number of names that lead there.
fn link(noise: &mut Noise, kept: &Path, place: &Path, depth: usize, links: &mut usize) {
    for entry in fs::read_dir(place).unwrap().map(Result::unwrap) {
        let path = entry.path();
        if !entry.file_type().unwrap().is_dir() || path == *kept {
            continue;
        }
        if noise.below(2) == 0 {
            link(noise, kept, &path, depth + 1, links);
            continue;
        }
        let name = links.to_string();
        *links += 1;
        fs::rename(&path, kept.join(&name)).unwrap();
        std::os::unix::fs::symlink(format!("{}.kept/{name}", "../".repeat(depth)), &path).unwrap();
        link(noise, kept, &kept.join(&name), 2, links);
    }
}

#[test]
fn links_to_directories_are_kept_as_by_rsync() {
    if !has_program("rsync") {
        return skip("rsync is not installed");
    }
    let mut noise = Noise::logged("links to directories");
    let trees = std::env::var("ICDC_TEST_RULES").ok().map_or(TREES / 3, |text| text.parse().unwrap());
    let mut all = 0;
    for number in 0..trees {
        let site = Site::new();
        tree(&mut noise, &site.path("tree"), 0);
        at_one_age(&site.path("tree"));
        earlier(&mut noise, &site.path("tree"), &site.path("theirs"));
        let kept = site.directory("theirs/.kept");
        link(&mut noise, &kept, &site.path("theirs"), 0, &mut all);
        succeed(Command::new("cp").current_dir(site.root()).args(["-a", "theirs", "ours"]));
        let (of_rsync, of_icdc) = EXISTING[noise.below(EXISTING.len() as u64) as usize];
        let deletes = noise.below(2) == 0;
        let mut rsync = Command::new("rsync");
        let mut copy = site.copy(&["--keep-dirlinks", "--exclude=/.kept"]);
        rsync.env("LC_ALL", "C").current_dir(site.root()).args(["-a", "--keep-dirlinks", "--exclude=/.kept"]);
        if deletes {
            rsync.args(["--delete", "--delete-after"]);
            copy.arg("--delete");
        }
        let rsync = rsync.args(of_rsync).args(["tree/", "theirs/"]).output().unwrap();
        let ended = copy.args(of_icdc).args(["tree/", "ours/"]).run();
        let shown = || format!("tree {number}, {of_icdc:?}, {deletes}: {rsync:?} {ended}");
        assert!(rsync.status.success() && ended.code == Some(0), "{}", shown());
        let differences = differences_but_times(&site.path("theirs"), &site.path("ours"));
        assert!(differences.is_empty(), "{}: {differences:#?}", shown());
    }
    assert!(all as u64 > trees / 4, "{all} links");
}

/// Differences but for the times of directories: one of which something is deleted last, or in which a
/// rule keeps something, has the time of the deletion.
fn differences_but_times(theirs: &Path, ours: &Path) -> Vec<String> {
    let differences = differences(theirs, ours).into_iter();
    differences.filter(|difference| !difference.contains(": has time")).collect()
}

/// All items below a directory but directories: their paths, and what they hold.
fn kept(directory: &Path) -> Vec<(OsString, Vec<u8>)> {
    let mut found = Vec::new();
    let mut left = vec![directory.to_path_buf()];
    while let Some(next) = left.pop() {
        for entry in fs::read_dir(next).into_iter().flatten().map(Result::unwrap) {
            let (path, kind) = (entry.path(), entry.file_type().unwrap());
            let held = match kind {
                kind if kind.is_dir() => {
                    left.push(path);
                    continue;
                }
                kind if kind.is_symlink() => fs::read_link(&path).unwrap().into_os_string().into_vec(),
                _ => fs::read(&path).unwrap(),
            };
            found.push((path.strip_prefix(directory).unwrap().as_os_str().to_owned(), held));
        }
    }
    found.sort();
    found
}

#[test]
fn what_is_replaced_and_deleted_is_kept_as_by_rsync() {
    if !has_program("rsync") {
        return skip("rsync is not installed");
    }
    let mut noise = Noise::logged("backups");
    let trees = std::env::var("ICDC_TEST_RULES").ok().map_or(TREES / 3, |text| text.parse().unwrap());
    let (mut all, mut beside) = (0, 0);
    for number in 0..trees {
        let site = Site::new();
        tree(&mut noise, &site.path("tree"), 0);
        at_one_age(&site.path("tree"));
        earlier(&mut noise, &site.path("tree"), &site.path("theirs"));
        tree(&mut noise, &site.path("theirs/extra"), 3);
        fs::write(site.path("theirs/another"), noise.next().to_le_bytes()).unwrap();
        succeed(Command::new("cp").current_dir(site.root()).args(["-a", "theirs", "ours"]));
        let deletes = noise.below(3) > 0;
        let suffix = [None, Some(".old"), Some("~")][noise.below(3) as usize];
        let is_beside = suffix.is_some() && noise.below(3) == 0;
        let mut rsync = Command::new("rsync");
        let mut copy = site.copy(&["--skip-equal"]);
        rsync.env("LC_ALL", "C").current_dir(site.root()).args(["-a", "-b"]);
        if deletes {
            rsync.args(["--delete", "--delete-after"]);
            copy.arg("--delete");
        }
        if let Some(suffix) = suffix {
            rsync.args(["--suffix", suffix]);
            copy.args(["--suffix", suffix]);
        }
        if !is_beside {
            rsync.arg("--backup-dir=../their backups");
            copy.arg("--backup-dir=our backups");
        }
        let rsync = rsync.args(["tree/", "theirs/"]).output().unwrap();
        let ended = copy.args(["tree/", "ours/"]).run();
        let shown = || format!("tree {number}, {suffix:?}, {is_beside}: {rsync:?} {ended}");
        assert!(rsync.status.success() && ended.code == Some(0), "{}", shown());
        let differences = differences_but_times(&site.path("theirs"), &site.path("ours"));
        assert!(differences.is_empty(), "{}: {differences:#?}", shown());
        let kept = ["their backups", "our backups"].map(|name| kept(&site.path(name)));
        assert_eq!(kept[0], kept[1], "{}", shown());
        all += kept[0].len();
        beside += usize::from(is_beside);
    }
    assert!(all as u64 > trees && beside > 0, "{all} items were kept, {beside} times beside what replaced them");
}
