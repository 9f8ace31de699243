//! A file whose blocks are coming.

use std::collections::VecDeque;

use icdc_protocol::message::{Digest, FileDigest};

use super::blocks::Blocks;
use super::context::{Context, Presence};

/// See the module's description.
#[derive(Debug)]
pub(super) struct Receiving {
    pub(super) blocks: Blocks,
    /// Blocks that have come.
    pub(super) arrived: u32,
    /// Held blocks that were damaged, each of which comes in addition to what the sender tells.
    pub(super) asked_again: u32,
    /// Held blocks that are not compared yet.
    pub(super) unchecked: VecDeque<(u32, Digest)>,
    pub(super) end: Option<End>,
    pub(super) sender: Presence,
}

/// What the sender has told when it was through.
#[derive(Clone, Copy, Debug)]
pub(super) struct End {
    pub(super) blocks: u32,
    pub(super) digest: FileDigest,
}

impl Receiving {
    /// Whether nothing more is to come, and the sender is known to be there. Whatever has come is
    /// written when nothing is pending.
    pub(super) fn is_complete<B>(&self, context: &Context<B>) -> bool {
        let all_arrived =
            self.end.is_some_and(|end| u64::from(self.arrived) == u64::from(end.blocks) + u64::from(self.asked_again));
        let is_confirmed = match self.sender {
            Presence::Known => true,
            Presence::Asked { number } => context.confirmed >= number,
        };
        all_arrived && is_confirmed && self.unchecked.is_empty()
    }
}
