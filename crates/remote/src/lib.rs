//! Far ends: reaching one, being one, and what a client, a daemon and a far end that ssh started do
//! over the links between them.
//!
//! | module | purpose |
//! |---|---|
//! | [`copy()`](copy()), [`measure()`](measure()), [`measure_pipeline()`] | a client's runs, connected again after a cut |
//! | [`Far`] | a far end that can be connected: by ssh, or as a daemon |
//! | [`Prepared`] | the daemon |
//! | [`session_process()`](session_process()) | a session of the daemon, in a process of its own |
//! | [`far_end()`](far_end()) | what ssh starts on the far side |
//! | [`Location`] | where something is: here, behind ssh, or behind a daemon |
//!
//! Below are `icdc-transfer` and `icdc-measure`, which run over links that stand; above is the
//! binary.

mod connect;
mod connect_back;
mod copy;
mod drive;
mod ended;
mod error;
mod failure_kind;
mod far_end;
mod forward;
mod listen;
pub mod location;
mod marking;
mod measure;
mod options;
mod pipeline;
mod proxy;
mod rights;
mod root;
mod runs;
mod scratch;
mod serve;
mod session;
mod sessions;
mod sources;
mod transfer_id;
mod work;
mod worker;

pub use connect::{ConnectError, Far};
pub use copy::copy;
pub use error::CopyError;
pub use failure_kind::FailureKind;
pub use far_end::{FarEndError, far_end};
pub use location::{Location, LocationError};
pub use measure::{MeasureError, measure, try_routes};
pub use options::{ConfirmHost, CopyOptions, Via};
pub use pipeline::{Pipeline, PipelineOrder, measure_pipeline};
pub use proxy::{Login, Proxy, ProxyKind};
pub use rights::AllowedCongestion;
pub use serve::{
    AuditConfig, AuditPlace, EndSink, Inheritance, Listeners, Notice, Observers, OperatorRequests, Prepared,
    ServeConfig, ServeError, SessionEnd, WhenFull,
};
pub use worker::{SessionProcessError, session_process};
