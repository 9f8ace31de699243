//! The daemon and a service manager that speaks systemd's protocols: readiness, life signs, sockets that
//! are open already, reloads, the next daemon.

use std::fs;
use std::io::Write as _;
use std::net::TcpListener;
use std::os::unix::net::UnixDatagram;
use std::process::Command;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use rustix::process::{Pid, kill_process};

use crate::support::daemon::Daemon;
use crate::support::http;
use crate::support::process::{eventually, is_running};
use crate::support::{HERE, Signal, Site, Start, assert_same, succeed};
use crate::{SIZE, SLOW, Scene};

/// What a daemon tells its service manager, as it comes.
struct Manager {
    told: mpsc::Receiver<String>,
}

impl Manager {
    fn new(site: &Site) -> Self {
        let socket = UnixDatagram::bind(site.path("notify")).unwrap();
        let (tell, told) = mpsc::channel();
        std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok(count) = socket.recv(&mut buffer) {
                let text = String::from_utf8_lossy(&buffer[..count]).into_owned();
                if text.lines().any(|line| tell.send(line.to_owned()).is_err()) {
                    break;
                }
            }
        });
        Self { told }
    }

    /// Waits for a line that begins so; the rest of it.
    fn wait_for(&self, begin: &str) -> String {
        let deadline = Instant::now() + Duration::from_secs(60);
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let line = self.told.recv_timeout(left).unwrap_or_else(|_| panic!("{begin} is not told"));
            if let Some(rest) = line.strip_prefix(begin) {
                return rest.to_owned();
            }
        }
    }
}

/// A scene with a manager, which has heard that the daemon is ready; with further options of `serve`.
fn managed(options: &[&str]) -> (Scene, Manager) {
    managed_with(",quota=1TB", options)
}

/// The same, where the line of the client's key says this besides.
fn managed_with(line: &str, options: &[&str]) -> (Scene, Manager) {
    let mut manager = None;
    let site = std::cell::RefCell::new(&mut manager);
    let scene = Scene::with(line, |place, command| {
        command.env("NOTIFY_SOCKET", place.path("notify")).args(options);
        **site.borrow_mut() = Some(Manager::new(place));
    });
    let manager = manager.unwrap();
    manager.wait_for("READY=1");
    (scene, manager)
}

#[test]
fn the_manager_hears_of_readiness_life_sessions_reloads_and_the_end() {
    let (scene, manager) = managed(&[]);
    manager.wait_for("WATCHDOG=1");
    let run = scene.push(&["--rate", SLOW], "pushed").start();
    assert!(run.wait_for_bytes(1), "{}", run.stderr());
    manager.wait_for("STATUS=1 sessions");
    scene.daemon.run().signal(Signal::HUP);
    manager.wait_for("RELOADING=1");
    manager.wait_for("READY=1");
    scene.daemon.run().signal(Signal::TERM);
    manager.wait_for("STOPPING=1");
    // Stopped by the operator, and there is nobody to go on with.
    run.signal(Signal::INT);
    run.finish();
}

#[test]
fn sockets_of_the_manager_are_used() {
    let listener = TcpListener::bind((HERE, 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    let site = Site::new();
    // What a service manager does: the sockets from descriptor 3 on, and for whom they are.
    let pass = format!("exec 3<&0; exec env LISTEN_FDS=1 LISTEN_PID=$$ {} \"$@\"", crate::support::ICDC);
    succeed(site.icdc(&["keygen", "--identity"]).arg(site.path("id")));
    fs::write(site.path("keys"), "").unwrap();
    let mut daemon = Command::new("sh");
    daemon.args(["-c", &pass, "sh", "serve", "--identity", "id", "--authorized-keys", "keys"]);
    let mut daemon = site.settle(daemon);
    daemon.stdin(std::os::fd::OwnedFd::from(listener));
    let run = daemon.start();
    assert!(run.wait_for_words(&format!("{HERE}:{port}")), "{}", run.stderr());
    assert!(std::net::TcpStream::connect((HERE, port)).is_ok());
    run.signal(Signal::TERM);
    run.finish().expect_code(0);
}

#[test]
fn the_next_daemon_takes_over_and_running_copies_end_well() {
    let (scene, manager) = managed(&[]);
    let run = scene.push(&["--rate", "60mbit"], "running").start();
    assert!(run.wait_for_bytes(1), "{}", run.stderr());
    scene.daemon.run().signal(Signal::USR2);
    let next: i32 = manager.wait_for("MAINPID=").parse().unwrap();
    let next = Successor(Pid::from_raw(next).unwrap());
    // No connection is refused meanwhile, and the new daemon has those that come now.
    let held = scene.daemon.run().sessions().len();
    assert!(held >= 1, "{}", scene.log());
    scene.push(&[], "second").run().expect_code(0);
    assert_same(&scene.site.path("big"), &scene.site.path("root/second"));
    run.finish().expect_code(0);
    assert_same(&scene.site.path("big"), &scene.site.path("root/running"));
    // The old one ends with its last session; the new one goes on.
    let old = scene.daemon.run().pid();
    assert!(eventually(|| !is_running(old)), "{}", scene.log());
    scene.push(&[], "third").run().expect_code(0);
    kill_process(next.0, Signal::TERM).unwrap();
    assert!(eventually(|| !is_running(next.0)));
    // Both have counted what the key has moved.
    assert!(moved(&scene.site) >= 3 * SIZE, "{} of {SIZE}: {}", moved(&scene.site), scene.log());
}

#[test]
fn sessions_that_the_old_daemon_still_has_count_for_the_next_one() {
    let (scene, manager) = managed_with(",max-sessions=1", &[]);
    let run = scene.push(&["--rate", SLOW], "running").start();
    assert!(run.wait_for_bytes(1), "{}", run.stderr());
    scene.daemon.run().signal(Signal::USR2);
    let next = Successor(Pid::from_raw(manager.wait_for("MAINPID=").parse().unwrap()).unwrap());
    let refused = scene.push(&[], "second").run().expect_code(3);
    assert!(refused.stderr.contains("as many sessions as it may have"), "{refused}");
    // The old daemon ends with its session, by which there is room again; it may be killed, too. The copy that is cut
    // must not be the first to take that room.
    run.signal(Signal::STOP);
    let old = scene.daemon.run().pid();
    kill_process(old, Signal::KILL).unwrap();
    assert!(eventually(|| scene.push(&[], "second").run().code == Some(0)), "{}", scene.log());
    // It goes on by the next daemon, and ends as any other.
    run.signal(Signal::INT);
    run.signal(Signal::CONT);
    run.finish();
    assert!(eventually(|| scene.push(&[], "running").run().code == Some(0)), "{}", scene.log());
    assert_same(&scene.site.path("big"), &scene.site.path("root/running"));
    kill_process(next.0, Signal::TERM).unwrap();
    assert!(eventually(|| !is_running(next.0)));
}

#[test]
fn a_copy_between_daemons_goes_on_at_the_next_one() {
    let (scene, manager) = managed(&[]);
    let from = Daemon::named(&scene.site, "from", &format!("root=\"{}\",rights=r", scene.site.root().display()));
    let mut copy = scene.site.copy(&["--rate", "100mbit"]);
    let run = copy.arg(from.location("big")).arg(scene.daemon.location("copied")).start();
    assert!(run.wait_for_bytes(1), "{}", run.stderr());
    scene.daemon.run().signal(Signal::USR2);
    let next = Successor(Pid::from_raw(manager.wait_for("MAINPID=").parse().unwrap()).unwrap());
    // The sending daemon connects once more, by the key that the old one has let in.
    kill_process(scene.daemon.run().pid(), Signal::KILL).unwrap();
    let ended = run.finish().expect_code(0);
    assert!(ended.all("reconnecting").next().is_some(), "it was cut: {ended}");
    assert_same(&scene.site.path("big"), &scene.site.path("root/copied"));
    kill_process(next.0, Signal::TERM).unwrap();
    assert!(eventually(|| !is_running(next.0)));
}

/// What the daemons of a site have kept of what keys have moved, in bytes.
fn moved(site: &Site) -> u64 {
    let state = fs::read_dir(site.path("home/.local/state/icdc")).unwrap().map(|entry| entry.unwrap().path());
    let kept = state.filter(|path| path.to_string_lossy().contains("usage-") && path.extension().unwrap() == "json");
    let texts = kept.map(|path| serde_json::from_slice::<serde_json::Value>(&fs::read(path).unwrap()).unwrap());
    texts.flat_map(|kept| kept["keys"].as_array().unwrap().clone()).map(|key| key["bytes"].as_u64().unwrap()).sum()
}

#[test]
fn the_next_daemon_goes_on_with_the_metrics() {
    let (scene, manager) = managed(&["--metrics", "127.0.0.1:0"]);
    let log = scene.log();
    let (_, address) = log.lines().find_map(|line| line.split_once("at /metrics address=")).unwrap();
    let address = address.trim().parse().unwrap();
    let sum = |begin: &str| {
        let text = http::get(address, "/metrics", "text/plain");
        let lines = text.lines().filter(|line| line.starts_with(begin));
        lines.map(|line| line.rsplit_once(' ').unwrap().1.parse::<u32>().unwrap()).sum::<u32>()
    };
    let ended = || sum("icdc_serve_sessions_ended_total{kind=\"receive\"");
    let mut stranger = std::net::TcpStream::connect((HERE, scene.daemon.port())).unwrap();
    stranger.write_all(b"GET / HTTP/1.0\r\n\r\n").unwrap();
    assert!(eventually(|| sum("icdc_serve_refused_total{reason=\"unauthenticated\"}") == 1));
    scene.push(&[], "first").run().expect_code(0);
    assert!(eventually(|| ended() == 1));
    let run = scene.push(&["--rate", SLOW], "running").start();
    assert!(run.wait_for_bytes(1), "{}", run.stderr());
    scene.daemon.run().signal(Signal::USR2);
    let next = Successor(Pid::from_raw(manager.wait_for("MAINPID=").parse().unwrap()).unwrap());
    assert!(eventually(|| ended() == 0), "{}", scene.log());
    // It alone answers, though the other has a session still.
    assert_eq!([(); 20].map(|()| ended()), [0; 20]);
    scene.push(&[], "second").run().expect_code(0);
    assert!(eventually(|| ended() == 1), "{}", scene.log());
    run.signal(Signal::INT);
    run.finish();
    kill_process(next.0, Signal::TERM).unwrap();
    assert!(eventually(|| !is_running(next.0)));
}

/// A daemon that is no child of this process. Killed when dropped.
struct Successor(Pid);

impl Drop for Successor {
    fn drop(&mut self) {
        // It has ended, if all went well.
        let _ = kill_process(self.0, Signal::KILL);
    }
}

#[test]
fn a_next_daemon_that_cannot_begin_changes_nothing() {
    let scene = Scene::new();
    fs::rename(scene.site.path("daemon/identity"), scene.site.path("daemon/away")).unwrap();
    scene.daemon.run().signal(Signal::USR2);
    assert!(scene.daemon.run().wait_for_words("the next daemon has not started"), "{}", scene.log());
    fs::rename(scene.site.path("daemon/away"), scene.site.path("daemon/identity")).unwrap();
    scene.push(&[], "pushed").run().expect_code(0);
}

#[test]
fn a_daemon_that_drains_lets_its_sessions_end_and_nobody_in() {
    let scene = Scene::new();
    let run = scene.push(&["--rate", "60mbit"], "running").start();
    assert!(run.wait_for_bytes(1), "{}", run.stderr());
    scene.daemon.run().signal(Signal::USR1);
    assert!(eventually(|| std::net::TcpStream::connect((HERE, scene.daemon.port())).is_err()));
    run.finish().expect_code(0);
    assert_same(&scene.site.path("big"), &scene.site.path("root/running"));
    assert!(eventually(|| scene.daemon.run().has_ended()), "{}", scene.log());
}
