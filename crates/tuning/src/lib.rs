//! Tuning of the socket of a data connection: its buffers, its congestion control, its ceiling,
//! and what is known of its path.
//!
//! | module | purpose |
//! |---|---|
//! | [`Tuned`] | a connection that sends: its congestion control, and what replaces it for a while |
//! | [`buffers`] | sizes of socket buffers for long fat paths |
//! | [`known_paths`] | the file that remembers paths between runs |
//! | [`steering`], [`observation`] | the ceiling of a connection whose congestion control does not find the rate |
//! | [`bundle`], [`member`] | the same of several connections |
//! | [`state_file`] | a file that outlasts the processes that change it |
//!
//! Everything here concerns a TCP socket, whatever it carries: transfers and measurements both use
//! it. Below are `icdc-tcp`, which has the socket options, and `icdc-rate`, which decides.

#![forbid(unsafe_code)]

pub mod buffers;
mod ceiling;
mod clock;
pub mod known_paths;
mod sending_connection;
mod stand_in;
pub mod state_file;

pub use ceiling::{bundle, member, observation, steering};
pub use clock::seconds_since_1970;
pub use sending_connection::{SendingManner, Tuned};
