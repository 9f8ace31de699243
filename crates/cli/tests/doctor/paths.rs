//! `icdc doctor --paths`: what is known of paths is shown and forgotten. What puts it there is in
//! `rate_auto.rs`.

use std::fs;
use std::path::PathBuf;
use std::time::SystemTime;

use serde_json::{Value, json};

use crate::support::{Ended, HERE, Site, Start};

const DAY: u64 = 24 * 3600;

fn now() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs()
}

fn file(site: &Site) -> PathBuf {
    site.path("state/icdc/paths.json")
}

fn path(to: &str, from: &str, age: u64) -> Value {
    json!({ "to": to, "from": from, "rate": 915_000_000, "round_trip": 300_000_000, "seen": now() - age })
}

/// Four paths: one that is used again, one that is old, one from elsewhere, one of IPv6.
fn remember(site: &Site) {
    let paths = json!({ "paths": [
        path("198.51.100.0/24", HERE, 2 * 3600 + 5),
        path("203.0.113.0/24", HERE, 31 * DAY),
        path("198.51.100.0/24", "203.0.113.77", 60),
        path("2001:db8:7::/48", "2001:db8:ffff::77", 60),
    ]});
    fs::create_dir_all(file(site).parent().unwrap()).unwrap();
    fs::write(file(site), paths.to_string()).unwrap();
}

fn doctor(site: &Site, words: &[&str]) -> Ended {
    site.icdc(&[&["doctor", "--paths"], words].concat()).env("XDG_STATE_HOME", site.path("state")).run()
}

fn object(site: &Site, words: &[&str]) -> Value {
    let ended = doctor(site, &[words, &["--json"]].concat()).expect_code(0);
    assert_eq!((ended.events.len(), ended.stderr.as_str()), (1, ""), "{ended}");
    assert_eq!(ended.events[0]["file"], file(site).to_str().unwrap());
    ended.events[0].clone()
}

fn known(site: &Site) -> Vec<String> {
    let object = object(site, &[]);
    let paths = object["paths"].as_array().unwrap().iter();
    paths.map(|path| format!("{} {}", path["to"].as_str().unwrap(), path["from"].as_str().unwrap())).collect()
}

#[test]
fn what_is_known_is_shown_with_what_becomes_of_it() {
    let site = Site::new();
    remember(&site);
    let before = fs::read(file(&site)).unwrap();
    let paths = object(&site, &[])["paths"].as_array().unwrap().clone();
    assert_eq!(paths.len(), 4);
    let first = &paths[0];
    assert_eq!((&first["to"], &first["from"]), (&"198.51.100.0/24".into(), &HERE.into()));
    assert_eq!((&first["interface"], &first["rate_bps"]), (&"lo".into(), &915_000_000.into()));
    for (key, expected) in [("rtt_seconds", 0.3), ("rtt_least_seconds", 0.2605), ("rtt_most_seconds", 0.3395)] {
        assert_eq!(first[key], expected, "{key}");
    }
    assert!((2 * 3600 + 5..2 * 3600 + 600).contains(&first["age_seconds"].as_u64().unwrap()), "{first}");
    assert_eq!((&first["usable"], &first["why_not"]), (&true.into(), &Value::Null));
    for (path, why) in [(&paths[1], "30 days"), (&paths[2], "203.0.113.77"), (&paths[3], "2001:db8:ffff::77")] {
        assert_eq!(path["usable"], false, "{path}");
        assert!(path["why_not"].as_str().unwrap().contains(why), "{path}");
    }

    let ended = doctor(&site, &[]).expect_code(0);
    let lines: Vec<&str> = ended.text.lines().collect();
    assert_eq!(lines.len(), 6, "{ended}");
    assert_eq!(lines[0], format!("4 paths known in {}", file(&site).display()));
    for words in
        ["198.51.100.0/24", HERE, "lo", "915 Mbit/s", "300ms", "2 hours", "yes, if the handshake takes 260.5ms"]
    {
        assert!(lines[2].contains(words), "{words}: {ended}");
    }
    assert!(lines[3].contains("31 days") && lines[3].contains("no: "), "{ended}");
    assert_eq!(fs::read(file(&site)).unwrap(), before, "looking changes nothing");
}

#[test]
fn one_is_forgotten_by_prefix_address_or_host_and_all_without() {
    let site = Site::new();
    for (place, left) in [
        ("198.51.100.0/24", 2),
        ("198.51.100.9", 2),
        ("198.0.0.0/8", 2),
        ("203.0.113.128/25", 3),
        ("2001:db8:7:1::9", 3),
        ("::/0", 3),
        ("0.0.0.0/0", 1),
        ("192.0.2.0/24", 4),
        ("localhost", 4),
    ] {
        remember(&site);
        let forgotten = object(&site, &["--clear", place])["forgotten"].as_array().unwrap().len();
        assert_eq!((forgotten, known(&site).len()), (4 - left, left), "{place}");
    }
    remember(&site);
    let ended = doctor(&site, &["--clear", "203.0.113.1"]).expect_code(0);
    assert!(ended.text.starts_with("1 path forgotten") && ended.text.contains("203.0.113.0/24 from "), "{ended}");
    assert!(!known(&site).iter().any(|path| path.starts_with("203.0.113.0/24")));
    assert_eq!(object(&site, &["--clear"])["forgotten"].as_array().unwrap().len(), 3);
    assert!(doctor(&site, &[]).expect_code(0).text.starts_with("no path is known"));
}

#[test]
fn without_a_file_there_is_nothing_and_none_is_made() {
    let site = Site::new();
    assert_eq!(known(&site), Vec::<String>::new());
    assert_eq!(object(&site, &["--clear"])["forgotten"], json!([]));
    assert!(!site.path("state").exists());
    // Without the variable it is below the home.
    let ended = site.icdc(&["doctor", "--paths", "--json"]).run().expect_code(0);
    assert_eq!(ended.events[0]["file"], site.path("home/.local/state/icdc/paths.json").to_str().unwrap());
    let homeless = site.icdc(&["doctor", "--paths"]).env_remove("HOME").run().expect_code(1);
    assert!(homeless.stderr.contains("XDG_STATE_HOME"), "{homeless}");
}

#[test]
fn a_broken_file_is_named_and_made_anew() {
    let site = Site::new();
    remember(&site);
    for garbage in [&b""[..], b"[]", b"{\"paths\": 3}", &[0xff; 100]] {
        fs::write(file(&site), garbage).unwrap();
        let ended = doctor(&site, &[]).expect_code(1);
        assert!(ended.stderr.contains("paths.json") && ended.stderr.contains("--clear"), "{ended}");
        assert_eq!(object(&site, &["--clear"])["forgotten"], json!([]));
        assert_eq!(known(&site), Vec::<String>::new());
    }
}

#[test]
fn what_makes_no_sense_is_an_error_of_usage() {
    let site = Site::new();
    for words in [&["far"][..], &["--apply"], &["--clear", "1.2.3.4/33"], &["--clear", "far/8"], &["--clear", ""]] {
        let ended = doctor(&site, words).expect_code(2);
        assert!(ended.stderr.starts_with("icdc: "), "{words:?}: {ended}");
    }
    assert_eq!(site.icdc(&["doctor", "--clear"]).run().code, Some(2));
    let unknown = doctor(&site, &["--clear", "no-such-host.invalid"]).expect_code(1);
    assert!(unknown.stderr.contains("no-such-host.invalid"), "{unknown}");
}
