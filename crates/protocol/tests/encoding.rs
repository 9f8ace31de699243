//! What messages look like in bytes belongs to the number of the protocol: ends with the same
//! number understand each other.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::path::Path;

use icdc_filter::{Effect, Rule};
use icdc_protocol::chunking::Chunking;
use icdc_protocol::delta::{CopiedPart, copied_bytes};
use icdc_protocol::frame::{PREFIX_LENGTH, Prefix, decode_head, encode};
use icdc_protocol::measure::{ControlMessage, MeasureRequest, Received, Sample, Sent};
use icdc_protocol::message::*;
use icdc_protocol::mode_change::{ChangedItems, Copied, CopiedBits, Execution, UserClass};
use icdc_protocol::owners::{NamedOwner, OwnerPattern, OwnerRule, OwnerTarget, OwnersBy};
use icdc_protocol::receipt::facts::Facts;
use icdc_protocol::{Features, Ports, VERSION, Versions};
use icdc_units::{ByteCount, Rate};

/// The number, and BLAKE3 digests (their first 4 bytes) of the frames of the [`examples`], by kind.
const ENCODING: (u32, &[(&str, &str)]) = (
    2,
    &[
        ("Request", "19494ce4"),
        ("Accepted", "ba18aed3"),
        ("Sources", "3885a2cd"),
        ("Begin", "a1a33749"),
        ("Entries", "eca8cf75"),
        ("Block", "5d599d8e"),
        ("Difference", "07d64479"),
        ("Holes", "6a1731f9"),
        ("Assembled", "3fe8d351"),
        ("Part", "f7c3ec38"),
        ("Pack", "5acc7aac"),
        ("Compressed", "2e599561"),
        ("FileEnd", "1b4b3a62"),
        ("StreamEnd", "d9f56906"),
        ("LeftOut", "29d2571d"),
        ("NamesWanted", "aa940156"),
        ("OwnerNames", "6b4de619"),
        ("DirEnd", "bb4eb28f"),
        ("Removed", "289916ea"),
        ("CandidateAnswer", "6fa63f14"),
        ("Problem", "0e14541a"),
        ("Totals", "997468ec"),
        ("End", "53f4dc09"),
        ("Goodbye", "b20c68f4"),
        ("Congestion", "8143b032"),
        ("Confirmed", "936bb664"),
        ("Connections", "96c7b125"),
        ("DatagramsWanted", "07a58e49"),
        ("Ready", "3c49ac2c"),
        ("Held", "c64b532c"),
        ("Wants", "aad34b1f"),
        ("Resend", "e9276093"),
        ("Done", "ea407dac"),
        ("Feedback", "6faecbcf"),
        ("UserCeiling", "54e774b6"),
        ("Running", "8752b460"),
        ("Placed", "1b92ab5a"),
        ("Deletion", "c41df21a"),
        ("Names", "c0734cda"),
        ("Candidates", "537adb66"),
        ("Snapshot", "85fa1537"),
        ("Receipt", "97783c88"),
        ("Basis", "f17d267f"),
        ("Chunks", "c18f1d03"),
        ("InPlace", "9036d4ad"),
        ("Refused", "c2a94cc6"),
        ("Left", "93d7c101"),
        ("MaxRate", "db3edbb5"),
        ("StreamFrom", "2f6f5a61"),
        ("StreamDurable", "c1501b5e"),
        ("KeyCeiling", "d7250d22"),
        ("Notice", "dbe539f3"),
        ("Ping", "f6e2645d"),
        ("Interrupt", "1b2cb006"),
        ("Abort", "295675a6"),
        ("Bootstrap", "d0325d31"),
        ("Listening", "062a2b16"),
        ("Relay", "b595ba48"),
        ("ConnectBack", "558dfd7b"),
        ("NotConnected", "1395a7bd"),
        ("PassedReceipt", "a28e5224"),
        ("Measure", "e0f4bae2"),
        ("List", "c0d8277b"),
        ("Change", "ca4b2332"),
    ],
);

#[test]
fn the_encoding_is_that_of_the_protocols_number() {
    let mut seen: Vec<(&str, blake3::Hasher)> = Vec::new();
    for message in examples() {
        let frame = framed(&message);
        assert_eq!(decode_head(&frame[PREFIX_LENGTH..], payload(&message)), Ok(message.clone()));
        let kind = message.kind();
        if seen.last().is_none_or(|(last, _)| *last != kind) {
            seen.push((kind, blake3::Hasher::new()));
        }
        let (_, hasher) = seen.last_mut().unwrap();
        hasher.update(&frame);
    }
    let digest = |hasher: &blake3::Hasher| hasher.finalize().to_hex()[..8].to_owned();
    let found: Vec<(&str, String)> = seen.iter().map(|(kind, hasher)| (*kind, digest(hasher))).collect();
    let expected: Vec<(&str, String)> = ENCODING.1.iter().map(|(kind, digest)| (*kind, (*digest).to_owned())).collect();
    assert!(
        ENCODING.0 == VERSION && found == expected,
        "the encoding has changed: give the protocol the next number (icdc_protocol::VERSION) unless the last release \
         has an earlier one than it has now, and write down here: {VERSION}, {found:#?}"
    );
}

#[test]
fn every_seed_of_a_frame_is_one() {
    let seeds = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds/frame");
    let mut count = 0;
    for seed in std::fs::read_dir(&seeds).unwrap() {
        let seed = seed.unwrap();
        let name = seed.file_name().into_string().unwrap();
        let bytes = std::fs::read(seed.path()).unwrap();
        let (prefix, head) = bytes.split_first_chunk().unwrap();
        let prefix = Prefix::parse(prefix).unwrap();
        let message = decode_head(head, prefix.payload).unwrap_or_else(|error| panic!("{name}: {error}"));
        let kind = message.kind().to_lowercase();
        assert_eq!(name.split('_').next(), Some(kind.as_str()), "{name} is another message");
        count += 1;
    }
    assert!(count > 0);
}

fn payload(message: &Message) -> usize {
    match message {
        Message::Assembled(Assembled { header, copies }) => {
            let data: u64 = header.ranges.iter().map(|(_, length)| u64::from(*length)).sum();
            (data - copied_bytes(copies)) as usize
        }
        Message::Block(header) | Message::Difference(header) => {
            header.ranges.iter().map(|(_, length)| *length as usize).sum()
        }
        Message::Part(part) => part.range().len(),
        Message::Pack(items) => items.iter().map(|item| item.length as usize).sum(),
        Message::Compressed(_) => 900,
        _ => 0,
    }
}

fn compressed(of: Compressible) -> Message {
    Message::Compressed(Compressed { length: 5000, of })
}

fn framed(message: &Message) -> Vec<u8> {
    let mut frame = Vec::new();
    encode(message, payload(message), &mut frame).expect("an example keeps to the limits");
    frame
}

/// Every kind, with every variant within it; one kind after the other.
fn examples() -> Vec<Message> {
    [requests(), from_sender(), from_receiver(), either_way(), of_measurements(), listing(), changes()].concat()
}

fn mode_changes() -> Vec<ModeChange> {
    let change = |of, execution, copied| ModeChange { of, kept: 0o7000, set: 0o755, execution, copied };
    let copied = |from, how| Some(CopiedBits { from, to: 0o077, how });
    vec![
        change(ChangedItems::All, Execution::Given, None),
        change(ChangedItems::Directories, Execution::IfExecutable, copied(UserClass::Owner, Copied::Given)),
        change(ChangedItems::Others, Execution::Given, copied(UserClass::Group, Copied::Taken)),
        change(ChangedItems::Others, Execution::Given, copied(UserClass::Others, Copied::Taken)),
    ]
}

fn owner_mapping() -> OwnerMapping {
    let rule = |from, to| OwnerRule { from, to };
    let users = vec![
        rule(OwnerPattern::Ids { first: 1000, last: 1999 }, OwnerTarget::Id(65534)),
        rule(OwnerPattern::Name(b"anna".to_vec()), OwnerTarget::Name(b"bert".to_vec())),
    ];
    let groups = vec![
        rule(OwnerPattern::Names(b"w*".to_vec()), OwnerTarget::Id(100)),
        rule(OwnerPattern::Nameless, OwnerTarget::Id(0)),
    ];
    OwnerMapping { by: OwnersBy::Names, users, groups }
}

fn owner_names() -> OwnerNames {
    let named = |id, name: &str| NamedOwner { id, name: name.into() };
    OwnerNames { users: vec![named(1000, "anna")], groups: vec![named(0, "root"), named(100, "users")] }
}

fn requests() -> Vec<Message> {
    let preserve = Preserve {
        mode: true,
        times: false,
        links: true,
        owner: false,
        xattr: true,
        sparse: false,
        acl: true,
        specials: true,
        security: false,
    };
    let rule = |effect, pattern: &str| Rule { effect, pattern: pattern.into() };
    let choice = Choice {
        rules: vec![rule(Effect::Include, "/a.o"), rule(Effect::Exclude, "*.o")],
        min_size: Some(ByteCount::new(1)),
        max_size: Some(ByteCount::new(1 << 40)),
        newer_than: Some(TimeStamp { seconds: -1, nanos: 999_999_999 }),
        older_than: Some(TimeStamp { seconds: 1_795_000_000, nanos: 1 }),
        one_file_system: true,
        exclude_caches: false,
    };
    let send = SendOptions {
        choice,
        preserve,
        rate: Some(Rate::from_bits_per_second(10_000_000_000)),
        congestion: Some("bbr".into()),
        streams: Some(4),
        dry_run: true,
        buffered: false,
        diskless: None,
        mirrored: Mirrored::KeepingExcluded,
        moves: false,
        listed: None,
        prune_empty_dirs: true,
        owner_names: true,
        known_digests: true,
        compress: Compress::Level(3),
        background: true,
        copy_devices: true,
    };
    let receive = ReceiveOptions {
        verify: true,
        resume: false,
        existing: Existing::SkipEqual(Equality::Size),
        missing: Missing::LeaveOut,
        if_running: IfRunning::Skip,
        mkpath: true,
        preserve,
        ring: Some(ByteCount::new(1 << 30)),
        dry_run: false,
        buffered: true,
        diskless: None,
        place: Some(SourcePosition::Inside),
        keeps_name: true,
        delete: Some(Delete {
            rules: vec![Rule { effect: Effect::Exclude, pattern: b"*.o".to_vec() }],
            max: Some(MaxDelete::Percent(10)),
            allow_empty_source: false,
        }),
        link_dest: vec![b"../old".to_vec()],
        snapshot: None,
        backup: Some(Box::new(Backup { directory: Some(b"replaced".to_vec()), suffix: b".old".to_vec() })),
        receipt: false,
        chmod: mode_changes(),
        owners: owner_mapping().into(),
        whole_files: true,
        directory_links: Some(DirectoryLinks { into: vec![b"/mnt/other".to_vec()] }),
        known_digests: false,
        write_device: false,
        delta: false,
        bases: Vec::new(),
        in_place: false,
    };
    let drive = Drive {
        host: "far".into(),
        port: 5001,
        key: [3; 32],
        sources: vec![b"a".to_vec()],
        route: DriveRoute::Back,
        ports: Ports::Range { low: 5000, high: 5010 },
        send: send.clone(),
        destination: b"b".to_vec(),
        receive: receive.clone(),
    };
    let diskless = Some(Diskless { length: ByteCount::new(1 << 40), hashed: true });
    let chosen = SendOptions { mirrored: Mirrored::No, listed: Some([2; 32]), ..send.clone() };
    let sent = SendOptions { diskless, preserve: Preserve::NOTHING, ..SendOptions::default() };
    let received = ReceiveOptions { diskless, preserve: Preserve::NOTHING, ..ReceiveOptions::default() };
    let keep = Some(Keep { days: 7, weeks: 4, months: 12, years: 300 });
    let snapshot = ReceiveOptions {
        delete: Some(Delete::default()),
        snapshot: Some(Snapshot { time: snapshot_time(), keep }),
        receipt: true,
        ..ReceiveOptions::default()
    };
    let order = MeasureRequest {
        reverse: true,
        nanos: 10_000_000_000,
        bytes: Some(ByteCount::new(300)),
        streams: 2,
        rate: Some(Rate::from_bits_per_second(400)),
        congestion: Some("cubic".into()),
        window: Some(ByteCount::new(500)),
        ports: Some(Ports::Range { low: 5000, high: 5010 }),
    };
    let jobs = vec![
        Job::Transfer(Transfer::Receive { destination: b"there".to_vec(), options: receive }),
        Job::Transfer(Transfer::Send { sources: vec![b"one".to_vec(), b"two".to_vec()], options: send.clone() }),
        Job::Join { stream: 3 },
        Job::Admit { key: [4; 32], job: Box::new(Transfer::Send { sources: vec![b"one".to_vec()], options: send }) },
        Job::Drive(Box::new(drive)),
        Job::DriveKey,
        Job::Measure(order),
        Job::Transfer(Transfer::Receive { destination: b"arrived".to_vec(), options: received }),
        Job::Transfer(Transfer::Send { sources: vec![b"zeros".to_vec()], options: sent }),
        Job::Transfer(Transfer::Send { sources: vec![b"one/".to_vec()], options: chosen }),
        Job::Transfer(Transfer::Receive { destination: b"backup".to_vec(), options: snapshot }),
        list(ListReach::Directory, ListDetail::Names),
        list(ListReach::Tree, ListDetail::Metadata),
        list(ListReach::Tree, ListDetail::Digests(ListDigest::Comparison)),
        list(ListReach::Tree, ListDetail::Digests(ListDigest::Blake3)),
        list(ListReach::Tree, ListDetail::Digests(ListDigest::Sha256)),
        list(ListReach::Tree, ListDetail::Digests(ListDigest::Md5)),
        Job::Change(ChangeRequest::MakeDirectories { paths: vec![b"in/new".to_vec()], mkpath: true }),
        Job::Change(ChangeRequest::Remove {
            paths: vec![b"run7".to_vec(), b"*.tmp".to_vec()],
            recursive: true,
            dry_run: false,
            names: true,
        }),
        Job::Change(ChangeRequest::Rename { from: b"run7".to_vec(), to: b"old/".to_vec(), replace: false }),
    ];
    let features = Features::from_bits(1 << 40 | 3);
    jobs.into_iter().map(|job| Message::Request(Request { transfer: [9; 16], features, job })).collect()
}

fn snapshot_time() -> SnapshotTime {
    SnapshotTime::new(1_795_744_800).expect("it is before the year 10000")
}

fn list(reach: ListReach, detail: ListDetail) -> Job {
    let rules = vec![Rule { effect: Effect::Exclude, pattern: b"*.tmp".to_vec() }];
    Job::List(ListRequest { path: b"there".to_vec(), reach, detail, rules })
}

fn listing() -> Vec<Message> {
    let modified = TimeStamp { seconds: -300, nanos: 7 };
    let metadata = ListedMetadata {
        size: 1 << 40,
        allocated: 300,
        mode: 0o644,
        links: 2,
        user: 1000,
        group: 100,
        modified,
        repeated: true,
    };
    let item = |kind| Listed::Item(ListedItem { shared: 3, rest: b".nc".to_vec(), kind, metadata: None });
    let file = ListedKind::File { digest: Some(Ok(vec![7; 32])) };
    let records = vec![
        Listed::Item(ListedItem { shared: 0, rest: Vec::new(), kind: ListedKind::Open, metadata: Some(metadata) }),
        item(file),
        item(ListedKind::File { digest: Some(Err("unreadable".into())) }),
        item(ListedKind::Directory),
        item(ListedKind::Symlink { target: b"there".to_vec() }),
        item(ListedKind::Pipe),
        item(ListedKind::Socket),
        item(ListedKind::BlockDevice),
        item(ListedKind::CharacterDevice),
        item(ListedKind::Unknown),
        item(ListedKind::Unexamined("gone".into())),
        Listed::Unread("closed".into()),
        Listed::Leave,
    ];
    let messages = vec![ListMessage::Listed(records), ListMessage::End, ListMessage::Used { weight: 300 }];
    messages.into_iter().map(Message::List).collect()
}

fn changes() -> Vec<Message> {
    let count = ChangeCount { items: 300, directories: 2, bytes: 1 << 40 };
    let messages = vec![
        ChangeMessage::Counted(count),
        ChangeMessage::Proceed,
        ChangeMessage::Changed(vec![ChangedItem { path: b"run7/x".to_vec(), is_directory: true }]),
        ChangeMessage::Failed { path: b"run7/y".to_vec(), reason: "in use".into() },
        ChangeMessage::End(count),
        ChangeMessage::Used { weight: 300 },
    ];
    messages.into_iter().map(Message::Change).collect()
}

fn from_sender() -> Vec<Message> {
    let source = |name: &[u8], kind| Source { name: name.to_vec(), kind, identity: Some([8; 16]) };
    let sources = vec![
        source(b"item", SourceKind::Item),
        source(b"directory", SourceKind::Directory),
        source(b"contents", SourceKind::Contents),
    ];
    let end = |outcome| Message::FileEnd(FileEnd { id: 1000, blocks: 20, outcome });
    let given_up = GivenUp { reason: "it cannot be read".into(), same_version: true };
    let goodbye = Goodbye {
        tree: [5; 32],
        bytes_sent: 1 << 40,
        retransmitted_segments: 7,
        failed: 2,
        limited_by: vec![("disk".into(), 300)],
        uncompressed: Some(Uncompressed::Disk),
    };
    vec![
        Message::Accepted(Features::from_bits(1 << 40 | 3)),
        Message::Sources(sources.clone()),
        Message::Begin(Begin { job: [6; 32], sources }),
        Message::Entries(entries()),
        Message::Block(BlockHeader { id: 300, index: 2, value: [7; 32], ranges: vec![(0, 4096), (8192, 512)] }),
        Message::Difference(BlockHeader { id: 300, index: 3, value: [7; 32], ranges: vec![(65536, 65536)] }),
        Message::Difference(BlockHeader { id: 300, index: 4, value: [9; 32], ranges: Vec::new() }),
        Message::Holes { id: 300, blocks: vec![5, 9] },
        Message::Assembled(assembled(vec![(0, 100_000)])),
        Message::Part(Part { id: 300, index: 2, value: [7; 32], length: 600_000, number: 2 }),
        Message::Pack(vec![PackItem { id: 301, length: 10, digest: [8; 32] }]),
        compressed(Compressible::Block(BlockHeader { id: 300, index: 2, value: [7; 32], ranges: vec![(0, 5000)] })),
        compressed(Compressible::Difference(BlockHeader {
            id: 300,
            index: 3,
            value: [7; 32],
            ranges: vec![(9, 5000)],
        })),
        compressed(Compressible::Assembled(assembled(vec![(0, 75_000)]))),
        compressed(Compressible::Pack(vec![PackItem { id: 301, length: 5000, digest: [8; 32] }])),
        end(Ok(FileDigest::Blake3([1; 32]))),
        end(Ok(FileDigest::SparseMap([2; 32]))),
        end(Err(given_up)),
        Message::StreamEnd(StreamEnd {
            id: 302,
            digest: [3; 32],
            streamed: Streamed { size: 1 << 33, mtime_seconds: -2, mtime_nanos: 999_999_999 },
        }),
        Message::LeftOut { directory: 200, what: LeftOut::Names(vec![b"x.tmp".to_vec()]) },
        Message::LeftOut { directory: 200, what: LeftOut::Unread },
        Message::NamesWanted { pass: 3 },
        Message::OwnerNames(owner_names()),
        Message::DirEnd { id: 200 },
        Message::Removed(vec![ChangedItem { path: b"run7/x".to_vec(), is_directory: false }]),
        Message::CandidateAnswer(CandidateAnswer { id: 300, gone: 0, digest: None }),
        Message::CandidateAnswer(CandidateAnswer { id: 300, gone: 300, digest: Some(FileDigest::Blake3([1; 32])) }),
        Message::Problem(Problem { path: b"a/b".to_vec(), reason: "a device".into(), error: true }),
        Message::Totals(Totals { entries: 300, files: 200, bytes: 1 << 33, complete: true }),
        Message::End,
        Message::Goodbye(goodbye),
        Message::Congestion(Congestion { name: "icdc".into(), instead: "none".into() }),
        Message::Confirmed,
        Message::Connections { wanted: 60 },
        Message::DatagramsWanted,
    ]
}

fn entries() -> Vec<Entry> {
    let entry = |id, name: &[u8], parent, kind| Entry {
        id,
        parent,
        name: name.to_vec(),
        kind,
        mode: 0o644,
        mtime_seconds: -2,
        mtime_nanos: 999_999_999,
        owner: Some((1000, 100)),
        xattrs: vec![(b"user.a".to_vec(), b"value".to_vec())],
    };
    let file = EntryKind::File { size: 1 << 20, version: [9; 16], sparse: true, linked: false };
    let device = DeviceNumber { major: 259, minor: 1_000_000 };
    vec![
        Entry { owner: None, xattrs: vec![], ..entry(10, b"", Parent::Source(1), EntryKind::Directory) },
        entry(11, b"file", Parent::Directory(10), file),
        entry(12, b"link", Parent::Directory(10), EntryKind::Symlink { target: b"file".to_vec() }),
        entry(
            13,
            b"name",
            Parent::Directory(10),
            EntryKind::HardLink { to: 11, size: 1 << 20, version: [9; 16], sparse: true },
        ),
        entry(14, b"pipe", Parent::Directory(10), EntryKind::Special(Special::Pipe)),
        entry(15, b"socket", Parent::Directory(10), EntryKind::Special(Special::Socket)),
        entry(16, b"disk", Parent::Directory(10), EntryKind::Special(Special::BlockDevice(device))),
        entry(17, b"null", Parent::Directory(10), EntryKind::Special(Special::CharacterDevice(device))),
        entry(18, b"", Parent::Source(2), EntryKind::Stream),
    ]
}

fn from_receiver() -> Vec<Message> {
    let digest = FileDigest::Blake3([1; 32]);
    let time = snapshot_time();
    let answers = vec![
        Want::All,
        Want::Rest,
        Want::Have(digest),
        Want::TakenOver(digest),
        Want::Skip,
        Want::Failed,
        Want::Contents,
        Want::Keep(Kept::Newer),
        Want::Keep(Kept::Existing),
        Want::Keep(Kept::Missing),
        Want::Linked,
        Want::Renamed(Some(digest)),
        Want::Renamed(None),
        Want::Difference,
        Want::Delta,
    ];
    let done = |outcome| Done { id: 400, outcome };
    let feedback = |write_rate| {
        Message::Feedback(Feedback { received: 500, durable: 400, ring_used: 3, ring_blocks: 64, write_rate })
    };
    let running =
        |then| Message::Running(Some(Running { path: b"far/x".to_vec(), pid: Some(300), age: Some(1 << 20), then }));
    vec![
        Message::Ready(Ready { resuming: true, ring_blocks: 64 }),
        Message::Held(Held { id: 300, first: 2, values: vec![[4; 32]] }),
        Message::Wants(Wants { first: 1000, answers }),
        Message::Resend { id: 300, index: 2 },
        Message::Done(vec![done(Ok(None)), done(Ok(Some(digest))), done(Err("full".into()))]),
        feedback(None),
        feedback(Some(1 << 30)),
        Message::UserCeiling(None),
        Message::UserCeiling(Some(Rate::from_bits_per_second(8_000_000))),
        running(IfRunning::Wait),
        running(IfRunning::Skip),
        running(IfRunning::Fail),
        Message::Running(None),
        Message::Placed(SourcePosition::Named),
        Message::Placed(SourcePosition::Inside),
        Message::Deletion(Deletion::Deleted(vec![ChangedItem { path: b"old/x".to_vec(), is_directory: true }])),
        Message::Deletion(Deletion::Failed { path: b"old".to_vec(), reason: "not empty".into() }),
        Message::Deletion(Deletion::Refused("an item failed".into())),
        Message::Deletion(Deletion::Ended),
        Message::Names(ListedNames { pass: 3, names: vec![b"a/b".to_vec(), b"c".to_vec()], ended: true }),
        Message::Candidates(Candidates {
            id: 300,
            places: vec![CandidatePlace { source: 1, path: b"old/x".to_vec() }],
        }),
        Message::Snapshot(SnapshotNews::Made(time)),
        Message::Snapshot(SnapshotNews::NotMade("an item failed".into())),
        Message::Snapshot(SnapshotNews::Removed(time)),
        Message::Snapshot(SnapshotNews::Stays { time, reason: "something is mounted there".into() }),
        Message::Receipt(ReceiptPart::Begun {
            facts: Facts::of_head().with("directory", "in").into_head(),
            name: Some(b"b".to_vec()),
        }),
        Message::Receipt(ReceiptPart::Signed {
            facts: Facts::of_foot().with("items", "1").into_foot(),
            key: [1; 32],
            signature: [[2; 32], [3; 32]],
        }),
        Message::Receipt(ReceiptPart::Refused("an item failed".into())),
        Message::Basis(Basis { id: 300, first: 3, blocks: vec![vec![[1; 16], [2; 16]], Vec::new()], complete: false }),
        Message::Basis(Basis { id: 300, first: 5, blocks: Vec::new(), complete: true }),
        Message::Chunks(Chunks {
            id: 300,
            chunking: Chunking::for_bytes(ByteCount::ZERO),
            basis: 2,
            offset: 1 << 33,
            chunks: vec![(20_000, [1; 16]), (300, [2; 16])],
            covered: 1 << 34,
            complete: false,
        }),
        Message::InPlace { id: 300 },
    ]
}

/// A block of data in these ranges of which 70,000 bytes are copied.
fn assembled(ranges: Vec<(u32, u32)>) -> Assembled {
    let header = BlockHeader { id: 300, index: 4, value: [7; 32], ranges };
    Assembled { header, copies: vec![CopiedPart { at: 300, length: 70_000, basis: 1, offset: 1 << 33 }] }
}

fn either_way() -> Vec<Message> {
    let kinds = [
        RefusalKind::NotAllowed,
        RefusalKind::Path,
        RefusalKind::Protocol,
        RefusalKind::Busy,
        RefusalKind::Interrupted,
        RefusalKind::Internal,
        RefusalKind::Running,
    ];
    let refused = kinds.map(|kind| Message::Refused(Refusal { kind, reason: "why".into() }));
    let features = Features::from_bits(1 << 40 | 3);
    let versions = Versions::new(260, 300).expect("a range");
    let bootstrap =
        |task| Message::Bootstrap(Bootstrap { versions, features, version: "1.2.3".into(), task, family: 6 });
    let rest = vec![
        Message::Left { connection: 3, frames: 1 << 33 },
        Message::MaxRate { bytes_per_second: 1_000_000 },
        Message::StreamFrom { bytes: 8 << 20 },
        Message::StreamDurable { bytes: (8 << 20) + 5 },
        Message::KeyCeiling(None),
        Message::KeyCeiling(Some(Rate::from_bits_per_second(8_000_000))),
        Message::Notice(Notice {
            kind: NoticeKind::TimeNotKept,
            count: 300,
            first: vec![b"a".to_vec(), b"b/c".to_vec()],
        }),
        Message::Ping,
        Message::Interrupt,
        Message::Abort(Refusal { kind: RefusalKind::Internal, reason: "why".into() }),
        bootstrap(FarTask::Drive),
        bootstrap(FarTask::Serve { peer: [2; 32], ports: Ports::Range { low: 5000, high: 5010 } }),
        bootstrap(FarTask::Forward { port: 5001 }),
        Message::Listening(Listening { features, version: "1.2.3".into(), key: [3; 32], port: 5001 }),
        Message::Relay(b"{}".to_vec()),
        Message::ConnectBack(ConnectBack {
            number: 300,
            secret: [4; 32],
            addresses: vec![Ipv4Addr::new(192, 0, 2, 1).into(), Ipv6Addr::LOCALHOST.into()],
            elsewhere: true,
            port: 5002,
        }),
        Message::NotConnected { number: 300, reason: "why".into() },
        Message::PassedReceipt(PassedReceipt::KeyWanted),
        Message::PassedReceipt(PassedReceipt::Key([5; 32])),
        Message::PassedReceipt(PassedReceipt::NoKey("why".into())),
        Message::PassedReceipt(PassedReceipt::Begun(Facts::of_head().with("directory", "in").into_head())),
        Message::PassedReceipt(PassedReceipt::Items(b"stored file 12 1.000000000 -  a\n".to_vec())),
        Message::PassedReceipt(PassedReceipt::Signed {
            facts: Facts::of_foot().with("items", "1").into_foot(),
            key: [1; 32],
            signature: [[2; 32], [3; 32]],
        }),
        Message::PassedReceipt(PassedReceipt::Refused("an item failed".into())),
    ];
    refused.into_iter().chain(rest).collect()
}

fn of_measurements() -> Vec<Message> {
    let sample = Sample {
        stream: 1,
        at_nanos: 200,
        rtt_nanos: 300,
        min_rtt_nanos: 400,
        cwnd_bytes: 500,
        pacing_rate_bps: 600,
        delivery_rate_bps: 700,
        retransmitted_segments: 800,
        bytes_acked: 900,
    };
    let received = Received {
        bytes: 100,
        nanos: 200,
        packets: true,
        bins: 3,
        window: 400,
        errors: vec!["error".into()],
        notices: vec!["notice".into()],
    };
    let sent = Sent {
        congestion: "bbr".into(),
        mss: 1448,
        window: 200,
        retransmitted_segments: 300,
        min_rtt_nanos: 400,
        open_nanos: 500,
        busy_nanos: 600,
        receive_window_nanos: 700,
        send_buffer_nanos: 800,
        errors: vec!["error".into()],
        notices: vec!["notice".into()],
    };
    let words = vec![
        ControlMessage::Ready { port: 5001, tokens: vec![[1; 32]] },
        ControlMessage::Go,
        ControlMessage::Samples(vec![sample]),
        ControlMessage::Received(received),
        ControlMessage::Arrivals(vec![1, 200, 3]),
        ControlMessage::Sent(sent),
    ];
    words.into_iter().map(Message::Measure).collect()
}
