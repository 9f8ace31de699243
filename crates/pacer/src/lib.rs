//! Pacing for any application, without a change to it.
//!
//! | part | what it paces | where |
//! |---|---|---|
//! | [`policy`] | the TCP sockets of a cgroup, by the address of the other end, as the kernel paces | `c/policy.c`, eBPF |
//! | [`wire`] | all that a host sends through a device, in classes, by byte clocks | `icdc-scheduler`, driven by a pump |
//!
//! Below are `icdc-scheduler` (byte clocks), `icdc-packet` (raw frames), `icdc-tcp` (algorithms,
//! pins) and `icdc-units`; above, the binary.

#![forbid(unsafe_code)]

pub mod policy;
pub mod wire;

pub use icdc_netlink::NetlinkError;
pub use icdc_units::Prefix;
