//! Judges facts and makes findings: pure functions, one file per subject.

mod buffers;
mod device;
mod finding;
mod host;
mod judge;
mod path;
mod tcp;

pub use finding::{Finding, Group, Severity};
pub use judge::judge;
