//! What the operator of a daemon does while it runs, and what its log tells.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::support::daemon::Daemon;
use crate::support::process::eventually;
use crate::support::{Ended, HERE, MIB, Signal, Site, Start, assert_same, data, is_root, skip, succeed};

/// Enough for a session to end that is ended within a second; the copies here would take several
/// times as long.
const SOON: Duration = Duration::from_secs(8);
const SLOW: &str = "8mbit";
const SIZE: u64 = 40 * MIB;

struct Scene {
    site: Site,
    daemon: Daemon,
}

impl Scene {
    fn new() -> Self {
        let site = Site::new();
        site.directory("root");
        data::file(&site.path("big"), SIZE, 1);
        fs::copy(site.path("big"), site.path("root/big")).unwrap();
        let daemon = Daemon::start(&site, &site.path("root"), "rw");
        Self { site, daemon }
    }

    fn list(&self) -> std::path::PathBuf {
        self.site.path("daemon/authorized_keys")
    }

    fn copy(&self, options: &[&str], from: impl AsRef<Path>, to: impl AsRef<Path>) -> Command {
        let mut command = self.site.copy(options);
        command.arg(from.as_ref()).arg(to.as_ref());
        command
    }

    fn log(&self) -> String {
        self.daemon.run().stderr()
    }

    /// Sends what `ExecReload=` of the unit says to the daemon; `$MAINPID` is replaced, as systemd does.
    fn reload(&self) {
        let unit = concat!(env!("CARGO_MANIFEST_DIR"), "/../../systemd/icdc.service");
        let unit = fs::read_to_string(unit).unwrap();
        let line = unit.lines().find_map(|line| line.strip_prefix("ExecReload=")).expect("the unit can be reloaded");
        let pid = self.daemon.run().pid().as_raw_nonzero().to_string();
        succeed(Command::new("sh").args(["-c", &line.replace("$MAINPID", &pid)]));
    }
}

#[test]
fn a_key_whose_line_goes_loses_its_running_copies() {
    for push in [true, false] {
        let scene = Scene::new();
        let far = scene.daemon.location(if push { "pushed" } else { "big" });
        let run = match push {
            true => scene.copy(&["--rate", SLOW], "big", &far).start(),
            false => scene.copy(&["--rate", SLOW], &far, "pulled").start(),
        };
        assert!(run.wait_for_bytes(1), "{}", run.stderr());
        // A comment, or a line for somebody else, takes nothing from it.
        let lines = fs::read_to_string(scene.list()).unwrap();
        fs::write(scene.list(), format!("# comment\n{lines}")).unwrap();
        assert!(scene.daemon.run().wait_for_words("read again"));
        assert!(!scene.log().contains("it ends"), "{}", scene.log());
        let since = Instant::now();
        fs::write(scene.list(), "# nobody\n").unwrap();
        let ended = run.finish().expect_code(3);
        assert!(since.elapsed() < SOON, "it went on for {:?}: {ended}", since.elapsed());
        assert!(ended.stderr.contains("does not know this key"), "{ended}");
        assert!(!scene.site.path("root/pushed").exists() && !scene.site.path("pulled").exists());
    }
}

#[test]
fn a_hang_up_reloads_and_harms_nobody() {
    let scene = Scene::new();
    let run = scene.copy(&["--rate", "40mbit"], "big", scene.daemon.location("pushed")).start();
    assert!(run.wait_for_bytes(1), "{}", run.stderr());
    // Another identity, as after the old one became known to others.
    let (identity, known) = (scene.site.path("daemon/identity"), scene.daemon.key().to_owned());
    for file in ["identity", "identity.pub"] {
        fs::remove_file(scene.site.path("daemon").join(file)).unwrap();
    }
    succeed(scene.site.icdc(&["keygen", "--identity"]).arg(&identity));
    scene.reload();
    assert!(scene.daemon.run().wait_for_words("authorized keys read again"), "{}", scene.log());
    run.finish().expect_code(0);
    assert_same(&scene.site.path("big"), &scene.site.path("root/pushed"));
    let ended = scene.copy(&[], "big", scene.daemon.location("other")).run().expect_code(3);
    assert!(ended.stderr.contains("CHANGED"), "{ended}");
    let key = fs::read_to_string(scene.site.path("daemon/identity.pub")).unwrap();
    assert_ne!(key.trim(), known);
    fs::remove_file(scene.site.path("home/.config/icdc/known_hosts")).unwrap();
    succeed(&mut scene.site.icdc(&["keygen", "--trust", &format!("{HERE}:{}", scene.daemon.port()), key.trim()]));
    // What cannot be used is named, and the daemon goes on with what it had.
    fs::write(&identity, "no key").unwrap();
    scene.reload();
    assert!(scene.daemon.run().wait_for_words("the old one is kept"), "{}", scene.log());
    scene.copy(&[], "big", scene.daemon.location("third")).run().expect_code(0);
    scene.daemon.run().signal(Signal::TERM);
    assert!(eventually(|| scene.log().contains("stopping")));
}

#[test]
fn the_log_tells_each_transfer_and_who_was_refused() {
    let scene = Scene::new();
    let public = fs::read_to_string(scene.site.path("home/.config/icdc/identity.pub")).unwrap();
    let comment = public.trim().splitn(3, ' ').nth(2).unwrap_or_default().to_owned();
    scene.copy(&[], "big", scene.daemon.location("pu\u{1b}[1mshed")).run().expect_code(0);
    scene.copy(&[], scene.daemon.location("big"), "pulled").run().expect_code(0);
    let lines = |scene: &Scene, words: &[&str]| {
        let has = |line: &&str| words.iter().all(|word| line.contains(word));
        scene.log().lines().filter(has).count()
    };
    let size = format!("bytes={SIZE}");
    assert!(eventually(|| lines(&scene, &["INFO", "complete"]) == 2), "{}", scene.log());
    assert_eq!(lines(&scene, &["write", "pu", &size, &comment, HERE, "seconds=", "SHA256:"]), 1, "{}", scene.log());
    assert_eq!(lines(&scene, &["read", "big", &size, &comment, HERE, "seconds=", "SHA256:"]), 1, "{}", scene.log());
    assert!(!scene.log().contains('\u{1b}'), "{}", scene.log());
    // One that fails, one that may not, and one that nobody knows.
    let run = scene.copy(&["--rate", SLOW, "--retry-for", "1ms"], "big", scene.daemon.location("cut")).start();
    assert!(run.wait_for_bytes(1));
    run.signal(Signal::KILL);
    run.finish();
    assert!(eventually(|| lines(&scene, &["INFO", "write", "lost", "seconds="]) == 1), "{}", scene.log());
    succeed(&mut scene.site.icdc(&["keygen", "--identity", "stranger"]));
    let push =
        |identity: &str| scene.copy(&["--identity", identity], "big", scene.daemon.location("x")).run().expect_code(3);
    push("stranger");
    assert!(eventually(|| lines(&scene, &["INFO", "refused", HERE, "SHA256:"]) == 1), "{}", scene.log());
}

/// A file that belongs to `nobody` and runs as such, copied with its owner.
fn copy_with_owner(site: &Site, daemon: &Daemon, options: &[&str]) -> Ended {
    let source = site.path("program");
    fs::write(&source, "program").unwrap();
    chown(&source, Some(65534), Some(65534)).unwrap();
    fs::set_permissions(&source, fs::Permissions::from_mode(0o6755)).unwrap();
    site.copy(options).arg(&source).arg(daemon.location("program")).run()
}

#[test]
fn owners_and_set_id_bits_need_a_line_that_says_so() {
    if !is_root() {
        return skip("setting owners needs root");
    }
    let site = Site::new();
    let root = site.directory("root");
    let grant = |more: &str| format!("root=\"{}\",rights=rw,user=root{more}", root.display());
    let with_owner = ["--preserve", "mode,times,owner"];
    let plain = Daemon::named(&site, "plain", &grant(""));
    let ended = copy_with_owner(&site, &plain, &with_owner).expect_code(3);
    assert!(ended.stderr.contains("owner=keep"), "{ended}");
    assert!(!root.join("program").exists());
    copy_with_owner(&site, &plain, &[]).expect_code(0);
    let made = fs::metadata(root.join("program")).unwrap();
    assert_eq!((made.uid(), made.gid(), made.mode() & 0o7777), (0, 0, 0o755));
    let keeper = Daemon::named(&site, "keeper", &grant(",owner=keep"));
    copy_with_owner(&site, &keeper, &with_owner).expect_code(0);
    let made = fs::metadata(root.join("program")).unwrap();
    assert_eq!((made.uid(), made.gid(), made.mode() & 0o7777), (65534, 65534, 0o6755));
}

#[test]
fn a_daemon_run_by_root_writes_as_root_only_where_the_line_says_so() {
    if !is_root() {
        return skip("only root can act as another user");
    }
    let scene = Scene::new();
    let key = fs::read_to_string(scene.site.path("home/.config/icdc/identity.pub")).unwrap();
    let root = scene.site.path("root");
    let write = |options: &str| fs::write(scene.list(), format!("root={},{options} {key}", root.display())).unwrap();
    let push = || scene.copy(&[], "big", scene.daemon.location("pushed")).run();
    for rights in ["rights=w", "rights=rw"] {
        write(rights);
        let ended = push().expect_code(3);
        assert!(ended.stderr.contains("user=NAME") && ended.stderr.contains("user=root"), "{ended}");
        assert!(!root.join("pushed").exists());
    }
    assert!(scene.daemon.run().wait_for_words("authorized_keys:1: this line is not served"), "{}", scene.log());
    write("rights=r");
    scene.copy(&[], scene.daemon.location("big"), "pulled").run().expect_code(0);
    write("rights=rw,user=root");
    push().expect_code(0);
}

#[test]
fn a_ring_that_no_far_end_takes_is_refused_at_once() {
    let scene = Scene::new();
    let ended = scene.copy(&["--ring", "65GiB"], "big", scene.daemon.location("x")).run().expect_code(2);
    assert!(ended.stderr.contains("64GiB"), "{ended}");
}
