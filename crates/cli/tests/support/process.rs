//! A running `icdc`: its JSON events as they come, its far end, signals to either, and how it
//! ended.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use icdc_stop::ChildProcess;
use icdc_units::Span;
use rustix::process::{Pid, kill_process};
use serde_json::Value;

pub use rustix::process::Signal;

/// A run that takes longer than this hangs.
const PATIENCE: Duration = Duration::from_secs(180);

/// Starts a command as a [`Run`].
pub trait Start {
    fn start(&mut self) -> Run;

    /// Starts it and waits for its end.
    fn run(&mut self) -> Ended {
        self.start().finish()
    }
}

impl Start for Command {
    fn start(&mut self) -> Run {
        Run::start(self)
    }
}

/// A command as `starter` starts it, which has its words behind its own, its directory and its environment.
pub fn started_by(mut starter: Command, command: &Command) -> Command {
    starter.arg(command.get_program()).args(command.get_args());
    if let Some(directory) = command.get_current_dir() {
        starter.current_dir(directory);
    }
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => starter.env(name, value),
            None => starter.env_remove(name),
        };
    }
    starter
}

/// A running process. Killed when dropped, with everything that it started.
pub struct Run {
    child: ChildProcess,
    output: Arc<Output>,
    readers: Vec<JoinHandle<()>>,
    command: String,
}

/// What a process has written so far.
#[derive(Default)]
struct Output {
    written: Mutex<Written>,
    changed: Condvar,
}

#[derive(Default)]
struct Written {
    events: Vec<Value>,
    /// Lines of standard output that are no JSON.
    text: String,
    stderr: String,
    closed: u8,
}

/// How a process ended, and what it wrote.
#[derive(Debug)]
pub struct Ended {
    /// Exit code; `None` if a signal killed it.
    pub code: Option<i32>,
    pub signal: Option<i32>,
    /// Standard output, where it was JSON.
    pub events: Vec<Value>,
    /// Standard output, where it was not.
    pub text: String,
    pub stderr: String,
    command: String,
}

impl Run {
    pub fn start(command: &mut Command) -> Self {
        let mut child = command
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| panic!("{command:?}: {error}"));
        let output = Arc::new(Output::default());
        let (stdout, stderr) = (child.stdout.take().unwrap(), child.stderr.take().unwrap());
        let (events, errors) = (Arc::clone(&output), Arc::clone(&output));
        let readers = vec![
            std::thread::spawn(move || events.read_events(stdout)),
            std::thread::spawn(move || errors.read_errors(stderr)),
        ];
        Self { child: ChildProcess::new(child), output, readers, command: format!("{command:?}") }
    }

    pub fn pid(&self) -> Pid {
        self.child.pid()
    }

    /// Sends a signal to the process that was started, which must not have been waited for.
    pub fn signal(&self, signal: Signal) {
        kill_process(self.pid(), signal).unwrap();
    }

    /// The far end that this process has started by `--ssh`, if it runs.
    pub fn far_end(&self) -> Option<Pid> {
        descendants(self.pid()).into_iter().find(|pid| {
            let words = fs::read(format!("/proc/{}/cmdline", pid.as_raw_nonzero())).unwrap_or_default();
            let words: Vec<&[u8]> = words.split(|byte| *byte == 0).collect();
            words.len() >= 2 && words[0].ends_with(b"icdc") && words[1] == b"far-end"
        })
    }

    /// The processes of sessions that this daemon has started and that run.
    pub fn sessions(&self) -> Vec<Pid> {
        let is_session = |pid: &Pid| {
            let words = fs::read(format!("/proc/{}/cmdline", pid.as_raw_nonzero())).unwrap_or_default();
            words.split(|byte| *byte == 0).nth(1) == Some(b"session")
        };
        descendants(self.pid()).into_iter().filter(is_session).collect()
    }

    /// Waits for an event that fits, those already seen included. False if the process ended
    /// without one.
    pub fn wait_for(&self, fits: impl Fn(&Value) -> bool) -> bool {
        self.wait_for_more(0, 1, fits)
    }

    /// Waits for `count` events that fit, of those after the first `seen`. False if the process
    /// ended before.
    pub fn wait_for_more(&self, seen: usize, count: usize, fits: impl Fn(&Value) -> bool) -> bool {
        let deadline = Instant::now() + PATIENCE;
        let mut written = self.output.written.lock().unwrap();
        while written.events[seen..].iter().filter(|event| fits(event)).count() < count {
            if written.closed == 2 {
                return false;
            }
            let left = deadline.saturating_duration_since(Instant::now());
            assert!(!left.is_zero(), "{}: no such event\n{}", self.command, written.stderr);
            (written, _) = self.output.changed.wait_timeout(written, left).unwrap();
        }
        true
    }

    /// The events so far.
    pub fn events(&self) -> Vec<Value> {
        self.output.written.lock().unwrap().events.clone()
    }

    /// Waits until so many bytes have arrived, those of an earlier run included. False if the
    /// process ended before.
    pub fn wait_for_bytes(&self, bytes: u64) -> bool {
        self.wait_for(|event| bytes_done(event) >= bytes)
    }

    /// What it has written to standard error so far.
    pub fn stderr(&self) -> String {
        self.output.written.lock().unwrap().stderr.clone()
    }

    /// Waits until standard error contains `words`. False if the process ended without.
    pub fn wait_for_words(&self, words: &str) -> bool {
        let deadline = Instant::now() + PATIENCE;
        let mut written = self.output.written.lock().unwrap();
        while !written.stderr.contains(words) {
            if written.closed == 2 {
                return false;
            }
            let left = deadline.saturating_duration_since(Instant::now());
            assert!(!left.is_zero(), "{}: {words:?} is not said\n{}", self.command, written.stderr);
            (written, _) = self.output.changed.wait_timeout(written, left).unwrap();
        }
        true
    }

    /// Whether it has closed its output, as it does when it ends.
    pub fn has_ended(&self) -> bool {
        self.output.written.lock().unwrap().closed == 2
    }

    /// Waits for `time`, or for the end of the process. True if it still runs.
    pub fn runs_after(&mut self, time: Duration) -> bool {
        let deadline = Instant::now() + time;
        let mut written = self.output.written.lock().unwrap();
        while written.closed < 2 {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return true;
            }
            (written, _) = self.output.changed.wait_timeout(written, left).unwrap();
        }
        false
    }

    /// Kills it by SIGKILL and answers what it had written. What it started is left to notice that
    /// by itself.
    pub fn kill(self) -> Ended {
        // It may have ended already.
        let _ = kill_process(self.pid(), Signal::KILL);
        self.finish()
    }

    /// Kills the far end by SIGKILL, or this one if it is to be or there is no other, and waits for the
    /// end of this one; the process that was the far end.
    pub fn kill_either(self, is_near: bool) -> Option<Pid> {
        let far = self.far_end();
        match far {
            Some(far) if !is_near => {
                // It may have ended meanwhile.
                let _ = kill_process(far, Signal::KILL);
                self.finish();
            }
            _ => drop(self.kill()),
        }
        far
    }

    /// Waits for its end.
    pub fn finish(mut self) -> Ended {
        let status = self.wait();
        for reader in self.readers.drain(..) {
            reader.join().unwrap();
        }
        let written = std::mem::take(&mut *self.output.written.lock().unwrap());
        Ended {
            code: status.code(),
            signal: status.signal(),
            events: written.events,
            text: written.text,
            stderr: written.stderr,
            command: self.command.clone(),
        }
    }

    fn wait(&mut self) -> ExitStatus {
        if let Some(status) = self.child.wait_for(PATIENCE.into()).unwrap() {
            return status;
        }
        let stderr = self.output.written.lock().unwrap().stderr.clone();
        panic!("{}: does not end\n{stderr}", self.command);
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        if matches!(self.child.wait_for(Span::ZERO), Ok(None)) {
            for pid in descendants(self.pid()).into_iter().chain([self.pid()]) {
                let _ = kill_process(pid, Signal::KILL);
            }
            let _ = self.child.wait();
        }
    }
}

impl Output {
    fn read_events(&self, stdout: impl Read) {
        for line in BufReader::new(stdout).lines() {
            let Ok(line) = line else { break };
            let mut written = self.written.lock().unwrap();
            match serde_json::from_str(&line) {
                Ok(event) => written.events.push(event),
                Err(_) => written.text += &(line + "\n"),
            }
            self.changed.notify_all();
        }
        self.close();
    }

    fn read_errors(&self, mut stderr: impl Read) {
        let mut buffer = [0; 4096];
        while let Ok(length @ 1..) = stderr.read(&mut buffer) {
            self.written.lock().unwrap().stderr += &String::from_utf8_lossy(&buffer[..length]);
            self.changed.notify_all();
        }
        self.close();
    }

    fn close(&self) {
        self.written.lock().unwrap().closed += 1;
        self.changed.notify_all();
    }
}

impl Ended {
    /// The last event, which must be the summary.
    pub fn summary(&self) -> &Value {
        let last = self.events.last().unwrap_or_else(|| panic!("no events: {self}"));
        assert_eq!(last["type"], "summary", "{self}");
        last
    }

    /// A number of the summary.
    pub fn number(&self, key: &str) -> u64 {
        self.summary()[key].as_u64().unwrap_or_else(|| panic!("{key} is no number: {self}"))
    }

    /// Bytes of contents that were sent, or that the files which they replaced had.
    pub fn compared_or_sent(&self) -> u64 {
        self.number("bytes_sent") + self.number("unchanged_bytes")
    }

    /// Bytes that it says an earlier run had left.
    pub fn resumed(&self) -> u64 {
        self.number("resumed_bytes")
    }

    /// All events of a type.
    pub fn all<'a>(&'a self, kind: &'a str) -> impl Iterator<Item = &'a Value> {
        self.events.iter().filter(move |event| event["type"] == kind)
    }

    /// Highest `bytes_done` of all progress events: where a run that was killed had come to.
    pub fn bytes_done(&self) -> u64 {
        self.events.iter().map(bytes_done).max().unwrap_or(0)
    }

    /// Paths of failed items and the reasons.
    pub fn failures(&self) -> BTreeMap<String, String> {
        let failed = self.all("item").filter(|event| event["outcome"] == "failed");
        let word = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        failed.map(|event| (word(&event["path"]), word(&event["reason"]))).collect()
    }

    /// Asserts the exit code.
    #[track_caller]
    pub fn expect_code(self, code: i32) -> Self {
        assert_eq!(self.code, Some(code), "{self}");
        self
    }
}

impl fmt::Display for Ended {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(formatter, "{}: code {:?}, signal {:?}", self.command, self.code, self.signal)?;
        let telling = |event: &&Value| event["type"] != "progress" && event["outcome"] != "published";
        for event in self.events.iter().filter(telling).take(40) {
            writeln!(formatter, "  {event}")?;
        }
        write!(formatter, "{}{}", self.text, self.stderr)
    }
}

/// Bytes that have arrived according to a progress event; 0 for any other.
pub fn bytes_done(event: &Value) -> u64 {
    if event["type"] == "progress" { event["bytes_done"].as_u64().unwrap_or(0) } else { 0 }
}

/// All processes below `ancestor`, parents first.
pub fn descendants(ancestor: Pid) -> Vec<Pid> {
    let mut children: BTreeMap<i32, Vec<i32>> = BTreeMap::new();
    for entry in fs::read_dir("/proc").unwrap().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else {
            continue;
        };
        let Ok(stat) = fs::read_to_string(entry.path().join("stat")) else {
            continue;
        };
        // The name in parentheses may contain anything; the state and the parent follow the last
        // one.
        let parent = stat.rsplit_once(") ").and_then(|(_, rest)| rest.split(' ').nth(1)?.parse().ok());
        if let Some(parent) = parent {
            children.entry(parent).or_default().push(pid);
        }
    }
    let mut found = vec![ancestor.as_raw_nonzero().get()];
    let mut next = 0;
    while next < found.len() {
        found.extend(children.remove(&found[next]).unwrap_or_default());
        next += 1;
    }
    found[1..].iter().filter_map(|pid| Pid::from_raw(*pid)).collect()
}

/// Whether a process is there and has not ended: one that nobody has waited for yet has.
pub fn is_running(pid: Pid) -> bool {
    let stat = fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero()));
    stat.is_ok_and(|stat| !stat.contains(") Z"))
}

/// Waits until `what` holds; false if it does not within 60 s.
pub fn eventually(what: impl FnMut() -> bool) -> bool {
    holds_within(Duration::from_secs(60), what)
}

/// Waits until `what` holds; false if it does not in time. It is for a state of which no event tells.
pub fn holds_within(patience: Duration, mut what: impl FnMut() -> bool) -> bool {
    let deadline = Instant::now() + patience;
    loop {
        if what() {
            return true;
        }
        if Instant::now() >= deadline {
            return false;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}
