//! Rules of messages about content that has moved.

use icdc_protocol::chunking::Chunking;
use icdc_protocol::delta::{Assembled, Chunks, CopiedPart};
use icdc_protocol::limits::{BLOCK_SIZE, MAX_BASES, MAX_CHUNKS_TOLD, MAX_COPIES, MAX_FILE_SIZE};
use icdc_protocol::message::{BlockHeader, Compressed, Compressible, Message};
use icdc_protocol::validate;
use icdc_units::ByteCount;

const BLOCK: u32 = BLOCK_SIZE as u32;

fn copy(at: u32, length: u32) -> CopiedPart {
    CopiedPart { at, length, basis: 1, offset: 5 }
}

/// Objection to a block of these ranges and copies, with so many bytes of payload.
fn refused(ranges: &[(u32, u32)], copies: Vec<CopiedPart>, payload: usize) -> Option<String> {
    let header = BlockHeader { id: 1, index: 2, value: [3; 32], ranges: ranges.to_vec() };
    let message = Message::Assembled(Assembled { header, copies });
    validate::message(&message, payload).err().map(|violation| violation.to_string())
}

#[test]
fn a_block_is_put_together_from_copies_within_its_data_and_the_rest() {
    assert_eq!(refused(&[], vec![copy(0, BLOCK)], 0), None);
    assert_eq!(refused(&[], vec![copy(0, 10), copy(10, 10)], BLOCK_SIZE - 20), None);
    assert_eq!(refused(&[], vec![copy(7, 10)], 90), None, "it may be the last one of its file");
    assert_eq!(refused(&[(10, 20), (40, 5)], vec![copy(12, 8), copy(40, 5)], 12), None);
    let most = (0..MAX_COPIES as u32).map(|number| copy(2 * number, 1)).collect::<Vec<_>>();
    assert_eq!(refused(&[], most.clone(), 5000), None);
    for (ranges, copies, payload, why) in [
        (&[][..], vec![], 9, "no copies"),
        (&[], [most, vec![copy(9000, 1)]].concat(), 5000, "too many"),
        (&[], vec![copy(1, 0)], 9, "out of order"),
        (&[], vec![copy(20, 10), copy(0, 10)], 9, "out of order"),
        (&[], vec![copy(0, 10), copy(9, 10)], 9, "out of order"),
        (&[], vec![copy(BLOCK, 1)], 9, "outside of the data"),
        (&[], vec![copy(u32::MAX, u32::MAX)], 9, "outside of the data"),
        (&[], vec![copy(1, BLOCK)], 9, "outside of the data"),
        (&[(10, 20)], vec![copy(25, 6)], 14, "outside of the data"),
        (&[(10, 20)], vec![copy(5, 1)], 19, "outside of the data"),
        (&[(10, 20)], vec![copy(15, 5)], 14, "do not add up"),
        (&[], vec![copy(0, BLOCK)], 1, "do not add up"),
        (&[(10, 20), (15, 20)], vec![copy(10, 1)], 39, "overlap"),
        (&[], vec![CopiedPart { basis: MAX_BASES as u8 + 1, ..copy(0, 1) }], 9, "a basis that no copy has"),
        (&[], vec![CopiedPart { offset: MAX_FILE_SIZE, ..copy(0, 1) }], 9, "beyond the end of any file"),
        (&[], vec![CopiedPart { offset: u64::MAX, ..copy(0, 1) }], 9, "beyond the end of any file"),
    ] {
        let found = refused(ranges, copies.clone(), payload);
        assert!(found.as_ref().is_some_and(|found| found.contains(why)), "{ranges:?} {copies:?}: {found:?}");
    }
}

#[test]
fn a_compressed_payload_is_the_rest_of_a_block() {
    let header = BlockHeader { id: 1, index: 2, value: [3; 32], ranges: vec![(0, 9000)] };
    let of = |copies| Compressible::Assembled(Assembled { header: header.clone(), copies });
    let message = |length, copies| Message::Compressed(Compressed { length, of: of(copies) });
    assert_eq!(validate::message(&message(8000, vec![copy(0, 1000)]), 50), Ok(()));
    assert!(validate::message(&message(8001, vec![copy(0, 1000)]), 50).is_err());
    assert!(validate::message(&message(8000, vec![copy(0, 1000)]), 8000).is_err(), "it is not shorter");
}

#[test]
fn chunks_are_of_a_file_and_not_longer_than_they_are_cut() {
    let chunking = Chunking::for_bytes(ByteCount::ZERO);
    let told = Chunks {
        id: 1,
        chunking,
        basis: 0,
        offset: 7,
        chunks: vec![(64 << 10, [1; 16]); MAX_CHUNKS_TOLD],
        covered: 9,
        complete: false,
    };
    let refused = |chunks: Chunks, payload| validate::message(&Message::Chunks(chunks), payload).err();
    assert_eq!(refused(told.clone(), 0), None);
    assert!(refused(told.clone(), 1).is_some(), "it has no payload");
    assert_eq!(refused(Chunks { chunks: Vec::new(), complete: true, ..told.clone() }, 0), None);
    for (wrong, why) in [
        (Chunks { chunks: Vec::new(), ..told.clone() }, "describes nothing"),
        (Chunks { chunks: vec![(1, [1; 16]); MAX_CHUNKS_TOLD + 1], ..told.clone() }, "too many"),
        (Chunks { chunks: vec![(0, [1; 16])], ..told.clone() }, "empty or too long"),
        (Chunks { chunks: vec![((64 << 10) + 1, [1; 16])], ..told.clone() }, "empty or too long"),
        (Chunks { offset: MAX_FILE_SIZE, ..told.clone() }, "beyond the end of any file"),
        (Chunks { offset: u64::MAX, ..told.clone() }, "beyond the end of any file"),
        (Chunks { basis: MAX_BASES as u8 + 1, ..told.clone() }, "a basis that no copy has"),
    ] {
        let found = refused(wrong, 0).map(|violation| violation.to_string());
        assert!(found.as_ref().is_some_and(|found| found.contains(why)), "{why}: {found:?}");
    }
}
