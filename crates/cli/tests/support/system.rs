//! A tree of files that looks like a system, for `icdc doctor --system-root`.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::Site;

/// Below the directory of a site.
pub struct System {
    root: PathBuf,
}

/// A host as distributions leave it, with one device.
const USUAL: [(&str, &str); 23] = [
    ("/proc/sys/net/core/rmem_max", "212992"),
    ("/proc/sys/net/core/wmem_max", "212992"),
    ("/proc/sys/net/core/default_qdisc", "fq_codel"),
    ("/proc/sys/net/ipv4/tcp_rmem", "4096\t131072\t6291456"),
    ("/proc/sys/net/ipv4/tcp_wmem", "4096\t16384\t4194304"),
    ("/proc/sys/net/ipv4/tcp_mem", "190000\t250000\t380000"),
    ("/proc/sys/net/ipv4/tcp_moderate_rcvbuf", "1"),
    ("/proc/sys/net/ipv4/tcp_window_scaling", "1"),
    ("/proc/sys/net/ipv4/tcp_sack", "1"),
    ("/proc/sys/net/ipv4/tcp_timestamps", "1"),
    ("/proc/sys/net/ipv4/tcp_mtu_probing", "0"),
    ("/proc/sys/net/ipv4/tcp_no_metrics_save", "0"),
    ("/proc/sys/net/ipv4/tcp_slow_start_after_idle", "1"),
    ("/proc/sys/net/ipv4/tcp_congestion_control", "cubic"),
    ("/proc/sys/net/ipv4/tcp_available_congestion_control", "reno cubic"),
    ("/proc/sys/net/ipv4/tcp_allowed_congestion_control", "reno cubic"),
    ("/proc/meminfo", "MemTotal:       16384000 kB"),
    ("/proc/net/route", "wan0\t00000000\t010200C0\t0003\t0\t0\t0\t00000000\t0\t0\t0"),
    ("/sys/class/net/wan0/mtu", "1500"),
    ("/sys/class/net/wan0/speed", "10000"),
    ("/sys/class/net/wan0/queues/rx-0/rps_cpus", "0"),
    ("/sys/devices/system/cpu/online", "0-3"),
    ("/sys/devices/system/clocksource/clocksource0/current_clocksource", "tsc"),
];

impl System {
    pub fn usual(site: &Site) -> Self {
        let system = Self { root: site.path("system") };
        for (path, text) in USUAL {
            system.write(path, text);
        }
        system
    }

    pub fn root(&self) -> &Path {
        &self.root
    }

    pub fn path(&self, path: &str) -> PathBuf {
        self.root.join(path.trim_start_matches('/'))
    }

    pub fn write(&self, path: &str, text: impl AsRef<[u8]>) {
        let path = self.path(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, [text.as_ref(), b"\n"].concat()).unwrap();
    }

    /// A setting, with its numbers between single spaces.
    pub fn sysctl(&self, name: &str) -> String {
        let path = self.path(&format!("/proc/sys/{}", name.replace('.', "/")));
        fs::read_to_string(path).unwrap().split_whitespace().collect::<Vec<_>>().join(" ")
    }

    /// Everything in it, by path.
    pub fn files(&self) -> Vec<(PathBuf, Vec<u8>)> {
        let (mut files, mut directories) = (Vec::new(), vec![self.root.clone()]);
        while let Some(directory) = directories.pop() {
            for entry in fs::read_dir(directory).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() { directories.push(path) } else { files.push((path.clone(), fs::read(path).unwrap())) }
            }
        }
        files.sort();
        files
    }
}

/// The finding of that name.
pub fn finding<'a>(report: &'a Value, id: &str) -> &'a Value {
    let findings = report["findings"].as_array().unwrap();
    findings.iter().find(|finding| finding["id"] == id).unwrap_or_else(|| panic!("no {id} in {report}"))
}
