//! A file whose blocks are coming.

use std::collections::VecDeque;

use icdc_protocol::message::{Digest, FileDigest};

use super::blocks::Blocks;
use super::context::{Context, Presence};

/// State of a large file whose blocks are arriving.
#[derive(Debug)]
pub(super) struct Receiving {
    pub(super) blocks: Blocks,
    /// Number of blocks that have arrived.
    pub(super) arrived: u32,
    /// Number of held blocks that were damaged; each is transmitted in addition to those that the
    /// sender counts.
    pub(super) asked_again: u32,
    /// Held blocks that are not compared yet: number and digest.
    pub(super) unchecked: VecDeque<(u32, Digest)>,
    pub(super) end: Option<End>,
    pub(super) sender: Presence,
}

/// The end of a file, as the sender announced it.
#[derive(Clone, Copy, Debug)]
pub(super) struct End {
    /// Number of blocks that the sender has sent, without those sent again.
    pub(super) blocks: u32,
    pub(super) digest: FileDigest,
}

impl Receiving {
    /// Whether everything has arrived and been compared, and the sender is known to be connected.
    /// All that has arrived is written when nothing is pending.
    pub(super) fn is_complete<B>(&self, context: &Context<B>) -> bool {
        let all_arrived =
            self.end.is_some_and(|end| u64::from(self.arrived) == u64::from(end.blocks) + u64::from(self.asked_again));
        let is_confirmed = match self.sender {
            Presence::Known => true,
            Presence::Asking => false,
            Presence::Asked { number } => context.confirmed >= number,
        };
        all_arrived && is_confirmed && self.unchecked.is_empty()
    }
}
