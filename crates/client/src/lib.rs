//! A client's runs: reaching a far end by ssh or as a daemon, copying and measuring over the links
//! to it, and connecting again after a cut.
//!
//! ```text
//! copy()      where are sources and destination?         copy.rs, location.rs
//!   both here ── two ends over memory                    icdc-transfer
//!   one here ─── Far::open: ssh or daemon                connect/far.rs
//!                  log in, start the far program         connect/ssh.rs, far_program.rs, send_self.rs
//!                  choose a route for the data           connect/routes.rs, race.rs, known_routes.rs
//!                push_over, pull_over: connect, ask,     runs.rs
//!                  further connections, again after a cut
//!   none here ── copy_between: one drives, one listens   between/
//!   ReceiptFile: what was delivered, signed                receipt.rs
//! Looking::begin() ── what is there, here or there      look.rs
//! change()     directories made, items removed and renamed change.rs
//! measure(), measure_pipeline()                          measure.rs, pipeline.rs
//! ```
//!
//! Below are `icdc-transfer` and `icdc-measure`, which run over links that stand. Above are
//! `icdc-session-process`, which drives a transfer to another far end as a client does, and the
//! binary.

#![forbid(unsafe_code)]

pub mod between;
mod change;
pub mod connect;
mod connection_counts;
mod copy;
mod durable_stream;
mod error;
mod failure_kind;
pub mod forward;
mod known_losses;
pub mod known_routes;
pub mod location;
mod look;
mod marking;
mod measure;
mod options;
mod output;
mod pipeline;
mod proxy;
mod receipt;
mod runs;
mod scratch;
mod sources;
mod transfer_id;
mod trial;
mod unfinished_files;

pub use change::change;
pub use connect::{ConnectError, Far, connect_for_ssh};
pub use copy::copy;
pub use error::CopyError;
pub use failure_kind::FailureKind;
pub use icdc_changes::{Over, Reporter};
pub use location::{Location, LocationError};
pub use look::{Look, LookError, Looking};
pub use measure::{MeasureError, measure, try_routes};
pub use options::{ConfirmHost, CopyOptions, Via};
pub use pipeline::{PipelineOptions, PipelineResult, measure_pipeline};
pub use proxy::{Login, Proxy, ProxyKind};
pub use receipt::{ReceiptFile, Signer, WrittenReceipt, is_receipt};
pub use runs::{PushRequest, PushedNames, PushedReceipt, PushedSigner, push_over};
pub use scratch::{Scratch, places as scratch_places};
pub use sources::place;
