//! Verdicts on items, and the failures of items that cannot be made.

use icdc_protocol::block_map::BlockMap;
use icdc_protocol::message::{CandidatePlace, FileDigest, Kept};

use super::super::action::{Basis, Reference};
use super::super::item::ModificationTime;
use crate::Failure;

/// Decision about what has to be transferred of an item.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Nothing is wanted: this run has published it with this digest.
    Have(FileDigest),
    /// Nothing is wanted: an earlier run has published it with this digest, and it was not read.
    TakenOver(FileDigest),
    /// Nothing is wanted: it exists with its contents.
    Skip {
        /// Whether other attributes of it may have to be set.
        amend: bool,
    },
    /// Nothing is wanted: the destination stays as it is at this name, for this reason.
    Keep(Kept),
    /// The item seems to be published: it has to be read and compared first.
    Compare {
        /// The digest that it should have.
        digest: FileDigest,
        /// Whether it is in the run's journal, and hence its name is durable.
        is_noted: bool,
        /// Its modification time at the destination.
        shown: ModificationTime,
    },
    /// The file that has its name has its size, and their contents decide.
    SameSize,
    /// Nothing is wanted: it is made from another file of the destination, which has its contents.
    Reference(Reference),
    /// It is not known yet which files the destination has, from one of which it may be made.
    Undecided,
    /// The destination has files that may have become it, under names that the source may have no
    /// longer.
    Candidates(Vec<CandidatePlace>),
    /// The item cannot be made: only new names may be made, and the name exists.
    Taken(Failure),
    /// Its contents are wanted, except for blocks that an earlier run has left in the part that was
    /// claimed.
    Contents {
        /// The blocks held; `None` if there are none.
        held: Option<BlockMap>,
    },
    /// Of its contents, what differs from other files of the destination is wanted.
    Difference {
        /// Blocks that an earlier run has left in the part that was claimed; `None` if there are none.
        held: Option<BlockMap>,
        /// The files from which the rest is taken.
        basis: Basis,
    },
}

/// The failure of an item that would replace a device, a named pipe or a socket, described as
/// `what`.
#[must_use]
pub fn cannot_replace(shown: &str, what: &str) -> Failure {
    format!("{shown} is {what}, which is not replaced; remove it first, or choose another name").into()
}

/// The failure of an item whose name belongs to something of another kind, described as `what`.
#[must_use]
pub fn is_in_the_way(shown: &str, what: &str) -> Failure {
    format!("{shown}: {what} is in the way; remove it, or copy with --delete, which replaces it at the end").into()
}

/// The failure of an item whose name exists where only new names may be made.
#[must_use]
pub fn name_exists(shown: &str) -> Failure {
    Failure::Final(format!(
        "{shown}: something has this name, and this key may only make what is not there yet; choose another name"
    ))
}
