//! Measurements wait for a calm machine, and are repeated where it was not calm.
//!
//! | what | file |
//! |---|---|
//! | a calm machine | `calm.rs` |
//! | measuring again | `attempts.rs` |
//! | how finely a measurement is looked at, and what it tolerates | `resolution.rs` |

pub(crate) mod attempts;
pub(crate) mod calm;
pub(crate) mod resolution;
