//! Far ends over real sockets and processes: started by "ssh" (a shell that runs the command here),
//! as daemons, and one driving a transfer to another.

#![allow(clippy::unwrap_used, reason = "a test that fails says where")]

mod between;
mod daemon;
mod ssh;

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex};

use icdc_client::{CopyError, CopyOptions, Location};
use icdc_stop::StopSignal;
use icdc_transfer::{Event, EventSink, Summary};

/// Stands for ssh: runs the command here, whatever the host.
const HERE: &str = r#"sh -c 'shift; eval "$1"' sh"#;
const HOST: &str = "127.0.0.1";

/// This test program is the far end as well: the `icdc` of a [`Scene`] runs it with this variable.
const FAR_END: &str = "ICDC_TEST_FAR_END";

/// Only for processes that a [`Scene`]'s `icdc` starts. The test harness greets on standard output
/// first, as a shell's start-up file may.
#[test]
fn far_end_process() {
    if std::env::var_os(FAR_END).is_some() {
        icdc_daemon::far_end(None).unwrap();
    }
}

/// And what a daemon runs for each session.
const SESSION: &str = "ICDC_TEST_SESSION";

/// Only for the processes that a daemon starts.
#[test]
fn session_process() {
    if std::env::var_os(SESSION).is_some() {
        icdc_session_process::session_process().unwrap();
    }
}

fn session_program() -> Vec<OsString> {
    let exe = std::env::current_exe().unwrap();
    let run = format!("{SESSION}=1 exec '{}' --exact session_process --nocapture", exe.display());
    ["sh", "-c", &run].map(OsString::from).to_vec()
}

/// A directory with an `icdc`, keys, and room for files.
struct Scene {
    directory: tempfile::TempDir,
}

impl Scene {
    fn new() -> Self {
        let scene = Self { directory: tempfile::tempdir().unwrap() };
        let exe = std::env::current_exe().unwrap();
        scene.program(
            "icdc",
            &format!(
                "test \"$1\" = far-end || exit 2\necho $$ >>'{}'\n{FAR_END}=1 exec '{}' --exact far_end_process --nocapture",
                scene.path("pids").display(),
                exe.display()
            ),
        );
        scene
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Writes a shell script and answers its path.
    fn program(&self, name: &str, body: &str) -> String {
        let path = self.path(name);
        // By a process of its own: while it is open for writing here, a child forked meanwhile
        // would keep it from being executed (ETXTBSY).
        let script = format!("#!/bin/sh\n{body}\n");
        let written = Command::new("sh")
            .args(["-c", r#"printf %s "$1" >"$0" && chmod 755 "$0""#])
            .args([path.as_os_str(), script.as_ref()])
            .status();
        assert!(written.unwrap().success());
        path.to_str().unwrap().to_owned()
    }

    /// Process ids of the far ends that were started, in order.
    fn pids(&self) -> Vec<String> {
        let text = std::fs::read_to_string(self.path("pids")).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    fn options(&self) -> CopyOptions {
        let mut options = CopyOptions::new(self.path("identity"), self.path("known_hosts"));
        options.ssh = HERE.to_owned();
        options.remote_icdc = self.path("icdc").to_str().unwrap().to_owned();
        options
    }

    /// A tree of small and large files.
    fn tree(&self, name: &str) -> PathBuf {
        let root = self.path(name);
        std::fs::create_dir_all(root.join("sub/empty")).unwrap();
        for number in 0..20 {
            std::fs::write(root.join(format!("sub/{number}")), vec![number; 1000 * usize::from(number)]).unwrap();
        }
        let large: Vec<u8> =
            (0..9_000_000_u32).map(|number| (number.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
        std::fs::write(root.join("large"), large).unwrap();
        root
    }
}

fn by_ssh(path: &Path) -> Location {
    Location::Ssh { host: HOST.to_owned(), path: path.as_os_str().as_bytes().to_vec() }
}

fn local(path: &Path) -> Location {
    Location::Local(path.to_owned())
}

/// Copies, and answers the events as well.
fn copy(from: &Location, to: &Location, options: &CopyOptions) -> (Result<Summary, CopyError>, Vec<Event>) {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let events: EventSink = {
        let seen = Arc::clone(&seen);
        Arc::new(move |event| seen.lock().unwrap().push(event))
    };
    let result = icdc_client::copy(std::slice::from_ref(from), to, options, &events, &StopSignal::new());
    let seen = std::mem::take(&mut *seen.lock().unwrap());
    (result, seen)
}

fn silent() -> EventSink {
    Arc::new(|_| {})
}

fn assert_same(one: &Path, other: &Path) {
    let output = Command::new("diff").arg("-r").arg(one).arg(other).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
}

/// Waits for `what` to come about.
fn eventually(mut what: impl FnMut() -> bool) -> bool {
    let pause = StopSignal::new();
    (0..200).any(|_| what() || pause.wait(icdc_units::Span::from_millis(50)) || what())
}
