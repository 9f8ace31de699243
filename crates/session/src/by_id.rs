//! Maps by the ids of a session.
//!
//! Ids are consecutive, so their low bits alone spread them evenly over a table, and items that
//! were announced one after the other lie side by side in it. A keyed hash would cost more, against
//! nothing: a peer cannot choose its ids, only which of them stay pending, and between two with the
//! same low bits it has to announce as many others as the table has places.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use icdc_protocol::message::EntryId;

/// A map by an [`EntryId`], or by a small enum around one.
pub type ById<V, K = EntryId> = HashMap<K, V, BuildHasherDefault<IdHasher>>;

/// Hasher of the keys of a [`ById`] map: keeps the low 32 bits of an id, and mixes the id into the
/// high ones, by which a hash table tells close entries apart.
#[derive(Clone, Copy, Debug, Default)]
pub struct IdHasher(u64);

/// Multiplier of the hash. Its low half is 1, which keeps the id; its high half is that of the
/// golden ratio (Knuth, The Art of Computer Programming, volume 3, section 6.4).
const SPREAD: u64 = 0x9E37_79B9_0000_0001;

impl Hasher for IdHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u32(u32::from(*byte)));
    }

    fn write_u32(&mut self, id: u32) {
        self.0 = self.0.wrapping_add(u64::from(id)).wrapping_mul(SPREAD);
    }

    /// Hashes the discriminant of an enum, which becomes the state.
    fn write_isize(&mut self, variant: isize) {
        self.0 = variant.cast_unsigned() as u64;
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::hash::{BuildHasher, Hash};

    use icdc_protocol::message::Parent;

    use super::*;

    fn hash(key: impl Hash) -> u64 {
        BuildHasherDefault::<IdHasher>::default().hash_one(key)
    }

    #[test]
    fn consecutive_ids_share_no_place_in_a_table_and_few_have_neighbours_of_equal_tag() {
        let ids = 1_000_000_u32..1_032_768;
        let places: HashSet<u64> = ids.clone().map(|id| hash(id) & 0x7FFF).collect();
        assert_eq!(places.len(), 32_768);
        // A table compares the highest 7 bits of 16 neighbours at a time.
        let tags: Vec<u64> = ids.map(|id| hash(id) >> 57).collect();
        assert!(tags.chunks(16).all(|tags| tags.iter().collect::<HashSet<_>>().len() == 16));
    }

    #[test]
    fn variants_of_an_enum_are_told_apart() {
        let keys = (0..1000).flat_map(|id| [Parent::Source(id), Parent::Directory(id)]);
        let map: ById<Parent, Parent> = keys.clone().map(|key| (key, key)).collect();
        assert!(map.len() == 2000 && keys.clone().all(|key| map.get(&key) == Some(&key)));
    }
}
