//! `icdc config` itself, `icdc completions`, `icdc --version`.

use std::process::Command;

use serde_json::Value;

use crate::places::Configured;
use crate::support::{ICDC, Start, has_program, skip, succeed};

#[test]
fn every_value_is_told_with_its_source() {
    let configured = Configured::new();
    configured.write("rate = '1gbit'\n[host.\"dtn*\"]\nvia = 'back'\nidentity = '/nonexistent/a'\n", "cc = 'reno'\n");
    let text = succeed(configured.icdc(&["config", "--explain", "me@dtn1"]).env("ICDC_RING", "64MiB"));
    let line = |key: &str| {
        let line = text.lines().find(|line| line.split_whitespace().next() == Some(key));
        line.unwrap_or_else(|| panic!("{key} is missing in {text}")).split_whitespace().collect::<Vec<_>>().join(" ")
    };
    let (user, system) = (configured.user_file(), configured.system_file());
    assert_eq!(line("rate"), format!("rate 1gbit {}:1", user.display()));
    assert_eq!(line("via"), format!("via back {}:3 [host.\"dtn*\"]", user.display()));
    assert_eq!(line("cc"), format!("cc reno {}:1", system.display()));
    assert_eq!(line("ring"), "ring 64MiB ICDC_RING");
    assert_eq!(line("ssh"), "ssh ssh built in");
    assert!(line("identity").contains("it is for daemons"), "{text}");
    assert!(text.contains(&format!("# {}: read", user.display())), "{text}");
}

#[test]
fn hosts_that_are_none() {
    let configured = Configured::new();
    for host in ["", "there:/path", "http://there", "-x"] {
        let ended = configured.icdc(&["config", &format!("--explain={host}")]).run().expect_code(2);
        assert!(ended.stderr.contains("--explain") || ended.stderr.contains("value is required"), "{ended}");
    }
    configured.icdc(&["config", "--example", "--json"]).run().expect_code(2);
}

#[test]
fn completions_are_printed_for_each_shell() {
    for (shell, check) in [("bash", "bash"), ("zsh", "zsh"), ("fish", "fish")] {
        let script = succeed(Command::new(ICDC).args(["completions", shell]));
        for word in ["copy", "remote-icdc", "explain", "completions"] {
            assert!(script.contains(word), "{word} is missing for {shell}");
        }
        if !has_program(check) {
            skip(&format!("there is no {check} to read its completions"));
            continue;
        }
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), script).unwrap();
        succeed(Command::new(check).arg("-n").arg(file.path()));
    }
    let ended = Command::new(ICDC).args(["completions", "tcsh"]).run().expect_code(2);
    assert!(ended.stderr.contains("bash, zsh, fish"), "{ended}");
}

#[test]
fn the_version_tells_the_build_and_the_host() {
    let text = succeed(Command::new(ICDC).args(["--version", "--verbose"]));
    assert_eq!(text.lines().next(), Some(format!("icdc {}", env!("CARGO_PKG_VERSION")).as_str()));
    let object: Value = serde_json::from_str(&succeed(Command::new(ICDC).args(["-V", "--json"]))).unwrap();
    let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    assert_eq!(object["host"]["kernel"], kernel.trim());
    assert_eq!(object["host"]["btf"], std::path::Path::new("/sys/kernel/btf/vmlinux").exists());
    assert!(object["target"].as_str().unwrap().starts_with(std::env::consts::ARCH));
    let has = |name: &str| object["features"].as_array().unwrap().iter().any(|feature| feature == name);
    assert_eq!(has("ebpf"), cfg!(feature = "ebpf"));
    // The kernel's own words on the same.
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:")).unwrap();
    let number = u64::from_str_radix(effective.trim(), 16).unwrap().count_ones() as usize;
    assert_eq!(object["host"]["capabilities"].as_array().unwrap().len(), number);
    let available = std::fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control").unwrap();
    let controls = object["host"]["congestion_controls"].as_array().unwrap();
    let is_listed = |name: &str| {
        controls.iter().any(|one| one["name"] == name || format!("icdc_{}", one["name"].as_str().unwrap()) == name)
    };
    assert!(available.split_whitespace().all(is_listed), "{available}: {controls:?}");
    for words in [&["--verbose"][..], &["--json"]] {
        Command::new(ICDC).args(words).run().expect_code(2);
    }
}
