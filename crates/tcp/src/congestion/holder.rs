//! Holders of loaded algorithms.

use std::path::PathBuf;

/// Who or what keeps an algorithm of icdc loaded in the kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Holder {
    /// A pin that `icdc cc load --pin` made; it outlasts processes.
    Pinned(PathBuf),
    /// A process; the registration ends with it.
    Process {
        /// Process id.
        id: u32,
        /// Command line of the process.
        command: String,
    },
    /// Nothing holds it: it stays until it is unregistered; the only kind on kernels before 6.4.
    Nobody,
    /// Neither a pin of icdc's nor a visible process: a pin in another place, or another object of
    /// that name.
    Elsewhere,
    /// Unknown: only root may see it.
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
