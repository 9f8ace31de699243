//! A long fat network on one machine: two hosts as network namespaces, and a process that is the
//! path between them.
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
//! | up, exec, signal: [`Lab`] | `lab.rs` |
//! | down | `teardown.rs` |
//! | the wire process | [`wire`] |
//! | its counters and series: [`Page`] | `wire/page.rs` |
//! | the hosts' devices, addresses, buffers | `hosts.rs` |
//! | what labs change for the whole machine | `machine.rs` |
//! | network and user namespaces | [`namespaces`] |
//! | series of what crossed, for reports | [`recording`] |
//! | which labs there are, where their files are | [`registry`] |
//! | the record of a lab: [`LabRecord`] | `record.rs` |
//! | whether the machine kept up | [`faults`](faults()), [`verdict`] |
//!
//! The wire's decisions follow the kernel's stamps (see [`icdc_path`] and [`icdc_packet`]), so they
//! are those of the path that was asked for whenever the wire itself gets to run; how late
//! deliveries were is recorded.

mod error;
mod faults;
mod heading;
mod hosts;
mod lab;
mod machine;
pub mod namespaces;
pub mod placement;
mod process;
pub mod program;
mod record;
pub mod recording;
pub mod registry;
mod settings;
mod teardown;
pub mod verdict;
pub mod wire;

pub use error::LabError;
pub use faults::{faults, spoilt, spoilt_but_for_bursts};
pub use heading::Heading;
pub use lab::Lab;
pub use namespaces::{DEFAULT_NAME, Host};
pub use process::Process;
pub use record::LabRecord;
pub use settings::{Acknowledge, Buffers, LEAST_BUFFER, Mode, Settings, USUAL_RECEIVE_BUFFER};
pub use teardown::down;
pub use verdict::Verdict;
pub use wire::page::{Bin, Gauge, Global, Page};
