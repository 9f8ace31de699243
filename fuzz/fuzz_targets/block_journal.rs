//! A block journal that was written and then suffered: it gives back nothing but what was written,
//! however it is cut into pieces.

#![no_main]

use arbitrary::Arbitrary;
use icdc_protocol::block_journal::{BlockJournal, Header};
use libfuzzer_sys::fuzz_target;

#[derive(Arbitrary, Debug)]
struct Suffering {
    version: [u8; 16],
    size: u64,
    without_header: bool,
    steps: Vec<Step>,
    piece: u8,
}

#[derive(Arbitrary, Debug)]
enum Step {
    Record { index: u32, fill: u8 },
    Foreign { index: u32, fill: u8 },
    Garbage(Vec<u8>),
    Truncate(u16),
    Damage { at: u16, bits: u8 },
}

fuzz_target!(|suffering: Suffering| {
    let Suffering {
        version,
        size,
        without_header,
        steps,
        piece,
    } = suffering;
    let header = Header {
        version,
        size,
        path: [1; 32],
    };
    let journal = BlockJournal::new(&header);
    let foreign = BlockJournal::new(&Header {
        path: [2; 32],
        ..header
    });
    let mut bytes = if without_header {
        Vec::new()
    } else {
        journal.header().to_vec()
    };
    let mut written = Vec::new();
    for step in steps {
        match step {
            Step::Record { index, fill } => {
                written.push((index, [fill; 32]));
                bytes.extend_from_slice(&journal.record(index, &[fill; 32]));
            }
            Step::Foreign { index, fill } => {
                bytes.extend_from_slice(&foreign.record(index, &[fill; 32]))
            }
            Step::Garbage(garbage) => bytes.extend_from_slice(&garbage),
            Step::Truncate(by) => bytes.truncate(bytes.len().saturating_sub(usize::from(by))),
            Step::Damage { at, bits } => {
                if let Some(byte) = bytes.get_mut(usize::from(at)) {
                    *byte ^= bits;
                }
            }
        }
    }
    let parsed = journal.parse(&bytes);
    assert!(parsed.blocks.iter().all(|found| written.contains(&found)));
    assert!(parsed.valid_length <= bytes.len() as u64);
    assert_eq!(parsed.blocks.size(), size);

    let mut reader = journal.reader();
    bytes
        .chunks(usize::from(piece) + 1)
        .for_each(|piece| reader.feed(piece));
    assert_eq!(reader.finish(), parsed);
    let good = &bytes[..parsed.valid_length as usize];
    assert_eq!(journal.parse(good), parsed, "what is cut was of no use");
});
