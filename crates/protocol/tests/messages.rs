//! Frames and rules: every proper message survives the wire, and nothing improper is believed.

mod strategies;

use icdc_filter::{Effect, Rule};
use icdc_protocol::delta::copied_bytes;
use icdc_protocol::frame::{ENTRIES_OVERHEAD, FrameError, PREFIX_LENGTH, Prefix, decode_head, encode, entry_length};
use icdc_protocol::limits::*;
use icdc_protocol::message::*;
use icdc_protocol::owners::{NamedOwner, OwnerPattern, OwnerRule, OwnerTarget};
use icdc_protocol::{Ports, acl, validate};
use icdc_units::ByteCount;
use proptest::prelude::*;

fn decode(frame: &[u8]) -> Result<(Message, usize), FrameError> {
    let (prefix, head) = frame.split_first_chunk::<PREFIX_LENGTH>().expect("a whole prefix");
    let prefix = Prefix::parse(prefix)?;
    assert_eq!(head.len(), prefix.head);
    decode_head(head, prefix.payload).map(|message| (message, prefix.payload))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn every_message_survives_the_wire((message, payload) in strategies::message()) {
        let mut frame = b"what is there already".to_vec();
        let start = frame.len();
        encode(&message, payload, &mut frame).unwrap();
        prop_assert_eq!(decode(&frame[start..]), Ok((message, payload)));
    }

    #[test]
    fn a_payload_goes_with_blocks_and_packs_only((message, payload) in strategies::message(), other in 1_usize..1 << 22) {
        let carries = match &message {
            Message::Block(header) => header.ranges.is_empty(),
            // The last block of a file is a short one.
            Message::Assembled(Assembled { header, copies }) => {
                header.ranges.is_empty() && copied_bytes(copies) + other as u64 <= BLOCK_SIZE as u64
            }
            Message::Compressed(compressed) => other < compressed.length as usize,
            _ => false,
        };
        prop_assert_eq!(validate::message(&message, other).is_ok(), carries || other == payload);
    }

    #[test]
    fn damaged_heads_never_panic((message, payload) in strategies::message(), at in any::<prop::sample::Index>(), bits in 1_u8..) {
        let mut frame = Vec::new();
        encode(&message, payload, &mut frame).unwrap();
        let head = &mut frame[PREFIX_LENGTH..];
        let at = at.index(head.len());
        prop_assert!(decode_head(&head[..at], payload).is_err(), "a message is not a prefix of another");
        head[at] ^= bits;
        if let Ok(other) = decode_head(head, payload) {
            prop_assert!(validate::message(&other, payload).is_ok());
        }
    }

    #[test]
    fn entries_that_fit_by_their_length_fit(entries in strategies::entries()) {
        let bytes: usize = entries.iter().map(entry_length).sum();
        let mut frame = Vec::new();
        encode(&Message::Entries(entries), 0, &mut frame).unwrap();
        prop_assert!(frame.len() - PREFIX_LENGTH <= bytes + ENTRIES_OVERHEAD);
    }

    #[test]
    fn clipped_texts_fit(text in any::<String>(), repeat in 0_usize..200) {
        let clipped = validate::clip(text.repeat(repeat));
        prop_assert!(clipped.len() <= MAX_TEXT);
        prop_assert!(text.repeat(repeat).starts_with(&clipped));
        prop_assert!(clipped.len() + 4 > MAX_TEXT.min(text.len() * repeat));
    }
}

#[test]
fn prefixes_beyond_the_limits_are_refused() {
    let prefix = |head: u32, payload: u32| {
        let mut bytes = [0; PREFIX_LENGTH];
        bytes[..4].copy_from_slice(&head.to_le_bytes());
        bytes[4..].copy_from_slice(&payload.to_le_bytes());
        Prefix::parse(&bytes)
    };
    assert_eq!(prefix(1, 0), Ok(Prefix { head: 1, payload: 0 }));
    let largest = Prefix { head: MAX_HEAD, payload: MAX_PAYLOAD };
    assert_eq!(prefix(MAX_HEAD as u32, MAX_PAYLOAD as u32), Ok(largest));
    assert_eq!(prefix(0, 0), Err(FrameError::NoHead));
    assert_eq!(prefix(u32::MAX, 0), Err(FrameError::HeadTooLong { length: u32::MAX as usize }));
    let length = MAX_PAYLOAD + 1;
    assert_eq!(prefix(1, length as u32), Err(FrameError::PayloadTooLong { length }));
}

#[test]
fn a_message_too_long_for_a_frame_leaves_the_buffer_as_it_was() {
    let mut out = vec![1, 2, 3];
    let result = encode(&Message::Relay(vec![0; MAX_HEAD]), 0, &mut out);
    assert!(matches!(result, Err(FrameError::HeadTooLong { .. })));
    assert_eq!(out, [1, 2, 3]);
}

#[test]
fn bytes_after_the_message_are_refused() {
    let mut frame = Vec::new();
    encode(&Message::Ping, 0, &mut frame).unwrap();
    frame.push(0);
    assert_eq!(decode_head(&frame[PREFIX_LENGTH..], 0), Err(FrameError::Trailing { excess: 1 }));
}

/// A claimed count allocates nothing.
#[test]
fn heads_made_to_exhaust_memory_are_refused() {
    let mut relay = Vec::new();
    encode(&Message::Relay(Vec::new()), 0, &mut relay).unwrap();
    let huge_count = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01];
    let head = [&relay[PREFIX_LENGTH..relay.len() - 1], &huge_count].concat();
    assert!(matches!(decode_head(&head, 0), Err(FrameError::Malformed(_))));
}

fn file() -> Entry {
    Entry {
        id: 7,
        parent: Parent::Directory(3),
        name: b"name".to_vec(),
        kind: EntryKind::File { size: 1, version: [0; 16], sparse: false, linked: false },
        mode: 0o644,
        mtime_seconds: 0,
        mtime_nanos: 0,
        owner: None,
        xattrs: Vec::new(),
    }
}

#[test]
fn names_and_rules_of_owners_that_break_a_rule_are_refused() {
    let named = |id, name: &[u8]| {
        let users = vec![NamedOwner { id, name: name.to_vec() }];
        validate::message(&Message::OwnerNames(OwnerNames { users, groups: Vec::new() }), 0)
    };
    assert_eq!(named(7, b"anna"), Ok(()));
    for (id, name) in [(u32::MAX, &b"anna"[..]), (7, b""), (7, b"a:b"), (7, b"a/b"), (7, b".a"), (7, &[b'a'; 256])] {
        assert!(named(id, name).is_err(), "{id} {name:?}");
    }
    let ruled = |from: OwnerPattern, to: OwnerTarget, count: usize| {
        let owners = OwnerMapping { groups: vec![OwnerRule { from, to }; count], ..OwnerMapping::default() };
        let options = ReceiveOptions { owners: owners.into(), ..ReceiveOptions::default() };
        let job = Transfer::Receive { destination: b"in".to_vec(), options };
        validate::message(&Message::Request(Request::new([0; 16], job)), 0)
    };
    let id = OwnerTarget::Id(9);
    assert_eq!(ruled(OwnerPattern::Nameless, id.clone(), MAX_OWNER_RULES), Ok(()));
    assert!(ruled(OwnerPattern::Nameless, id.clone(), MAX_OWNER_RULES + 1).is_err());
    assert!(ruled(OwnerPattern::Ids { first: 2, last: 1 }, id.clone(), 1).is_err());
    assert!(ruled(OwnerPattern::Name(Vec::new()), id, 1).is_err());
    assert!(ruled(OwnerPattern::Nameless, OwnerTarget::Id(u32::MAX), 1).is_err());
    assert!(ruled(OwnerPattern::Nameless, OwnerTarget::Name(b"a:b".to_vec()), 1).is_err());
}

#[test]
fn entries_that_break_a_rule_are_refused_by_name() {
    let refused = |change: fn(&mut Entry), rule: &str| {
        let mut entry = file();
        change(&mut entry);
        let violation = validate::message(&Message::Entries(vec![entry]), 0).expect_err(rule);
        let text = violation.to_string();
        assert!(text.contains("of entry 7") && text.contains(rule), "{text}");
    };
    assert_eq!(validate::message(&Message::Entries(vec![file()]), 0), Ok(()));
    for name in [&b""[..], b".", b"..", b"a/b", b"a\0b", b"/", &[b'a'; 256]] {
        assert!(!validate::is_component(name));
    }
    assert!(validate::is_component(&[0xff; 255]));
    refused(|entry| entry.name = b"..".to_vec(), "one component");
    refused(|entry| entry.parent = Parent::Source(0), "a name beside that of its source");
    refused(|entry| entry.parent = Parent::Source(MAX_SOURCES as u32), "source number");
    refused(|entry| entry.parent = Parent::Directory(7), "after its child");
    refused(|entry| entry.mode = 0o10000, "mode bits");
    refused(|entry| entry.mtime_nanos = 1_000_000_000, "nanoseconds");
    refused(|entry| entry.owner = Some((0, u32::MAX)), "owner");
    refused(
        |entry| entry.kind = EntryKind::HardLink { to: 7, size: 1, version: [0; 16], sparse: false },
        "hard link to a later",
    );
    refused(|entry| entry.kind = EntryKind::Symlink { target: Vec::new() }, "link to nothing");
    refused(|entry| entry.kind = EntryKind::Symlink { target: b"a\0".to_vec() }, "NUL");
    refused(|entry| entry.kind = EntryKind::Symlink { target: vec![b'a'; 4096] }, "path too long");
    refused(
        |entry| {
            let size = MAX_FILE_SIZE + 1;
            entry.kind = EntryKind::File { size, version: [0; 16], sparse: true, linked: false };
        },
        "file too large",
    );
    refused(
        |entry| {
            let number = DeviceNumber { major: 1 << 12, minor: 0 };
            entry.kind = EntryKind::Special(Special::BlockDevice(number));
        },
        "device number",
    );
    refused(|entry| entry.xattrs = vec![(Vec::new(), Vec::new())], "proper name");
    refused(|entry| entry.xattrs = vec![(acl::ACCESS.to_vec(), vec![2, 0, 0, 0, 1])], "access control list");
    refused(|entry| entry.xattrs = vec![(b"user.a".to_vec(), vec![0; 128 << 10])], "too many bytes");

    let mut second = file();
    second.id = 9;
    let gap = validate::message(&Message::Entries(vec![file(), second]), 0).unwrap_err();
    assert!(gap.to_string().contains("entry 9: ids that are not consecutive"), "{gap}");
}

#[test]
fn data_ranges_that_do_not_describe_the_payload_are_refused() {
    let block = |ranges: &[(u32, u32)], payload| {
        let ranges = ranges.to_vec();
        let header = BlockHeader { id: 0, index: 0, value: [0; 32], ranges };
        validate::message(&Message::Block(header), payload).is_ok()
    };
    let end = BLOCK_SIZE as u32;
    assert!(block(&[], BLOCK_SIZE) && block(&[(0, 1), (1, 2), (end - 1, 1)], 4));
    assert!(!block(&[], 0), "no data");
    assert!(!block(&[], BLOCK_SIZE + 1), "more than a block");
    assert!(!block(&[(0, 1)], 2), "another sum");
    assert!(!block(&[(0, 2), (1, 1)], 3), "overlap");
    assert!(!block(&[(4, 1), (0, 1)], 2), "out of order");
    assert!(!block(&[(0, 1), (5, 0)], 1), "empty");
    assert!(!block(&[(end, 1)], 1), "beyond the block");
    assert!(!block(&[(u32::MAX, u32::MAX)], u32::MAX as usize), "overflow");
    let many: Vec<(u32, u32)> = (0..=MAX_RANGES as u32).map(|n| (2 * n, 1)).collect();
    assert!(block(&many[1..], MAX_RANGES) && !block(&many, MAX_RANGES + 1));
}

const DISKLESS: Diskless = Diskless { length: ByteCount::new(1 << 30), hashed: true };

#[test]
fn a_copy_without_disks_has_nothing_else_done() {
    let admits = |job| validate::message(&Message::Request(Request::new([0; 16], job)), 0).is_ok();
    let receives = |change: fn(&mut ReceiveOptions)| {
        let mut options =
            ReceiveOptions { diskless: Some(DISKLESS), preserve: Preserve::NOTHING, ..ReceiveOptions::default() };
        change(&mut options);
        admits(Job::Transfer(Transfer::Receive { destination: b"arrived".to_vec(), options }))
    };
    assert!(receives(|_| ()));
    assert!(!receives(|options| options.preserve.owner = true));
    assert!(!receives(|options| options.preserve.mode = true));
    assert!(!receives(|options| options.preserve.xattr = true));
    assert!(!receives(|options| options.resume = true));
    assert!(!receives(|options| options.ring = Some(ByteCount::from_mib(1024))));
    for length in [0, MIN_DISKLESS_BYTES - 1, MAX_DISKLESS_BYTES + 1] {
        let diskless = Some(Diskless { length: ByteCount::new(length), hashed: true });
        let options = ReceiveOptions { diskless, preserve: Preserve::NOTHING, ..ReceiveOptions::default() };
        assert!(!admits(Job::Transfer(Transfer::Receive { destination: b"arrived".to_vec(), options })), "{length}");
    }
    let sends = |change: fn(&mut SendOptions)| {
        let mut options =
            SendOptions { diskless: Some(DISKLESS), preserve: Preserve::NOTHING, ..SendOptions::default() };
        change(&mut options);
        admits(Job::Transfer(Transfer::Send { sources: vec![b"zeros".to_vec()], options }))
    };
    assert!(sends(|_| ()) && sends(|options| options.streams = Some(4)));
    assert!(!sends(|options| options.preserve.xattr = true));
    assert!(!sends(|options| options.choice.one_file_system = true));
    assert!(!sends(|options| options.dry_run = true));
}

#[test]
fn backups_have_a_place_and_names_of_their_own() {
    let admits = |directory: Option<&[u8]>, suffix: &[u8], snapshot: Option<Snapshot>| {
        let backup = Backup { directory: directory.map(<[u8]>::to_vec), suffix: suffix.to_vec() };
        let delete = Some(Delete::default());
        let options = ReceiveOptions { backup: Some(Box::new(backup)), delete, snapshot, ..ReceiveOptions::default() };
        let job = Job::Transfer(Transfer::Receive { destination: b"there".to_vec(), options });
        validate::message(&Message::Request(Request::new([0; 16], job)), 0).is_ok()
    };
    assert!(admits(Some(b"../kept"), b"", None) && admits(Some(b"kept"), b"~", None) && admits(None, b".old", None));
    assert!(!admits(None, b"", None), "it would be what replaces it");
    assert!(!admits(None, b"/old", None) && !admits(Some(b"kept"), b"/../x", None) && !admits(None, b"\0", None));
    assert!(!admits(None, &[b'x'; MAX_NAME], None) && !admits(Some(b"a\0b"), b"", None));
    let snapshot = Snapshot { time: SnapshotTime::new(0).unwrap(), keep: None };
    assert!(admits(None, b"~", None) && !admits(None, b"~", Some(snapshot)));
}

#[test]
fn work_orders_that_could_be_taken_for_something_else_are_refused() {
    let drive = |change: fn(&mut Drive)| {
        let mut drive = Drive {
            host: "dtn.example".to_owned(),
            port: 2633,
            key: [0; 32],
            sources: vec![b"a".to_vec()],
            route: DriveRoute::Auto,
            ports: Ports::Any,
            send: SendOptions::default(),
            destination: Vec::new(),
            receive: ReceiveOptions::default(),
        };
        change(&mut drive);
        let request = Request::new([0; 16], Job::Drive(Box::new(drive)));
        validate::message(&Message::Request(request), 0).is_ok()
    };
    assert!(drive(|_| ()));
    assert!(drive(|drive| drive.host = "fe80::1%eth0".to_owned()));
    assert!(!drive(|drive| drive.host = "-oProxyCommand=x".to_owned()));
    assert!(!drive(|drive| drive.host = "a b".to_owned()));
    assert!(!drive(|drive| drive.host = String::new()));
    assert!(!drive(|drive| drive.send.diskless = Some(DISKLESS)));
    assert!(!drive(|drive| drive.receive.diskless = Some(DISKLESS)));
    assert!(!drive(|drive| drive.port = 0));
    assert!(!drive(|drive| drive.ports = Ports::Range { low: 7, high: 5 }));
    assert!(!drive(|drive| drive.sources = Vec::new()));
    assert!(!drive(|drive| drive.sources = vec![b"a\0b".to_vec()]));
    assert!(!drive(|drive| drive.destination = vec![b'a'; 4096]));
    assert!(!drive(|drive| drive.send.congestion = Some("../cubic".to_owned())));
    assert!(!drive(|drive| drive.send.streams = Some(MAX_STREAMS + 1)));
    assert!(!drive(|drive| drive.receive.ring = Some(ByteCount::new(u64::MAX))));
}

#[test]
fn a_choice_is_bounded() {
    let chooses = |change: fn(&mut Choice)| {
        let mut options = SendOptions::default();
        change(&mut options.choice);
        let job = Job::Transfer(Transfer::Send { sources: vec![b"a".to_vec()], options });
        validate::message(&Message::Request(Request::new([0; 16], job)), 0).is_ok()
    };
    assert!(chooses(|_| ()));
    assert!(chooses(|choice| choice.rules = rules(1, MAX_PATH)));
    assert!(!chooses(|choice| choice.rules = rules(1, MAX_PATH + 1)));
    assert!(chooses(|choice| choice.rules = rules(MAX_RULES, 1)));
    assert!(!chooses(|choice| choice.rules = rules(MAX_RULES + 1, 1)));
    assert!(!chooses(|choice| choice.rules = rules(MAX_RULE_BYTES / 1024, 1024)));
    assert!(chooses(|choice| choice.newer_than = Some(TimeStamp { seconds: i64::MIN, nanos: 999_999_999 })));
    assert!(!chooses(|choice| choice.older_than = Some(TimeStamp { seconds: 0, nanos: 1_000_000_000 })));
}

fn rules(count: usize, length: usize) -> Vec<Rule> {
    vec![Rule { effect: Effect::Exclude, pattern: vec![b'*'; length] }; count]
}
