//! Accuracy of pacing: by the wire pacer, by policies for sockets, by a token bucket.
//!
//! | shared by several scenarios | file |
//! |---|---|
//! | one measurement of the wire pacer | `paced.rs` |
//! | classes that always have something to send | `supply.rs` |
//! | how fast and how evenly the frames of one flow came | `spacing.rs` |

pub(crate) mod fifo;
pub(crate) mod fifo_start;
mod paced;
pub(crate) mod pacing_classes;
pub(crate) mod pacing_many;
pub(crate) mod pacing_single;
pub(crate) mod pairs;
pub(crate) mod policy_cost;
mod spacing;
mod supply;
