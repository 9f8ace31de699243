//! Programs that scenarios start: time limits, background processes, processor time and memory,
//! paths; files for them.
//!
//! | what | file |
//! |---|---|
//! | with a time limit | `bounded.rs` |
//! | in the background | `server.rs` |
//! | processor time | `processor_time.rs` |
//! | memory | `resident.rs` |
//! | where installed programs are | `programs.rs` |
//! | files on a disk | `scratch.rs` |

pub(crate) mod bounded;
pub(crate) mod processor_time;
pub(crate) mod programs;
pub(crate) mod resident;
pub(crate) mod scratch;
pub(crate) mod server;
