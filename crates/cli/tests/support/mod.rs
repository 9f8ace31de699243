//! What the end-to-end tests stand on. Every test drives the real binary in a [`Site`] of its own.
//!
//! ```no_run
//! let site = Site::new();
//! let source = data::tree(&site.path("source"), 7, &Shape::default());
//! let run = site.copy(&["--ssh", &site.ssh()]).arg(&source).arg(site.by_ssh("in/")).start();
//! run.wait_for(|event| bytes_done(event) > 0);
//! run.signal(Signal::INT);
//! let ended = run.finish();
//! assert_eq!(ended.code, Some(4), "{ended}");
//! ```
//!
//! | module | what it has |
//! |---|---|
//! | [`booted`] | a system of its own that systemd boots |
//! | [`data`] | seeded noise, files and trees made of it |
//! | [`calm`] | measuring on a machine that others use, too |
//! | [`compare`] | trees compared with modes, times and links; leftovers found |
//! | [`process`] | a running `icdc`: its events, its far end, signals, how it ended |
//! | [`network`] | two network namespaces as two hosts, links that go down |
//! | [`refusals`] | system calls that fail as on a broken disk |
//! | [`mounts`] | small file systems |
//! | [`lab`] | an emulated path of its own, sockets on its hosts |
//! | [`algorithms`] | our congestion control in the kernel, one test at a time |
//! | [`cgroup`] | cgroups, and sockets that belong to them |
//! | [`daemon`] | an `icdc serve` with keys on both sides |
//! | [`relay`] | a running `icdc relay`, and ends to talk through it |
//! | [`http`] | as much of HTTP as asking servers on loopback takes |
//! | [`terminal`] | a command at a terminal of its own |
//! | [`system`] | a tree of files that looks like a system |
//! | [`routes`] | one copy local, by ssh and by daemon, in both directions |
//!
//! All of it cleans up when dropped, also after a panic, and may run any number of times at once.

#![allow(unreachable_pub, reason = "a test program is its own crate")]
#![allow(dead_code, reason = "each test program uses a part")]
#![allow(unused_imports, reason = "each test program uses a part")]
#![allow(clippy::unwrap_used, reason = "a test may panic")]
#![allow(clippy::disallowed_methods, reason = "real processes need real time")]

pub mod algorithms;
pub mod booted;
pub mod calm;
pub mod cgroup;
pub mod compare;
pub mod daemon;
pub mod data;
pub mod http;
pub mod lab;
pub mod mounts;
pub mod network;
pub mod process;
pub mod refusals;
pub mod relay;
pub mod routes;
pub mod system;
pub mod terminal;

use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use tempfile::TempDir;

pub use compare::{assert_no_leftovers, assert_same, leftovers};
pub use data::{Noise, Shape};
pub use process::{Ended, Run, Signal, Start, bytes_done};
pub use routes::{Route, RoutedSite};

/// The program under test.
pub const ICDC: &str = env!("CARGO_BIN_EXE_icdc");

/// The loopback address; `--ssh` wrappers of [`Site::ssh`] stand for this host.
pub const HERE: &str = "127.0.0.1";

pub const KIB: u64 = 1 << 10;
pub const MIB: u64 = 1 << 20;
/// A block. Progress counts what has arrived of the one under way, and a run that ends keeps
/// nothing of it.
pub const BLOCK: u64 = 4 * MIB;

/// A directory of its own for one test, with a home in it. Gone when dropped.
pub struct Site {
    directory: TempDir,
}

impl Site {
    pub fn new() -> Self {
        let directory = tempfile::Builder::new().prefix("icdc-test-").tempdir().unwrap();
        // Some tests run as another user.
        fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o755)).unwrap();
        fs::create_dir(directory.path().join("home")).unwrap();
        Self { directory }
    }

    pub fn root(&self) -> &Path {
        self.directory.path()
    }

    pub fn path(&self, name: impl AsRef<Path>) -> PathBuf {
        self.root().join(name)
    }

    /// `icdc WORDS…` with this site's home and directory, and nothing of the user's configuration.
    pub fn icdc(&self, words: &[&str]) -> Command {
        let mut command = Command::new(ICDC);
        command.args(words);
        self.settle(command)
    }

    /// The program as any user can run it: `icdc` in the site's directory. [`ICDC`] may lie where only its owner may
    /// look.
    pub fn icdc_for_anyone(&self) -> PathBuf {
        let program = self.path("icdc");
        if !program.exists() {
            // By another process: while this one writes it, what other threads start would keep it open, too.
            succeed(Command::new("cp").arg(ICDC).arg(&program));
        }
        program
    }

    /// `icdc` without privileges: as nobody, where the tests run as root.
    pub fn unprivileged(&self) -> Command {
        const NOBODY: u32 = 65534;
        let mut command = Command::new(self.icdc_for_anyone());
        if is_root() {
            command.uid(NOBODY).gid(NOBODY);
        }
        self.settle(command)
    }

    /// `icdc copy --json --remote-icdc ICDC WORDS…`
    pub fn copy(&self, words: &[&str]) -> Command {
        let mut command = self.icdc(&["copy", "--json", "--remote-icdc", ICDC]);
        command.args(words);
        command
    }

    /// Gives a command this site's surroundings.
    pub fn settle(&self, mut command: Command) -> Command {
        command
            .current_dir(self.root())
            .env("HOME", self.path("home"))
            .env_remove("XDG_CONFIG_HOME")
            .env_remove("XDG_CACHE_HOME")
            .env_remove("XDG_DATA_HOME")
            .env_remove("XDG_STATE_HOME")
            .env_remove("RUST_LOG")
            // Neither settings of the machine's nor of whoever runs the tests.
            .env("ICDC_CONFIG", "none")
            .stdin(Stdio::null());
        command
    }

    /// A program for `--ssh` that runs the command here, whatever the host. Use it with
    /// [`Site::by_ssh`].
    pub fn ssh(&self) -> String {
        self.program("ssh-here", "shift\nexec sh -c \"$*\"")
    }

    /// A program for `--ssh` that runs the command here, without this terminal, and ends as OpenSSH does by
    /// an interrupt unless that is ignored. Writes a line to the file `logins` for each start, and one for
    /// such an end.
    pub fn ssh_without_terminal(&self) -> String {
        let body = "shift\ncd \"${0%/*}\" && echo start >>logins && exec 3<&0\n\
                    setsid sh -c \"$*\" <&3 3<&- &\nexec <&- 3<&- >&-\n\
                    trap 'echo interrupted >>logins; kill $!; exit 255' INT HUP\nwait $!";
        self.program("ssh-here", body)
    }

    /// A program for `--ssh` that runs the command in the network namespace of `host`.
    pub fn ssh_to(&self, host: &network::Host) -> String {
        let body = format!("shift\nexec ip netns exec {} sh -c \"$*\"", host.name());
        self.program(&format!("ssh-{}", host.name()), &body)
    }

    /// A path of this site as seen by ssh on this host: `127.0.0.1:/…`.
    pub fn by_ssh(&self, name: impl AsRef<Path>) -> OsString {
        self.on_host(HERE, name)
    }

    /// A path of this site as seen by ssh on `host`.
    pub fn on_host(&self, host: &str, name: impl AsRef<Path>) -> OsString {
        let mut text = OsString::from(host);
        text.push(":");
        text.push(self.path(name));
        text
    }

    /// Writes a shell script and answers its path.
    pub fn program(&self, name: &str, body: &str) -> String {
        let path = self.path(name);
        // By a process of its own: while it is open for writing here, a child forked meanwhile
        // would keep it from being executed (ETXTBSY).
        let script = format!("#!/bin/sh\n{body}\n");
        let written = std::process::Command::new("sh")
            .args(["-c", r#"printf %s "$1" >"$0" && chmod 755 "$0""#])
            .args([path.as_os_str(), script.as_ref()])
            .status();
        assert!(written.unwrap().success());
        path.to_str().unwrap().to_owned()
    }

    /// Makes a directory and answers its path.
    pub fn directory(&self, name: impl AsRef<Path>) -> PathBuf {
        let path = self.path(name);
        fs::create_dir_all(&path).unwrap();
        path
    }
}

/// Runs a command to its end; panics with what it said if it fails.
pub fn succeed(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {}\n{errors}", output.status);
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Whether this process is root.
pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Whether a program is installed.
pub fn has_program(name: &str) -> bool {
    let found = Command::new("sh").args(["-c", "command -v -- \"$1\"", "sh", name]).output().unwrap();
    found.status.success()
}

/// Lets any user write to a directory.
pub fn open_to_all(directory: &Path) {
    fs::set_permissions(directory, fs::Permissions::from_mode(0o777)).unwrap();
}

/// Says why a test cannot run here.
pub fn skip(reason: &str) {
    eprintln!("SKIPPED: {reason}");
}
