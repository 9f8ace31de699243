//! `icdc doctor --apply` and `--undo`: what is set, what is noted, what is restored, and who may.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use serde_json::Value;

use crate::support::system::{System, finding};
use crate::support::{Ended, Site, Start, is_root, skip};

const DROP_IN: &str = "/etc/sysctl.d/90-icdc.conf";
const NOTE: &str = "/var/lib/icdc/doctor-undo.json";

fn doctor(site: &Site, system: &System, words: &[&str]) -> Ended {
    site.icdc(&["doctor", "--json", "--system-root"]).arg(system.root()).args(words).run()
}

fn apply(site: &Site, system: &System, rate: &str) -> Value {
    doctor(site, system, &["--apply", "--rate", rate, "--rtt", "300ms"]).expect_code(0).events[0].clone()
}

#[test]
fn what_is_applied_twice_is_restored_once() {
    let site = Site::new();
    let system = System::usual(&site);
    let before = system.files();
    let report = apply(&site, &system, "1gbit");
    for (id, applied) in
        [("socket.rmem_max", true), ("tcp.wmem", true), ("tcp.mtu_probing", true), ("qdisc.default", false)]
    {
        assert_eq!(finding(&report, id)["applied"], applied, "{id}");
    }
    assert_eq!(system.sysctl("net.core.rmem_max"), "112500000");
    assert_eq!(system.sysctl("net.ipv4.tcp_wmem"), "4096 16384 112500000");
    assert_eq!(system.sysctl("net.ipv4.tcp_slow_start_after_idle"), "0");
    // A matter of policy, and a limit that is high enough.
    assert_eq!(system.sysctl("net.core.default_qdisc"), "fq_codel");
    assert_eq!(system.sysctl("net.ipv4.tcp_mem"), "190000 250000 380000");
    let drop_in = fs::read_to_string(system.path(DROP_IN)).unwrap();
    assert!(drop_in.starts_with("# Written by `icdc doctor --apply`; `icdc doctor --undo` "), "{drop_in}");
    assert!(drop_in.contains("\nnet.core.rmem_max = 112500000\n"), "{drop_in}");
    let mode = |path| fs::metadata(system.path(path)).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(NOTE), mode(DROP_IN)), (0o600, 0o644));

    // The same again, and for less: nothing changes. For more: what was before stays what it was.
    let after = system.files();
    for rate in ["1gbit", "100mbit"] {
        let report = apply(&site, &system, rate);
        assert!(report["findings"].as_array().unwrap().iter().all(|finding| finding["applied"] == false), "{report}");
        assert_eq!(system.files(), after);
    }
    apply(&site, &system, "2gbit");
    assert_eq!(system.sysctl("net.core.wmem_max"), "225000000");

    let undone = doctor(&site, &system, &["--undo"]).expect_code(0).events[0].clone();
    assert_eq!((undone["restored"].as_array().unwrap().len(), undone["left"].as_array().unwrap().len()), (7, 0));
    let text = |files: Vec<(std::path::PathBuf, Vec<u8>)>| -> Vec<_> {
        let normal = |bytes| String::from_utf8(bytes).unwrap().split_whitespace().collect::<Vec<_>>().join(" ");
        files.into_iter().map(|(path, bytes)| (path, normal(bytes))).collect()
    };
    assert_eq!(text(system.files()), text(before));
    let again = doctor(&site, &system, &["--undo"]).expect_code(0);
    assert!(again.events[0]["restored"].as_array().unwrap().is_empty());
}

#[test]
fn what_somebody_else_changed_is_left_and_told() {
    let site = Site::new();
    let system = System::usual(&site);
    apply(&site, &system, "1gbit");
    system.write("/proc/sys/net/core/rmem_max", "999");
    let words = ["doctor", "--undo", "--system-root", system.root().to_str().unwrap()];
    let ended = site.icdc(&words).run().expect_code(0);
    assert!(ended.text.contains("net.core.rmem_max stays 999"), "{ended}");
    assert!(ended.text.contains("net.core.wmem_max is 212992 again"), "{ended}");
    assert_eq!(
        (system.sysctl("net.core.rmem_max"), system.sysctl("net.core.wmem_max")),
        ("999".into(), "212992".into())
    );
}

#[test]
fn files_of_others_stop_it() {
    for (path, text) in [(DROP_IN, "net.core.rmem_max = 1"), (NOTE, "{}"), (NOTE, "\u{1}")] {
        let site = Site::new();
        let system = System::usual(&site);
        system.write(path, text);
        let before = system.files();
        for words in [&["--apply"][..], &["--undo"]] {
            let ended = doctor(&site, &system, words).expect_code(1);
            assert!(ended.stderr.contains("move it away"), "{ended}");
            assert_eq!(ended.stderr.lines().count(), 1, "{ended}");
            assert_eq!(system.files(), before);
        }
    }
}

#[test]
fn what_the_kernel_refuses_is_told_and_the_rest_is_applied() {
    let site = Site::new();
    let system = System::usual(&site);
    let idle = system.path("/proc/sys/net/ipv4/tcp_slow_start_after_idle");
    fs::remove_file(&idle).unwrap();
    // A number that nobody may write, root included.
    std::os::unix::fs::symlink("/proc/sys/kernel/random/entropy_avail", &idle).unwrap();
    let ended = doctor(&site, &system, &["--apply"]).expect_code(1);
    assert!(ended.stderr.contains("tcp_slow_start_after_idle"), "{ended}");
    assert_eq!(finding(&ended.events[0], "tcp.slow_start_after_idle")["applied"], false);
    assert_eq!(finding(&ended.events[0], "socket.rmem_max")["applied"], true);
    assert!(!fs::read_to_string(system.path(DROP_IN)).unwrap().contains("slow_start"));
}

#[test]
fn without_privilege_one_line_names_the_command() {
    if !is_root() {
        return skip("becoming another user needs root");
    }
    let site = Site::new();
    let system = System::usual(&site);
    let before = system.files();
    for words in [&["--apply", "--rate", "2gbit"][..], &["--undo"]] {
        let mut command = site.unprivileged();
        command.args(["doctor", "--system-root"]).arg(system.root()).args(words);
        let ended = command.run().expect_code(1);
        assert_eq!((ended.text.as_str(), ended.stderr.lines().count()), ("", 1), "{ended}");
        assert!(ended.stderr.contains("sudo icdc doctor --system-root") && ended.stderr.contains(words[0]), "{ended}");
        assert_eq!(system.files(), before);
    }
    // Looking is for everybody.
    let ended = site.unprivileged().args(["doctor", "--json"]).run().expect_code(0);
    assert!(finding(&ended.events[0], "tcp.ebpf")["found"].as_str().unwrap().contains("CAP_BPF"), "{ended}");
}
