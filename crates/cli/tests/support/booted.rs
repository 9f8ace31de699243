//! A bare Debian of its own that systemd boots, in namespaces: no process, mount, network or cgroup of this
//! machine is in it.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::process::Pid;

use super::process::{descendants, eventually, is_running};
use super::{ICDC, Site, has_program, is_root, skip};

/// Prefix of all names; the process id follows, so that what a killed test left can be told.
const PREFIX: &str = "icdc-test-booted-";

/// Enters a cgroup of its own in each hierarchy, then boots what is read only beneath: what is written stays
/// in memory.
const BOOT: &str = r#"name=$1 root=$2 icdc=$3 && shift 3
for hierarchy; do
    mkdir "$hierarchy/$name" && echo $$ >"$hierarchy/$name/cgroup.procs" || exit
done
exec systemd-nspawn --quiet --directory="$root" --volatile=overlay --bind-ro="$icdc:/usr/local/bin/icdc" \
    --private-network --register=no --keep-unit --machine="$name" --console=pipe --boot
"#;

/// A system that runs. Gone when dropped.
pub struct Booted {
    /// Ends everything with it.
    outermost: Child,
    init: Pid,
    cgroups: Vec<PathBuf>,
}

impl Booted {
    /// With the program under test as `/usr/local/bin/icdc`. `None` where it cannot be, with the reason on
    /// standard error.
    pub fn boot(site: &Site) -> Option<Self> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        if !is_root() {
            skip("booting a system needs root");
            return None;
        }
        if let Some(missing) = ["mmdebstrap", "systemd-nspawn", "nsenter"].into_iter().find(|name| !has_program(name)) {
            skip(&format!("{missing} is not installed"));
            return None;
        }
        let root = match root() {
            Ok(root) => root,
            Err(error) => {
                skip(&format!("a bare Debian cannot be made: {error}"));
                return None;
            }
        };
        let hierarchies = hierarchies();
        sweep(&hierarchies);
        let name = format!("{PREFIX}{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let log = site.path("boot.log");
        let outermost = Command::new("setpriv")
            .args(["--pdeathsig", "KILL", "unshare", "--pid", "--fork", "--kill-child", "--mount-proc"])
            .args(["sh", "-c", BOOT, "sh", &name])
            .args([&root, Path::new(ICDC)])
            .args(&hierarchies)
            .env("SYSTEMD_NSPAWN_UNIFIED_HIERARCHY", "1")
            .stdin(Stdio::null())
            .stdout(fs::File::create(&log).unwrap())
            .stderr(fs::File::options().append(true).open(&log).unwrap())
            .spawn()
            .unwrap();
        let cgroups = hierarchies.iter().map(|hierarchy| hierarchy.join(&name)).collect();
        let mut booted = Self { init: Pid::from_child(&outermost), outermost, cgroups };
        if !booted.wait_until_up() {
            skip(&format!("a system cannot be booted: {}", fs::read_to_string(log).unwrap().trim()));
            return None;
        }
        Some(booted)
    }

    fn wait_until_up(&mut self) -> bool {
        let outermost = Pid::from_child(&self.outermost);
        let found = eventually(|| {
            let init = descendants(outermost).into_iter().find(|pid| is_innermost_init(*pid));
            self.init = init.unwrap_or(self.init);
            init.is_some() || self.has_ended()
        });
        found
            && eventually(|| {
                let state = self.command("systemctl").arg("is-system-running").output().unwrap().stdout;
                matches!(state.trim_ascii(), b"running" | b"degraded") || self.has_ended()
            })
            && !self.has_ended()
    }

    fn has_ended(&mut self) -> bool {
        !matches!(self.outermost.try_wait(), Ok(None))
    }

    /// A command that root runs in it.
    pub fn command(&self, program: &str) -> Command {
        let mut command = Command::new("nsenter");
        command.args(["--target", &self.init.as_raw_nonzero().to_string()]);
        command.args(["--mount", "--uts", "--ipc", "--net", "--pid", "--cgroup", "--root", "--wd", "env", "-i"]);
        command.args(["HOME=/root", "PATH=/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", program]);
        command.stdin(Stdio::null());
        command
    }

    /// What a shell script says that root runs in it; panics if it fails.
    pub fn shell(&self, script: &str) -> String {
        super::succeed(self.command("sh").args(["-e", "-c", script])).trim().to_owned()
    }

    /// Writes a file in it, and makes its directories.
    pub fn write(&self, path: &str, text: &str) {
        let script = r#"mkdir -p "$(dirname "$1")" && cat >"$1""#;
        let mut shell = self.command("sh").args(["-c", script, "sh", path]).stdin(Stdio::piped()).spawn().unwrap();
        shell.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
        assert!(shell.wait().unwrap().success(), "{path}");
    }
}

impl Drop for Booted {
    fn drop(&mut self) {
        let _ = self.outermost.kill();
        let _ = self.outermost.wait();
        eventually(|| !is_running(self.init));
        for cgroup in &self.cgroups {
            // What has been killed is in it for a moment more.
            eventually(|| remove(cgroup));
        }
    }
}

/// The directory that is booted, which is made when it is wanted for the first time.
fn root() -> Result<PathBuf, String> {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scripts/bootable-root.sh");
    let roots = Path::new(env!("CARGO_TARGET_TMPDIR")).with_file_name("roots");
    let output = Command::new("sh").arg(script).arg(roots).output().unwrap();
    if output.status.success() {
        Ok(String::from_utf8_lossy(&output.stdout).trim().into())
    } else {
        Err(String::from_utf8_lossy(&output.stderr).trim().replace('\n', "; "))
    }
}

/// Whether a process is the first one in a namespace within a namespace, and systemd: everything is mounted
/// there then.
fn is_innermost_init(pid: Pid) -> bool {
    let status = fs::read_to_string(format!("/proc/{}/status", pid.as_raw_nonzero())).unwrap_or_default();
    let line = |name| status.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default();
    let ids: Vec<&str> = line("NSpid:").split_whitespace().collect();
    line("Name:").trim() == "systemd" && ids.len() >= 3 && ids.last() == Some(&"1")
}

/// Where systemd may make cgroups: hierarchies of version 2, and the one of version 1 that is its own.
fn hierarchies() -> Vec<PathBuf> {
    let table = fs::read_to_string("/proc/self/mounts").unwrap();
    let mounts = table.lines().map(|line| line.split(' ').collect::<Vec<_>>());
    let has_systemd = |fields: &[&str]| fields[3].split(',').any(|option| option == "name=systemd");
    mounts.filter(|fields| fields[2] == "cgroup2" || has_systemd(fields)).map(|fields| fields[1].into()).collect()
}

/// Removes cgroups of tests that were killed.
fn sweep(hierarchies: &[PathBuf]) {
    for entry in hierarchies.iter().filter_map(|hierarchy| fs::read_dir(hierarchy).ok()).flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let owner = name.strip_prefix(PREFIX).and_then(|rest| rest.split('-').next()?.parse::<u32>().ok());
        if owner.is_some_and(|pid| !Path::new(&format!("/proc/{pid}")).exists()) {
            remove(&entry.path());
        }
    }
}

/// Removes a cgroup with those within; false while processes are there.
fn remove(cgroup: &Path) -> bool {
    for entry in fs::read_dir(cgroup).into_iter().flatten().flatten() {
        if entry.path().is_dir() {
            remove(&entry.path());
        }
    }
    fs::remove_dir(cgroup).is_ok() || !cgroup.exists()
}
