//! Messages between the two ends of a transfer and records for a later run, as pure functions over
//! bytes: no sockets, files, clocks or threads.
//!
//! | module | what |
//! |---|---|
//! | [`message`] | the messages and who sends them |
//! | [`frame`] | messages to bytes and back |
//! | [`validate`] | what a message must keep to before it is believed |
//! | [`digest`] | BLAKE3 of blocks, files, items and trees |
//! | [`block_map`] | which blocks of a file are there |
//! | [`chunking`] | content cut into chunks by what is in it |
//! | [`delta`] | content that has moved, described and copied |
//! | [`data_ranges`] | which parts of a block are data |
//! | [`block_journal`] | the durable blocks of one unfinished file, as kept beside it |
//! | [`run_journal`] | what a whole unfinished run has published and staged |
//! | [`compression`] | payloads that travel compressed |
//! | [`digest_cache`] | digests of files that earlier runs have read |
//! | [`measure`] | the order of a measurement, and what is sent over its control link |
//! | [`snapshot`] | names of snapshots, and what is kept of them |
//! | [`relay`] | what relays say before the data, to each other and to others |
//! | [`version`] | which versions and features two ends have in common |
//! | [`limits`] | the bounds of all of these |
//!
//! Neighbours: `icdc-link` above moves the frames, `icdc-session` decides what to do about
//! messages, `icdc-trust` names the protocol in its handshakes; `icdc-units` is below.
//!
//! A file travels as blocks in any order, and its digest is still the one that `b3sum` prints:
//!
//! ```
//! use icdc_protocol::{BLOCK_SIZE, block_map::BlockMap, digest};
//!
//! let file = vec![7_u8; 2 * BLOCK_SIZE + 5];
//! let size = file.len() as u64;
//! let mut arrived: BlockMap = BlockMap::new(size);
//! for index in [2, 0, 1] {
//!     let start = index * BLOCK_SIZE;
//!     let block = &file[start..file.len().min(start + BLOCK_SIZE)];
//!     arrived.insert(index as u32, digest::block_value(start as u64, block, size)).unwrap();
//! }
//! assert_eq!(arrived.root(), Some(*blake3::hash(&file).as_bytes()));
//! ```

#![forbid(unsafe_code)]

pub mod acl;
pub mod basis;
pub mod block_journal;
pub mod block_map;
mod blocks;
mod bootstrap;
mod bootstrap_word;
mod change;
mod choice;
pub mod chunking;
pub mod compression;
pub mod data_ranges;
mod deletion;
pub mod delta;
pub mod digest;
pub mod digest_cache;
mod directory_links;
pub mod frame;
pub mod limits;
mod link_failure;
pub mod listed;
mod listing;
pub mod measure;
pub mod message;
pub mod mode_change;
mod notice;
mod outcome;
pub mod owners;
mod ports;
pub mod receipt;
pub mod relay;
mod renaming;
mod request;
pub mod run_journal;
mod running;
mod seal;
pub mod snapshot;
mod special;
mod told_by;
pub mod validate;
pub mod version;

/// Highest version of the protocol that this release speaks. Every change of a message's bytes or
/// of their meaning takes a new version.
pub const VERSION: u32 = 2;

/// The lowest version of the protocol that this release speaks: that of the release before.
pub const MIN_VERSION: u32 = 2;

pub use limits::BLOCK_SIZE;
pub use link_failure::LinkFailure;
pub use message::{Digest, EntryId, Message, TransferId};
pub use ports::Ports;
pub use version::{Features, Versions};
