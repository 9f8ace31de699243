//! The rate that is found without `--rate` and `--cc`, over an emulated path.

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::Path;

use serde_json::Value;

use crate::support;
use crate::support::calm::{holds, in_a_calm_moment, machine};
use crate::support::daemon::Daemon;
use crate::support::lab::{A, B, Lab};
use crate::support::process::eventually;
use crate::support::{ICDC, KIB, MIB, Site, Start, data, has_program};

/// What a TCP payload can reach on a link of this rate: 1448 of 1538 bytes.
fn limit(mbit: f64) -> f64 {
    mbit * 1e6 * 1448.0 / 1538.0
}

/// Bits per second in the best second of the last so many, by arrivals: a machine that others hold
/// up for a while must not decide.
fn best(summary: &Value, seconds: usize) -> f64 {
    let bins: Vec<f64> = summary["series_ms"].as_array().unwrap().iter().map(|bytes| bytes.as_f64().unwrap()).collect();
    let last = &bins[bins.len() - seconds * 1000..];
    last.windows(1000).step_by(100).map(|second| second.iter().sum::<f64>() * 8.0).fold(0.0, f64::max)
}

/// The rate that the file knows of the path from host a to host b; an error where it has not been
/// written.
fn remembered(file: &Path) -> Result<f64, String> {
    let known: Value = serde_json::from_slice(&fs::read(file).map_err(|error| error.to_string())?).unwrap();
    let known = &known["paths"][0];
    assert_eq!((&known["to"], &known["from"]), (&"10.26.33.0/24".into(), &A.into()), "{known}");
    Ok(known["rate"].as_f64().unwrap())
}

fn queue_drops(lab: &Lab) -> u64 {
    lab.status()["a_to_b"]["queue_drops_packets"].as_u64().unwrap()
}

pub(crate) fn is_loadable(site: &Site) -> bool {
    let list = site.icdc(&["cc", "list", "--json"]).output().unwrap();
    let list: Vec<Value> = serde_json::from_slice(&list.stdout).unwrap();
    list.iter().any(|one| one["name"] == "icdc" && one["state"] != "unavailable")
}

#[test]
fn root_is_just_under_the_path_without_a_word_and_knows_it_the_next_time() {
    let _machine = machine();
    let Some(lab) = Lab::up(&["--rate", "200mbit", "--rtt", "100ms", "--queue", "400KB"]) else { return };
    let site = Site::new();
    if !is_loadable(&site) {
        support::skip("icdc cannot be loaded here");
        return;
    }
    let measure = |seconds: &str| {
        let mut command = lab.on_a(&site, "measure");
        command.args(["--json", "--json-series", "--seconds", seconds, B]).start().finish().expect_code(0)
    };
    let paths = site.path("home/.local/state/icdc/paths.json");
    in_a_calm_moment(|| {
        let ended = measure("8");
        assert_eq!(ended.summary()["cc"], "icdc_icdc", "{ended}");
        let window = ended.summary()["limited_by"]["receive_window"].as_f64().unwrap_or(0.0);
        assert_eq!(window.round(), 0.0, "{ended}");
        let share = best(ended.summary(), 4) / limit(200.0);
        holds((0.85..1.01).contains(&share), share)
    });

    // A copy remembers what it found, as the measurement has; the next connection starts from it.
    data::file(&site.path("data"), 200 * MIB, 1);
    in_a_calm_moment(|| {
        for old in [&paths, &site.path("copied")] {
            let _ = fs::remove_file(old);
        }
        let mut copy = lab.on_a(&site, "copy");
        copy.args(["--json"]).arg(site.path("data")).arg(site.on_host(B, "copied"));
        let ended = copy.start().finish().expect_code(0);
        assert_eq!(ended.summary()["congestion"], "icdc_icdc", "{ended}");
        assert_eq!(ended.summary()["verified"], true, "{ended}");
        let rate = remembered(&paths)? / limit(200.0);
        holds((0.7..1.01).contains(&rate), rate)
    });
    let remembered = fs::read(&paths).unwrap();
    // A machine that stalls takes from either beginning, so the best counts for each.
    let (mut known, mut unknown) = (0.0_f64, 0.0_f64);
    in_a_calm_moment(|| {
        fs::write(&paths, &remembered).unwrap();
        known = known.max(beginning(measure("2").summary()));
        fs::remove_file(&paths).unwrap();
        unknown = unknown.max(beginning(measure("2").summary()));
        holds(known > 1.2 * unknown, (known, unknown))
    });
}

#[test]
fn a_copy_of_root_on_a_lan_is_left_to_the_systems_algorithm() {
    let _machine = machine();
    let Some(lab) = Lab::up(&["--rate", "200mbit", "--rtt", "0ms"]) else { return };
    let site = Site::new();
    data::file(&site.path("data"), 4 * MIB, 1);
    // Where processors are busy, no round trip may be as short as the path is.
    in_a_calm_moment(|| {
        let _ = fs::remove_file(site.path("copied"));
        let mut copy = lab.on_a(&site, "copy");
        copy.args(["--json"]).arg(site.path("data")).arg(site.on_host(B, "copied"));
        let ended = copy.start().finish().expect_code(0);
        holds(ended.summary()["congestion"] != "icdc_icdc", &ended.summary()["congestion"])
    });
}

#[test]
fn a_measurement_remembers_what_the_path_carried_unless_something_else_limited() {
    let _machine = machine();
    let Some(lab) = Lab::up(&["--rate", "100mbit", "--rtt", "50ms", "--queue", "400KB"]) else { return };
    let site = Site::new();
    let measure = |words: &[&str]| {
        let mut command = lab.on_a(&site, "measure");
        command.args(["--json", "--seconds", "5"]).args(words).arg(B).start().finish().expect_code(0)
    };
    let file = site.path("home/.local/state/icdc/paths.json");
    for limits in [["--rate", "40mbit"], ["--streams", "2"], ["--window", "200KB"]] {
        measure(&limits);
        assert!(!file.exists(), "{limits:?}");
    }
    in_a_calm_moment(|| {
        let _ = fs::remove_file(&file);
        measure(&[]);
        let rate = remembered(&file)? / limit(100.0);
        holds((0.5..1.01).contains(&rate), rate)
    });
}

/// What arrived in the first six round trips of 100 ms.
fn beginning(summary: &Value) -> f64 {
    summary["series_ms"].as_array().unwrap()[..600].iter().map(|bytes| bytes.as_f64().unwrap()).sum()
}

#[test]
fn a_daemon_that_acts_as_another_user_knows_its_paths() {
    let _machine = machine();
    let Some(lab) = Lab::up(&["--rate", "100mbit", "--rtt", "20ms", "--queue", "400KB"]) else { return };
    let site = Site::new();
    data::file(&site.path("large"), 60 * MIB, 1);
    data::file(&site.path("small"), KIB, 2);
    let options = format!("root=\"{}\",rights=r,user=nobody", site.root().display());
    let daemon = Daemon::in_lab(&lab, &site, "daemon", &options);
    // As root's home is: nobody has no business there.
    fs::set_permissions(site.path("home"), Permissions::from_mode(0o700)).unwrap();
    let pull = |name: &str| {
        let mut copy = lab.on_a(&site, "copy");
        copy.args(["--json"]).arg(daemon.location(name)).arg(site.path(format!("pulled-{name}")));
        copy.start().finish().expect_code(0);
    };
    pull("large");
    let file = site.path("home/.local/state/icdc/paths.json");
    assert!(eventually(|| file.exists()), "{}", daemon.run().stderr());
    let shown = site.icdc(&["doctor", "--paths", "--json"]).run().expect_code(0);
    let paths = shown.events[0]["paths"].as_array().unwrap();
    assert_eq!(paths.len(), 1, "{shown}");
    assert_eq!((&paths[0]["to"], &paths[0]["from"]), (&"10.26.33.0/24".into(), &B.into()), "{shown}");
    let share = paths[0]["rate_bps"].as_f64().unwrap() / limit(100.0);
    assert!((0.5..1.01).contains(&share), "{shown}");
    assert_eq!(fs::metadata(&file).unwrap().uid(), 0, "it is the daemon's own");
    assert!(!daemon.run().stderr().contains("the path is known"));
    pull("small");
    assert!(daemon.run().wait_for_words("the path is known"));
}

#[test]
fn a_named_algorithm_and_a_ceiling_are_kept() {
    let _machine = machine();
    let Some(lab) = Lab::up(&["--rate", "200mbit", "--rtt", "50ms", "--queue", "400KB"]) else { return };
    let site = Site::new();
    let mut command = lab.on_a(&site, "measure");
    let ended = command.args(["--json", "--seconds", "1", "--cc", "cubic", B]).start().finish().expect_code(0);
    assert_eq!(ended.summary()["cc"], "cubic", "{ended}");
    in_a_calm_moment(|| {
        let before = queue_drops(&lab);
        let mut command = lab.on_a(&site, "measure");
        let words = ["--json", "--json-series", "--seconds", "4", "--rate", "60mbit", B];
        let ended = command.args(words).start().finish().expect_code(0);
        let (share, dropped) = (best(ended.summary(), 2) / 60e6, queue_drops(&lab) - before);
        holds((0.8..1.05).contains(&share) && dropped == 0, (share, dropped))
    });
}

#[test]
fn without_privileges_a_ceiling_is_found_over_the_kernel_s_own_algorithm() {
    let _machine = machine();
    let Some(lab) = Lab::up(&["--rate", "100mbit", "--rtt", "40ms", "--queue", "500KB"]) else { return };
    if !has_program("setpriv") {
        support::skip("there is no setpriv");
        return;
    }
    let site = Site::new();
    let shell = format!("{ICDC} lab exec --name {} --shell", lab.name);
    // Without its capabilities root is as good as anybody; the far end keeps them.
    let exec = ["lab", "exec", "--name", &lab.name, "a", "--", "setpriv"];
    let rights = ["--bounding-set", "-net_admin,-bpf,-perfmon", "--inh-caps", "-net_admin,-bpf,-perfmon"];
    let words =
        [ICDC, "measure", "--json", "--json-series", "--seconds", "8", "--remote-icdc", ICDC, "--ssh", &shell, B];
    in_a_calm_moment(|| {
        let ended = site.icdc(&[&exec[..], &rights, &words].concat()).start().finish().expect_code(0);
        assert!(!ended.summary()["cc"].as_str().unwrap().starts_with("icdc_"), "{ended}");
        let paced = ended.all("sample").last().unwrap()["pacing_rate_bps"].as_f64().unwrap_or(f64::MAX);
        let share = best(ended.summary(), 4) / limit(100.0);
        holds(paced < 1.05 * limit(100.0) && (0.75..1.01).contains(&share), (paced, share))
    });
}

#[test]
fn a_small_copy_over_a_long_path_ends_as_soon_as_ever() {
    let _machine = machine();
    let Some(lab) = Lab::up(&["--rate", "100mbit", "--rtt", "200ms"]) else { return };
    let site = Site::new();
    data::file(&site.path("data"), KIB, 1);
    let mut copy = lab.on_a(&site, "copy");
    copy.args(["--json"]).arg(site.path("data")).arg(site.on_host(B, "copied"));
    let ended = copy.start().finish().expect_code(0);
    assert!(!site.path("home/.local/state/icdc/paths.json").exists(), "nothing is known of a path from a kilobyte");
    assert_eq!(ended.summary()["verified"], true);
}
