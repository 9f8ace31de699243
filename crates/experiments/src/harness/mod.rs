//! What scenarios are made from.
//!
//! | part | file |
//! |---|---|
//! | a scenario, and what it is run with | `scenario.rs`, `bench.rs` |
//! | one `icdc measure` in a lab of its own, and what came of it | `trial.rs`, `measured.rs`, `arrivals.rs`, `state_directory.rs` |
//! | a lab for one measurement, commands on its hosts; a host without a lab | `temporary_lab.rs`, `commands.rs`, `plain_host.rs` |
//! | who finds the rate, with which rights | `rate_control.rs`, `rights.rs` |
//! | a calm machine, and measuring again without one | `calm.rs`, `attempts.rs`, `resolution.rs` |
//! | several measurements at once; threads that take one item after another | `at_once.rs`, `workers.rs` |
//! | what holds the sender back, and what others send meanwhile | `shaper.rs`, `wire_pacer.rs`, `cross_traffic.rs` |
//! | programs: with a time limit, in the background, what they cost, where they are | `bounded.rs`, `server.rs`, `processor_time.rs`, `resident.rs`, `programs.rs` |
//! | a flow within this process | `loopback.rs` |
//! | files on a disk | `scratch.rs` |
//! | flows in virtual time, and what each of them gets | `simulated.rs`, `shares.rs` |
//! | the check of the emulator itself, a scenario | `emulator/` |
//! | paths, cells of tables, medians and ranges | `paths.rs`, `cells.rs`, `spread.rs` |

pub(crate) mod arrivals;
pub(crate) mod at_once;
pub(crate) mod attempts;
pub(crate) mod bench;
pub(crate) mod bounded;
pub(crate) mod calm;
pub(crate) mod cells;
pub(crate) mod commands;
pub(crate) mod cross_traffic;
pub(crate) mod emulator;
pub(crate) mod error;
pub(crate) mod loopback;
pub(crate) mod measured;
pub(crate) mod paths;
pub(crate) mod plain_host;
pub(crate) mod processor_time;
pub(crate) mod programs;
pub(crate) mod rate_control;
pub(crate) mod resident;
pub(crate) mod resolution;
pub(crate) mod rights;
pub(crate) mod scenario;
pub(crate) mod scratch;
pub(crate) mod server;
pub(crate) mod shaper;
pub(crate) mod shares;
pub(crate) mod simulated;
pub(crate) mod spread;
pub(crate) mod state_directory;
pub(crate) mod temporary_lab;
pub(crate) mod trial;
pub(crate) mod wire_pacer;
pub(crate) mod workers;
