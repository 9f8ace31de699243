//! Which files are read, and which are refused whatever they say.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, chown, symlink};
use std::path::Path;

use crate::places::{Configured, value};
use crate::support::{Ended, Start, is_root, succeed};

/// `icdc config` refuses what is there, and so does a copy, which copies nothing.
fn refused(configured: &Configured, words: &[&str]) {
    let told = |ended: Ended| {
        let ended = ended.expect_code(2);
        assert!(ended.stderr.starts_with("icdc: "), "{ended}");
        for word in words {
            assert!(ended.stderr.contains(word), "{word:?} is missing: {ended}");
        }
    };
    told(configured.icdc(&["config"]).run());
    fs::write(configured.site.path("file"), "data").unwrap();
    told(configured.icdc(&["copy", "file", "copied"]).run());
    assert!(!configured.site.path("copied").exists());
}

fn mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

#[test]
fn the_user_s_file_is_where_others_look_for_theirs() {
    let configured = Configured::new();
    configured.write("rate = '1gbit'\n", "");
    let elsewhere = configured.site.directory("elsewhere/icdc");
    fs::write(elsewhere.join("config.toml"), "rate = '2gbit'\n").unwrap();
    let rate = |name: &str, path: &Path| {
        let variables = [(name, path.to_str().unwrap())];
        value(&configured.explained(&["--explain", "there"], &variables), "host", "rate").0
    };
    let elsewhere = configured.site.path("elsewhere");
    assert_eq!(rate("XDG_CONFIG_HOME", &elsewhere), "2gbit");
    assert_eq!(rate("XDG_CONFIG_HOME", Path::new("relative")), "1gbit");
    assert_eq!(rate("ICDC_CONFIG", &elsewhere.join("icdc/config.toml")), "2gbit");

    let mut command = configured.icdc(&["config", "--json"]);
    command.env_remove("ICDC_SYSTEM_CONFIG").env("ICDC_CONFIG", "");
    let object: serde_json::Value = serde_json::from_str(&succeed(&mut command)).unwrap();
    assert_eq!(object["files"][0]["path"], "/etc/icdc/config.toml");
}

#[test]
fn a_file_that_is_not_there_is_missed_only_where_a_variable_names_it() {
    let configured = Configured::new();
    configured.icdc(&["config"]).run().expect_code(0);
    // ~/.config is a file.
    fs::write(configured.site.path("home/.config"), "").unwrap();
    configured.icdc(&["config"]).run().expect_code(0);
    for name in ["ICDC_CONFIG", "ICDC_SYSTEM_CONFIG"] {
        let ended = configured.icdc(&["config"]).env(name, "/nonexistent/c.toml").run().expect_code(2);
        assert!(ended.stderr.contains("/nonexistent/c.toml"), "{ended}");
    }
}

#[test]
fn a_file_that_others_can_write_to() {
    let configured = Configured::new();
    configured.write("rate = '1gbit'\n", "");
    for bits in [0o620, 0o602, 0o666] {
        mode(&configured.user_file(), bits);
        refused(&configured, &["config.toml", "other users can write to it", "chmod go-w", "ICDC_CONFIG="]);
    }
    mode(&configured.user_file(), 0o644);
    let directory = configured.site.path("home/.config");
    mode(&directory, 0o777);
    refused(&configured, &[directory.to_str().unwrap(), "other users can write to it"]);
    // In a home that nobody else may search, nobody else can.
    mode(&configured.site.path("home"), 0o700);
    configured.icdc(&["config"]).run().expect_code(0);
    mode(&configured.site.path("home"), 0o755);
    mode(&directory, 0o755);
    configured.icdc(&["config"]).run().expect_code(0);
    // A link leads to a file that counts as itself.
    fs::rename(configured.user_file(), configured.site.path("linked.toml")).unwrap();
    symlink(configured.site.path("linked.toml"), configured.user_file()).unwrap();
    configured.icdc(&["config"]).run().expect_code(0);
    mode(&configured.site.path("linked.toml"), 0o666);
    refused(&configured, &["linked.toml", "other users can write to it"]);
}

#[test]
fn a_file_of_somebody_else() {
    let configured = Configured::new();
    configured.write("rate = '1gbit'\n", "");
    if !is_root() {
        return crate::support::skip("giving files away needs root");
    }
    chown(configured.user_file(), Some(12345), None).unwrap();
    refused(&configured, &["config.toml", "belongs to user 12345", "chown 0 "]);
    // sudo without -H leaves root the home of who has called it: everything there is rightly theirs.
    let ended = configured.icdc(&["config"]).env("SUDO_UID", "12345").run().expect_code(2);
    assert!(ended.stderr.contains("sudo -H") && !ended.stderr.contains("chown"), "{ended}");
}

#[test]
fn a_file_that_cannot_be_read() {
    let configured = Configured::new();
    configured.write("rate = '1gbit'\n", "");
    mode(&configured.user_file(), 0o000);
    let mut command = configured.site.unprivileged();
    command.args(["config"]).env("ICDC_CONFIG", configured.user_file()).env("ICDC_SYSTEM_CONFIG", "");
    let ended = command.run().expect_code(2);
    assert!(ended.stderr.contains("cannot be opened: Permission denied"), "{ended}");
}

#[test]
fn something_else_in_place_of_a_file() {
    let configured = Configured::new();
    fs::create_dir_all(configured.user_file()).unwrap();
    refused(&configured, &["config.toml", "not a file but a directory"]);
    fs::remove_dir(configured.user_file()).unwrap();
    // Nobody waits for a writer.
    succeed(std::process::Command::new("mkfifo").arg(configured.user_file()));
    refused(&configured, &["config.toml", "is not a file"]);
    fs::remove_file(configured.user_file()).unwrap();
    symlink("config.toml", configured.user_file()).unwrap();
    refused(&configured, &["config.toml"]);
    let ended = configured.icdc(&["config"]).env("ICDC_CONFIG", "/dev/zero").run().expect_code(2);
    assert!(ended.stderr.contains("/dev/zero is not a file"), "{ended}");
}

#[test]
fn a_huge_file() {
    let configured = Configured::new();
    configured.write("rate = '1gbit'\n", "");
    // A hole of a terabyte: whoever read it all would not come back.
    fs::File::options().write(true).open(configured.user_file()).unwrap().set_len(1 << 40).unwrap();
    refused(&configured, &["config.toml", "longer than 1048576 bytes"]);
    fs::write(configured.user_file(), "[".repeat(1 << 20)).unwrap();
    refused(&configured, &["config.toml:1:"]);
}
