//! Blocks that arrive in parts, over any of the connections.
//!
//! Each fills a block of the ring, so that no more than half of them may be on their way: the
//! rest is left to what arrives besides.

use std::collections::HashMap;

use icdc_disk::Block;
use icdc_protocol::limits::PART_SIZE;
use icdc_protocol::message::{BlockHeader, EntryId, Part};

/// See the module's description.
#[derive(Default)]
pub(super) struct Parts {
    blocks: HashMap<(EntryId, u32), State>,
    /// Those that are filling.
    filling: usize,
}

enum State {
    Filling(Filling),
    /// It is complete; what comes of it once more means nothing.
    Whole,
}

struct Filling {
    /// Of the first part: the others tell the same.
    first: Part,
    block: Block,
    /// A bit for each part that has not arrived.
    missing: u32,
}

/// Why a part cannot be.
const TOO_MANY: &str = "more blocks are on their way in parts than the ring has room for";
const DIFFERENT: &str = "the parts of a block tell different things of it";

impl Parts {
    /// A part has arrived at the start of a block of a `ring` of so many. Gives its block if that is
    /// complete now.
    ///
    /// # Errors
    /// What is wrong with the part.
    pub(super) fn arrived(
        &mut self,
        part: &Part,
        mut arrived: Block,
        ring: usize,
    ) -> Result<Option<(BlockHeader, Block)>, &'static str> {
        let (key, range) = ((part.id, part.index), part.range());
        let state = match self.blocks.remove(&key) {
            None if self.filling >= ring / 2 || self.blocks.len() >= ring => return Err(TOO_MANY),
            None => {
                self.filling += 1;
                arrived.copy_within(..range.len(), range.start);
                State::Filling(Filling { first: *part, block: arrived, missing: others(part) })
            }
            Some(State::Filling(mut filling)) => {
                if filling.first != (Part { number: filling.first.number, ..*part }) {
                    return Err(DIFFERENT);
                }
                filling.block[range.clone()].copy_from_slice(&arrived[..range.len()]);
                filling.missing &= !(1 << part.number);
                State::Filling(filling)
            }
            Some(State::Whole) => State::Whole,
        };
        let (state, whole) = match state {
            State::Filling(Filling { first: Part { id, index, value, .. }, block, missing: 0 }) => {
                self.filling -= 1;
                (State::Whole, Some((BlockHeader { id, index, value, ranges: Vec::new() }, block)))
            }
            state => (state, None),
        };
        self.blocks.insert(key, state);
        Ok(whole)
    }

    /// A block has arrived whole: nobody waits for its parts.
    pub(super) fn came_whole(&mut self, id: EntryId, index: u32) {
        if let Some(state) = self.blocks.get_mut(&(id, index))
            && let State::Filling(_) = std::mem::replace(state, State::Whole)
        {
            self.filling -= 1;
        }
    }
}

/// A bit for each part of the block but this one.
fn others(part: &Part) -> u32 {
    let count = (part.length as usize).div_ceil(PART_SIZE);
    (0..count as u32).filter(|number| *number != u32::from(part.number)).map(|number| 1 << number).sum()
}

#[cfg(test)]
#[path = "parts/tests.rs"]
mod tests;
