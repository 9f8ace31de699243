//! A run's journal that was written and then suffered: it gives back nothing but what was written,
//! however it is cut into pieces.

#![no_main]

use arbitrary::Arbitrary;
use icdc_protocol::message::FileDigest;
use icdc_protocol::run_journal::{Record, RunJournal};
use libfuzzer_sys::fuzz_target;

#[derive(Arbitrary, Debug)]
struct Suffering {
    without_header: bool,
    steps: Vec<Step>,
    piece: u8,
}

#[derive(Arbitrary, Debug)]
enum Step {
    Published { key: u8, sparse: bool, fill: u8 },
    Staged { staging: u8, directory: Vec<u8> },
    Released { staging: u8 },
    Session { transfer: u8 },
    Foreign { key: u8 },
    Garbage(Vec<u8>),
    Truncate(u16),
    Damage { at: u16, bits: u8 },
}

fuzz_target!(|suffering: Suffering| {
    let Suffering {
        without_header,
        steps,
        piece,
    } = suffering;
    let journal = RunJournal::new(&[1; 32]);
    let foreign = RunJournal::new(&[2; 32]);
    let mut bytes = if without_header {
        Vec::new()
    } else {
        journal.header().to_vec()
    };
    let (mut published, mut staged) = (Vec::new(), Vec::new());
    for step in steps {
        match step {
            Step::Published { key, sparse, fill } => {
                let digest = if sparse {
                    FileDigest::SparseMap([fill; 32])
                } else {
                    FileDigest::Blake3([fill; 32])
                };
                published.push((key, digest));
                journal.encode(
                    &Record::Published {
                        key: [key; 16],
                        digest,
                    },
                    &mut bytes,
                );
            }
            Step::Staged { staging, directory } => {
                journal.encode(
                    &Record::Staged {
                        staging: [staging; 8],
                        directory: &directory,
                    },
                    &mut bytes,
                );
                staged.push(([staging; 8], directory));
            }
            Step::Released { staging } => journal.encode(
                &Record::Released {
                    staging: [staging; 8],
                },
                &mut bytes,
            ),
            Step::Session { transfer } => journal.encode(
                &Record::Session {
                    transfer: [transfer; 16],
                },
                &mut bytes,
            ),
            Step::Foreign { key } => {
                let digest = FileDigest::Blake3([0xf0; 32]);
                foreign.encode(
                    &Record::Published {
                        key: [key; 16],
                        digest,
                    },
                    &mut bytes,
                );
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
    for key in 0..=u8::MAX {
        let found = parsed.published.get(&[key; 16]);
        assert!(found.is_none_or(|digest| published.contains(&(key, digest))));
    }
    assert!(parsed.staged.iter().all(|(id, path)| {
        staged
            .iter()
            .any(|written| written.0 == *id && written.1 == *path)
    }));
    assert!(parsed.valid_length <= bytes.len() as u64);

    let mut reader = journal.reader();
    bytes
        .chunks(usize::from(piece) + 1)
        .for_each(|piece| reader.feed(piece));
    assert_eq!(reader.finish(), parsed);
    let good = &bytes[..parsed.valid_length as usize];
    assert_eq!(journal.parse(good), parsed, "what is cut was of no use");
});
