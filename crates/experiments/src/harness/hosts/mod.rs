//! Labs and hosts that last as long as one measurement.
//!
//! | what | file |
//! |---|---|
//! | a lab for one measurement | `temporary_lab.rs` |
//! | commands on its hosts | `commands.rs` |
//! | a host that belongs to no lab | `plain_host.rs` |
//! | paths as scenarios describe them | `paths.rs` |

pub(crate) mod commands;
pub(crate) mod paths;
pub(crate) mod plain_host;
pub(crate) mod temporary_lab;
