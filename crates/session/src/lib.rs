//! A transfer session without threads, locks, clocks, files or sockets: what both ends have in
//! common, and the machines of each end.
//!
//! | module | what |
//! |---|---|
//! | [`ending`] | why a session ends before its work is done |
//! | [`failure`] | why an item is not done, and whether a later run goes on with it |
//! | [`receiver`] | the receiving end: names, large files |
//! | [`weight`] | the memory that an announced entry is charged with |
//! | [`sender`] | the sending end: announcements, requests, what becomes of the items, the end |

#![forbid(unsafe_code)]

pub mod ending;
pub mod failure;
pub mod receiver;
pub mod sender;
pub mod weight;

pub use ending::SessionError;
pub use failure::Failure;
