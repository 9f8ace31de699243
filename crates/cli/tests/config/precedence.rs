//! For every setting, and every two places in which it can be set, the stronger one counts.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::places::{Configured, value};
use crate::support::{ICDC, Start};

/// A setting with two values as files have them and as the command line does.
struct Tried {
    key: &'static str,
    written: [&'static str; 2],
    typed: [&'static str; 2],
    /// A host in whose case it counts.
    target: &'static str,
    /// What else has to be on the command line.
    also: &'static [&'static str],
}

const SSH: &str = "there";
const DAEMON: &str = "icdc://127.0.0.1:1";

#[rustfmt::skip]
const TRIED: &[Tried] = &[
    tried("via", ["'ssh'", "'direct'"], ["ssh", "direct"], SSH, &[]),
    tried("ssh", ["'false a'", "'false b'"], ["false a", "false b"], SSH, &[]),
    tried("remote-icdc", ["'/a'", "'/b'"], ["/a", "/b"], SSH, &[]),
    tried("send-self", ["true", "false"], ["true", "false"], SSH, &[]),
    tried("port", ["5000", "'5000-5010'"], ["5000", "5000-5010"], SSH, &[]),
    tried("bind", ["['lo']", "'127.0.0.1'"], ["lo", "127.0.0.1"], SSH, &[]),
    tried("proxy-login", ["'/nonexistent/a'", "'/nonexistent/b'"], ["/nonexistent/a", "/nonexistent/b"], SSH, &["--via", "socks5://127.0.0.1:1"]),
    tried("family", ["'ipv4'", "'any'"], ["ipv4", "any"], SSH, &[]),
    tried("identity", ["'/nonexistent/a'", "'/nonexistent/b'"], ["/nonexistent/a", "/nonexistent/b"], DAEMON, &[]),
    tried("known-hosts", ["'/nonexistent/a'", "'/nonexistent/b'"], ["/nonexistent/a", "/nonexistent/b"], DAEMON, &[]),
    tried("retry-for", ["'1s'", "'2s'"], ["1s", "2s"], SSH, &[]),
    tried("rate", ["'1gbit'", "'auto'"], ["1gbit", "auto"], SSH, &[]),
    tried("cc", ["'cubic'", "'reno'"], ["cubic", "reno"], SSH, &[]),
    tried("streams", ["4", "'auto'"], ["4", "auto"], SSH, &[]),
    tried("compress", ["'never'", "3"], ["never", "3"], SSH, &[]),
    tried("ring", ["'16MiB'", "'1GiB'"], ["16MiB", "1GiB"], SSH, &[]),
    tried("buffered", ["true", "false"], ["true", "false"], SSH, &[]),
    tried("verify", ["true", "false"], ["true", "false"], SSH, &[]),
    tried("if-running", ["'skip'", "'fail'"], ["skip", "fail"], SSH, &[]),
    tried("one-file-system", ["true", "false"], ["true", "false"], SSH, &[]),
    tried("exclude-caches", ["true", "false"], ["true", "false"], SSH, &[]),
    tried("preserve", ["['mode', 'times']", "'none'"], ["mode,times", "none"], SSH, &[]),
    tried("no-digest-cache", ["true", "false"], ["true", "false"], SSH, &[]),
    tried("numeric-ids", ["true", "false"], ["true", "false"], SSH, &[]),
];

const fn tried(
    key: &'static str,
    written: [&'static str; 2],
    typed: [&'static str; 2],
    target: &'static str,
    also: &'static [&'static str],
) -> Tried {
    Tried { key, written, typed, target, also }
}

/// From the weakest to the strongest.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
enum Place {
    SystemDefault,
    UserDefault,
    SystemHost,
    UserHost,
    Variable,
}
use Place::{SystemDefault, SystemHost, UserDefault, UserHost, Variable};

const PLACES: [Place; 5] = [SystemDefault, UserDefault, SystemHost, UserHost, Variable];

/// Sets a setting in these places; the variable is to be passed on.
fn set(configured: &Configured, tried: &Tried, set: &[(Place, usize)]) -> Option<(String, &'static str)> {
    let (mut user, mut system, mut variable) = (String::new(), String::new(), None);
    for &(place, which) in set {
        let line = format!("{} = {}\n", tried.key, tried.written[which]);
        match place {
            SystemDefault => system = format!("[default]\n{line}{system}"),
            UserDefault => user = format!("{line}{user}"),
            SystemHost => system += &format!("[host.\"*\"]\n{line}"),
            UserHost => user += &format!("[host.\"*\"]\n{line}"),
            Variable => variable = Some((variable_of(tried.key), tried.typed[which])),
        }
    }
    configured.write(&user, &system);
    variable
}

fn variable_of(key: &str) -> String {
    match key {
        "proxy-login" => "ICDC_PROXY_LOGIN_FILE".to_owned(),
        key => format!("ICDC_{}", key.to_uppercase().replace('-', "_")),
    }
}

fn of_place(place: Place, key: &str) -> String {
    match place {
        SystemDefault => "system.toml 2".to_owned(),
        UserDefault => "config.toml 1".to_owned(),
        SystemHost => "system.toml [host.\"*\"]".to_owned(),
        UserHost => "config.toml [host.\"*\"]".to_owned(),
        Variable => format!("variable {}", variable_of(key)),
    }
}

#[test]
fn every_setting_is_tried() {
    let settings = Configured::new().explained(&[], &[]);
    let of_hosts = settings.iter().filter(|one| one["section"] == "host");
    let known: BTreeSet<&str> = of_hosts.map(|one| one["key"].as_str().unwrap()).collect();
    assert_eq!(known, TRIED.iter().map(|tried| tried.key).collect());
}

#[test]
fn of_two_places_the_stronger_one_counts() {
    for tried in TRIED {
        let configured = Configured::new();
        for (index, &weaker) in PLACES.iter().enumerate() {
            for &stronger in &PLACES[index + 1..] {
                for which in [0, 1] {
                    let variable = set(&configured, tried, &[(weaker, which), (stronger, 1 - which)]);
                    let mut variables: Vec<(&str, &str)> =
                        variable.as_ref().map(|(name, value)| (name.as_str(), *value)).into_iter().collect();
                    if tried.key == "proxy-login" {
                        variables.push(("ICDC_VIA", "socks5://127.0.0.1:1"));
                    }
                    let settings = configured.explained(&["--explain", tried.target], &variables);
                    let (value, source) = value(&settings, "host", tried.key);
                    assert_eq!(value, tried.typed[1 - which], "{} {weaker:?} {stronger:?}", tried.key);
                    let expected = of_place(stronger, tried.key);
                    let words: Vec<&str> = expected.split(' ').collect();
                    assert!(words.iter().all(|word| source.contains(word)), "{source}: not of {expected}");
                }
            }
        }
    }
}

/// A copy that cannot connect tells what counted that was not on its command line.
fn told(configured: &Configured, tried: &Tried, typed: &[&str], variable: Option<(String, &str)>) -> String {
    let mut command = configured.icdc(&["copy", "--progress", "never"]);
    command.args(tried.also).args(typed);
    if tried.key != "ssh" {
        command.args(["--ssh", "false"]);
    }
    command.arg(ICDC).arg(if tried.target == SSH { "there:".to_owned() } else { format!("{}/", tried.target) });
    let ended = command.envs(variable).run();
    assert!(matches!(ended.code, Some(2 | 3)), "{ended}");
    let line =
        ended.stderr.lines().find_map(|line| line.strip_prefix("icdc: settings that are not on the command line: "));
    line.unwrap_or_default().to_owned()
}

#[test]
fn an_option_on_the_command_line_is_stronger_than_every_place() {
    for tried in TRIED {
        let configured = Configured::new();
        for place in PLACES {
            // One that is true or false is undone by another option than it is set.
            let is_flag = tried.typed == ["true", "false"];
            for which in if is_flag { 0..2 } else { 0..1 } {
                let variable = set(&configured, tried, &[(place, which)]);
                let counts = told(&configured, tried, &[], variable.clone());
                let expected = format!("{} {} (", tried.key, tried.typed[which]);
                assert!(counts.contains(&expected), "{place:?}: {expected:?} is missing in {counts:?}");

                let other = tried.typed[1 - which];
                let typed = match other {
                    "true" => format!("--{}", tried.key),
                    "false" => format!("--no-{}", tried.key),
                    other => format!("--{}={other}", tried.key),
                };
                let counts = told(&configured, tried, &[&typed], variable);
                assert_eq!(counts, "", "{typed} {place:?}");
            }
        }
    }
}

#[test]
fn of_several_sections_the_most_specific_one_that_has_a_setting_counts() {
    let configured = Configured::new();
    configured.write(
        "[host.\"*\"]\nrate = '1gbit'\ncc = 'reno'\n\
         [host.\"dtn*.example.org\"]\nrate = '2gbit'\n\
         [host.\"dtn?.example.org\"]\nrate = '3gbit'\n\
         [host.\"dtn1.example.org\"]\nrate = '4gbit'\n",
        "[host.\"dtn1.example.org\"]\nrate = '5gbit'\nport = 7000\n[host.\"dtn7*\"]\nport = 7\n",
    );
    for (host, rate, cc, port) in [
        ("dtn1.example.org", "4gbit", "reno", "7000"),
        ("DTN1.Example.Org", "4gbit", "reno", "7000"),
        ("me@dtn1.example.org", "4gbit", "reno", "7000"),
        // Of the two patterns, both with as many characters of their own, the first counts.
        ("dtn2.example.org", "2gbit", "reno", "the system chooses"),
        ("dtn77.example.org", "2gbit", "reno", "7"),
        ("elsewhere", "1gbit", "reno", "the system chooses"),
    ] {
        let settings = configured.explained(&["--explain", host], &[]);
        for (key, expected) in [("rate", rate), ("cc", cc), ("port", port)] {
            assert_eq!(value(&settings, "host", key).0, expected, "{host} {key}");
        }
    }
}

#[test]
fn empty_variables_count_as_not_set_and_none_switches_everything_off() {
    let configured = Configured::new();
    configured.write("rate = '1gbit'\n", "");
    let rate =
        |variables: &[(&str, &str)]| value(&configured.explained(&["--explain", "there"], variables), "host", "rate");
    assert_eq!(rate(&[("ICDC_RATE", "")]).0, "1gbit");
    assert_eq!(rate(&[("ICDC_RATE", "2gbit")]).1, "variable ICDC_RATE");
    assert_eq!(rate(&[("ICDC_RATE", "2gbit"), ("ICDC_CONFIG", "none")]).1, "built_in");
    assert_eq!(rate(&[("ICDC_CONFIG", "")]).1, "built_in");
}

#[test]
fn the_daemon_has_a_section_and_variables_of_its_own() {
    let configured = Configured::new();
    configured.write(
        "identity = '/nonexistent/mine'\n[serve]\nroot = '/srv'\n",
        "[serve]\nroot = '/data'\nidentity = '/nonexistent/its'\n",
    );
    let serve = |key: &str, variables: &[(&str, &str)]| value(&configured.explained(&[], variables), "serve", key);
    assert_eq!(serve("root", &[]).0, "/srv");
    assert_eq!(serve("identity", &[]).0, "/nonexistent/its");
    assert_eq!(serve("identity", &[("ICDC_IDENTITY", "/x"), ("ICDC_SERVE_IDENTITY", "/y")]).0, "/y");
    let ended = configured.icdc(&["serve"]).run();
    assert!(ended.code == Some(1) && ended.stderr.contains("/nonexistent/its"), "{ended}");
    let ended = configured.icdc(&["serve", "--identity", "/nonexistent/typed"]).run();
    assert!(ended.code == Some(1) && ended.stderr.contains("/nonexistent/typed"), "{ended}");
}

#[test]
fn the_audit_log_is_a_file_or_the_journal() {
    let configured = Configured::new();
    for place in ["journal", "/nonexistent/audit.log"] {
        configured.write(&format!("[serve]\naudit = '{place}'\n"), "");
        assert_eq!(value(&configured.explained(&[], &[]), "serve", "audit").0, place);
    }
}

#[test]
fn settings_that_contradict_each_other() {
    let configured = Configured::new();
    let of = |key: &str, text: &str| {
        configured.write(text, "");
        value(&configured.explained(&["--explain", "there"], &[]), "host", key).0
    };
    let stronger = "send-self = true\n[host.there]\nremote-icdc = '/a'\n";
    assert_eq!((of("send-self", stronger), of("remote-icdc", stronger)), ("false".to_owned(), "/a".to_owned()));
    let stronger = "remote-icdc = '/a'\n[host.there]\nsend-self = true\n";
    assert_eq!((of("send-self", stronger), of("remote-icdc", stronger)), ("true".to_owned(), "icdc".to_owned()));

    configured.write("send-self = true\nremote-icdc = '/a'\n", "");
    let ended = configured.icdc(&["config", "--explain", "there"]).run().expect_code(2);
    assert!(ended.stderr.contains("send-self") && ended.stderr.contains("contradict"), "{ended}");
    // What is typed decides, also against a setting that it contradicts.
    let typed = configured.icdc(&["copy", "--ssh", "false", "--remote-icdc", "/b", ICDC, "there:"]).run();
    assert!(typed.code == Some(3) && !typed.stderr.contains("not on the command line"), "{typed}");
    configured.write("family = 'ipv6'\n", "");
    let typed = configured.icdc(&["copy", "--ssh", "false", "-4", "--bind", "127.0.0.1", ICDC, "there:"]).run();
    assert!(typed.code == Some(3) && !typed.stderr.contains("not on the command line"), "{typed}");
}

#[test]
fn values_are_told_as_they_were_written() {
    let configured = Configured::new();
    configured.write("identity = '~/key'\nstreams = 0x10\n", "");
    let settings = configured.explained(&["--explain", "icdc://there"], &[]);
    assert_eq!(value(&settings, "host", "identity").0, configured.site.path("home/key").to_str().unwrap());
    assert_eq!(value(&settings, "host", "streams").0, "16");
    let verify: Vec<&Value> = settings.iter().filter(|one| one["key"] == "verify").collect();
    assert_eq!(verify[0]["option"], "--verify");
}
