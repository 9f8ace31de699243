//! What two ends agree upon, and how they tell it.

use icdc_protocol::frame::{PREFIX_LENGTH, decode_head, encode};
use icdc_protocol::message::{
    Bootstrap, Delete, Diskless, FarTask, Listening, Message, Mirrored, OwnerMapping, Preserve, ReceiveOptions,
    Refusal, RefusalKind, SendOptions, Snapshot, SnapshotTime,
};
use icdc_protocol::owners::OwnersBy;
use icdc_protocol::version::{LONGEST_LINE, NONE_IN_COMMON, version_named};
use icdc_protocol::{Features, MIN_VERSION, Ports, VERSION, Versions};
use icdc_units::{ByteCount, hexadecimal};
use proptest::prelude::*;

fn versions(lowest: u32, highest: u32) -> Versions {
    Versions::new(lowest, highest).expect("a range")
}

#[test]
fn two_ends_use_the_highest_version_that_both_have() {
    for (ours, theirs, common) in [
        ((2, 2), (2, 2), Some(2)),
        ((2, 3), (3, 4), Some(3)),
        ((2, 3), (2, 9), Some(3)),
        ((5, 9), (1, 7), Some(7)),
        ((2, 2), (3, 4), None),
        ((3, 4), (1, 2), None),
    ] {
        let (ours, theirs) = (versions(ours.0, ours.1), versions(theirs.0, theirs.1));
        assert_eq!((ours.common(theirs), theirs.common(ours)), (common, common), "{ours} and {theirs}");
    }
    assert_eq!(versions(2, 2).remedy(versions(3, 4)), "upgrade icdc on this host");
    assert_eq!(versions(3, 4).remedy(versions(2, 2)), "upgrade icdc there");
}

#[test]
fn this_release_speaks_the_version_before() {
    assert_eq!((Versions::OURS.lowest(), Versions::OURS.highest()), (MIN_VERSION, VERSION));
    // No release has spoken an earlier one than 2.
    const { assert!(MIN_VERSION == 2 || MIN_VERSION < VERSION, "the release before this one is not understood") };
}

#[test]
fn names_offer_a_range_from_the_highest_version_down() {
    let names = versions(2, 4).names();
    assert_eq!(names, [&b"icdc/4"[..], b"icdc/3", b"icdc/2", NONE_IN_COMMON]);
    assert_eq!(Versions::named(&names), Some(versions(2, 4)));
    assert_eq!(Versions::named(&[NONE_IN_COMMON.to_vec(), b"h2".to_vec()]), None);
    assert_eq!(version_named(b"icdc/17"), Some(17));
    for other in ["icdc/", "icdc/02", "icdc/+2", "icdc/2 ", "icdc-relay/1", "icdc/99999999999"] {
        assert_eq!(version_named(other.as_bytes()), None, "{other}");
    }
}

#[test]
fn what_is_no_range_is_not_believed() {
    for (lowest, highest) in [(3, 2), (0, 2), (1, u32::MAX)] {
        assert_eq!(Versions::new(lowest, highest), None);
        assert_eq!(Versions::parse_line(format!("ICDC-VERSIONS {lowest}-{highest}\n").as_bytes()), None);
    }
    // From the wire as well: such a range is made by hand.
    let bootstrap = |lowest: u8, highest: u8| {
        let mut frame = opening(Message::Bootstrap(started(versions(2, 3))));
        assert_eq!(frame[PREFIX_LENGTH + 1..PREFIX_LENGTH + 3], [2, 3]);
        frame[PREFIX_LENGTH + 1..PREFIX_LENGTH + 3].copy_from_slice(&[lowest, highest]);
        decode_head(&frame[PREFIX_LENGTH..], 0)
    };
    assert!(bootstrap(2, 9).is_ok());
    assert!(bootstrap(3, 2).is_err() && bootstrap(0, 2).is_err() && bootstrap(1, 100).is_err());
}

proptest! {
    #[test]
    fn a_line_tells_its_range(lowest in 1..u32::MAX - 63, more in 0..64_u32) {
        let range = versions(lowest, lowest + more);
        let line = range.line();
        prop_assert!(line.len() <= LONGEST_LINE, "{line}");
        prop_assert_eq!(Versions::parse_line(line.as_bytes()), Some(range));
        prop_assert_eq!(Versions::parse_line(line.trim_end().as_bytes()), Some(range));
        prop_assert_eq!(Versions::parse_line(line.replace('\n', "\r\n").as_bytes()), Some(range));
    }

    #[test]
    fn any_line_is_read_without_a_panic(line in proptest::collection::vec(any::<u8>(), 0..60), tail in "[0-9+-]{0,24}") {
        prop_assert_eq!(Versions::parse_line(&line), None);
        if let Some(range) = Versions::parse_line(format!("ICDC-VERSIONS {tail}").as_bytes()) {
            prop_assert_eq!(range.line(), format!("ICDC-VERSIONS {tail}\n"));
        }
    }
}

#[test]
fn unknown_features_mean_nothing() {
    let theirs = Features::from_bits(1 << 63 | 1 << 20 | Features::PARTS.bits());
    assert!(theirs.has(Features::PARTS) && !theirs.has(Features::DISKLESS) && theirs.has(Features::NONE));
    assert_eq!(theirs.lacking(Features::PARTS), None);
    assert!(theirs.lacking(Features::DISKLESS).unwrap().contains("cannot copy without its disks"));
    assert!(Features::NONE.lacking(Features::OURS).is_some());
    assert!(theirs.lacking(Features::OWNER_NAMES).unwrap().contains("--numeric-ids"));
    assert_eq!(Features::OURS.lacking(Features::OURS), None);
    let known = [
        Features::DISKLESS,
        Features::PARTS,
        Features::MAX_RATE,
        Features::DELETION,
        Features::LISTING,
        Features::CHECKSUM,
        Features::RENAMES,
        Features::SNAPSHOT,
        Features::CHANGES,
        Features::RECEIPT,
        Features::ATTRIBUTES,
        Features::OWNER_NAMES,
        Features::DIFFERENCES,
        Features::DIRECTORY_LINKS,
        Features::STREAMS,
        Features::COMPRESSION,
        Features::PASSED_RECEIPTS,
        Features::USER_CEILING,
        Features::KEY_CEILING,
        Features::STREAM_PLACES,
        Features::DEVICES,
        Features::DELTA,
        Features::IN_PLACE,
        Features::DATAGRAMS,
    ];
    assert_eq!(known.into_iter().fold(Features::NONE, Features::union), Features::OURS);
    let preserve = Preserve { specials: true, ..Preserve::default() };
    let (send, receive) =
        (SendOptions { preserve, ..SendOptions::default() }, ReceiveOptions { preserve, ..ReceiveOptions::default() });
    assert_eq!((send.needs(), receive.needs()), (Features::ATTRIBUTES, Features::ATTRIBUTES));
    let preserve = Preserve { owner: true, ..Preserve::default() };
    let owners = Box::new(OwnerMapping { by: OwnersBy::Names, ..OwnerMapping::default() });
    let receive = ReceiveOptions { preserve, owners, ..ReceiveOptions::default() };
    let send = SendOptions { preserve, owner_names: receive.learns_owner_names(), ..SendOptions::default() };
    assert_eq!((send.needs(), receive.needs()), (Features::OWNER_NAMES, Features::OWNER_NAMES));
    let receive = ReceiveOptions { preserve: Preserve::default(), ..receive };
    assert_eq!((receive.learns_owner_names(), receive.needs()), (false, Features::NONE));
    let diskless = Some(Diskless { length: ByteCount::from_mib(1), hashed: false });
    let (send, receive) = (SendOptions::default(), ReceiveOptions::default());
    assert_eq!((send.needs(), receive.needs()), (Features::NONE, Features::NONE));
    let (send, receive) = (SendOptions { diskless, ..send }, ReceiveOptions { diskless, ..receive });
    assert_eq!((send.needs(), receive.needs()), (Features::DISKLESS, Features::DISKLESS));
    let send = SendOptions { mirrored: Mirrored::WithExcluded, ..SendOptions::default() };
    let receive = ReceiveOptions { delete: Some(Delete::default()), ..ReceiveOptions::default() };
    assert_eq!((send.needs(), receive.needs()), (Features::DELETION, Features::DELETION));
    let time = SnapshotTime::new(0).unwrap();
    let send = SendOptions { mirrored: Mirrored::Snapshot, ..send };
    let receive = ReceiveOptions { snapshot: Some(Snapshot { time, keep: None }), ..receive };
    let both = Features::DELETION.union(Features::SNAPSHOT);
    assert_eq!((send.needs(), receive.needs()), (both, both));
}

fn started(versions: Versions) -> Bootstrap {
    let task = FarTask::Serve { peer: [2; 32], ports: Ports::Range { low: 5000, high: 5010 } };
    Bootstrap { versions, features: Features::from_bits(5), version: "1.2.3".into(), task, family: 6 }
}

fn opening(message: Message) -> Vec<u8> {
    let mut frame = Vec::new();
    encode(&message, 0, &mut frame).expect("it is short");
    frame
}

/// An end reads these before it knows the other one's version: no version may change them.
#[test]
fn the_first_messages_over_ssh_are_the_same_in_every_version() {
    let bootstrap = opening(Message::Bootstrap(started(versions(260, 300))));
    let listening = Listening { features: Features::from_bits(5), version: "1.2.3".into(), key: [3; 32], port: 5001 };
    let refusal = Refusal { kind: RefusalKind::Internal, reason: "why".into() };
    let (twos, threes) = ("02".repeat(32), "03".repeat(32));
    let release = "05312e322e33";
    assert_eq!(hexadecimal(&bootstrap), format!("3200000000000000168402ac0205{release}00{twos}8827922706"));
    assert_eq!(
        hexadecimal(&opening(Message::Listening(listening))),
        format!("2a000000000000001705{release}{threes}8927")
    );
    assert_eq!(hexadecimal(&opening(Message::Refused(refusal))), "0600000000000000020503776879");
}

#[test]
fn the_first_message_fits_on_a_command_line() {
    let told = started(versions(260, 300));
    let word = told.word();
    assert_eq!(word, hexadecimal(&opening(Message::Bootstrap(told.clone()))));
    assert_eq!(word.parse::<Bootstrap>().ok(), Some(told));
    let other = hexadecimal(&opening(Message::Ping));
    let long = format!("{word}{}", "00".repeat(4096));
    for wrong in ["", "extra", "32", &word[2..], &word[..word.len() - 2], &format!("{word}00"), &other, &long] {
        assert!(wrong.parse::<Bootstrap>().is_err(), "{wrong}");
    }
}
