//! Transfers: the two ends of a session over links that are connected already.
//!
//! | module | purpose |
//! |---|---|
//! | [`sender`], [`receiver`] | the two ends: they carry out what the machines of `icdc-session` decide |
//! | [`WithinHost`] | a copy within one host, both ends in this process |
//! | [`Notary`], [`ReceiptSink`] | receipts: signed where the data is, written where the user is |
//! | [`NameList`] | names that a user lists one by one, of any number |
//! | [`event`] | what happens, for the user, JSON and reports |
//! | [`unfinished`] | what runs of any kind have left below a directory |
//! | [`summary`] | the result of a run, whose costs over all sessions an [`Account`] keeps |
//!
//! Below are `icdc-session`, which decides, `icdc-link`, which carries frames, `icdc-disk` and
//! `icdc-tuning`. Who connects, authenticates and resumes is `icdc-client` and `icdc-daemon` above.

#![forbid(unsafe_code)]

mod account;
mod accounts;
mod allowance;
mod attribute_kinds;
mod clock;
mod codecs;
mod confined;
pub mod diskless;
pub mod event;
mod further_links;
mod identity;
pub mod known_digests;
mod name_list;
mod notices;
mod once;
mod pipes;
mod processors;
mod receipt;
pub mod receiver;
mod resources;
mod run;
pub mod sender;
mod special;
mod stage_thread;
mod stages;
pub mod summary;
mod told_limit;
mod tree_remover;
pub mod unfinished;
mod user_ceiling;
mod within_host;

pub use account::Account;
pub use allowance::Allowance;
pub use event::{Event, EventSink, Outcome, Sample, Stage, Summary, Via};
pub use further_links::{FurtherLink, Joining, Wanted};
pub use icdc_protocol::message::{IfRunning, Uncompressed};
pub use name_list::{ListServer, NameList, Names, NewNameList};
pub use notices::Noticed;
pub use receipt::{KeyNotary, NoNotary, Notary, Parties, ReceiptSink, SignedReceipt};
pub use run::Run;
pub use user_ceiling::UserCeiling;
pub use within_host::WithinHost;

/// Path as printable text for users: bytes that are not printable are escaped.
pub(crate) fn path_text(path: &[u8]) -> String {
    icdc_disk::tree::printable(path)
}

/// Digest as hexadecimal text, as `b3sum` prints it.
pub(crate) fn digest_text(digest: &icdc_protocol::Digest) -> String {
    blake3::Hash::from_bytes(*digest).to_hex().to_string()
}

const _: () = assert!(icdc_disk::BLOCK_SIZE == icdc_protocol::BLOCK_SIZE);
