//! Waiting for a calm machine, and repetition where it was not calm.
//!
//! | what | file |
//! |---|---|
//! | a calm machine | `calm.rs` |
//! | measuring again | `attempts.rs` |
//! | time resolution, and the lateness that it tolerates | `resolution.rs` |

pub(crate) mod attempts;
pub(crate) mod calm;
pub(crate) mod resolution;
