//! A long fat network on one machine: two hosts as network namespaces, and a process that is the path between them.
//!
//! ```text
//!   icdc-a                     icdc-wire                        icdc-b
//! ┌──────────┐    ┌──────────────────────────────────┐    ┌──────────┐
//! │   eth0 ──┼veth┼─ a ─► ring ─► path ─► outlet ─ b ─┼veth┼── eth0   │
//! │ .1  ::1  │    │     ◄ outlet ◄ path ◄ ring ◄     │    │ .2  ::2  │
//! └──────────┘    └──────────────────────────────────┘    └──────────┘
//! ```
//!
//! | part | file |
//! |---|---|
//! | up, down, inside: [`Lab`] | `lab.rs` |
//! | the wire process | [`wire`] |
//! | what it tells | [`wire::page`] |
//! | the hosts' devices, addresses, buffers | `hosts.rs` |
//! | network and user namespaces | `namespaces.rs` |
//! | papers' tables and figures | [`scenario`] |
//! | series of what the wire told | [`recording`] |
//! | what is noted of a lab | [`state`] |
//! | whether the machine kept up | [`faults`](faults()), [`verdict`] |
//!
//! The wire's decisions follow the kernel's stamps (see [`icdc_path`] and [`icdc_packet`]), so they are those of the
//! path that was asked for whenever the wire itself gets to run; how late deliveries were is recorded.

mod backlog;
mod error;
mod faults;
mod hosts;
mod lab;
mod namespaces;
mod placement;
mod program;
pub mod recording;
pub mod scenario;
mod settings;
pub mod state;
pub mod verdict;
pub mod wire;

pub use error::LabError;
pub use faults::faults;
pub use lab::{Lab, down};
pub use namespaces::{DEFAULT_NAME, Host};
pub use settings::{Buffers, LEAST_BUFFER, Mode, Settings, USUAL_RECEIVE_BUFFER};
pub use verdict::Verdict;
pub use wire::page::{Gauge, Global, Page, Way};
