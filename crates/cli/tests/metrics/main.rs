//! Metrics: what each part tells, that Prometheus takes it, and that pages and dashboard keep to it.

#![allow(clippy::unwrap_used, reason = "a test may panic")]
#![allow(clippy::disallowed_methods, reason = "real processes need real time")]

mod copy;
mod dashboard;
mod gateway;
mod names;
mod outputs;
mod servers;
#[path = "../support/mod.rs"]
mod support;
