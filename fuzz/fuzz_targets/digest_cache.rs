//! A cache of digests that was written and then suffered: one that is believed is the one that was written, and
//! foreign bytes are a cache only if they are its only encoding.

#![no_main]

use std::collections::BTreeMap;

use arbitrary::Arbitrary;
use icdc_protocol::digest_cache::{Digests, FileNumbers, FileVersion, KnownDigest};
use icdc_protocol::message::FileDigest;
use libfuzzer_sys::fuzz_target;

#[derive(Arbitrary, Debug)]
struct Suffering {
    older: Vec<File>,
    newer: Vec<File>,
    today: u16,
    damage: Vec<Damage>,
    foreign: Vec<u8>,
}

#[derive(Arbitrary, Debug)]
struct File {
    device: u8,
    inode: u64,
    size: u64,
    times: [(i64, u32); 2],
    met: u16,
    sparse: bool,
    fill: u8,
}

#[derive(Arbitrary, Debug)]
enum Damage {
    Flip { at: u16, bits: u8 },
    Truncate(u16),
    Append(u8),
}

fn entries(files: &[File]) -> BTreeMap<FileNumbers, KnownDigest> {
    let entry = |file: &File| {
        let numbers = FileNumbers { device: file.device.into(), inode: file.inode };
        let [mtime, ctime] = file.times;
        let version = FileVersion { size: file.size, mtime, ctime };
        let digest = [file.fill; 32];
        let digest = if file.sparse { FileDigest::SparseMap(digest) } else { FileDigest::Blake3(digest) };
        (numbers, KnownDigest { version, met: file.met, digest })
    };
    files.iter().map(entry).collect()
}

fuzz_target!(|suffering: Suffering| {
    let Suffering { older, newer, today, damage, foreign } = suffering;
    let newer = entries(&newer);
    let written = Digests::default().with(&entries(&older), today).with(&newer, today);
    for (numbers, known) in &newer {
        let kept = written.get(*numbers);
        assert!(kept.is_none_or(|kept| kept.version == known.version && kept.digest == known.digest));
    }
    let whole = written.encode();
    assert_eq!(Digests::parse(whole.clone()), Some(written));
    let mut damaged = whole.clone();
    for damage in damage {
        match damage {
            Damage::Flip { at, bits } => {
                let length = damaged.len().max(1);
                if let Some(byte) = damaged.get_mut(usize::from(at) % length) {
                    *byte ^= bits;
                }
            }
            Damage::Truncate(length) => damaged.truncate(length.into()),
            Damage::Append(byte) => damaged.push(byte),
        }
    }
    assert!(damaged == whole || Digests::parse(damaged).is_none());
    if let Some(digests) = Digests::parse(foreign.clone()) {
        assert_eq!(digests.encode(), foreign);
    }
});
