//! Limits of a daemon's rates: of a key, of all keys together, by the time, shared by those who are
//! active.

use std::fs;
use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::Value;

use crate::support::calm::{holds, in_a_calm_moment, machine};
use crate::support::daemon::{Daemon, with_user};
use crate::support::process::eventually;
use crate::support::{Ended, MIB, Run, Signal, Site, Start, assert_same, bytes_done, data, succeed};

/// A copy of this takes some seconds at [`RATE`].
const SIZE: u64 = 16 * MIB;
const RATE: &str = "64mbit";
/// A copy of [`SIZE`] at this rate would take longer than any test waits.
const SLOW: &str = "100kbit";

/// A site with `big`, there and here, and a daemon whose line has `options`.
struct Scene {
    site: Site,
    daemon: Daemon,
}

impl Scene {
    fn new(options: &str, adapt: impl Fn(&Site, &mut Command)) -> Self {
        let site = Site::new();
        site.directory("root");
        data::file(&site.path("big"), SIZE, 1);
        succeed(Command::new("cp").arg("-p").arg(site.path("big")).arg(site.path("root/big")));
        let options = format!("root=\"{}\",rights=rw{options}", site.path("root").display());
        let daemon = Daemon::adapted(&site, &options, |command| adapt(&site, command));
        Self { site, daemon }
    }

    /// Another key that the daemon admits, as the name of its file.
    fn other_key(&self) -> String {
        let file = self.site.path("other");
        succeed(self.site.icdc(&["keygen", "--identity"]).arg(&file));
        let key = fs::read_to_string(self.site.path("other.pub")).unwrap();
        let list = self.site.path("daemon/authorized_keys");
        let lines = fs::read_to_string(&list).unwrap();
        let options = with_user(&format!("root=\"{}\",rights=rw", self.site.path("root").display()));
        fs::write(list, format!("{}\n{options} {key}", lines.trim_end())).unwrap();
        assert!(self.daemon.run().wait_for_words("read again"));
        file.to_str().unwrap().to_owned()
    }

    fn push(&self, options: &[&str], name: &str) -> Run {
        self.site.copy(options).arg("--").arg("big").arg(self.daemon.location(name)).start()
    }

    fn pull(&self, options: &[&str], name: &str) -> Run {
        self.site.copy(options).arg("--").arg(self.daemon.location("big")).arg(name).start()
    }

    /// A copy in this direction, with its result.
    fn copy(&self, is_push: bool) -> (Run, std::path::PathBuf) {
        match is_push {
            true => (self.push(&[], "pushed"), self.site.path("root/pushed")),
            false => (self.pull(&[], "pulled"), self.site.path("pulled")),
        }
    }
}

/// Goodput of a finished copy in bits per second.
fn goodput(ended: &Ended) -> f64 {
    ended.number("goodput_bps") as f64
}

/// Events of progress.
fn samples(run: &Run) -> Vec<Value> {
    run.events().into_iter().filter(|event| event["type"] == "progress").collect()
}

/// A time zone whose clock shows this many seconds before noon now, and the next day's noon not soon.
fn before_noon(seconds: i64) -> String {
    let utc = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs() as i64;
    let west = (utc - (12 * 3600 - seconds)).rem_euclid(24 * 3600);
    let (sign, off) = if west > 12 * 3600 { ("-", 24 * 3600 - west) } else { ("", west) };
    format!("ICDC{sign}{:02}:{:02}:{:02}", off / 3600, off / 60 % 60, off % 60)
}

#[test]
fn sessions_of_a_key_share_its_rate_in_both_directions() {
    let _machine = machine();
    let scene = Scene::new(&format!(",max-rate={RATE}"), |_, _| {});
    in_a_calm_moment(|| {
        let alone = goodput(&scene.push(&["--no-resume"], "alone").finish().expect_code(0));
        let (push, pull) = (scene.push(&["--no-resume"], "pushed"), scene.pull(&["--no-resume"], "pulled"));
        let both = [push, pull].map(|run| goodput(&run.finish().expect_code(0)));
        for name in ["root/alone", "root/pushed", "pulled"] {
            fs::remove_file(scene.site.path(name)).unwrap();
        }
        let (sum, ratio) = (both[0] + both[1], both[0] / both[1]);
        holds(sum < 1.4 * alone && (0.6..1.6).contains(&ratio), (alone, both))
    });
}

#[test]
fn what_a_slow_session_leaves_goes_to_the_other() {
    let _machine = machine();
    let scene = Scene::new(&format!(",max-rate={RATE}"), |_, _| {});
    in_a_calm_moment(|| {
        let slow = scene.push(&["--no-resume", "--rate", SLOW], "slow");
        assert!(slow.wait_for(|event| event["type"] == "progress"));
        let fast = goodput(&scene.pull(&["--no-resume"], "pulled").finish().expect_code(0));
        slow.kill();
        fs::remove_file(scene.site.path("pulled")).unwrap();
        let limit: icdc_units::Rate = RATE.parse().unwrap();
        holds(fast > 0.65 * limit.as_bits_per_second() as f64, fast)
    });
}

#[test]
fn keys_share_the_rate_of_the_daemon_however_many_sessions_they_have() {
    let _machine = machine();
    let scene = Scene::new("", |_, command| {
        command.args(["--max-rate", RATE]);
    });
    let other = scene.other_key();
    in_a_calm_moment(|| {
        let runs = [
            scene.push(&["--no-resume"], "one"),
            scene.pull(&["--no-resume"], "two"),
            scene.push(&["--no-resume", "--identity", &other], "three"),
        ];
        let [one, two, three] = runs.map(|run| goodput(&run.finish().expect_code(0)));
        for name in ["root/one", "two", "root/three"] {
            fs::remove_file(scene.site.path(name)).unwrap();
        }
        let limit: icdc_units::Rate = RATE.parse().unwrap();
        let is_kept = one + two + three < 1.6 * limit.as_bits_per_second() as f64;
        holds(is_kept && three > 1.2 * one.max(two), (one, two, three))
    });
    // A measurement would heed no limit.
    let measured = scene.site.icdc(&["measure", "--seconds", "1", &scene.daemon.location("")]).run();
    assert!(measured.code != Some(0) && measured.stderr.contains("limited"), "{measured}");
}

#[test]
fn a_limit_that_ends_at_a_time_ends_for_a_running_copy() {
    for (is_push, is_of_daemon) in [(true, false), (false, false), (true, true), (false, true)] {
        let rates = format!("00:00-12:00={SLOW}, else=auto");
        let options = if is_of_daemon { String::new() } else { format!(",max-rate=\"{rates}\"") };
        let scene = Scene::new(&options, |_, command| {
            command.env("TZ", before_noon(4));
            if is_of_daemon {
                command.args(["--max-rate", &rates]);
            }
        });
        let (run, copy) = scene.copy(is_push);
        let is_slow = run.wait_for(|event| event["max_rate_bps"] == 100_000);
        let ended = run.finish().expect_code(0);
        assert!(is_slow, "{is_push} {is_of_daemon}: {ended}");
        assert_eq!(ended.all("progress").last().unwrap()["max_rate_bps"], 0, "{ended}");
        assert_same(&scene.site.path("big"), &copy);
    }
}

#[test]
fn a_copy_waits_while_nothing_may_pass_and_goes_on_then() {
    for is_push in [true, false] {
        let scene = Scene::new(",max-rate=\"00:00-12:00=0, else=auto\"", |_, command| {
            command.env("TZ", before_noon(4));
        });
        let (run, copy) = scene.copy(is_push);
        let told = |event: &Value| event["text"].as_str().is_some_and(|text| text.contains("lets nothing through"));
        assert!(run.wait_for(told), "{}", run.finish());
        assert!(samples(&run).iter().all(|sample| bytes_done(sample) == 0), "data flow: {}", run.finish());
        let ended = run.finish().expect_code(0);
        assert_eq!(ended.all("reconnecting").count(), 0, "{ended}");
        assert_same(&scene.site.path("big"), &copy);
    }
}

#[test]
fn a_listing_is_refused_while_nothing_may_pass() {
    let scene = Scene::new(",max-rate=\"00:00-12:00=0, else=auto\"", |_, command| {
        command.env("TZ", before_noon(1000));
    });
    let ended = scene.site.icdc(&["ls", "--"]).arg(scene.daemon.location("")).run();
    assert!(ended.code != Some(0) && ended.stderr.contains("lets nothing through at this time"), "{ended}");
}

#[test]
fn a_running_copy_stands_still_from_the_time_on_and_can_be_stopped() {
    for is_push in [true, false] {
        let scene = Scene::new(",max-rate=\"00:00-12:00=8mbit, else=0\"", |_, command| {
            command.env("TZ", before_noon(4));
        });
        let (run, copy) = scene.copy(is_push);
        let told = |event: &Value| event["text"].as_str().is_some_and(|text| text.contains("lets nothing through"));
        assert!(run.wait_for(told), "{}", run.finish());
        let stands_still = || {
            let samples = samples(&run);
            let last = samples.iter().rev().take(10).map(bytes_done).collect::<Vec<_>>();
            last.len() == 10 && last.iter().all(|bytes| *bytes == last[0])
        };
        assert!(eventually(stands_still), "data flow: {}", run.finish());
        run.signal(Signal::INT);
        run.finish().expect_code(4);
        assert!(!copy.exists());
    }
}

#[test]
fn a_reload_applies_another_limit_of_the_daemon_to_a_running_copy() {
    let settings = |site: &Site, rate: &str| {
        fs::write(site.path("settings"), format!("# daemon\n[serve]\nmax-rate = \"{rate}\"\n")).unwrap();
    };
    let scene = Scene::new("", |site, command| {
        settings(site, SLOW);
        command.env("ICDC_CONFIG", site.path("settings"));
    });
    let (run, copy) = scene.copy(true);
    assert!(run.wait_for(|event| event["max_rate_bps"] == 100_000), "{}", run.finish());
    // What cannot be read changes nothing, and is told with its file and line.
    settings(&scene.site, "mon=fast");
    scene.daemon.run().signal(Signal::HUP);
    assert!(scene.daemon.run().wait_for_words("stays as it was"));
    let log = scene.daemon.run().stderr();
    assert!(log.contains("settings:3") && log.contains("mon=fast"), "{log}");
    settings(&scene.site, "mon-sun=auto, else=1mbit");
    scene.daemon.run().signal(Signal::HUP);
    run.finish().expect_code(0);
    assert_same(&scene.site.path("big"), &copy);
}

#[test]
fn limits_that_make_no_sense_are_refused_with_their_place() {
    let site = Site::new();
    succeed(&mut site.icdc(&["keygen"]));
    let key = fs::read_to_string(site.path("home/.config/icdc/identity.pub")).unwrap();
    let line = |rate: &str| with_user(&format!("# one\nroot=/,rights=r,max-rate=\"{rate}\"")) + " " + &key;
    for (rate, reason) in [
        ("mon 08:00-25:00=1gbit", "\"25:00\" is no time of a day"),
        ("mon=1gbit, mon 09:00-10:00=2gbit", "contradict each other, at first on mon 09:00"),
        ("mon-sun=0, else=0", "allows nothing"),
    ] {
        fs::write(site.path("keys"), line(rate)).unwrap();
        let refused = site.icdc(&["serve", "--listen", "127.0.0.1:0", "--authorized-keys", "keys"]).run();
        assert!(refused.code == Some(1) && refused.stderr.contains("keys:2: max-rate="), "{refused}");
        assert!(refused.stderr.contains(reason), "{refused}");
        let refused = site.icdc(&["serve", "--listen", "127.0.0.1:0", "--max-rate", rate]).run().expect_code(2);
        assert!(refused.stderr.contains(reason), "{refused}");
    }
}
