//! Who keeps an algorithm loaded.

use std::path::PathBuf;

/// By whom an algorithm is kept loaded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Holder {
    /// It outlasts processes by a pin that `icdc cc load --pin` made.
    Pinned(PathBuf),
    /// It goes when this process ends.
    Process {
        /// Process id.
        id: u32,
        /// Its command line.
        command: String,
    },
    /// It is there until somebody takes it back; kernels before 6.4 know nothing else.
    Nobody,
    /// Neither a pin of ours nor a process that can be seen: a pin in another place, or something
    /// else of that name.
    Elsewhere,
    /// Only root may ask.
    Hidden,
}

impl std::fmt::Display for Holder {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Pinned(path) => write!(out, "pinned at {}", path.display()),
            Self::Process { id, command } => write!(out, "by process {id} ({command})"),
            Self::Nobody => out.write_str("until it is unloaded"),
            Self::Elsewhere => out.write_str("by something other than icdc, or by a pin in another place"),
            Self::Hidden => out.write_str("by whom only root may ask"),
        }
    }
}
