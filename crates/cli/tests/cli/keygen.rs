//! `icdc keygen` in an empty home.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output};

use tempfile::TempDir;

use crate::support::ICDC;

const KEY: &str = "icdc-ed25519 AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";
const OTHER_KEY: &str = "icdc-ed25519 AQECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";

fn home() -> TempDir {
    tempfile::tempdir().unwrap()
}

fn keygen(home: &Path, words: &[&str]) -> Output {
    Command::new(ICDC)
        .arg("keygen")
        .args(words)
        .env("HOME", home)
        .env("USER", "ada")
        .env_remove("XDG_CONFIG_HOME")
        .output()
        .unwrap()
}

fn succeed(home: &Path, words: &[&str]) -> String {
    let output = keygen(home, words);
    assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// Asserts exit code 1 and returns the message.
fn fail(home: &Path, words: &[&str]) -> String {
    let output = keygen(home, words);
    let message = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{words:?}: {message}");
    assert!(message.starts_with("icdc: "), "{message}");
    assert!(output.stdout.is_empty());
    message
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o7777
}

#[test]
fn makes_an_identity_and_says_where_it_goes() {
    let home = home();
    let told = succeed(home.path(), &[]);
    let directory = home.path().join(".config/icdc");
    assert_eq!((mode(&directory), mode(&directory.join("identity"))), (0o700, 0o600));

    let line = fs::read_to_string(directory.join("identity.pub")).unwrap();
    assert_eq!(told.lines().next(), Some(line.trim_end()));
    assert!(line.starts_with("icdc-ed25519 ") && line.contains(" ada"), "{line}");
    for words in ["SHA256:", "authorized_keys", "rights=", "icdc keygen --trust", "identity.pub"] {
        assert!(told.contains(words), "{words:?} is missing in {told}");
    }
    assert!(!told.contains("PRIVATE"), "{told}");
}

#[test]
fn never_overwrites_an_identity() {
    let home = home();
    succeed(home.path(), &[]);
    let directory = home.path().join(".config/icdc");
    let read = || (fs::read(directory.join("identity")).unwrap(), fs::read(directory.join("identity.pub")).unwrap());
    let before = read();
    assert!(fail(home.path(), &[]).contains("not overwritten"));
    assert_eq!(read(), before);

    fs::remove_file(directory.join("identity.pub")).unwrap();
    assert!(fail(home.path(), &[]).contains("not overwritten"));
    assert_eq!(fs::read(directory.join("identity")).unwrap(), before.0);
    assert!(!directory.join("identity.pub").exists());
}

#[test]
fn leaves_no_private_key_without_its_public_one() {
    let home = home();
    let file = home.path().join("key");
    fs::write(home.path().join("key.pub"), "something else").unwrap();
    assert!(fail(home.path(), &["--identity", file.to_str().unwrap()]).contains("key.pub"));
    assert!(!file.exists());
    assert_eq!(fs::read_to_string(home.path().join("key.pub")).unwrap(), "something else");
}

#[test]
fn the_comment_is_the_users() {
    let home = home();
    let file = home.path().join("key");
    let told = succeed(home.path(), &["--identity", file.to_str().unwrap(), "--comment", "transfer node 7"]);
    assert!(told.lines().next().unwrap().ends_with(" transfer node 7"), "{told}");
    assert!(!home.path().join(".config").exists());
}

#[test]
fn two_identities_differ() {
    let (one, other) = (home(), home());
    let key = |home: &TempDir| succeed(home.path(), &[]).split_whitespace().nth(1).map(str::to_owned);
    assert_ne!(key(&one), key(&other));
}

#[test]
fn without_a_home_the_file_must_be_named() {
    let output = Command::new(ICDC).arg("keygen").env_remove("HOME").env_remove("XDG_CONFIG_HOME").output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("--identity FILE"));
}

#[test]
fn remembers_daemons_once_each() {
    let home = home();
    let known_hosts = home.path().join(".config/icdc/known_hosts");
    assert!(succeed(home.path(), &["--trust", "dtn.example.org", KEY]).contains("is remembered"));
    assert!(succeed(home.path(), &["--trust", "DTN.example.org", &format!("{KEY} its comment")]).contains("already"));
    // The words of a key that was not quoted.
    let words: Vec<&str> = KEY.split_whitespace().collect();
    succeed(home.path(), &["--trust", "[2001:db8::1]:4000", words[0], words[1]]);
    let text = fs::read_to_string(&known_hosts).unwrap();
    assert_eq!(text, format!("dtn.example.org {KEY}\n[2001:db8::1]:4000 {KEY}\n"));
    assert_eq!(mode(&known_hosts), 0o600);
}

#[test]
fn another_key_for_a_known_daemon_is_refused() {
    let home = home();
    succeed(home.path(), &["--trust", "dtn.example.org", KEY]);
    let message = fail(home.path(), &["--trust", "dtn.example.org", OTHER_KEY]);
    assert!(message.contains("known_hosts:1"), "{message}");
    // The same host at another port is another daemon.
    succeed(home.path(), &["--trust", "dtn.example.org:7", OTHER_KEY]);
}

#[test]
fn what_is_no_key_is_not_remembered() {
    let home = home();
    for text in ["ssh-ed25519 AAAA", "icdc-ed25519 AAAA", "icdc-ed25519", "AAAA"] {
        assert!(fail(home.path(), &["--trust", "h", text]).contains("icdc-ed25519 BASE64"), "{text}");
    }
    assert!(!home.path().join(".config/icdc/known_hosts").exists());
}

#[test]
fn the_list_can_be_elsewhere() {
    let home = home();
    let file = home.path().join("list");
    succeed(home.path(), &["--trust", "h", "--known-hosts", file.to_str().unwrap(), KEY]);
    assert_eq!(fs::read_to_string(file).unwrap(), format!("h {KEY}\n"));
}
