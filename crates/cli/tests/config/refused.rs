//! Files with mistakes: each is told with its file, line and column, the line itself, and what to
//! write.

use std::fs;

use crate::places::Configured;
use crate::support::Start;

/// `icdc config` refuses this file with `words` for the place `line:column`.
fn refused(text: impl AsRef<[u8]>, place: &str, words: &[&str]) {
    let configured = Configured::new();
    configured.write("#", "");
    fs::write(configured.user_file(), &text).unwrap();
    let ended = configured.icdc(&["config"]).run().expect_code(2);
    let shown = String::from_utf8_lossy(text.as_ref()).into_owned();
    assert!(ended.text.is_empty() && ended.events.is_empty(), "{ended}");
    let place = format!("config.toml:{place}: ");
    let from = ended.stderr.find(&place).unwrap_or_else(|| panic!("{shown:?}: {place:?} is missing: {ended}"));
    let fault: Vec<&str> = ended.stderr[from..].lines().take(3).collect();
    for word in words {
        assert!(fault[0].contains(word), "{shown:?}: {word:?} is missing: {ended}");
    }
    let line: usize = place.split(':').nth(1).unwrap().parse().unwrap();
    assert!(fault[1].trim_start().starts_with(&format!("{line} |")) && fault[2].trim_end().ends_with('^'), "{ended}");
}

#[test]
fn what_is_no_toml() {
    refused("rate = ", "1:8", &[]);
    refused("\n\nrate '1gbit'", "3:6", &["="]);
    refused("rate = '1gbit", "1:14", &["expected"]);
    refused("[host.\"a\"\nrate = '1gbit'", "1:10", &[]);
    refused("rate = '1gbit'\n\trate = '2gbit'", "2:2", &["duplicate key"]);
    refused("[host.\"a\"]\ncc = 'reno'\n[host.\"a\"]\nrate = '1gbit'", "3:7", &["duplicate key"]);
    refused("rate = '1gbit'\n[default]\nrate = '2gbit'", "3:1", &["rate is set twice", "line 1"]);
}

#[test]
fn bytes_that_are_no_text() {
    refused(b"rate = '1gbit'\ncc = '\xff'\n", "2:7", &["UTF-8"]);
    refused(b"rate = '1\0gbit'\n", "1:10", &[]);
    refused("ssh = \"a\\u0000b\"", "1:7", &["control character"]);
    refused("identity = \"/a\\u001bb\"", "1:12", &["control character"]);
    refused(b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0\x03\0>\0\x01\0\0\0", "1:25", &[]);
}

#[test]
fn unknown_names_get_the_nearest_one() {
    refused("ratte = '1gbit'", "1:1", &["unknown key ratte", "did you mean rate?"]);
    refused("remote_icdc = '/a'", "1:1", &["did you mean remote-icdc?"]);
    refused("[host.\"a\"]\nidentitiy = '/a'", "2:1", &["identitiy for hosts", "did you mean identity?"]);
    refused("[hots.\"a\"]\nrate = '1gbit'", "1:2", &["did you mean host?"]);
    refused("[serve]\nlisten = ':7'\nauthorised_keys = '/a'", "3:1", &["in [serve]", "did you mean authorized-keys?"]);
    refused("[serve]\nrate = '1gbit'", "2:1", &["unknown key rate in [serve]"]);
    refused("update = true", "1:1", &["update is no setting: give --update to icdc copy on the command line"]);
    refused("skip-equal = true", "1:1", &["skip-equal is no setting: give --skip-equal to"]);
    refused("dry_run = true", "1:1", &["dry_run is no setting: give --dry-run to"]);
    refused("zzz = 1", "1:1", &["unknown key zzz; there are via, ssh, "]);
}

#[test]
fn values_of_the_wrong_kind_or_none() {
    refused("rate = 900", "1:8", &["rate takes a text, such as \"900mbit\"; this is an integer"]);
    refused("verify = 'yes'", "1:10", &["verify takes true or false", "this is a string"]);
    refused("preserve = [1]", "1:12", &["preserve takes a list of texts", "this is an array"]);
    refused("ssh = 2026-11-26", "1:7", &["ssh takes a text"]);
    refused("streams = 1.5", "1:11", &["streams takes a number or a text", "this is a float"]);
    refused("streams = 65", "1:11", &["from 1 to 64"]);
    refused("streams = 99999999999999999999", "1:11", &["streams takes"]);
    refused("rate = 'fast'", "1:8", &["rate: ", "900mbit"]);
    refused("ring = '1KiB'", "1:8", &["ring: ", "16MiB"]);
    refused("via = 'socks5://anna:secret@h:1'", "1:7", &["proxy-login"]);
    refused("family = 'ipv5'", "1:10", &["family: write one of any, ipv4, ipv6"]);
    refused("port = '5010-5000'", "1:8", &["5000-5010"]);
    refused("identity = 'key'", "1:12", &["absolute path, or one that begins with ~/"]);
    refused("identity = ''", "1:12", &["absolute path"]);
    refused("preserve = ['mode', 'dates']", "1:12", &["xattr"]);
    refused("[serve]\nlisten = 'localhost:1'", "2:10", &["192.0.2.7:2633"]);
    refused("[serve]\naudit = 'journald'", "2:9", &["audit takes journal, an absolute path"]);
    refused("[host.\"never-named\"]\nrate = 'fast'", "2:8", &["rate: "]);
}

#[test]
fn sections_that_are_none() {
    refused("[host]\nrate = '1gbit'", "2:1", &["[host.\"dtn*\"]"]);
    refused("host = 3", "1:8", &["host is a section", "[host.\"PATTERN\"]"]);
    refused("default = 3", "1:11", &["[default]"]);
    refused("[host.dtn.example.org]\nrate = '1gbit'", "1:11", &["in quotes"]);
    refused("[host.\"a[\"]\nrate = '1gbit'", "1:7", &["not a pattern for hosts"]);
    refused("[host.\"{a\"]", "1:7", &["not a pattern for hosts"]);
    refused("[host.\"\"]", "1:7", &["a character at least"]);
    refused("[host.\"me@there\"]", "1:7", &["without user"]);
    refused("[[host]]\nrate = '1gbit'", "1:1", &["host is a section"]);
    refused("[other]\nx = 1", "1:2", &["unknown section other", "[serve]"]);
}

#[test]
fn all_mistakes_are_told_at_once_and_their_number_is_bounded() {
    let configured = Configured::new();
    configured.write("rate = 1\ncc = 2\n[host.a]\nring = 3\n", "");
    let ended = configured.icdc(&["config"]).run().expect_code(2);
    for place in ["config.toml:1:8", "config.toml:2:6", "config.toml:4:8"] {
        assert!(ended.stderr.contains(place), "{ended}");
    }
    let many: String = (0..5000).map(|number| format!("[host.h{number}]\nrate = {number}\n")).collect();
    configured.write(&many, "");
    let ended = configured.icdc(&["config"]).run().expect_code(2);
    assert!(ended.stderr.lines().count() < 100 && ended.stderr.contains("and 4980 more"), "{ended}");
}

#[test]
fn what_a_file_holds_cannot_steer_the_terminal() {
    let configured = Configured::new();
    configured.write("\"\u{1b}[31m\u{202e}\" = 1\n\"a\\u001b[2J\" = 2\n[host.\"\\u001b[\"]\n", "");
    let ended = configured.icdc(&["config"]).run().expect_code(2);
    assert!(!ended.stderr.contains(['\u{1b}', '\u{202e}']), "{ended}");
}

#[test]
fn variables_with_mistakes_are_named() {
    let configured = Configured::new();
    for (name, text, words) in [
        ("ICDC_RATE", "fast", "ICDC_RATE: fast: "),
        ("ICDC_STREAMS", "65", "from 1 to 64"),
        ("ICDC_VERIFY", "maybe", "ICDC_VERIFY: maybe"),
        ("ICDC_FAMILY", "ipv5", "write one of any, ipv4, ipv6"),
    ] {
        for words_of in [&["config"][..], &["copy", "/dev/null", "there:"]] {
            let ended = configured.icdc(words_of).env(name, text).run().expect_code(2);
            assert!(ended.stderr.starts_with("icdc: ") && ended.stderr.contains(words), "{ended}");
        }
    }
    // One that does not count is not looked at.
    let mut copy = configured.icdc(&["copy", "--ssh", "false", "--rate", "1gbit", "/dev/null", "there:"]);
    copy.env("ICDC_RATE", "fast").run().expect_code(3);
}
