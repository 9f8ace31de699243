//! A preflight check of a host that transfers data, and of the path to another one.
//!
//! ```text
//!  /proc, /sys, rtnetlink, ethtool, adjtimex, disk ──► facts ──┐
//!                                                             ├─► findings ──► remedy: sysctl drop-in, undo
//!  short runs over the path (made by the caller)   ──► probe ──┘
//! ```
//!
//! | part | what |
//! |---|---|
//! | [`System`] | root of the files: this system, or a directory tree that looks like one |
//! | [`HostFacts`] | observed values, without judgement |
//! | [`Probe`] | short runs that measure a path, and their evaluation; sans-I/O |
//! | [`Aim`] | the rate and round-trip time that the host is configured for |
//! | [`judge`] | facts to [`Finding`]s: pure functions |
//! | [`remedy`] | applies the changes of findings, and undoes them |
//!
//! What cannot be seen (a container, a network namespace, another kernel) is reported as unknown,
//! not guessed.
//!
//! ```
//! use icdc_doctor::{Aim, HostFacts, Severity, System, judge};
//!
//! let host = HostFacts::gather(&System::running(), None);
//! let aim = Aim::new(None, None, &host, None);
//! for finding in judge(&host, None, aim).iter().filter(|finding| finding.severity > Severity::Note) {
//!     println!("{}: {}", finding.found, finding.fix.join("; "));
//! }
//! ```

mod aim;
pub mod facts;
mod findings;
pub mod probe;
pub mod remedy;
mod sysctl;
mod system;

pub use aim::{Aim, USUAL_RATE, USUAL_ROUND_TRIP};
pub use facts::HostFacts;
pub use findings::{Finding, Group, Severity, judge};
pub use probe::{PathFacts, Probe, RememberedRoute, RouteFact};
pub use sysctl::Sysctls;
pub use system::{Reading, System};
