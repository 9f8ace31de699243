//! What a session did, for the log.

use std::sync::OnceLock;

use icdc_disk::tree::printable;
use icdc_tcp::clock;
use icdc_transfer::Account;

/// So many bytes of a path stand in the log.
const LOGGED_PATH: usize = 400;

/// What a session did, for the log.
pub(crate) struct Work {
    pub(crate) account: Account,
    paths: OnceLock<String>,
}

impl Work {
    pub(crate) fn new() -> Self {
        Self { account: Account::new(clock::now()), paths: OnceLock::new() }
    }

    /// Notes the paths that it is about; the first call counts.
    pub(crate) fn concerns(&self, paths: &[Vec<u8>]) {
        let _ = self.paths.set(short(paths));
    }

    /// The paths that it is about, escaped and cut to a length for a log.
    pub(crate) fn paths(&self) -> Option<&str> {
        self.paths.get().map(String::as_str)
    }
}

/// The first path and how many more there are.
fn short(paths: &[Vec<u8>]) -> String {
    let first = paths.first().map_or(&[][..], |path| &path[..path.len().min(LOGGED_PATH)]);
    let cut = if paths.first().is_some_and(|path| path.len() > LOGGED_PATH) { "…" } else { "" };
    let more = if paths.len() > 1 { format!(" and {} more", paths.len() - 1) } else { String::new() };
    format!("{}{cut}{more}", printable(first))
}
