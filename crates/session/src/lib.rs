//! What both ends of a transfer session have in common: why it ends early, and what an announced entry weighs.
//!
//! | module | what |
//! |---|---|
//! | [`ending`] | why a session ends before its work is done |
//! | [`failure`] | why an item is not done, and whether a later run goes on with it |
//! | [`receiver`] | the receiving end: names, large files |
//! | [`weight`] | the memory that an announced entry is charged with |

#![forbid(unsafe_code)]

pub mod ending;
pub mod failure;
pub mod receiver;
pub mod weight;

pub use ending::SessionError;
pub use failure::Failure;
