//! Blocks that arrive in parts, over any of the connections.
//!
//! Each fills a block of the ring, so that no more than half of them may be on their way: the
//! rest is left to what arrives besides.
//!
//! What a connection owes of a block when it ends comes whole over another one, and the parts that
//! are still under way over a slow one mean nothing then, even where none has come before: the
//! block would never be complete. So the blocks that came whole last are remembered.

use std::collections::{HashMap, VecDeque};

use icdc_protocol::limits::{MAX_PARTS, PART_SIZE};
use icdc_protocol::message::{BlockHeader, EntryId, Part};

/// Reassembly of blocks that arrive in parts. `B` is a block of the ring.
#[derive(Debug)]
pub struct Parts<B> {
    blocks: HashMap<(EntryId, u32), State<B>>,
    /// Number of blocks with missing parts.
    filling: usize,
    /// The blocks that most recently came whole, at most [`REMEMBERED`], by file and block number.
    came_whole: VecDeque<(EntryId, u32)>,
}

/// Number of blocks that came whole and are remembered: more than are sent after the first one has
/// gone in parts, and what ended connections may owe besides.
const REMEMBERED: usize = 1024;

/// State of a block of which a part has arrived.
#[derive(Debug)]
enum State<B> {
    Filling(Filling<B>),
    /// Complete; parts of it that arrive now are ignored.
    Whole,
}

/// A block of which parts are missing.
#[derive(Debug)]
struct Filling<B> {
    /// The first part; the others have the same header except for their number.
    first: Part,
    block: B,
    /// A bit for each part that has not arrived.
    missing: u128,
}

/// Error: more than half of the ring's blocks are incomplete.
const TOO_MANY: &str = "more blocks are on their way in parts than the ring has room for";
/// Error: parts of one block differ in their headers.
const DIFFERENT: &str = "the parts of a block tell different things of it";

impl<B> Default for Parts<B> {
    fn default() -> Self {
        Self { blocks: HashMap::new(), filling: 0, came_whole: VecDeque::new() }
    }
}

impl<B> Parts<B> {
    /// Puts the part `arrived` into its block. `ring`: size of the ring, in blocks. `put` returns
    /// the block with the part in its place, made from the block as filled so far, unless this is
    /// its first part. Returns the block if it is complete now.
    ///
    /// # Errors
    /// If the part cannot belong to a block.
    pub fn arrived(
        &mut self,
        part: &Part,
        arrived: B,
        ring: usize,
        put: impl FnOnce(Option<B>, B) -> B,
    ) -> Result<Option<(BlockHeader, B)>, &'static str> {
        let key = (part.id, part.index);
        let state = match self.blocks.remove(&key) {
            None if self.came_whole.contains(&key) => return Ok(None),
            None if self.filling >= ring / 2 || self.blocks.len() >= ring => return Err(TOO_MANY),
            None => {
                self.filling += 1;
                State::Filling(Filling { first: *part, block: put(None, arrived), missing: others(part) })
            }
            Some(State::Filling(Filling { first, block, missing })) => {
                if first != (Part { number: first.number, ..*part }) {
                    self.filling -= 1;
                    return Err(DIFFERENT);
                }
                let missing = missing & !(1 << part.number);
                State::Filling(Filling { first, block: put(Some(block), arrived), missing })
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

    /// Records that a block has arrived whole: its parts are not needed any more.
    pub fn came_whole(&mut self, id: EntryId, index: u32) {
        if self.came_whole.len() == REMEMBERED {
            self.came_whole.pop_front();
        }
        self.came_whole.push_back((id, index));
        if let Some(state) = self.blocks.get_mut(&(id, index))
            && let State::Filling(_) = std::mem::replace(state, State::Whole)
        {
            self.filling -= 1;
        }
    }

    /// Number of blocks of which parts are missing.
    #[must_use]
    pub fn filling(&self) -> usize {
        self.filling
    }
}

/// Bit mask of all parts of the block except this one.
fn others(part: &Part) -> u128 {
    const { assert!(MAX_PARTS <= u128::BITS as usize) };
    let count = (part.length as usize).div_ceil(PART_SIZE);
    (0..count as u32).filter(|number| *number != u32::from(part.number)).map(|number| 1_u128 << number).sum()
}

#[cfg(test)]
#[path = "parts/tests.rs"]
mod tests;
