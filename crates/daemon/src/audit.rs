//! The audit log: who did what, from where, and how it ended, as one line of JSON for each event.
//!
//! A line is written at once and by one call, so that it is kept however the daemon ends. Once a
//! second the file is synchronized, in case the host fails. A file that has become too long is
//! rotated. Another daemon may do that as well, one that ends with its last sessions or the next
//! one: a file that was moved away is replaced by the one that is there now.

use std::fmt;
use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use icdc_metrics::ServeMetrics;
use icdc_stop::StopSignal;
use icdc_tcp::clock;
use icdc_units::{ByteCount, Span, Time};
use serde::Serialize;
use serde_json::{Map, Value};

use icdc_session_process::Done;

/// Interval at which the log is synchronized, and tried again if it could not be written.
const SYNC: Span = Span::from_secs(1);
/// Socket of systemd's journal (native journal protocol).
const JOURNAL: &str = "/run/systemd/journal/socket";

/// Configuration of the audit log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditConfig {
    /// Destination of the log.
    pub place: AuditPlace,
    /// Policy while the log cannot be written.
    pub when_full: WhenFull,
}

/// Destination of the audit log: a file, or the system's journal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AuditPlace {
    /// Lines of JSON in a file.
    File {
        /// Path of the file, which is made if it is missing.
        path: PathBuf,
        /// Length at which it is renamed to `PATH.1`.
        longest: ByteCount,
        /// Number of rotated files that are kept.
        kept: u32,
    },
    /// systemd's journal, a field for each member.
    Journal,
}

impl fmt::Display for AuditPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File { path, .. } => path.display().fmt(f),
            Self::Journal => JOURNAL.fmt(f),
        }
    }
}

/// Policy of a daemon while its audit log cannot be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WhenFull {
    /// Refuse new sessions. Running ones continue.
    Refuse,
    /// Continue; the next line has the number of missing ones.
    GoOn,
}

/// A line of the audit log. Members that mean nothing for an event are left out.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Line<'a> {
    pub(crate) event: &'static str,
    /// Id of the transfer, the same for all its sessions, in hexadecimal.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) session: Option<String>,
    /// Comment of the key's line in the authorized keys.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) who: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) key: Option<String>,
    /// Address and port of the client.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) from: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) user: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) job: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) path: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) result: Option<&'a str>,
    /// Word for the result that 0.1.0 deprecates.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) former_result: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) reason: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) seconds: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) bytes: Option<u64>,
    /// Summary of a complete transfer: files, errors, digests.
    #[serde(flatten)]
    pub(crate) outcome: Map<String, Value>,
    /// Number of events of this kind that have no line, because there were too many.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) left_out: Option<u64>,
}

/// Names of the members of a session's summary that are logged.
const OUTCOME: [&str; 6] = ["files", "errors", "skipped", "digest", "sparse_digest", "tree_digest"];

impl Line<'_> {
    /// The logged part of a session's summary, for its last line; empty without a summary.
    pub(crate) fn outcome_of(done: &Done) -> Map<String, Value> {
        let summary = done.summary.as_deref().and_then(|json| serde_json::from_str(json).ok());
        let Some(Value::Object(mut summary)) = summary else { return Map::new() };
        summary.retain(|name, value| OUTCOME.contains(&name.as_str()) && !value.is_null());
        summary
    }
}

/// The audit log of a running daemon.
pub(crate) struct Audit {
    log: Option<Arc<Log>>,
    metrics: Arc<ServeMetrics>,
    when_full: WhenFull,
    over: StopSignal,
    /// Thread that synchronizes the file until the log is over.
    synchronizing: Mutex<Option<JoinHandle<()>>>,
}

/// An open audit log, shared with the thread that synchronizes it.
struct Log {
    started: Time,
    state: Mutex<State>,
}

/// Open destination of the log, and what is not durable yet or could not be written.
struct State {
    sink: Sink,
    /// Whether something has been written that is not durable yet.
    dirty: bool,
    /// Reason for which the log cannot be written, and number of lines missing so far.
    broken: Option<(String, u64)>,
}

impl Audit {
    /// Opens the log; without a configuration there is none, and lines are dropped.
    ///
    /// # Errors
    /// The kernel refuses a system call.
    pub(crate) fn open(config: Option<&AuditConfig>, metrics: Arc<ServeMetrics>) -> io::Result<Self> {
        let over = StopSignal::new();
        let Some(AuditConfig { place, when_full }) = config else {
            return Ok(Self { log: None, metrics, when_full: WhenFull::GoOn, over, synchronizing: Mutex::default() });
        };
        let state = State { sink: Sink::open(place)?, dirty: false, broken: None };
        let log = Arc::new(Log { started: clock::now(), state: Mutex::new(state) });
        let (synced, stop) = (Arc::clone(&log), over.clone());
        let sync = move || {
            while !stop.wait(SYNC) {
                synced.sync();
            }
            synced.sync();
        };
        let thread = std::thread::Builder::new().name("audit".to_owned()).spawn(sync)?;
        Ok(Self { log: Some(log), metrics, when_full: *when_full, over, synchronizing: Mutex::new(Some(thread)) })
    }

    /// Writes a line. An error means that the event must not go on: the log cannot be written, and
    /// the policy is to refuse.
    pub(crate) fn write(&self, line: &Line<'_>) -> Result<(), String> {
        let Some(log) = &self.log else { return Ok(()) };
        match log.write(line) {
            Ok(()) => {
                self.metrics.audit_written();
                Ok(())
            }
            Err(reason) => {
                self.metrics.audit_lost();
                if self.when_full == WhenFull::Refuse { Err(reason) } else { Ok(()) }
            }
        }
    }

    /// Opens the file at its path anew, as a reload of the daemon asks for; if that fails, the old
    /// file is kept.
    pub(crate) fn reopen(&self) {
        if let Some(log) = &self.log
            && let Err(error) = log.lock().sink.reopen()
        {
            tracing::error!("the audit log cannot be reopened, and the old file is kept: {error}");
        }
    }

    /// Ends the log and makes durable what was written. A thread that still waits for a disk when
    /// the process ends would be killed by the service manager, which tells operators so.
    pub(crate) fn close(&self) {
        self.over.request();
        let thread = self.synchronizing.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread {
            let _ = thread.join();
        }
    }
}

impl Drop for Audit {
    fn drop(&mut self) {
        self.close();
    }
}

impl Log {
    /// Writes a line with its time. After a failure the next line that is written has the number of
    /// missing ones. The error is the reason, which is logged only at the first failure.
    fn write(&self, line: &Line<'_>) -> Result<(), String> {
        let mut state = self.lock();
        let missing = state.broken.as_ref().map(|(_, missing)| *missing);
        match state.sink.write(&self.complete(line, missing)) {
            Ok(()) => {
                state.dirty = true;
                if let Some((_, missing)) = state.broken.take() {
                    tracing::warn!(missing, "the audit log is written again");
                }
                Ok(())
            }
            Err(error) => {
                let reason = format!("the daemon cannot write its audit log: {error}");
                if state.broken.is_none() {
                    tracing::error!("{reason}");
                }
                state.broken = Some((reason.clone(), missing.unwrap_or(0) + 1));
                Err(reason)
            }
        }
    }

    /// Adds the time by both clocks to a line: the date may jump.
    fn complete<'a>(&self, line: &'a Line<'a>, missing_before: Option<u64>) -> Dated<'a> {
        let uptime = ((clock::now() - self.started).as_secs_f64() * 1000.0).round() / 1000.0;
        Dated { time: format!("{:.3}", jiff::Timestamp::now()), uptime, line, missing_before }
    }

    /// Makes durable what was written since the last call.
    fn sync(&self) {
        // Not under the lock: a disk may take its time.
        let file = {
            let mut state = self.lock();
            match &state.sink {
                Sink::File { file, .. } if state.dirty => file.try_clone().ok().inspect(|_| state.dirty = false),
                _ => None,
            }
        };
        if let Some(file) = file
            && let Err(error) = file.sync_data()
        {
            tracing::error!("the audit log cannot be synchronized: {error}");
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A line of the audit log with its time.
#[derive(Serialize)]
struct Dated<'a> {
    /// Date and time in UTC, to the millisecond.
    time: String,
    /// Seconds since the daemon started.
    uptime: f64,
    #[serde(flatten)]
    line: &'a Line<'a>,
    /// Number of lines before this one that could not be written.
    #[serde(skip_serializing_if = "Option::is_none")]
    missing_before: Option<u64>,
}

/// Open destination of the log.
enum Sink {
    File { file: File, torn: bool, path: PathBuf, longest: ByteCount, kept: u32 },
    Journal(UnixDatagram),
}

impl Sink {
    fn open(place: &AuditPlace) -> io::Result<Self> {
        match place {
            AuditPlace::File { path, longest, kept } => {
                let file = open(path)?;
                Ok(Self::File { file, torn: false, path: path.clone(), longest: *longest, kept: *kept })
            }
            AuditPlace::Journal => {
                let socket = UnixDatagram::unbound()?;
                socket.connect(JOURNAL)?;
                Ok(Self::Journal(socket))
            }
        }
    }

    /// Appends a line to the file, which is opened anew if it was moved away, and rotated if it
    /// would become too long; or sends the line to the journal.
    fn write(&mut self, line: &Dated<'_>) -> io::Result<()> {
        match self {
            Self::File { file, torn, path, longest, kept } => {
                let mut text = serde_json::to_vec(line)?;
                text.push(b'\n');
                // Where there can be no new one, the old one goes on; a reload tells why.
                if !is_at(file, path)
                    && let Ok(fresh) = open(path)
                {
                    (*file, *torn) = (fresh, false);
                }
                let length = file.metadata()?.len();
                if length > 0 && length + text.len() as u64 > longest.as_u64() {
                    rotate(path, *kept)?;
                    *file = open(path)?;
                }
                if *torn {
                    text.insert(0, b'\n');
                }
                let count = file.write(&text)?;
                // A full disk took a part of it: the next line begins on a line of its own.
                *torn = count < text.len();
                if *torn { Err(io::ErrorKind::StorageFull.into()) } else { Ok(()) }
            }
            Self::Journal(socket) => {
                let entry = journal_entry(&serde_json::to_value(line)?);
                let send = |socket: &UnixDatagram| socket.send(&entry).map(drop);
                // The journal may have been restarted.
                send(socket).or_else(|_| socket.connect(JOURNAL).and_then(|()| send(socket)))
            }
        }
    }

    /// Opens the file at its path anew; does nothing for the journal.
    fn reopen(&mut self) -> io::Result<()> {
        if let Self::File { file, path, .. } = self {
            *file = open(path)?;
        }
        Ok(())
    }
}

/// Opens a log file for appending, made if it is missing; only the daemon's user may write it and
/// only that user and its group may read it.
fn open(path: &Path) -> io::Result<File> {
    let flags = (rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::CLOEXEC).bits() as i32;
    OpenOptions::new().append(true).create(true).mode(0o640).custom_flags(flags).open(path)
}

/// Whether the file is the one that the path names.
fn is_at(file: &File, path: &Path) -> bool {
    let identity = |metadata: io::Result<Metadata>| metadata.map(|metadata| (metadata.dev(), metadata.ino())).ok();
    identity(file.metadata()) == identity(std::fs::symlink_metadata(path))
}

/// Rotates a file: `PATH` becomes `PATH.1`, that becomes `PATH.2`, and the last one is removed.
fn rotate(path: &Path, kept: u32) -> io::Result<()> {
    let numbered = |number: u32| {
        let mut name = path.as_os_str().to_owned();
        name.push(format!(".{number}"));
        PathBuf::from(name)
    };
    if kept == 0 {
        return std::fs::remove_file(path);
    }
    for number in (1..kept).rev() {
        match std::fs::rename(numbered(number), numbered(number + 1)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    std::fs::rename(path, numbered(1))
}

/// Encodes an entry for systemd's journal: `MESSAGE`, and a field `ICDC_…` for each member of the
/// line.
fn journal_entry(line: &Value) -> Vec<u8> {
    let text = |value: &Value| match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    let mut entry = Vec::new();
    let mut field = |name: &str, value: &str| {
        // With its length, so that any value is allowed.
        entry.extend_from_slice(name.as_bytes());
        entry.push(b'\n');
        entry.extend_from_slice(&(value.len() as u64).to_le_bytes());
        entry.extend_from_slice(value.as_bytes());
        entry.push(b'\n');
    };
    field("MESSAGE", &line.to_string());
    field("PRIORITY", "6");
    field("SYSLOG_IDENTIFIER", "icdc");
    for (name, value) in line.as_object().into_iter().flatten() {
        field(&format!("ICDC_{}", name.to_uppercase()), &text(value));
    }
    entry
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(directory: &Path, longest: u64, when_full: WhenFull) -> AuditConfig {
        let path = directory.join("audit.log");
        AuditConfig { place: AuditPlace::File { path, longest: ByteCount::new(longest), kept: 2 }, when_full }
    }

    fn open_log(config: &AuditConfig) -> Audit {
        Audit::open(Some(config), Arc::new(ServeMetrics::new("test"))).unwrap()
    }

    fn lines(path: &Path) -> Vec<Value> {
        let text = std::fs::read_to_string(path).unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    #[test]
    fn lines_are_there_at_once_and_whole() {
        let directory = tempfile::tempdir().unwrap();
        let audit = open_log(&config(directory.path(), 1 << 20, WhenFull::Refuse));
        let who = "a \"name\"\nof two lines";
        for _ in 0..3 {
            audit.write(&Line { event: "session_start", who: Some(who), ..Line::default() }).unwrap();
        }
        let lines = lines(&directory.path().join("audit.log"));
        assert_eq!(lines.len(), 3);
        assert!(lines.iter().all(|line| line["who"] == who && line["event"] == "session_start"));
        assert!(lines[0]["time"].as_str().unwrap().ends_with('Z') && lines[0].get("job").is_none());
    }

    #[test]
    fn a_long_file_is_renamed_and_the_oldest_goes() {
        let directory = tempfile::tempdir().unwrap();
        let audit = open_log(&config(directory.path(), 1000, WhenFull::Refuse));
        for number in 0..40 {
            let reason = number.to_string();
            audit.write(&Line { event: "refused", reason: Some(&reason), ..Line::default() }).unwrap();
        }
        let mut found = Vec::new();
        for name in ["audit.log.2", "audit.log.1", "audit.log"] {
            let path = directory.path().join(name);
            assert!(std::fs::metadata(&path).unwrap().len() <= 1000);
            found.extend(lines(&path).iter().map(|line| line["reason"].as_str().unwrap().parse::<u32>().unwrap()));
        }
        let (first, last) = (found[0], *found.last().unwrap());
        assert!(first > 0 && last == 39 && found == (first..=last).collect::<Vec<_>>(), "{found:?}");
        assert!(!directory.path().join("audit.log.3").exists());
    }

    #[test]
    fn two_daemons_rotate_one_file() {
        let directory = tempfile::tempdir().unwrap();
        let config = config(directory.path(), 1000, WhenFull::Refuse);
        let daemons = [(); 2].map(|()| open_log(&config));
        for number in 0..30 {
            let reason = number.to_string();
            let line = Line { event: "refused", reason: Some(&reason), ..Line::default() };
            // One of them writes less often.
            daemons[usize::from(number % 5 == 0)].write(&line).unwrap();
        }
        let files = ["audit.log.2", "audit.log.1", "audit.log"].map(|name| lines(&directory.path().join(name)));
        let found =
            files.map(|lines| lines.iter().map(|line| line["reason"].as_str().unwrap().parse().unwrap()).collect());
        let all: Vec<u32> = found.iter().flat_map(|lines: &Vec<u32>| lines.clone()).collect();
        assert!(all == (all[0]..30).collect::<Vec<_>>() && found[0].len() == found[1].len(), "{found:?}");
    }

    #[test]
    fn what_cannot_be_written_is_refused_or_counted() {
        for when_full in [WhenFull::Refuse, WhenFull::GoOn] {
            let place = AuditPlace::File { path: "/dev/full".into(), longest: ByteCount::MAX, kept: 2 };
            let audit = open_log(&AuditConfig { place, when_full });
            let written = audit.write(&Line { event: "session_start", ..Line::default() });
            assert_eq!(written.is_err(), when_full == WhenFull::Refuse, "{written:?}");
            // It can be written again.
            let directory = tempfile::tempdir().unwrap();
            let path = directory.path().join("audit.log");
            let place = AuditPlace::File { path: path.clone(), longest: ByteCount::MAX, kept: 2 };
            audit.log.as_ref().unwrap().lock().sink = Sink::open(&place).unwrap();
            audit.write(&Line { event: "session_end", ..Line::default() }).unwrap();
            assert_eq!(lines(&path)[0]["missing_before"], 1);
        }
    }
}
