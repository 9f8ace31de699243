//! rtnetlink(7): devices, addresses, queueing disciplines, routes and neighbours of the calling
//! thread's network namespace.
//!
//! `netlink-packet-route` has the messages; this crate has the questions that icdc asks. Each
//! question is one request over a socket of its own, with a deadline.
//!
//! ```no_run
//! let loopback = icdc_netlink::link("lo")?.expect("every namespace has one");
//! assert!(loopback.is_loopback);
//! # Ok::<(), icdc_netlink::NetlinkError>(())
//! ```

#![forbid(unsafe_code)]

mod address;
mod link;
mod neighbour;
mod qdisc;
mod request;
mod route;

pub use address::{Address, addresses};
pub use link::{Link, LinkChange, change_link, link, links};
pub use neighbour::{Neighbour, permanent_neighbours};
pub use qdisc::{Parent, Qdisc, qdiscs};
pub use request::NetlinkError;
pub use route::{Family, OutgoingDevice, Route, RoutePosition, device_towards, routes};
