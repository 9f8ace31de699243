//! The joint result of shards: the items that are done, and one digest of the whole.

use icdc_protocol::digest::TreeHasher;
use icdc_protocol::message::Digest;

/// Joint result of a plan's shards: digests of its items by their places, `None` for items that are
/// not done (present at the destination as planned).
#[derive(Debug)]
pub struct Joining {
    digests: Vec<Option<Digest>>,
}

impl Joining {
    /// Joint result of a plan with this number of items, none of which is done yet.
    #[must_use]
    pub fn new(items: usize) -> Self {
        Self { digests: vec![None; items] }
    }

    /// Adds the results of the items at these places; places that the plan does not have are
    /// ignored. An item that is done stays done, whatever a later attempt reports.
    pub fn take_in(&mut self, places: &[u64], digests: &[Option<Digest>]) {
        for (place, digest) in places.iter().zip(digests) {
            if let (Some(slot), Some(digest)) = (self.digests.get_mut(*place as usize), digest) {
                *slot = Some(*digest);
            }
        }
    }

    /// Whether the item at this place is done; false if the plan has no such place.
    #[must_use]
    pub fn is_done(&self, place: u64) -> bool {
        self.digests.get(place as usize).is_some_and(Option::is_some)
    }

    /// Number of items that are done.
    #[must_use]
    pub fn done(&self) -> u64 {
        self.digests.iter().flatten().count() as u64
    }

    /// Digest of the tree of all items that are done, the same as one copy of them would have.
    #[must_use]
    pub fn tree(&self) -> Digest {
        let mut tree = TreeHasher::new();
        self.digests.iter().flatten().for_each(|digest| tree.push(digest));
        tree.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_digest_does_not_depend_on_the_order_of_the_results() {
        let mut tree = TreeHasher::new();
        [[1; 32], [2; 32], [3; 32]].iter().for_each(|digest| tree.push(digest));
        let parts: [(&[u64], &[Option<Digest>]); 3] =
            [(&[0, 2], &[Some([1; 32]), None]), (&[1], &[Some([2; 32])]), (&[2], &[Some([3; 32])])];
        for order in [[0, 1, 2], [2, 1, 0], [1, 0, 2]] {
            let mut joining = Joining::new(3);
            order.iter().for_each(|part: &usize| joining.take_in(parts[*part].0, parts[*part].1));
            assert!((0..3).all(|place| joining.is_done(place)) && !joining.is_done(3));
            assert_eq!(joining.tree(), tree.finish());
        }
    }
}
