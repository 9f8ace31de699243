//! Digests that are kept for `--checksum`: what has not changed since an earlier run read it is not read again, and
//! what has changed is, whatever its size and modification time.

use std::fs::{self, FileTimes};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, UNIX_EPOCH};

use rustix::fs::statfs;

use crate::support::daemon::Daemon;
use crate::support::process::eventually;
use crate::support::refusals::{refuse, unreadable_beyond};
use crate::support::{BLOCK, Ended, MIB, Route, RoutedSite, Site, Start, assert_same, data, skip};

const CHECKSUM: [&str; 2] = ["--skip-equal", "--checksum"];
/// By the kernel's headers: its change times tell less.
const TMPFS_MAGIC: i64 = 0x0102_1994;

/// A tree, and a copy of it, whose change times are not recent any more; `None`, with the reason on standard error,
/// where change times do not count.
fn scene(route: Route) -> Option<RoutedSite> {
    let routed = RoutedSite::new(route);
    if statfs(routed.site.root()).unwrap().f_type as i64 == TMPFS_MAGIC {
        skip("no digests are kept of files on tmpfs");
        return None;
    }
    for name in ["a", "b/c"] {
        fs::create_dir_all(routed.path("tree/b")).unwrap();
        data::file(&routed.path("tree").join(name), 2 * BLOCK + MIB, name.len() as u64);
    }
    routed.copy(&[], &["tree"], "copy").expect_code(0);
    settle(&routed);
    Some(routed)
}

/// Waits until the change times of all files are some seconds old.
fn settle(routed: &RoutedSite) {
    for path in ["tree/a", "tree/b/c", "copy/a", "copy/b/c"] {
        wait_until_old(&routed.path(path));
    }
}

fn wait_until_old(path: &Path) {
    let changed = fs::metadata(path).unwrap().ctime();
    while UNIX_EPOCH.elapsed().unwrap().as_secs() as i64 <= changed + 4 {
        std::thread::sleep(Duration::from_millis(100));
    }
}

fn command(routed: &RoutedSite, options: &[&str]) -> Command {
    let ssh = routed.site.ssh();
    let mut command = routed.site.copy(&["--ssh", &ssh]);
    command.args(CHECKSUM).args(options).arg(routed.source("tree/")).arg(routed.destination("copy"));
    command
}

/// A run whose ends can read no file whole.
fn without_reading(routed: &RoutedSite, options: &[&str]) -> Ended {
    refuse(&mut command(routed, options), &unreadable_beyond(BLOCK as u32)).run()
}

fn cache(routed: &RoutedSite) -> PathBuf {
    routed.path("home/.cache/icdc/digests")
}

/// Writes other contents of equal length, and gives the file its modification time back.
fn change_unnoticed(path: &Path) {
    let time = fs::metadata(path).unwrap().modified().unwrap();
    let mut contents = fs::read(path).unwrap();
    contents[5] ^= 1;
    fs::write(path, contents).unwrap();
    fs::File::options().write(true).open(path).unwrap().set_times(FileTimes::new().set_modified(time)).unwrap();
}

#[test]
fn what_has_not_changed_is_not_read_again() {
    for route in [Route::Local, Route::Push, Route::Pull] {
        let Some(routed) = scene(route) else { return };
        let read = without_reading(&routed, &[]);
        assert_ne!(read.code, Some(0), "{route:?}: {read}");
        assert!(!cache(&routed).exists(), "nothing was read: {read}");
        let first = command(&routed, &[]).run().expect_code(0);
        assert_eq!((first.number("files"), first.number("skipped")), (0, 2), "{route:?}: {first}");
        let second = without_reading(&routed, &[]).expect_code(0);
        assert_eq!((second.number("files"), second.number("skipped")), (0, 2), "{route:?}: {second}");
        assert_eq!(fs::metadata(cache(&routed)).unwrap().permissions().mode() & 0o777, 0o600);
        for options in [["--no-digest-cache"], ["--verify"]] {
            let ended = without_reading(&routed, &options);
            assert_ne!(ended.code, Some(0), "{route:?} {options:?}: {ended}");
        }
    }
}

#[test]
fn what_has_changed_is_read_though_size_and_time_are_equal() {
    for route in Route::ALL {
        let Some(routed) = scene(route) else { return };
        command(&routed, &[]).run().expect_code(0);
        for side in ["tree/a", "copy/b/c"] {
            change_unnoticed(&routed.path(side));
            let ended = command(&routed, &[]).run().expect_code(0);
            assert_eq!((ended.number("files"), ended.number("skipped")), (1, 1), "{route:?} {side}: {ended}");
            assert_same(&routed.path("tree"), &routed.path("copy"));
        }
        // Another file in its place.
        let (old, new) = (routed.path("tree/a"), routed.path("tree/new"));
        fs::copy(&old, &new).unwrap();
        change_unnoticed(&new);
        let time = fs::metadata(&old).unwrap().modified().unwrap();
        fs::File::options().write(true).open(&new).unwrap().set_modified(time).unwrap();
        fs::rename(&new, &old).unwrap();
        let ended = command(&routed, &[]).run().expect_code(0);
        assert_eq!(ended.number("files"), 1, "{route:?}: {ended}");
        assert_same(&routed.path("tree"), &routed.path("copy"));
    }
}

#[test]
fn each_end_keeps_its_own_a_session_of_a_daemon_as_well() {
    for rights in ["rw", "w"] {
        let site = Site::new();
        let is_memory = statfs(site.root()).unwrap().f_type as i64 == TMPFS_MAGIC;
        let caches = site.path("caches");
        let grant = format!("root=\"{}\",rights={rights}", site.directory("root").display());
        let daemon = Daemon::adapted(&site, &grant, |command| {
            command.env("XDG_CACHE_HOME", &caches);
        });
        for side in ["tree", "root/copy"] {
            site.directory(side);
            data::file(&site.path(side).join("a"), MIB, 1);
        }
        wait_until_old(&site.path("root/copy/a"));
        let ended = site.copy(&CHECKSUM).arg("tree/").arg(daemon.location("copy")).run().expect_code(0);
        assert_eq!(ended.number("skipped"), 1, "{ended}");
        for file in [caches.join("icdc/digests"), site.path("home/.cache/icdc/digests")] {
            // The daemon's session keeps it after it has answered.
            assert!(is_memory || eventually(|| file.exists()), "{rights}: {}: {ended}", file.display());
        }
    }
}

#[test]
fn a_damaged_cache_is_not_believed_and_made_anew() {
    let Some(routed) = scene(Route::Local) else { return };
    command(&routed, &[]).run().expect_code(0);
    let whole = fs::read(cache(&routed)).unwrap();
    let mut changed = whole.clone();
    changed[40] ^= 1;
    for damaged in [&whole[..whole.len() - 1], &changed, b"", b"something else"] {
        fs::write(cache(&routed), damaged).unwrap();
        let ended = without_reading(&routed, &[]);
        assert_ne!(ended.code, Some(0), "{ended}");
        command(&routed, &[]).run().expect_code(0);
        without_reading(&routed, &[]).expect_code(0);
    }
}

#[test]
fn two_runs_at_once_both_keep_what_they_have_read() {
    let Some(routed) = scene(Route::Local) else { return };
    let both = ["a", "b"].map(|part| {
        let mut command = routed.site.copy(&CHECKSUM);
        // A directory, and a file by itself.
        let [source, target] = ["tree", "copy"].map(|side| routed.path(side).join(part));
        match part {
            "b" => command.arg(source.join("")).arg(target.join("")).start(),
            _ => command.arg(source).arg(target).start(),
        }
    });
    both.into_iter().for_each(|run| drop(run.finish().expect_code(0)));
    without_reading(&routed, &[]).expect_code(0);
}

#[test]
fn where_no_cache_can_be_kept_files_are_read_without_a_word() {
    let Some(routed) = scene(Route::Push) else { return };
    fs::write(routed.path("home/.cache"), "no directory").unwrap();
    let ended = command(&routed, &[]).run().expect_code(0);
    assert_eq!(ended.number("skipped"), 2, "{ended}");
    assert!(!ended.stderr.contains("cache"), "{ended}");
    fs::remove_file(routed.path("home/.cache")).unwrap();
    // One that others may write to is not believed.
    fs::create_dir_all(routed.path("home/.cache/icdc")).unwrap();
    crate::support::open_to_all(&routed.path("home/.cache/icdc"));
    command(&routed, &[]).run().expect_code(0);
    assert!(!cache(&routed).exists());
}
