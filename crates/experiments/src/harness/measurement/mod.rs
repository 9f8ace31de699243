//! One `icdc measure` in a lab of its own, and its result; several at once.
//!
//! | what | file |
//! |---|---|
//! | one measurement | `trial.rs` |
//! | its result | `measured.rs` |
//! | arrivals of its payload | `arrivals.rs` |
//! | the measured icdc's directory of known paths | `state_directory.rs` |
//! | the congestion control that finds the rate | `rate_control.rs` |
//! | privileges of the measured programs | `rights.rs` |
//! | several measurements at once | `at_once.rs` |
//! | threads that take one item after another | `workers.rs` |

pub(crate) mod arrivals;
pub(crate) mod at_once;
pub(crate) mod measured;
pub(crate) mod rate_control;
pub(crate) mod rights;
pub(crate) mod state_directory;
pub(crate) mod trial;
pub(crate) mod workers;
