//! The blocks between the wire and the disk: so many and no more.

use std::cell::Cell;
use std::rc::Rc;

use crate::disk::Number;

/// See the module's description.
#[derive(Clone, Debug)]
pub(crate) struct Ring {
    in_use: Rc<Cell<usize>>,
    capacity: usize,
}

/// A block that has arrived, or some of it; its place in the ring is free again when it is dropped.
#[derive(Debug)]
pub(crate) struct Block {
    pub(crate) number: Number,
    /// A bit for each part that is there.
    parts: u128,
    _place: Place,
}

/// A place in the ring.
#[derive(Debug)]
pub(crate) struct Place(Rc<Cell<usize>>);

impl Ring {
    pub(crate) fn new(capacity: usize) -> Self {
        Self { in_use: Rc::default(), capacity }
    }

    pub(crate) fn capacity(&self) -> usize {
        self.capacity
    }

    /// Blocks that are there.
    pub(crate) fn in_use(&self) -> usize {
        self.in_use.get()
    }

    pub(crate) fn has_room(&self) -> bool {
        self.in_use.get() < self.capacity
    }

    /// Whether comparing may take a block without standing in the way of what arrives.
    pub(crate) fn has_room_to_compare(&self) -> bool {
        self.in_use.get() < self.capacity / 2
    }

    /// A place for what has arrived; the caller has seen that there is room.
    pub(crate) fn take(&self) -> Place {
        self.in_use.set(self.in_use.get() + 1);
        Place(self.in_use.clone())
    }
}

impl Place {
    pub(crate) fn with(self, number: Number) -> Block {
        Block { number, parts: u128::MAX, _place: self }
    }

    /// With nothing but the part of a block that has this number.
    pub(crate) fn with_part(self, number: Number, part: u8) -> Block {
        Block { number, parts: 1 << part, _place: self }
    }
}

impl Block {
    /// With the part that has `arrived` besides; one of other contents spoils the block.
    pub(crate) fn and(mut self, arrived: &Self) -> Self {
        self.parts = if arrived.number == self.number { self.parts | arrived.parts } else { 0 };
        self
    }

    /// Whether all of a block of so many parts is there.
    pub(crate) fn is_whole(&self, parts: u32) -> bool {
        (0..parts).all(|part| self.parts & 1 << part != 0)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}
