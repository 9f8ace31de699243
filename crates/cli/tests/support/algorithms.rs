//! Our own congestion control in this machine's kernel, where its names are there once only.

use std::fs::File;
use std::process::Command;

use rustix::fs::{FlockOperation, flock};
use serde_json::Value;

use super::{ICDC, is_root, skip};

/// The right to load and unload, which one test at a time has, also of other test programs.
pub struct Kernel {
    _lock: File,
}

impl Kernel {
    /// `None`, with the reason told, where nothing can be loaded.
    pub fn take() -> Option<Self> {
        if !is_root() {
            skip("loading eBPF needs root");
            return None;
        }
        let path = std::env::temp_dir().join("icdc-test-algorithms.lock");
        let lock = File::create(path).unwrap();
        flock(&lock, FlockOperation::LockExclusive).unwrap();
        let kernel = Self { _lock: lock };
        if let Some(one) = kernel.list().into_iter().find(|one| one["state"] == "unavailable") {
            skip(&format!("nothing can be loaded: {}", one["reason"]));
            return None;
        }
        // What a killed test left.
        kernel.clear();
        Some(kernel)
    }

    /// `icdc cc list --json`
    pub fn list(&self) -> Vec<Value> {
        let output = Command::new(ICDC).args(["cc", "list", "--json"]).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice(&output.stdout).unwrap()
    }

    /// What the list says on one algorithm.
    pub fn listed(&self, name: &str) -> Value {
        self.list().into_iter().find(|one| one["name"] == name).unwrap_or_else(|| panic!("{name} is not in the list"))
    }

    pub fn state(&self, name: &str) -> String {
        self.listed(name)["state"].as_str().unwrap().to_owned()
    }

    /// Names of what can be loaded.
    pub fn ours(&self) -> Vec<String> {
        let ours = self.list().into_iter().filter(|one| one["state"] != "built_in");
        ours.map(|one| one["name"].as_str().unwrap().to_owned()).collect()
    }

    /// What is loaded. `icdc` may be another test's: every copy over a path that is long enough
    /// loads it for its time.
    fn loaded(&self) -> Vec<Value> {
        self.list().into_iter().filter(|one| one["state"] == "loaded" && one["name"] != "icdc").collect()
    }

    fn clear(&self) {
        for one in self.loaded() {
            let _ = Command::new(ICDC).args(["cc", "unload", one["name"].as_str().unwrap()]).output();
        }
    }
}

impl Drop for Kernel {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            let left = self.loaded();
            assert!(left.is_empty(), "still loaded: {left:?}");
        }
        self.clear();
    }
}
