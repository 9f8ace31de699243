//! What the crate seals: a peer by another hand opens it, the crate opens it, and of a stream that
//! is cut it opens what lies before the cut.

use icdc_record::format::{MAX_CONTENT, MAX_RECORD};
use icdc_record::{Opened, Opener, Role, Sealer};

use super::peer::Peer;
use super::{Keys, Script, content};

/// Bounds the work for one script.
const MAX_STREAM: usize = 1 << 20;

/// What a record must hold: its kind, content and padding.
#[derive(Clone, Debug, PartialEq)]
struct Plaintext {
    kind: u8,
    content: Vec<u8>,
    padding: usize,
}

/// Runs one script.
///
/// # Panics
/// If the crate makes something else of it.
pub(crate) fn run(script: &[u8]) {
    let mut script = Script::new(script);
    let keys = Keys::choose(&mut script);
    let (wire, expected) = seal(keys, &mut script);
    another_hand_opens(keys, &wire, &expected);
    let cut = script.below(wire.len() + 1);
    for length in [wire.len(), cut] {
        we_open(keys, &wire[..length], &expected, &mut script);
    }
}

/// A stream, and what it must hold.
fn seal(keys: Keys, script: &mut Script<'_>) -> (Vec<u8>, Vec<Plaintext>) {
    let records_per_key = u64::from(script.byte() % 32);
    let mut sealer = Sealer::new(keys.first(), keys.next(), records_per_key);
    let mut wire = Vec::new();
    let mut expected = Vec::new();
    let (mut owed, mut under_key, mut updates) = (false, 0, 0);
    let mut idle = 0;
    let steps = script.byte();
    for number in 0..usize::from(steps) {
        if sealer.is_due() || script.byte() < 20 {
            wire.extend_from_slice(sealer.records());
            sealer.written();
        }
        let (content, padding) = match script.byte() % 8 {
            0 => {
                sealer.answer_key_update();
                owed = true;
                continue;
            }
            1 => (Vec::new(), MAX_CONTENT),
            _ => (content(number, script.length(MAX_CONTENT)), 0),
        };
        // A peer takes no more in a row, key updates included.
        if content.is_empty() && idle >= 30 {
            continue;
        }
        let is_due = owed || under_key >= records_per_key;
        let sealed = if padding > 0 { sealer.padding() } else { sealer.data(&content) };
        if is_due && updates == keys.generations {
            assert_eq!(sealed, Err(Keys::no_more()));
            break;
        }
        assert_eq!(sealed, Ok(()));
        if is_due {
            expected.push(Plaintext { kind: 22, content: vec![24, 0, 0, 1, 0], padding: 0 });
            (owed, under_key, updates) = (false, 0, updates + 1);
            idle += 1;
        }
        idle = if content.is_empty() { idle + 1 } else { 0 };
        expected.push(Plaintext { kind: 23, content, padding });
        under_key += 1;
        if wire.len() > MAX_STREAM {
            break;
        }
    }
    wire.extend_from_slice(sealer.records());
    sealer.written();
    sealer.close_notify().expect("an alert needs no further key");
    wire.extend_from_slice(sealer.records());
    expected.push(Plaintext { kind: 21, content: vec![1, 0], padding: 0 });
    (wire, expected)
}

fn another_hand_opens(keys: Keys, mut wire: &[u8], expected: &[Plaintext]) {
    let mut peer = Peer::new(keys);
    for plaintext in expected {
        let inner = peer.open(&mut wire);
        let Plaintext { kind, content, padding } = plaintext;
        assert_eq!(inner, [&content[..], &[*kind], &vec![0; *padding]].concat());
        if *kind == 22 {
            peer.next_generation();
        }
    }
    assert!(wire.is_empty(), "nothing else was sealed");
}

/// Opens a stream or the front of it, which arrives in pieces.
fn we_open(keys: Keys, mut wire: &[u8], expected: &[Plaintext], script: &mut Script<'_>) {
    let whole = wire.len();
    let mut opener = Opener::new(keys.first(), keys.next(), Role::Server, 2 * MAX_RECORD);
    let mut expected = expected.iter();
    let mut opened_bytes = 0;
    while !wire.is_empty() {
        let room = opener.room();
        let piece = if script.is_empty() { MAX_RECORD } else { 1 + script.length(MAX_RECORD) };
        let count = piece.min(room.len()).min(wire.len());
        room[..count].copy_from_slice(&wire[..count]);
        opener.arrived(count);
        wire = &wire[count..];
        while let Some(length) = opener.next_plaintext().expect("it is genuine") {
            let mut out = vec![0xaa; length];
            let opened = opener.open(&mut out).expect("it is genuine").expect("a record was there");
            opened_bytes += 5 + length + 16;
            let Plaintext { kind, content, padding } = expected.next().expect("no more than was sealed");
            assert_eq!(length, content.len() + 1 + padding);
            let as_expected = match opened {
                Opened::Data(length) => *kind == 23 && out[..length] == content[..],
                Opened::KeyUpdate { requested } => *kind == 22 && !requested,
                Opened::Alert(description) => *kind == 21 && description == 0,
                Opened::Tickets => false,
            };
            assert!(as_expected, "{opened:?} is not {kind} with {} bytes", content.len());
        }
    }
    let missing = expected.next();
    let next = missing.map_or(usize::MAX, |Plaintext { content, padding, .. }| content.len() + padding + 22);
    assert!(opened_bytes <= whole && whole - opened_bytes < next, "every whole record has been opened");
}
