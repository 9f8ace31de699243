//! Work of a session, for logs.

use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use icdc_disk::tree::printable;
use icdc_tcp::clock;
use icdc_transfer::{Account, Summary};
use icdc_units::Time;
use serde::{Deserialize, Serialize};

/// Longest path in a log, in bytes.
const LOGGED_PATH: usize = 400;

/// Counters of a session's work, for logs: its own count, or the report of its process.
pub struct Work {
    /// Counters of the session's payload.
    pub(crate) account: Account,
    paths: OnceLock<String>,
    summary: OnceLock<String>,
    told: Mutex<Option<Done>>,
}

/// Work of a session so far.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Done {
    /// Number of payload bytes transferred.
    pub bytes: u64,
    /// The paths that the session concerns, escaped and cut to a length for a log; `None` if there
    /// are none.
    pub paths: Option<String>,
    /// Summary of a complete transfer, as JSON; `None` for any other session.
    pub summary: Option<String>,
}

impl Work {
    /// The counters of a session that begins now.
    pub fn begin() -> Self {
        let (paths, summary) = (OnceLock::new(), OnceLock::new());
        Self { account: Account::new(clock::now()), paths, summary, told: Mutex::default() }
    }

    /// Time at which the session began.
    pub fn start(&self) -> Time {
        self.account.start()
    }

    /// Records the paths that the session concerns; only the first call counts.
    pub fn concerns(&self, paths: &[Vec<u8>]) {
        let _ = self.paths.set(short(paths));
    }

    /// Records the summary of a complete transfer.
    pub(crate) fn complete(&self, summary: &Summary) {
        if let Ok(json) = serde_json::to_string(summary) {
            let _ = self.summary.set(json);
        }
    }

    /// Records the work that the session's process reports.
    pub fn tell(&self, done: Done) {
        *self.told() = Some(done);
    }

    /// Payload bytes, paths and summary of the session so far, for logs: by the last report of its
    /// process, else as counted in this one.
    pub fn done(&self) -> Done {
        let own = || Done {
            bytes: self.account.bytes(),
            paths: self.paths.get().cloned(),
            summary: self.summary.get().cloned(),
        };
        let told = self.told().clone();
        told.map_or_else(own, |told| Done { paths: told.paths.or_else(|| self.paths.get().cloned()), ..told })
    }

    fn told(&self) -> MutexGuard<'_, Option<Done>> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The first path, printable and cut to a length, and how many more there are.
fn short(paths: &[Vec<u8>]) -> String {
    let first = paths.first().map_or(&[][..], |path| &path[..path.len().min(LOGGED_PATH)]);
    let cut = if paths.first().is_some_and(|path| path.len() > LOGGED_PATH) { "…" } else { "" };
    let more = if paths.len() > 1 { format!(" and {} more", paths.len() - 1) } else { String::new() };
    format!("{}{cut}{more}", printable(first))
}
