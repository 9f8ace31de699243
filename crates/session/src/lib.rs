//! A transfer session without threads, locks, clocks, files or sockets: the state machines of both
//! ends, and what they have in common.
//!
//! | module | what |
//! |---|---|
//! | [`by_id`] | maps by the ids of a session |
//! | [`error`] | errors that end a session before its work is done |
//! | [`failure`] | failures of items, and whether a later run can succeed |
//! | [`item_batch`] | items that are made or removed, for messages of bounded length |
//! | [`kept`] | counts of items at whose names the destination stays as it is |
//! | [`listing`] | listings: the check of their records, and the comparison of two |
//! | [`receiver`] | the receiving end: names, large files, connections, the end |
//! | [`receipt`] | lines of a receipt in the order of announcement |
//! | [`retry`] | pauses before a client reconnects, and the time at which it gives up |
//! | [`weight`] | the memory that an announced entry is charged with |
//! | [`sender`] | the sending end: announcements, requests, what becomes of the items, the end |
//!
//! `tests/simulation` runs both ends over simulated connections and a simulated disk, with kills,
//! power cuts, cut connections and disks that fail, tens of thousands of worlds in a few seconds.
//! Every world follows from its number:
//!
//! ```text
//! cargo test -p icdc-session --test simulation                                      the worlds of every run of the tests
//! ICDC_SEEDS=0..1000000 cargo test -p icdc-session --test simulation any_world      more of them
//! ICDC_SEED=4711 cargo test -p icdc-session --test simulation any_world             one, with its last events if it fails
//! ```

#![forbid(unsafe_code)]

pub mod by_id;
pub mod error;
pub mod failure;
pub mod item_batch;
pub mod kept;
pub mod listing;
pub mod receipt;
pub mod receiver;
pub mod retry;
pub mod sender;
pub mod special;
pub mod weight;

pub use by_id::ById;
pub use error::SessionError;
pub use failure::Failure;
pub use item_batch::ItemBatch;
pub use kept::KeptCounts;
