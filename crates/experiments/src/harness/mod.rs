//! Building blocks of scenarios.
//!
//! | part | where |
//! |---|---|
//! | a scenario, what it is run with, and its errors | `scenario.rs`, `bench.rs`, `error.rs` |
//! | one `icdc measure` in a lab of its own, and its result; several at once | `measurement/` |
//! | labs and hosts for one measurement | `hosts/` |
//! | a calm machine, and measuring again without one | `repetition/` |
//! | shapers of the sender's rate, and cross-traffic | `traffic/` |
//! | programs: starting them, time limits, processor time and memory, paths; files on a disk | `processes/` |
//! | cells of tables, medians and ranges; flows in virtual time | `figures/` |
//! | the check of the emulator itself, a scenario | `emulator/` |

pub(crate) mod bench;
pub(crate) mod emulator;
pub(crate) mod error;
pub(crate) mod figures;
pub(crate) mod hosts;
pub(crate) mod measurement;
pub(crate) mod processes;
pub(crate) mod repetition;
pub(crate) mod scenario;
pub(crate) mod traffic;
