//! One `icdc measure` in a lab of its own, and what came of it; several at once.
//!
//! | what | file |
//! |---|---|
//! | one measurement | `trial.rs` |
//! | what came of it | `measured.rs` |
//! | when its payload arrived | `arrivals.rs` |
//! | where the measured icdc keeps what it knows of paths | `state_directory.rs` |
//! | who finds the rate | `rate_control.rs` |
//! | with which rights | `rights.rs` |
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
