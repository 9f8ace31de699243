//! A preflight check of a host that transfers data, and of the path to another one.
//!
//! ```text
//!  /proc, /sys, rtnetlink, ethtool, adjtimex, disk ──► facts ──┐
//!                                                             ├─► findings ──► remedy: sysctl drop-in, and back
//!  short runs over the path (who calls makes them) ──► probe ──┘
//! ```
//!
//! | part | what |
//! |---|---|
//! | [`System`] | where files are: this system, or a tree of files that looks like one |
//! | [`HostFacts`] | what is found, without judgement |
//! | [`Probe`] | which short runs tell what a path is like, and what follows from them; sans-I/O |
//! | [`Aim`] | the rate and round-trip time that the host shall fill |
//! | [`judge`] | facts to [`Finding`]s: pure functions |
//! | [`remedy`] | applies the changes that findings ask for, and takes them back |
//!
//! What cannot be seen (a container, a network namespace, another kernel) is said to be unseen, not
//! guessed.
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
pub use probe::{PathFacts, Probe, RouteFact};
pub use sysctl::Sysctls;
pub use system::{Reading, System};
