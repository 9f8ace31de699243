//! Division of items into shards of about equal cost, with neighbours together.
//!
//! The cost of a file is its bytes and a constant per file. Names of one file stay together, so
//! that they can be links. Pieces that are large beside a shard go to the shard with the least cost
//! so far, the largest first; the rest is dealt out in scan order, to each shard until it has its
//! share. So no shard exceeds the average by more than its largest piece.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

use icdc_disk::tree::Incarnation;
use icdc_transfer::sender::selection::SelectedState;
use icdc_transfer::sender::survey::Surveyed;

/// Cost of a file besides its bytes, in bytes: about what a disk or a path of 1 Gbit/s carries
/// while a file is opened, written, made durable and named.
const FILE: u128 = 64 << 10;
/// A piece is large if it costs more than 1/LARGE of a shard, and more than [`FILE`].
const LARGE: u128 = 8;

/// Divides all `items` except directories into `shards` (at least one) lists; returns the indices
/// of each list, ascending. Shards may be empty.
#[must_use]
pub fn divide(items: &[Surveyed], shards: usize) -> Vec<Vec<usize>> {
    let mut pieces = pieces(items);
    let shards = shards.max(1);
    let total: u128 = pieces.iter().map(|piece| piece.cost).sum();
    let threshold = (total / shards as u128 / LARGE).max(FILE);
    let mut parts = vec![(0u128, Vec::new()); shards];

    let mut large_pieces: Vec<_> = pieces.extract_if(.., |piece| piece.cost > threshold).collect();
    large_pieces.sort_by_key(|piece| Reverse(piece.cost));
    let mut least: BinaryHeap<_> = (0..shards).map(|part| Reverse((0, part))).collect();
    for piece in large_pieces {
        if let Some(Reverse((_, part))) = least.pop() {
            parts[part].0 += piece.cost;
            parts[part].1.extend(piece.places);
            least.push(Reverse((parts[part].0, part)));
        }
    }

    let filled_to = level(parts.iter().map(|(cost, _)| *cost).collect(), pieces.iter().map(|piece| piece.cost).sum());
    let mut part = 0;
    for piece in pieces {
        while part + 1 < shards && parts[part].0 >= filled_to {
            part += 1;
        }
        parts[part].0 += piece.cost;
        parts[part].1.extend(piece.places);
    }
    let in_order = |(_, mut places): (u128, Vec<usize>)| {
        places.sort_unstable();
        places
    };
    parts.into_iter().map(in_order).collect()
}

/// A unit of the division, which goes to one shard: a file with all its names, or another item.
struct Piece {
    cost: u128,
    places: Vec<usize>,
}

/// Groups the items into pieces: the names of one file together, every other item alone.
fn pieces(items: &[Surveyed]) -> Vec<Piece> {
    let mut pieces: Vec<Piece> = Vec::new();
    let mut linked: HashMap<Incarnation, usize> = HashMap::new();
    for (place, item) in items.iter().enumerate() {
        if item.selected.state == SelectedState::Directory {
            continue;
        }
        let piece = item.linked.map(|file| *linked.entry(file).or_insert(pieces.len()));
        match piece.and_then(|piece| pieces.get_mut(piece)) {
            Some(piece) => {
                piece.cost += FILE;
                piece.places.push(place);
            }
            None => pieces.push(Piece { cost: u128::from(item.data) + FILE, places: vec![place] }),
        }
    }
    pieces
}

/// Cost to which the cheapest parts can all be raised by distributing `rest` among them: each
/// shard's share in scan order is filled up to it.
fn level(mut parts: Vec<u128>, rest: u128) -> u128 {
    parts.sort_unstable();
    let mut below = 0;
    for (count, part) in (1..).zip(&parts) {
        below += part;
        let level = (below + rest) / count;
        let next = parts.get(count as usize).copied().unwrap_or(u128::MAX);
        if level <= next {
            return level;
        }
    }
    u128::MAX
}

#[cfg(test)]
mod tests {
    use icdc_disk::tree::Stat;
    use icdc_transfer::sender::selection::Selected;
    use proptest::prelude::*;

    use super::*;

    fn file(place: usize, size: u64, linked: Option<Incarnation>) -> Surveyed {
        let path = format!("{place:06}").into_bytes();
        let state = SelectedState::Other { size, mtime: (0, 0) };
        Surveyed { selected: Selected { source: 0, path, state }, data: size, linked }
    }

    fn cost(items: &[Surveyed], places: &[usize]) -> u128 {
        let of = |place: &usize| match items[*place].selected.state {
            SelectedState::Other { size, .. } => u128::from(size) + FILE,
            SelectedState::Directory => 0,
        };
        places.iter().map(of).sum()
    }

    #[test]
    fn a_level_fills_the_lowest_parts_first() {
        assert_eq!(level(vec![0, 0, 10], 4), 2);
        assert_eq!(level(vec![10, 0, 0], 23), 11);
        assert_eq!(level(vec![0], 7), 7);
        assert_eq!(level(vec![5, 1], 0), 1);
    }

    #[test]
    fn names_of_one_file_stay_together() {
        let stat = Stat::of(std::fs::File::open(".").expect("it is there")).expect("it is open");
        let linked = Some(Incarnation::new(&stat, None));
        let items = [file(0, 1 << 20, linked), file(1, 1 << 20, None), file(2, 1 << 20, linked), file(3, 1, linked)];
        let shards = divide(&items, 2);
        assert!(shards.contains(&vec![0, 2, 3]) && shards.contains(&vec![1]), "{shards:?}");
    }

    proptest! {
        #[test]
        fn every_item_is_in_one_shard_and_no_shard_has_much_more_than_its_share(
            sizes in prop::collection::vec(prop_oneof![0u64..100_000, 0u64..1 << 34], 0..300),
            shards in 1usize..40,
        ) {
            let items: Vec<_> = sizes.iter().enumerate().map(|(place, size)| file(place, *size, None)).collect();
            let divided = divide(&items, shards);
            prop_assert_eq!(divided.len(), shards);
            let mut all: Vec<usize> = divided.concat();
            prop_assert!(divided.iter().all(|places| places.is_sorted()));
            all.sort_unstable();
            prop_assert_eq!(all, (0..items.len()).collect::<Vec<_>>());

            let total = cost(&items, &(0..items.len()).collect::<Vec<_>>());
            let share = total / shards as u128;
            let largest = sizes.iter().max().map_or(0, |size| u128::from(*size) + FILE);
            let most = divided.iter().map(|places| cost(&items, places)).max().unwrap_or(0);
            prop_assert!(most <= share + largest.max(FILE) + 1, "{} of {}", most, share);
        }
    }
}
