//! Claims on names: one item at a time may make a name, in the order of announcement.
//!
//! The contents of two directories may go into one, and both have an `x`. Their unfinished files
//! would share one staging name, so the later item waits until the earlier one is done and then
//! replaces it, as if the two had been copied one after the other.

use std::collections::{HashMap, VecDeque};

use icdc_protocol::message::EntryId;

use super::item::FinalName;

/// Names that are being made, and the items that wait for them.
#[derive(Default)]
pub(super) struct Claims {
    /// Claimed names, each with the items that wait for it in the order of their arrival.
    held: HashMap<FinalName, VecDeque<EntryId>>,
    /// Names that are released and for which an item waits.
    released: Vec<FinalName>,
}

impl Claims {
    /// Claims a name for the item `id`; false if an earlier item holds it, for which `id` has to
    /// wait.
    pub(super) fn hold_or_wait(&mut self, place: &FinalName, id: EntryId) -> bool {
        if let Some(waiting) = self.held.get_mut(place) {
            waiting.push_back(id);
            return false;
        }
        self.held.insert(place.clone(), VecDeque::new());
        true
    }

    /// Releases a name whose item is done.
    pub(super) fn release(&mut self, place: FinalName) {
        match self.held.get(&place) {
            Some(waiting) if !waiting.is_empty() => self.released.push(place),
            _ => drop(self.held.remove(&place)),
        }
    }

    /// The next item whose name was released and which holds it from now on.
    pub(super) fn next(&mut self) -> Option<EntryId> {
        let place = self.released.pop()?;
        self.held.get_mut(&place).and_then(VecDeque::pop_front)
    }
}

#[cfg(test)]
mod tests {
    use super::super::item::DirectoryPlace;
    use super::*;

    #[test]
    fn a_name_is_held_by_one_after_the_other_in_the_order_of_their_announcement() {
        let place = |name: &str| FinalName {
            directory: DirectoryPlace { device: 1, inode: 1 },
            name: name.as_bytes().to_vec(),
        };
        let mut claims = Claims::default();
        assert!(claims.hold_or_wait(&place("x"), 0) && claims.hold_or_wait(&place("y"), 1));
        assert!(!claims.hold_or_wait(&place("x"), 2) && !claims.hold_or_wait(&place("x"), 3));
        assert_eq!(claims.next(), None, "nothing is released");
        claims.release(place("x"));
        assert_eq!(claims.next(), Some(2));
        assert!(!claims.hold_or_wait(&place("x"), 4), "held from the moment its waiter is taken");
        claims.release(place("x"));
        assert_eq!((claims.next(), claims.next()), (Some(3), None));
        claims.release(place("y"));
        assert!(claims.next().is_none() && claims.hold_or_wait(&place("y"), 5));
    }
}
