//! Which item may make which name: one at a time, in the order in which they were announced.
//!
//! The contents of two directories may go into one, and both have a `x`. Their unfinished files would
//! share one staging name, so the later item waits until the earlier one is done; then it replaces it, as
//! if the two had been copied one after the other.

use std::collections::{HashMap, VecDeque};

use super::pending::{Pending, Place};

/// Names that are being made, and who waits for them.
#[derive(Default)]
pub(super) struct Claims {
    /// Those who wait for a name that is held, the first in front.
    held: HashMap<Place, VecDeque<Pending>>,
    released: Vec<Place>,
    waiting: usize,
}

impl Claims {
    /// Whether an earlier item is making this name.
    pub(super) fn is_held(&self, place: &Place) -> bool {
        self.held.contains_key(place)
    }

    /// Keeps a name until it is released.
    pub(super) fn hold(&mut self, place: Place) {
        self.held.entry(place).or_default();
    }

    /// Keeps an item until the name that it needs is released.
    pub(super) fn wait(&mut self, pending: Pending) {
        self.waiting += 1;
        self.held.entry(pending.place()).or_default().push_back(pending);
    }

    /// Number of items that wait.
    pub(super) fn waiting(&self) -> usize {
        self.waiting
    }

    /// The item that held the name is done.
    pub(super) fn release(&mut self, place: Place) {
        match self.held.get(&place) {
            Some(waiting) if !waiting.is_empty() => self.released.push(place),
            _ => {
                self.held.remove(&place);
            }
        }
    }

    /// The next item whose name was released; it holds the name from now on.
    pub(super) fn next(&mut self) -> Option<Pending> {
        let place = self.released.pop()?;
        let next = self.held.get_mut(&place).and_then(VecDeque::pop_front);
        self.waiting -= usize::from(next.is_some());
        next
    }
}
