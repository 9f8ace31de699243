//! `--keep-dirlinks`: where the source has a directory and the destination a symbolic link to one, the link stays and
//! the directory that it leads to is filled, if it lies in the destination or where the user says.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use crate::delete::{files, listing};
use crate::support::compare::inode;
use crate::support::daemon::Daemon;
use crate::support::refusals::{Refusal, refuse};
use crate::support::{
    Ended, MIB, Route, RoutedSite, Signal, Site, Start, assert_no_leftovers, assert_same, bytes_done, data,
};

/// Routes by which the destination is on this host, behind ssh, and at a daemon.
const ROUTES: [Route; 3] = [Route::Local, Route::Push, Route::ToDaemon];

/// A source with the directory `d`, and a destination in which `d` is a link to `z`.
fn scene(route: Route) -> RoutedSite {
    let routed = RoutedSite::new(route);
    files(&routed.path("tree"), &["d/x", "d/deep/y", "plain"]);
    files(&routed.path("copy"), &["z/old", "z/deep/older"]);
    symlink("z", routed.path("copy/d")).unwrap();
    routed
}

fn is_link(path: &Path, target: impl AsRef<Path>) -> bool {
    fs::read_link(path).is_ok_and(|found| found == target.as_ref())
}

fn failures(ended: &Ended) -> Vec<String> {
    let failed = ended.all("item").filter(|event| event["outcome"] == "failed");
    failed.map(|event| event["reason"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn a_link_stays_and_the_directory_that_it_leads_to_is_filled() {
    for route in Route::ALL {
        let routed = scene(route);
        let (tree, copy) = (routed.path("tree"), routed.path("copy"));
        let before = inode(copy.join("z"));
        // A dry run finds the same.
        let told = routed.copy(&["--skip-equal", "-K", "--dry-run"], &["tree/"], "copy").expect_code(0);
        assert_eq!(told.all("would_send").count(), 3, "{route:?}: {told}");
        let ended = routed.copy(&["--skip-equal", "--keep-dirlinks"], &["tree/"], "copy").expect_code(0);
        assert_eq!(ended.number("files"), 3, "{route:?}: {ended}");
        assert!(is_link(&copy.join("d"), "z"), "{route:?}: {ended}");
        assert_eq!(inode(copy.join("z")), before);
        assert_eq!(listing(&copy.join("z")), ["deep", "deep/older", "deep/y", "old", "x"]);
        let again = routed.copy(&["--skip-equal", "-K"], &["tree/"], "copy").expect_code(0);
        assert_eq!((again.number("files"), again.number("skipped")), (0, 3), "{route:?}: {again}");
        // What the link leads to is no extra item, though the source has nothing of its name; what is in it is.
        let mirrored = routed.copy(&["--skip-equal", "-K", "--delete"], &["tree/"], "copy").expect_code(0);
        assert_eq!(mirrored.number("deleted"), 2, "{route:?}: {mirrored}");
        assert!(is_link(&copy.join("d"), "z"), "{route:?}: {mirrored}");
        assert_same(&tree.join("d"), &copy.join("z"));
        assert_no_leftovers(&copy);
    }
}

#[test]
fn a_link_out_of_the_destination_is_refused_unless_its_directory_is_named() {
    for route in ROUTES {
        let routed = scene(route);
        let copy = routed.path("copy");
        files(&routed.path("outside/inner"), &["old"]);
        fs::remove_file(copy.join("d")).unwrap();
        symlink("../outside/inner", copy.join("d")).unwrap();
        for options in [&["-K"][..], &["-K", "--delete"], &["-K", "--dry-run"], &["-K", "--dirlinks-into", "tree/d"]] {
            let ended = routed.copy(options, &["tree/"], "copy").expect_code(1);
            let words = "is a symbolic link to ../outside/inner, out of the destination";
            let reasons = failures(&ended);
            let is_told = reasons.iter().any(|reason| reason.contains(words) && reason.contains("--dirlinks-into"));
            assert!(is_told, "{route:?} {options:?}: {ended}");
            assert!(is_link(&copy.join("d"), "../outside/inner"), "{route:?} {options:?}: {ended}");
            assert_eq!(listing(&routed.path("outside")), ["inner", "inner/old"], "{route:?} {options:?}: {ended}");
            assert!(copy.join("z/old").exists(), "nothing is deleted after a failure: {ended}");
        }
        let ended = routed.copy(&["-K", "--dirlinks-into", "outside", "--delete"], &["tree/"], "copy").expect_code(0);
        assert_same(&routed.path("tree/d"), &routed.path("outside/inner"));
        assert!(is_link(&copy.join("d"), "../outside/inner"), "{route:?}: {ended}");
        assert!(!copy.join("z").exists(), "no link leads to it: {ended}");
        let missing = routed.copy(&["-K", "--dirlinks-into", "missing"], &["tree/"], "copy").expect_code(2);
        assert!(missing.stderr.contains("--dirlinks-into missing: "), "{route:?}: {missing}");
    }
}

#[test]
fn a_link_by_an_absolute_path_is_followed_where_it_stays_inside() {
    for route in [Route::Local, Route::Push, Route::Pull] {
        let routed = scene(route);
        let copy = routed.path("copy");
        fs::remove_file(copy.join("d")).unwrap();
        symlink(copy.join("z"), copy.join("d")).unwrap();
        routed.copy(&["-K"], &["tree/"], "copy").expect_code(0);
        assert!(is_link(&copy.join("d"), copy.join("z")) && copy.join("z/deep/y").exists(), "{route:?}");
        fs::remove_file(copy.join("d")).unwrap();
        symlink(routed.path("tree/d"), copy.join("d")).unwrap();
        // Into the source, and out of the destination.
        routed.copy(&["-K"], &["tree/"], "copy").expect_code(1);
        symlink("/", copy.join("deep")).unwrap();
        files(&routed.path("tree"), &["deep/not/at/the/root/of/this/host"]);
        routed.copy(&["-K"], &["tree/"], "copy").expect_code(1);
        assert!(!Path::new("/not").exists());
    }
}

#[test]
fn no_link_leads_a_key_out_of_its_root() {
    for rights in ["rw", "w"] {
        let site = Site::new();
        files(&site.path("tree"), &["a/x", "b/x", "c/x", "d/x"]);
        files(&site.path("root"), &["copy/z/old", "beside/old"]);
        files(&site.path("outside"), &["old"]);
        let targets = [site.path("outside"), "../../outside".into(), "../beside".into(), "z".into()];
        for (name, target) in ["a", "b", "c", "d"].into_iter().zip(&targets) {
            symlink(target, site.path("root/copy").join(name)).unwrap();
        }
        let grant = format!("root=\"{}\",rights={rights}", site.path("root").display());
        // By itself, without Landlock's help.
        let daemon = Daemon::adapted(&site, &grant, |command| {
            refuse(command, &[Refusal::of(libc::SYS_landlock_create_ruleset, libc::ENOSYS)]);
        });
        let ended = site.copy(&["-K", "--delete", "tree/"]).arg(daemon.location("copy")).run().expect_code(1);
        let reasons = failures(&ended);
        for name in ["a", "b", "c"] {
            let link = format!("/{name}: is a symbolic link");
            let is_told = |reason: &String| reason.contains(&link) && reason.contains("out of the destination");
            assert!(reasons.iter().any(is_told), "{name}: {ended}");
        }
        assert_eq!(ended.to_string().contains("../beside"), rights == "rw", "who may not read is not told: {ended}");
        assert_eq!(listing(&site.path("outside")), ["old"]);
        assert_eq!(listing(&site.path("root/beside")), ["old"]);
        assert!(site.path("root/copy/z/x").exists(), "{ended}");
        // Nor do directories outside of it that the user names.
        for into in ["/outside", "../../outside", "../outside"] {
            let mut command = site.copy(&["-K", "--dirlinks-into", into, "tree/"]);
            command.arg(daemon.location("copy")).run().expect_code(2);
            assert_eq!(listing(&site.path("outside")), ["old"]);
        }
    }
}

#[test]
fn a_drop_box_follows_no_link() {
    let site = Site::new();
    files(&site.path("tree"), &["d/x"]);
    files(&site.path("box"), &["copy/z/old"]);
    symlink("z", site.path("box/copy/d")).unwrap();
    let daemon = Daemon::start(&site, &site.path("box"), "drop-box");
    let ended = site.copy(&["-K", "tree/"]).arg(daemon.location("copy")).run().expect_code(3);
    assert!(ended.stderr.contains("leave --keep-dirlinks out"), "{ended}");
    assert_eq!(listing(&site.path("box/copy/z")), ["old"]);
}

#[test]
fn a_link_to_no_directory_is_in_the_way_as_ever() {
    for route in ROUTES {
        let routed = scene(route);
        let copy = routed.path("copy");
        for target in ["nowhere", "file", "d"] {
            let _ = fs::remove_dir_all(copy.join("d"));
            let _ = fs::remove_file(copy.join("d"));
            fs::write(copy.join("file"), "file").unwrap();
            symlink(target, copy.join("d")).unwrap();
            let ended = routed.copy(&["-K"], &["tree/"], "copy").expect_code(1);
            assert!(ended.stderr.contains("copy with --delete, which replaces it"), "{route:?} {target}: {ended}");
            assert!(is_link(&copy.join("d"), target));
            routed.copy(&["-K", "--delete"], &["tree/"], "copy").expect_code(0);
            assert_same(&routed.path("tree"), &copy);
        }
    }
}

#[test]
fn two_names_of_one_directory_are_copied_one_after_the_other() {
    for route in ROUTES {
        let routed = scene(route);
        let (tree, copy) = (routed.path("tree"), routed.path("copy"));
        fs::write(tree.join("d/both"), "of d").unwrap();
        files(&tree, &["z/only"]);
        fs::write(tree.join("z/both"), "of z, longer").unwrap();
        fs::hard_link(tree.join("d/x"), tree.join("z/x")).unwrap();
        data::file(&tree.join("d/large"), 5 * MIB, 1);
        data::file(&tree.join("z/large"), 6 * MIB, 2);
        for turn in 0..3 {
            let ended = routed.copy(&["--skip-equal", "-K", "--delete"], &["tree/"], "copy").expect_code(0);
            assert!(is_link(&copy.join("d"), "z"), "{route:?} {turn}: {ended}");
            assert_eq!(listing(&copy.join("z")), ["both", "deep", "deep/y", "large", "only", "x"], "{ended}");
            let [large, both] = ["large", "both"].map(|name| fs::read(copy.join("z").join(name)).unwrap());
            assert!(["d", "z"].iter().any(|side| fs::read(tree.join(side).join("large")).unwrap() == large));
            assert!(both == b"of d" || both == b"of z, longer");
            assert_no_leftovers(&copy);
        }
    }
}

#[test]
fn a_link_to_the_directory_above_ends() {
    let routed = scene(Route::Local);
    let (tree, copy) = (routed.path("tree"), routed.path("copy"));
    files(&tree, &["up/up/up/file", "d/self/file"]);
    symlink(".", copy.join("up")).unwrap();
    symlink(".", copy.join("z/self")).unwrap();
    for _ in 0..2 {
        routed.copy(&["--skip-equal", "-K", "--delete"], &["tree/"], "copy").expect_code(0);
        assert_eq!(fs::read(copy.join("file")).unwrap(), b"up/up/up/file");
        assert_eq!(fs::read(copy.join("z/file")).unwrap(), b"d/self/file");
        assert!(copy.join("plain").exists() && is_link(&copy.join("up"), "."));
    }
}

#[test]
fn what_a_link_leads_to_is_not_taken_for_renamed_files() {
    for route in ROUTES {
        let routed = RoutedSite::new(route);
        files(&routed.path("tree"), &["b/f", "d/f"]);
        data::file(&routed.path("tree/d/f"), 300_000, 7);
        fs::copy(routed.path("tree/d/f"), routed.path("tree/b/f")).unwrap();
        ["b/f", "d/f"].iter().for_each(|path| data::age(&routed.path("tree").join(path), 1_000_000_000, 0));
        routed.copy(&[], &["tree/d/"], "copy/z").expect_code(2);
        routed.copy(&["--mkpath"], &["tree/d/"], "copy/z").expect_code(0);
        symlink("z", routed.path("copy/d")).unwrap();
        routed.copy(&["--skip-equal", "-K", "--delete"], &["tree/"], "copy").expect_code(0);
        for path in ["b/f", "d/f"] {
            assert_same(&routed.path("tree").join(path), &routed.path("copy").join(path));
        }
    }
}

#[test]
fn what_is_replaced_behind_a_link_is_kept_under_its_path() {
    for route in ROUTES {
        let routed = scene(route);
        fs::write(routed.path("copy/z/x"), "before").unwrap();
        let options = ["-K", "--delete", "--backup-dir", "kept"];
        routed.copy(&options, &["tree/"], "copy").expect_code(0);
        assert_same(&routed.path("tree/d"), &routed.path("copy/z"));
        assert_eq!(listing(&routed.path("kept")), ["d", "d/deep", "d/deep/older", "d/old", "d/x"], "{route:?}");
        assert_eq!(fs::read(routed.path("kept/d/x")).unwrap(), b"before");
    }
}

#[test]
fn an_interrupted_copy_goes_on_behind_the_link() {
    let routed = scene(Route::Push);
    data::file(&routed.path("tree/d/large"), 24 * MIB, 3);
    let run = routed.start(&["-K", "--rate", "80mbit"], &["tree/"], "copy");
    run.wait_for(|event| bytes_done(event) > 8 * MIB);
    run.signal(Signal::INT);
    run.finish().expect_code(4);
    assert!(is_link(&routed.path("copy/d"), "z"));
    let ended = routed.copy(&["-K"], &["tree/"], "copy").expect_code(0);
    assert!(ended.number("bytes_sent") < 20 * MIB, "{ended}");
    assert_same(&routed.path("tree/d/large"), &routed.path("copy/z/large"));
    assert_no_leftovers(&routed.path("copy"));
}

#[test]
fn snapshots_and_receipts_have_no_links_in_place_of_directories() {
    let site = Site::new();
    files(&site.path("tree"), &["x"]);
    for other in [&["--snapshot"][..], &["--receipt", "receipt"]] {
        let ended = site.copy(&["-K"]).args(other).args(["tree/", "copy"]).run().expect_code(2);
        assert!(ended.stderr.contains("cannot be used with"), "{ended}");
    }
}
