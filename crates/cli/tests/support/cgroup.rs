//! Cgroups of a test's own, and sockets that belong to them.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::fs::{FlockOperation, flock};
use serde_json::Value;

use super::{ICDC, is_root, skip};

static NUMBER: AtomicU32 = AtomicU32::new(0);

/// A cgroup, gone when dropped, with the policies that it has then. One test at a time has any,
/// also of other test programs: the whole process joins a cgroup while it makes a socket.
pub struct Cgroup {
    path: PathBuf,
    /// Where this process belongs.
    own: PathBuf,
    _lock: Option<File>,
}

impl Cgroup {
    /// `None`, with the reason told, where there cannot be one or no policy.
    pub fn new() -> Option<Self> {
        if !is_root() {
            skip("cgroups and eBPF need root");
            return None;
        }
        let lock = File::create(std::env::temp_dir().join("icdc-test-policies.lock")).unwrap();
        flock(&lock, FlockOperation::LockExclusive).unwrap();
        let Some(root) = hierarchy() else {
            skip("no cgroup v2 hierarchy is mounted");
            return None;
        };
        let list = Command::new(ICDC).args(["pace", "policy", "list"]).output().unwrap();
        if !list.status.success() {
            skip(&format!("no policies: {}", String::from_utf8_lossy(&list.stderr)));
            return None;
        }
        let own = fs::read_to_string("/proc/self/cgroup").unwrap();
        let own = own.lines().find_map(|line| line.strip_prefix("0::/")).unwrap();
        let path = root.join(format!("icdc-test-{}-{}", std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed)));
        if let Err(error) = fs::create_dir(&path) {
            skip(&format!("{}: mkdir: {error}", path.display()));
            return None;
        }
        Some(Self { path, own: root.join(own), _lock: Some(lock) })
    }

    /// One within.
    pub fn inner(&self) -> Self {
        let path = self.path.join("inner");
        fs::create_dir(&path).unwrap();
        Self { path, own: self.own.clone(), _lock: None }
    }

    pub fn path(&self) -> &str {
        self.path.to_str().unwrap()
    }

    /// What `work` makes belongs to the cgroup.
    pub fn within<T>(&self, work: impl FnOnce() -> T) -> T {
        join(&self.path);
        let made = work();
        join(&self.own);
        made
    }

    /// A shell command whose sockets belong to the cgroup.
    pub fn shell(&self, script: &str) -> Command {
        let mut command = Command::new("bash");
        command.args(["-c", &format!("echo $$ >'{}/cgroup.procs' || exit; {script}", self.path())]);
        command
    }

    /// `icdc pace policy COMMAND WORDS… --cgroup THIS`
    pub fn policy(&self, command: &str, words: &[&str]) -> Command {
        let mut icdc = Command::new(ICDC);
        icdc.args(["pace", "policy", command]).args(words).args(["--cgroup", self.path()]).env_remove("RUST_LOG");
        icdc
    }

    /// What is in force here.
    pub fn policies(&self) -> Vec<Value> {
        list().into_iter().filter(|one| one["cgroup"] == self.path()).collect()
    }

    /// Whether there are policies that are none of a test's.
    pub fn has_company(&self) -> bool {
        list().iter().any(|one| one["cgroup"] != self.path())
    }

    /// Where icdc keeps what this cgroup has.
    pub fn pins(&self) -> PathBuf {
        use std::os::unix::fs::MetadataExt;
        Path::new("/sys/fs/bpf/icdc/policy").join(fs::metadata(&self.path).unwrap().ino().to_string())
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        if fs::read_to_string(self.path.join("cgroup.procs")).is_ok_and(|there| !there.is_empty()) {
            join(&self.own);
        }
        if self.path.exists() {
            for one in self.policies() {
                let _ = self.policy("remove", &["--to", one["to"].as_str().unwrap()]).output();
            }
        }
        // A process that has just been killed keeps it for a moment.
        super::process::eventually(|| fs::remove_dir(&self.path).is_ok() || !self.path.exists());
    }
}

/// A control group whose number of tasks is limited, gone when dropped.
pub struct Tasks(PathBuf);

impl Tasks {
    /// `None`, with the reason told, where there cannot be one.
    pub fn new() -> Option<Self> {
        if !is_root() {
            skip("control groups need root");
            return None;
        }
        let table = fs::read_to_string("/proc/self/mounts").unwrap();
        let mut mounts = table.lines().map(|line| line.split(' ').collect::<Vec<_>>());
        let counts = |fields: &Vec<&str>| {
            let controllers = fs::read_to_string(Path::new(fields[1]).join("cgroup.subtree_control"));
            fields[2] == "cgroup" && fields[3].split(',').any(|option| option == "pids")
                || fields[2] == "cgroup2"
                    && controllers.is_ok_and(|all| all.split_whitespace().any(|one| one == "pids"))
        };
        let Some(root) = mounts.find(counts).map(|fields| PathBuf::from(fields[1])) else {
            skip("no control groups that count tasks");
            return None;
        };
        let name = format!("icdc-test-tasks-{}-{}", std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed));
        let group = Self(root.join(name));
        match fs::create_dir(&group.0) {
            Ok(()) => Some(group),
            Err(error) => {
                skip(&format!("{}: mkdir: {error}", group.0.display()));
                None
            }
        }
    }

    /// So many tasks at a time from now on, or `max`.
    pub fn limit(&self, most: &str) {
        fs::write(self.0.join("pids.max"), most).unwrap();
    }

    /// A shell command whose processes belong to the group.
    pub fn shell(&self, script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", &format!("echo $$ >'{}/cgroup.procs' || exit; {script}", self.0.display())]);
        command
    }

    /// Takes a process in, with its threads.
    pub fn take(&self, process: u32) {
        fs::write(self.0.join("cgroup.procs"), process.to_string()).unwrap();
    }

    /// Tasks that it has.
    pub fn count(&self) -> u32 {
        fs::read_to_string(self.0.join("pids.current")).unwrap().trim().parse().unwrap()
    }
}

impl Drop for Tasks {
    fn drop(&mut self) {
        // A process that has just been killed keeps it for a moment.
        super::process::eventually(|| fs::remove_dir(&self.0).is_ok() || !self.0.exists());
    }
}

fn list() -> Vec<Value> {
    let output = Command::new(ICDC).args(["pace", "policy", "list", "--json"]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

fn join(cgroup: &Path) {
    fs::write(cgroup.join("cgroup.procs"), std::process::id().to_string()).unwrap();
}

fn hierarchy() -> Option<PathBuf> {
    let table = fs::read_to_string("/proc/self/mounts").unwrap();
    let mut mounts = table.lines().map(|line| line.split(' ').collect::<Vec<_>>());
    mounts.find(|fields| fields[2] == "cgroup2").map(|fields| fields[1].into())
}
