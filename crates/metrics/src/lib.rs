//! Metrics for Prometheus: names, text formats, and how they leave a process.
//!
//! ```text
//! Reading (values at one instant) ──┐                  ┌► Endpoint  GET /metrics (relay, serve)
//! ServeMetrics (counters that live) ┴► text in a Format ┼► text_file for a node exporter (copy, pace)
//!                                                      └► Gateway   a Pushgateway (copy)
//! ```
//!
//! Names are `icdc_PART_WHAT_UNIT` in base units (`seconds`, `bytes`), and they are declared in
//! full. The encoder appends `_total` to counters. Labels have few values, known beforehand:
//! sessions, connections and paths are not among them.
//!
//! ```
//! use icdc_metrics::{Format, Reading};
//!
//! let mut reading = Reading::new();
//! reading.counter("icdc_relay_relayed_bytes", "Bytes relayed", [([("direction", "up")], 1500_u64.into())]);
//! assert!(reading.text(Format::Classic).ends_with("\nicdc_relay_relayed_bytes_total{direction=\"up\"} 1500\n"));
//! ```

#![forbid(unsafe_code)]

mod clock;
mod endpoint;
mod format;
mod gateway;
mod reading;
mod request;
mod run_result;
mod serve;
pub mod text_file;

pub use endpoint::{Endpoint, EndpointError, Serving};
pub use format::Format;
pub use gateway::{Gateway, GatewayError, PushError};
pub use reading::{Reading, Value};
pub use run_result::RunResult;
pub use serve::{Handshake, RefusedReason, RunningSession, ServeMetrics, SessionKind};
