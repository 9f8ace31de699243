//! Names that the destination cannot keep apart.

use std::fs;
use std::os::unix::fs::symlink;

use crate::support::mounts::Mount;
use crate::support::{MIB, Site, Start, assert_no_leftovers, assert_same, data};

/// Two names that differ in the case of their letters, and of which there are many other spellings.
const FIRST: &str = "READ-THIS-BEFORE-ANYTHING";
const SECOND: &str = "read-this-before-anything";

/// A site with a directory that takes capital and small letters for the same.
fn folding() -> Option<(Site, Mount)> {
    let site = Site::new();
    let mount = Mount::ignoring_case(site.path("folds"), 64 * MIB)?;
    Some((site, mount))
}

#[test]
fn what_was_published_is_not_replaced_by_another_spelling_of_its_name() {
    for size in [100, 3 * MIB, 9 * MIB] {
        let Some((site, mount)) = folding() else { return };
        let source = site.directory("source");
        data::file(&source.join(FIRST), size, 1);
        data::file(&source.join(SECOND), size, 2);
        data::file(&source.join("other"), size, 3);
        for options in [&[][..], &[], &["--update"], &["--verify"]] {
            let target = mount.path().join("copy");
            let mut copy = site.copy(options);
            let ended = copy.arg(format!("{}/", source.display())).arg(&target).start().finish().expect_code(1);
            // Files of more than a pack come in any order.
            let failed = ended.failures();
            let (kept, other) =
                if failed.keys().any(|path| path.ends_with(FIRST)) { (SECOND, FIRST) } else { (FIRST, SECOND) };
            assert_eq!(failed.len(), 1, "{ended}");
            assert!(ended.stderr.contains(&format!("copy/{other}: the file system takes this name")), "{ended}");
            assert!(ended.stderr.contains(&format!("copy/{kept}, which this copy has made or found")), "{ended}");
            assert_eq!(fs::read(target.join(FIRST)).unwrap(), fs::read(source.join(kept)).unwrap());
            assert_eq!(fs::read(target.join("other")).unwrap(), fs::read(source.join("other")).unwrap());
            assert_no_leftovers(mount.path());
        }
    }
}

#[test]
fn spellings_meet_in_several_sources_directories_and_links() {
    let Some((site, mount)) = folding() else { return };
    for name in ["one/Dir", "one/same", "two/dir", "two/same"] {
        fs::create_dir_all(site.path(name)).unwrap();
    }
    fs::write(site.path("one/Dir/inner"), "first").unwrap();
    fs::write(site.path("two/dir/second"), "second").unwrap();
    fs::write(site.path("one/File"), "one").unwrap();
    fs::write(site.path("two/file"), "two").unwrap();
    fs::write(site.path("one/same/é"), "one").unwrap();
    fs::write(site.path("two/same/É"), "two").unwrap();
    symlink("one", site.path("one/Link")).unwrap();
    symlink("two", site.path("two/link")).unwrap();
    fs::write(site.path("one/first"), "linked").unwrap();
    fs::hard_link(site.path("one/first"), site.path("one/Second")).unwrap();
    fs::write(site.path("two/SECOND"), "two").unwrap();
    // A name that both have is replaced by the later source's.
    fs::write(site.path("one/Both"), "one").unwrap();
    fs::write(site.path("two/Both"), "two").unwrap();
    let target = mount.path().join("copy");
    let sources = ["one/", "two/"].map(|name| site.path(name));
    let ended = site.copy(&[]).args(sources).arg(&target).start().finish().expect_code(1);
    // Files come in any order: whichever of two comes first is kept.
    let kept = |first: &'static str, second: &'static str| {
        let refused = |name: &str| ended.stderr.contains(&format!("copy/{name}: the file system takes this name"));
        assert!(refused(first) != refused(second), "{first}: {ended}");
        if refused(second) { first } else { second }
    };
    let read = |name: &str| fs::read_to_string(target.join(name)).unwrap();
    assert_eq!(read("File"), if kept("File", "file") == "File" { "one" } else { "two" });
    assert_eq!(read("same/é"), if kept("same/é", "same/É") == "same/é" { "one" } else { "two" });
    assert_eq!(read("Second"), if kept("Second", "SECOND") == "Second" { "linked" } else { "two" });
    assert_eq!((read("Both"), read("Dir/inner"), kept("Dir", "dir")), ("two".into(), "first".into(), "Dir"));
    let link = if kept("Link", "link") == "Link" { "one" } else { "two" };
    assert_eq!(fs::read_link(target.join("Link")).unwrap().to_str(), Some(link));
    assert!(!target.join("Dir/second").exists());
    assert_no_leftovers(mount.path());
}

#[test]
fn spellings_of_sources_of_their_own_meet_as_well() {
    let Some((site, mount)) = folding() else { return };
    fs::write(site.path("Name"), "one").unwrap();
    fs::write(site.path("NAME"), "two").unwrap();
    let ended = site.copy(&[]).arg(site.path("Name")).arg(site.path("NAME")).arg(mount.path()).start().finish();
    let ended = ended.expect_code(1);
    let (refused, kept) =
        if ended.stderr.contains("/NAME: the file system takes") { ("NAME", "one") } else { ("Name", "two") };
    assert!(ended.stderr.contains(&format!("/{refused}: the file system takes this name")), "{ended}");
    assert_eq!(fs::read_to_string(mount.path().join("name")).unwrap(), kept);
}

#[test]
fn another_spelling_of_what_was_there_before_replaces_it() {
    let Some((site, mount)) = folding() else { return };
    fs::write(mount.path().join("name"), "before").unwrap();
    fs::write(site.path("NAME"), "now").unwrap();
    site.copy(&[]).arg(site.path("NAME")).arg(mount.path()).start().finish().expect_code(0);
    assert_eq!(fs::read(mount.path().join("NAME")).unwrap(), b"now");
    assert_eq!(fs::read_dir(mount.path()).unwrap().count(), 1);
}

#[test]
fn names_that_the_destination_keeps_apart_are_all_copied_each_time() {
    let site = Site::new();
    let source = site.directory("source");
    // The last two are the same letter, as one character and as two.
    for (name, contents) in [("README", "capital"), ("readme", "small"), ("\u{e9}", "one"), ("e\u{301}", "two")] {
        fs::write(source.join(name), contents).unwrap();
    }
    fs::hard_link(source.join("README"), source.join("ReadMe")).unwrap();
    fs::hard_link(source.join("\u{e9}"), source.join("\u{c9}")).unwrap();
    for options in [&[][..], &[], &["--update"]] {
        let mut copy = site.copy(options);
        copy.arg(format!("{}/", source.display())).arg(site.path("copy")).start().finish().expect_code(0);
        assert_same(&source, &site.path("copy"));
    }
}
