//! The rate of a transfer, without sockets or clocks: what is observed goes in with its time, what
//! may be sent comes out.
//!
//! | part | file |
//! |---|---|
//! | **all of it for one transfer** | [`controller`] |
//! | ceilings, of which the lowest counts | [`ceilings`] |
//! | the rate where the kernel's own congestion control must do | [`path_ceiling`] |
//! | what a slow disk leaves of the rate | [`disk_ceiling`] |
//! | several connections, of which the first finds the rate | [`sharing`] |
//! | several connections steered as one | [`bundle`] |
//! | how many connections a path needs | [`connection_count`] |
//! | how many the processors of the sending host need | [`processors`] |
//! | what is remembered of a path | [`known_paths`] |

#![forbid(unsafe_code)]

pub mod bundle;
pub mod ceilings;
pub mod connection_count;
pub mod controller;
pub mod disk_ceiling;
pub mod known_paths;
pub mod path_ceiling;
pub mod processors;
pub mod sharing;
