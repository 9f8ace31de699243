//! The machine as its executor and the receiver see it.

#![allow(clippy::unwrap_used, reason = "a test that fails says where")]

use icdc_protocol::block_map::block_count;
use icdc_protocol::chunking::Chunking;
use icdc_protocol::limits::{BLOCK_SIZE, PACK_FILE_LIMIT};
use icdc_protocol::message::{
    Basis, CandidatePlace, Candidates, ChangedItem, Chunks, Deletion, Done, Held, Kept, NoticeKind, Ready, Refusal,
    RefusalKind, Want, Wants,
};
use icdc_protocol::owners::NamedOwner;
use icdc_units::ByteCount;

use super::super::packs::Packs;
use super::super::{INTERRUPT_PATIENCE, LAST_WORDS_PATIENCE, Removed};
use super::*;

const NOW: Time = Time::from_nanos(7_000_000_000);
const SMALL: u64 = 100;
const LARGE: u64 = 3 * BLOCK_SIZE as u64;

fn begin() -> Begin {
    Begin { job: [0; 32], sources: Vec::new() }
}

fn sender() -> Sender {
    Sender::new(
        Settings {
            dry_run: false,
            keeps_journal: false,
            window: Window::default(),
            keeps_digests: false,
            needs: Features::NONE,
            awaits_deletion: false,
            awaits_receipt: false,
            follows: false,
        },
        begin(),
    )
}

fn found(parent: Parent, kind: EntryKind, path: &[u8]) -> Found {
    let (name, owner, xattrs) = (path.to_vec(), None, Vec::new());
    Found {
        parent,
        name,
        kind,
        mode: 0o644,
        mtime: (1, 2),
        owner,
        xattrs,
        path: path.to_vec(),
        above: 0,
        first: None,
        held: 0,
        removal: Removal::Never,
    }
}

fn file(size: u64) -> Found {
    let kind = EntryKind::File { size, version: [7; 16], sparse: false, linked: false };
    found(Parent::Source(0), kind, b"file")
}

fn actions(sender: &mut Sender) -> Vec<Action> {
    std::iter::from_fn(|| sender.poll()).collect()
}

fn messages(sender: &mut Sender) -> Vec<Message> {
    std::iter::from_fn(|| sender.poll_message()).collect()
}

fn wants(first: EntryId, answers: Vec<Want>) -> Message {
    Message::Wants(Wants { first, answers })
}

fn done(id: EntryId, outcome: Result<Option<FileDigest>, &str>) -> Message {
    Message::Done(vec![Done { id, outcome: outcome.map_err(str::to_owned) }])
}

fn settled(id: EntryId, bytes: u64, fate: Fate) -> Action {
    Action::Settled { id, path: b"file".to_vec(), bytes: ByteCount::new(bytes), fate }
}

fn protocol_error(actions: &[Action]) -> bool {
    // The receiver is informed before the session ends.
    actions.contains(&Action::Leave) && !actions.iter().any(|action| matches!(action, Action::End(_)))
}

#[test]
fn names_of_owners_are_told_ahead_of_the_entries_that_have_them() {
    let mut sender = sender();
    let names = |id| OwnerNames { users: vec![NamedOwner { id, name: b"anna".to_vec() }], groups: Vec::new() };
    sender.on_owner_names(names(1000));
    sender.announce(Found { owner: Some((1000, 0)), ..file(SMALL) });
    // Entries are told together.
    sender.on_owner_names(names(1001));
    sender.announce(Found { owner: Some((1001, 0)), ..file(SMALL) });
    sender.on_scanned(NOW);
    let told = messages(&mut sender);
    assert!(
        matches!(&told[..], [Message::Begin(_), Message::OwnerNames(first), Message::OwnerNames(second), Message::Entries(entries), ..]
            if *first == names(1000) && *second == names(1001) && entries.len() == 2),
        "{told:?}"
    );
}

#[test]
fn a_session_from_its_first_message_to_its_last() {
    let mut sender = sender();
    assert_eq!(messages(&mut sender), [Message::Begin(begin())]);
    assert_eq!(sender.request(Need::Item { depth: 0 }), Grant::Now);
    let small = sender.announce(file(SMALL));
    let large = sender.announce(file(LARGE));
    sender.on_scanned(NOW);
    let told = messages(&mut sender);
    assert!(
        matches!(&told[..], [
            Message::Entries(entries), Message::Totals(_), Message::Totals(totals), Message::End,
        ] if entries.len() == 2 && totals.complete),
        "{told:?}"
    );
    sender.on_message(NOW, Message::Ready(Ready { resuming: false, ring_blocks: 1 }));
    assert_eq!(actions(&mut sender), [Action::Answered]);
    assert_eq!(messages(&mut sender), [Message::Confirmed]);
    sender.on_message(NOW, wants(0, vec![Want::All, Want::All]));
    let read = Action::Read { id: large, held: None, described: false };
    assert_eq!(actions(&mut sender), [read, Action::Pack(vec![small])]);
    sender.on_packed(&[PackItem { id: small, length: SMALL as u32, digest: [1; 32] }]);
    let digest = FileDigest::Blake3([2; 32]);
    let end = sender.on_read(large, block_count(LARGE), Ok(digest)).unwrap();
    assert_eq!(end, FileEnd { id: large, blocks: 3, outcome: Ok(digest) });
    let packed = Some(FileDigest::Blake3([1; 32]));
    sender.on_message(NOW, done(small, Ok(packed)));
    assert_eq!(actions(&mut sender), [settled(small, SMALL, Fate::Published(packed))]);
    assert!(messages(&mut sender).is_empty());
    sender.on_message(NOW, done(large, Ok(Some(digest))));
    assert_eq!(actions(&mut sender), [settled(large, LARGE, Fate::Published(Some(digest))), Action::Leave]);
    assert!(sender.is_over());
    let last = messages(&mut sender);
    assert!(matches!(&last[..], [Message::Goodbye(goodbye)] if goodbye.tree == sender.tree()), "{last:?}");
    sender.on_sent(NOW);
    assert_eq!(actions(&mut sender), [Action::End(Ok(()))]);
    let counts = sender.counts();
    assert_eq!((counts.files_done, counts.bytes_done), (2, ByteCount::new(SMALL + LARGE)));
}

#[test]
fn a_receiver_that_cannot_do_what_is_needed_ends_the_session() {
    let settings = |needs| Settings {
        dry_run: false,
        keeps_journal: false,
        window: Window::default(),
        keeps_digests: false,
        needs,
        awaits_deletion: false,
        awaits_receipt: false,
        follows: false,
    };
    let ended = |needs, theirs| {
        let mut sender = Sender::new(settings(needs), begin());
        messages(&mut sender);
        sender.on_message(NOW, Message::Accepted(theirs));
        messages(&mut sender);
        sender.on_sent(NOW);
        actions(&mut sender).into_iter().find_map(|action| match action {
            Action::End(Err(SessionError::Refused(refusal))) => Some(refusal),
            _ => None,
        })
    };
    let refusal = ended(Features::DISKLESS, Features::from_bits(!Features::DISKLESS.bits())).unwrap();
    assert_eq!(refusal.kind, RefusalKind::NotAllowed);
    assert!(refusal.reason.contains("cannot copy without its disks"), "{}", refusal.reason);
    assert_eq!(ended(Features::DISKLESS, Features::from_bits(u64::MAX)), None, "unknown features mean nothing");
    assert_eq!(ended(Features::NONE, Features::NONE), None);
}

#[test]
fn a_full_window_is_granted_again_when_an_item_is_settled() {
    let mut sender = sender();
    let need = Need::Item { depth: 0 };
    let mut announced = 0;
    while sender.request(need) == Grant::Now {
        sender.announce(file(SMALL));
        announced += 1;
        messages(&mut sender);
    }
    assert_eq!(announced, Window::default().items);
    assert!(messages(&mut sender).is_empty() && actions(&mut sender).is_empty(), "all was handed on");
    sender.on_message(NOW, wants(0, vec![Want::Skip]));
    let expected = [Action::Answered, settled(0, SMALL, Fate::Skipped), Action::Granted];
    assert_eq!(actions(&mut sender), expected);
    assert_eq!(sender.request(need), Grant::Now);
}

#[test]
fn what_was_announced_is_handed_on_before_the_scan_waits() {
    let mut sender = sender();
    let mut entries = 0;
    while sender.request(Need::Item { depth: 0 }) == Grant::Now {
        sender.announce(file(SMALL));
    }
    // Messages that are not taken hold the scan up, too.
    for message in messages(&mut sender) {
        if let Message::Entries(batch) = message {
            entries += batch.len() as u64;
        }
    }
    assert!(entries < Window::default().items as u64);
    assert_eq!(entries, sender.counts().totals.entries);
    assert_eq!(actions(&mut sender), [Action::Granted]);
}

#[test]
fn the_scan_hears_of_the_end_whatever_it_waits_for() {
    for need in [Need::Item { depth: 0 }, Need::Problem] {
        let mut sender = sender();
        while sender.request(need) == Grant::Now {
            sender.on_problem(Problem { path: Vec::new(), reason: "why".into(), error: false });
        }
        actions(&mut sender);
        sender.fail(NOW, SessionError::Cut("the cable".into()));
        let over = [Action::Leave, Action::End(Err(SessionError::Cut("the cable".into()))), Action::Granted];
        assert_eq!(actions(&mut sender), over);
        assert_eq!(sender.request(need), Grant::Over);
    }
}

#[test]
fn small_files_are_packed_by_their_number_and_their_bytes() {
    let mut packs = Packs::default();
    let mut pack = |sizes: &[u64]| {
        let packs = packs.split((0..).zip(sizes.iter().copied().map(ByteCount::new)));
        packs.iter().map(Vec::len).collect::<Vec<_>>()
    };
    assert_eq!(pack(&[]), [0; 0]);
    assert_eq!(pack(&[0; 600]), [256, 256, 88]);
    pack(&[PACK_FILE_LIMIT; 1024]);
    assert_eq!(pack(&[PACK_FILE_LIMIT; 17]), [16, 1]);
    assert_eq!(pack(&[PACK_FILE_LIMIT, 1, PACK_FILE_LIMIT]), [3]);
}

#[test]
fn packs_are_small_at_first() {
    let file = ByteCount::from_kib(16);
    let mut packs = Packs::default();
    let mut lengths: Vec<usize> = Vec::new();
    // As they are asked for: few at first.
    for wanted in [256, 512, 1024, 30_976] {
        lengths.extend(packs.split((0..).zip(vec![file; wanted])).iter().map(Vec::len));
    }
    assert_eq!(lengths.iter().sum::<usize>(), 32 << 10);
    let first: usize = lengths[..16].iter().sum();
    assert!(first <= 256, "what is wanted first is enough for many connections: {first}");
    assert_eq!(lengths.iter().max(), Some(&256), "they become as large as a block");
    assert!(lengths.len() < 400, "{}", lengths.len());
}

#[test]
fn an_item_that_cannot_be_read_is_told_before_the_goodbye() {
    let mut sender = sender();
    let id = sender.announce(file(SMALL));
    sender.on_scanned(NOW);
    messages(&mut sender);
    sender.on_message(NOW, wants(id, vec![Want::All]));
    actions(&mut sender);
    let given_up = GivenUp { reason: "no permission".into(), same_version: true };
    sender.on_unreadable(NOW, id, given_up.clone());
    sender.on_unreadable(NOW, id, given_up.clone());
    let told = messages(&mut sender);
    let end = FileEnd { id, blocks: 0, outcome: Err(given_up) };
    assert!(
        matches!(&told[..], [Message::FileEnd(told), Message::Goodbye(goodbye)] if *told == end && goodbye.failed == 1),
        "{told:?}"
    );
    let failed = settled(id, SMALL, Fate::Failed { reason: "no permission".into() });
    assert_eq!(actions(&mut sender), [failed, Action::Leave]);
}

#[test]
fn a_large_file_that_fails_while_it_is_read_is_settled_by_the_receiver() {
    let mut sender = sender();
    let id = sender.announce(file(LARGE));
    sender.on_scanned(NOW);
    sender.on_message(NOW, wants(id, vec![Want::All]));
    let given_up = GivenUp { reason: "changed".into(), same_version: false };
    let end = sender.on_read(id, 1, Err(given_up.clone())).unwrap();
    assert_eq!(end, FileEnd { id, blocks: 1, outcome: Err(given_up) });
    assert!(sender.item(id).is_some(), "what arrived of it becomes durable first");
    sender.on_message(NOW, done(id, Err("changed")));
    assert!(sender.item(id).is_none());
    assert!(sender.on_read(id, 1, Ok(FileDigest::Blake3([0; 32]))).is_none());
}

#[test]
fn of_sources_that_are_followed_what_changes_while_it_is_read_is_no_failure() {
    let settings = Settings { follows: true, ..sender().settings };
    let mut sender = Sender::new(settings, begin());
    let [small, large, denied] = [SMALL, LARGE, SMALL].map(|size| sender.announce(file(size)));
    sender.on_message(NOW, wants(0, vec![Want::All; 3]));
    actions(&mut sender);
    let given_up = |same_version| GivenUp { reason: "grew".into(), same_version };
    sender.on_unreadable(NOW, small, given_up(false));
    sender.on_read(large, 2, Err(given_up(false))).unwrap();
    sender.on_message(NOW, done(large, Err("grew")));
    sender.on_unreadable(NOW, denied, given_up(true));
    let failed = Fate::Failed { reason: "grew".into() };
    let expected = [(small, SMALL, Fate::Changed), (large, LARGE, Fate::Changed), (denied, SMALL, failed)];
    assert_eq!(actions(&mut sender), expected.map(|(id, size, fate)| settled(id, size, fate)));
    let counts = *sender.counts();
    assert_eq!((counts.failed, counts.totals.files, counts.totals.bytes), (1, 1, SMALL), "two are to come again");
}

#[test]
fn blocks_that_the_receiver_holds_are_not_read_but_may_be_asked_for_again() {
    let mut sender = sender();
    let id = sender.announce(file(LARGE));
    sender.on_message(NOW, Message::Held(Held { id, first: 1, values: vec![[5; 32]] }));
    sender.on_message(NOW, wants(id, vec![Want::Rest]));
    let told = actions(&mut sender);
    assert!(
        matches!(&told[..], [Action::Answered, Action::Read { held: Some(held), .. }] if held.contains(1)),
        "{told:?}"
    );
    assert_eq!(sender.counts().resumed_bytes, ByteCount::from(BLOCK_SIZE));
    sender.on_message(NOW, Message::Resend { id, index: 1 });
    assert_eq!(actions(&mut sender), [Action::ReadAgain { id, index: 1 }]);
    sender.on_message(NOW, Message::Resend { id, index: 1 });
    assert!(protocol_error(&actions(&mut sender)), "it holds no more blocks");
}

#[test]
fn a_file_that_the_receiver_writes_in_place_is_told_once() {
    let mut sender = sender();
    let id = sender.announce(file(LARGE));
    sender.on_scanned(NOW);
    sender.on_message(NOW, wants(id, vec![Want::Difference]));
    actions(&mut sender);
    for told in [true, false] {
        sender.on_message(NOW, Message::InPlace { id });
        let expected = if told { vec![Action::InPlace { path: b"file".to_vec() }] } else { Vec::new() };
        assert_eq!(actions(&mut sender), expected);
    }
    sender.on_message(NOW, Message::InPlace { id: id + 1 });
    assert_eq!(actions(&mut sender), []);
}

#[test]
fn a_stream_is_read_behind_what_the_receiver_holds_of_it() {
    let mut sender = sender();
    sender.continue_stream(BLOCK_SIZE as u64);
    let id = sender.announce(Found { kind: EntryKind::Stream, ..file(0) });
    sender.on_message(NOW, Message::Held(Held { id, first: 0, values: vec![[5; 32]] }));
    sender.on_message(NOW, wants(id, vec![Want::Rest]));
    let told = actions(&mut sender);
    assert!(
        matches!(&told[..], [Action::Answered, Action::ReadStream { held: Some(held), .. }] if held.contains(0)),
        "{told:?}"
    );
    sender.on_scanned(NOW);
    let said = messages(&mut sender);
    let place = |wanted: fn(&Message) -> bool| said.iter().position(wanted);
    let from = place(|message| matches!(message, Message::StreamFrom { bytes } if *bytes == BLOCK_SIZE as u64));
    assert!(from.is_some() && from < place(|message| matches!(message, Message::Entries(_))), "{said:?}");
}

#[test]
fn of_a_stream_that_is_not_continued_the_receiver_holds_nothing() {
    for continued in [None, Some(0), Some(BLOCK_SIZE as u64)] {
        let mut sender = sender();
        continued.into_iter().for_each(|bytes| sender.continue_stream(bytes));
        let id = sender.announce(Found { kind: EntryKind::Stream, ..file(0) });
        let first = u32::from(continued == Some(BLOCK_SIZE as u64));
        sender.on_message(NOW, Message::Held(Held { id, first, values: vec![[5; 32]] }));
        assert!(protocol_error(&actions(&mut sender)), "{continued:?}");
    }
}

#[test]
fn an_empty_session_says_goodbye_when_the_receiver_has_begun() {
    let mut sender = sender();
    sender.on_scanned(NOW);
    let told = messages(&mut sender);
    assert!(matches!(told[..], [_, Message::Totals(_), Message::End]), "{told:?}");
    sender.on_message(NOW, Message::Ready(Ready { resuming: false, ring_blocks: 1 }));
    let told = messages(&mut sender);
    assert!(matches!(told[..], [Message::Confirmed, Message::Goodbye(_)]), "{told:?}");
}

#[test]
fn a_directory_is_done_behind_its_items() {
    let mut sender = sender();
    let directory = sender.announce(found(Parent::Source(0), EntryKind::Directory, b"d"));
    let inner = sender.announce(found(Parent::Directory(directory), EntryKind::Directory, b"d/e"));
    sender.leave_directory(inner);
    sender.leave_directory(directory);
    sender.on_scanned(NOW);
    let told = messages(&mut sender);
    let ends = told.iter().filter(|message| matches!(message, Message::DirEnd { .. })).count();
    assert_eq!(ends, 2);
    sender.on_message(NOW, wants(0, vec![Want::All, Want::All]));
    sender.on_message(NOW, done(inner, Ok(None)));
    assert!(!sender.is_over());
    sender.on_message(NOW, done(directory, Err("full")));
    let failed = Action::DirectoryFailed { id: 0, path: b"d".to_vec(), reason: "full".into() };
    assert_eq!(actions(&mut sender), [Action::Answered, failed, Action::Leave]);
    assert_eq!(sender.counts().failed, 1);
}

#[test]
fn a_dry_run_settles_everything_by_the_answers() {
    let mut sender = Sender::new(
        Settings {
            dry_run: true,
            keeps_journal: false,
            window: Window::default(),
            keeps_digests: false,
            needs: Features::NONE,
            awaits_deletion: false,
            awaits_receipt: false,
            follows: false,
        },
        begin(),
    );
    let directory = sender.announce(found(Parent::Source(0), EntryKind::Directory, b"d"));
    let id = sender.announce(file(LARGE));
    sender.leave_directory(directory);
    sender.on_scanned(NOW);
    sender.on_message(NOW, wants(0, vec![Want::All, Want::All]));
    let expected = [Action::Answered, settled(id, LARGE, Fate::WouldSend), Action::Leave];
    assert_eq!(actions(&mut sender), expected);
}

#[test]
fn what_an_earlier_session_published_is_settled_by_the_answer() {
    let mut sender = sender();
    let (one, other) = (sender.announce(file(SMALL)), sender.announce(file(LARGE)));
    sender.on_scanned(NOW);
    let digest = FileDigest::Blake3([3; 32]);
    sender.on_message(NOW, wants(0, vec![Want::Have(digest), Want::TakenOver(digest)]));
    assert_eq!(
        actions(&mut sender)[1..],
        [settled(one, SMALL, Fate::Kept), settled(other, LARGE, Fate::Kept), Action::Leave]
    );
    let counts = sender.counts();
    let resumed = ByteCount::new(SMALL + LARGE);
    assert_eq!((counts.resumed_bytes, counts.taken_over_files, counts.files_done), (resumed, 1, 2));
}

fn further_name(to: EntryId, size: u64) -> Found {
    found(Parent::Source(0), EntryKind::HardLink { to, size, version: [7; 16], sparse: false }, b"file")
}

#[test]
fn contents_of_a_further_name_are_sent_where_it_cannot_be_a_link() {
    let mut sender = sender();
    let first = sender.announce(file(SMALL));
    let (small, large) = (sender.announce(further_name(first, SMALL)), sender.announce(further_name(first, LARGE)));
    sender.on_scanned(NOW);
    sender.on_message(NOW, wants(first, vec![Want::Skip, Want::All, Want::All]));
    actions(&mut sender);
    messages(&mut sender);
    let before = sender.counts().totals;
    // Each is asked for once it turns out that it cannot be made.
    sender.on_message(NOW, wants(small, vec![Want::Contents]));
    assert_eq!(actions(&mut sender), [Action::Pack(vec![small])]);
    sender.on_message(NOW, wants(large, vec![Want::Contents]));
    assert_eq!(actions(&mut sender), [Action::Read { id: large, held: None, described: false }]);
    let told = messages(&mut sender);
    let totals = sender.counts().totals;
    assert_eq!(told.last(), Some(&Message::Totals(totals)), "{told:?}");
    assert_eq!((totals.bytes - before.bytes, totals.files - before.files), (SMALL + LARGE, 2));
    let digest = FileDigest::Blake3([5; 32]);
    sender.on_packed(&[PackItem { id: small, length: SMALL as u32, digest: [5; 32] }]);
    assert!(sender.on_read(large, 3, Ok(digest)).is_some());
    for (id, size) in [(small, SMALL), (large, LARGE)] {
        sender.on_message(NOW, done(id, Ok(Some(digest))));
        assert_eq!(actions(&mut sender)[0], settled(id, size, Fate::Published(Some(digest))));
    }
}

#[test]
fn contents_are_asked_for_of_a_further_name_only_and_once() {
    for asked in [0, 1] {
        let mut sender = sender();
        let first = sender.announce(file(SMALL));
        let further = sender.announce(further_name(first, SMALL));
        sender.on_scanned(NOW);
        sender.on_message(NOW, wants(first, vec![Want::All, Want::All]));
        sender.on_message(NOW, wants(further, vec![Want::Contents]));
        actions(&mut sender);
        sender.on_message(NOW, wants([first, further][asked], vec![Want::Contents]));
        assert!(protocol_error(&actions(&mut sender)), "{asked}");
    }
}

#[test]
fn a_receiver_that_breaks_the_protocol_is_told_so() {
    let wrong: [fn(&mut Sender) -> Message; 6] = [
        |_| Message::End,
        |_| Message::Held(Held { id: 0, first: 3, values: vec![[0; 32]] }),
        |_| Message::Resend { id: 0, index: 0 },
        |_| done(0, Ok(None)),
        |_| done(0, Ok(Some(FileDigest::Blake3([0; 32])))),
        |sender| {
            sender.on_message(NOW, wants(0, vec![Want::All]));
            wants(0, vec![Want::All])
        },
    ];
    for (number, wrong) in wrong.into_iter().enumerate() {
        let mut sender = sender();
        sender.announce(file(LARGE));
        let message = wrong(&mut sender);
        sender.on_message(NOW, message);
        assert!(protocol_error(&actions(&mut sender)), "case {number}");
        let told = messages(&mut sender);
        let Some(Message::Abort(refusal)) = told.last() else { panic!("case {number}: {told:?}") };
        assert_eq!(refusal.kind, RefusalKind::Protocol);
        sender.on_time(NOW + LAST_WORDS_PATIENCE);
        let ended = actions(&mut sender);
        assert!(matches!(&ended[..], [Action::End(Err(SessionError::Protocol(_)))]), "{ended:?}");
    }
}

#[test]
fn a_refusal_ends_the_session_without_last_words() {
    let mut sender = sender();
    messages(&mut sender);
    let refusal = Refusal { kind: RefusalKind::Path, reason: "no such directory".into() };
    sender.on_message(NOW, Message::Refused(refusal.clone()));
    sender.on_message(NOW, Message::Feedback(Default::default()));
    assert!(messages(&mut sender).is_empty());
    sender.on_sent(NOW);
    let expected = [Action::Answered, Action::Leave, Action::End(Err(SessionError::Refused(refusal)))];
    assert_eq!(actions(&mut sender), expected);
}

#[test]
fn an_interrupted_session_tells_the_receiver_and_waits_for_its_answer() {
    let mut sender = sender();
    sender.announce(file(LARGE));
    messages(&mut sender);
    sender.on_interrupt(NOW);
    sender.on_interrupt(NOW);
    assert_eq!(actions(&mut sender), [Action::StopData]);
    assert_eq!(messages(&mut sender), [Message::Interrupt]);
    assert_eq!(sender.next_deadline(), Some(NOW + INTERRUPT_PATIENCE));
    sender.on_message(NOW, Message::Interrupt);
    sender.on_sent(NOW);
    let expected = [Action::Answered, Action::Leave, Action::End(Err(SessionError::Interrupted))];
    assert_eq!(actions(&mut sender), expected);
}

fn block(id: EntryId, index: u32) -> Message {
    let header = icdc_protocol::message::BlockHeader { id, index, value: [0; 32], ranges: Vec::new() };
    Message::Block(header)
}

fn pack(ids: [EntryId; 2]) -> Message {
    Message::Pack(ids.map(|id| PackItem { id, length: SMALL as u32, digest: [1; 32] }).to_vec())
}

/// A large file and two small ones that the receiver wants.
fn wanted() -> (Sender, EntryId, [EntryId; 2]) {
    let mut sender = sender();
    let large = sender.announce(file(LARGE));
    let small = [sender.announce(file(SMALL)), sender.announce(file(SMALL))];
    sender.on_scanned(NOW);
    sender.on_message(NOW, wants(0, vec![Want::All; 3]));
    actions(&mut sender);
    messages(&mut sender);
    (sender, large, small)
}

#[test]
fn what_a_lost_connection_owes_is_read_again() {
    let (mut sender, large, small) = wanted();
    assert!(sender.on_joined(1));
    assert!(sender.on_handed(1, &Message::Ping), "not counted");
    for frame in [block(large, 0), pack(small), block(large, 2)] {
        assert!(sender.on_handed(1, &frame));
    }
    let end = sender.on_read(large, 3, Ok(FileDigest::Blake3([2; 32]))).unwrap();
    assert!(sender.on_handed(1, &Message::FileEnd(end.clone())));
    sender.on_message(NOW, done(small[0], Err("full")));
    actions(&mut sender);
    sender.on_message(NOW, Message::Left { connection: 1, frames: 1 });
    let again = [
        Action::ConnectionLost { connection: 1 },
        Action::Pack(vec![small[1]]),
        Action::ReadAgain { id: large, index: 2 },
    ];
    assert_eq!(actions(&mut sender), again);
    assert_eq!(messages(&mut sender), [Message::FileEnd(end)]);
}

#[test]
fn a_connection_that_ends_here_is_asked_about_once() {
    let (mut sender, large, _) = wanted();
    assert!(sender.on_joined(1));
    assert!(sender.on_handed(1, &block(large, 0)));
    sender.on_connection_ended(1);
    sender.on_connection_ended(1);
    assert_eq!(messages(&mut sender), [Message::Left { connection: 1, frames: 1 }]);
    assert!(actions(&mut sender).is_empty(), "what arrived is not known yet");
    sender.on_message(NOW, Message::Left { connection: 1, frames: 0 });
    let lost = Action::ConnectionLost { connection: 1 };
    assert_eq!(actions(&mut sender), [lost, Action::ReadAgain { id: large, index: 0 }]);
}

#[test]
fn a_frame_that_comes_too_late_for_its_connection_is_read_again() {
    let (mut sender, large, _) = wanted();
    assert!(sender.on_joined(1));
    sender.on_message(NOW, Message::Left { connection: 1, frames: 0 });
    actions(&mut sender);
    assert!(!sender.on_handed(1, &block(large, 1)));
    assert_eq!(actions(&mut sender), [Action::ReadAgain { id: large, index: 1 }]);
    sender.on_connection_ended(1);
    assert!(messages(&mut sender).is_empty(), "the receiver has told first");
}

#[test]
fn of_a_file_that_is_given_up_only_that_is_told_again() {
    let (mut sender, large, _) = wanted();
    assert!(sender.on_joined(1));
    assert!(sender.on_handed(1, &block(large, 0)));
    let given_up = GivenUp { reason: "changed".into(), same_version: false };
    let end = sender.on_read(large, 1, Err(given_up)).unwrap();
    assert!(sender.on_handed(1, &Message::FileEnd(end.clone())));
    sender.on_message(NOW, Message::Left { connection: 1, frames: 0 });
    assert_eq!(actions(&mut sender), [Action::ConnectionLost { connection: 1 }]);
    assert_eq!(messages(&mut sender), [Message::FileEnd(end)]);
}

#[test]
fn an_account_of_a_connection_that_cannot_be_ends_the_session() {
    let (mut sender, ..) = wanted();
    sender.on_message(NOW, Message::Left { connection: 1, frames: 1 });
    assert!(protocol_error(&actions(&mut sender)));
    assert!(!sender.on_joined(2), "the session is over");
}

#[test]
fn the_session_of_a_mirror_ends_after_the_receivers_deletion() {
    let settings = Settings {
        dry_run: false,
        keeps_journal: false,
        window: Window::default(),
        keeps_digests: false,
        needs: Features::NONE,
        awaits_deletion: true,
        awaits_receipt: false,
        follows: false,
    };
    let mut sender = Sender::new(settings, begin());
    sender.on_message(NOW, Message::Ready(Ready { resuming: false, ring_blocks: 1 }));
    sender.on_scanned(NOW);
    messages(&mut sender);
    assert!(!sender.is_settled() && !sender.is_over());
    let item = ChangedItem { path: b"old".to_vec(), is_directory: false };
    sender.on_message(NOW, Message::Deletion(Deletion::Deleted(vec![item])));
    sender.on_message(NOW, Message::Deletion(Deletion::Failed { path: b"x".to_vec(), reason: "busy".into() }));
    assert!(!sender.is_over());
    sender.on_message(NOW, Message::Deletion(Deletion::Ended));
    assert!(sender.is_over());
    assert_eq!((sender.counts().deleted, sender.counts().failed), (1, 1));
}

/// An item that a move removes at the source.
fn moved(found: Found, removal: Removal) -> Found {
    Found { removal, ..found }
}

fn link(path: &[u8]) -> Found {
    found(Parent::Source(0), EntryKind::Symlink { target: b"t".to_vec() }, path)
}

fn told_removed(messages: &[Message]) -> Vec<Vec<u8>> {
    let items = messages.iter().filter_map(|message| match message {
        Message::Removed(items) => Some(items.iter().map(|item| item.path.clone())),
        _ => None,
    });
    items.flatten().collect()
}

#[test]
fn an_item_is_removed_when_the_receiver_has_it_durably_and_settled_behind_that() {
    let mut sender = sender();
    let ids = [
        sender.announce(moved(file(SMALL), Removal::WhenPublished)),
        sender.announce(moved(file(LARGE), Removal::WhenPublished)),
        sender.announce(moved(link(b"link"), Removal::WhenPublished)),
    ];
    sender.on_scanned(NOW);
    let digest = FileDigest::Blake3([1; 32]);
    sender.on_message(NOW, wants(0, vec![Want::All, Want::TakenOver(digest), Want::All]));
    sender.on_packed(&[PackItem { id: ids[0], length: SMALL as u32, digest: [1; 32] }]);
    assert_eq!(actions(&mut sender), [Action::Answered, Action::Remove { id: ids[1] }, Action::Pack(vec![ids[0]])]);
    sender.on_message(NOW, done(ids[0], Ok(Some(digest))));
    sender.on_message(NOW, done(ids[2], Err("full")));
    // A pack that is read again comes too late.
    sender.on_packed(&[PackItem { id: ids[0], length: SMALL as u32, digest: [2; 32] }]);
    assert!(sender.item(ids[0]).is_none() && !sender.is_settled());
    assert!(matches!(&actions(&mut sender)[..], [Action::Remove { id: 0 }, Action::Settled { id: 2, .. }]));
    sender.on_removed(NOW, ids[0], Removed::Gone);
    let removed = ChangedItem { path: b"file".to_vec(), is_directory: false };
    let ended = actions(&mut sender);
    assert_eq!(ended, [settled(ids[0], SMALL, Fate::Published(Some(digest))), Action::Removed(removed)]);
    sender.on_removed(NOW, ids[0], Removed::Gone);
    assert!(actions(&mut sender).is_empty(), "once only");
    sender.on_removed(NOW, ids[1], Removed::Failed("has changed".into()));
    let last = messages(&mut sender);
    assert_eq!(told_removed(&last), [b"file"]);
    assert!(matches!(last.last(), Some(Message::Goodbye(goodbye)) if goodbye.failed == 2), "{last:?}");
    assert_eq!((sender.counts().removed, sender.counts().failed), (1, 2));
}

#[test]
fn what_was_not_compared_stays_at_the_source_but_for_links() {
    let mut sender = sender();
    sender.announce(moved(file(SMALL), Removal::WhenPublished));
    sender.announce(moved(file(SMALL), Removal::WhenPublished));
    let link = sender.announce(moved(link(b"link"), Removal::WhenPublished));
    sender.on_scanned(NOW);
    sender.on_message(NOW, wants(0, vec![Want::Skip, Want::Keep(Kept::Newer), Want::Skip]));
    let asked = actions(&mut sender);
    let is_removal = |action: &&Action| matches!(action, Action::Remove { .. });
    assert_eq!(asked.iter().filter(is_removal).collect::<Vec<_>>(), [&Action::Remove { id: link }]);
    sender.on_removed(NOW, link, Removed::Gone);
    let last = messages(&mut sender);
    let kept = last.iter().find_map(|message| match message {
        Message::Notice(notice) => Some((notice.kind, notice.count)),
        _ => None,
    });
    assert_eq!(kept, Some((NoticeKind::KeptAtSource, 1)));
    assert_eq!(told_removed(&last), [b"link"]);
}

#[test]
fn named_sources_go_last_and_a_receiver_that_is_gone_by_then_does_not_matter() {
    let mut sender = sender();
    let directory = found(Parent::Source(0), EntryKind::Directory, b"d");
    let directory = sender.announce(moved(directory, Removal::AtEnd));
    let inner = found(Parent::Directory(directory), EntryKind::Directory, b"d/e");
    let inner = sender.announce(moved(inner, Removal::WhenPublished));
    sender.leave_directory(inner);
    sender.leave_directory(directory);
    sender.on_scanned(NOW);
    sender.on_message(NOW, wants(0, vec![Want::All, Want::All]));
    sender.on_message(NOW, done(inner, Ok(None)));
    sender.on_message(NOW, done(inner, Ok(None)));
    sender.on_message(NOW, done(directory, Ok(None)));
    let asked = actions(&mut sender);
    let remove = Action::RemoveDirectory { id: inner, path: b"d/e".to_vec() };
    let keep = Action::RemoveAtEnd { id: directory, path: b"d".to_vec() };
    assert_eq!(asked, [Action::Answered, remove, keep]);
    sender.on_directory_removed(NOW, inner, Removed::Gone);
    assert!(actions(&mut sender).ends_with(&[Action::RemoveRest]));
    sender.on_receive_ended(NOW, SessionError::Cut("gone".into()));
    sender.on_send_failed(NOW, SessionError::Cut("gone".into()));
    assert!(!sender.is_over());
    sender.on_removed_at_end(b"d".to_vec(), true, Removed::Gone);
    sender.on_rest_removed(NOW);
    assert!(sender.is_over());
    assert_eq!(told_removed(&messages(&mut sender)), [b"d/e".to_vec(), b"d".to_vec()]);
    sender.on_sent(NOW);
    assert!(actions(&mut sender).ends_with(&[Action::End(Ok(()))]));
}

#[test]
fn a_dry_run_of_a_move_tells_what_would_go() {
    let settings = Settings {
        dry_run: true,
        keeps_journal: false,
        window: Window::default(),
        keeps_digests: false,
        needs: Features::NONE,
        awaits_deletion: false,
        awaits_receipt: false,
        follows: false,
    };
    let mut sender = Sender::new(settings, begin());
    let directory = found(Parent::Source(0), EntryKind::Directory, b"d");
    let directory = sender.announce(moved(directory, Removal::AtEnd));
    sender.leave_directory(directory);
    sender.announce(moved(file(SMALL), Removal::AtEnd));
    sender.announce(moved(link(b"link"), Removal::WhenPublished));
    sender.on_scanned(NOW);
    sender.on_message(NOW, wants(0, vec![Want::All, Want::All, Want::All]));
    assert_eq!(told_removed(&messages(&mut sender)), [b"file", b"link"]);
    let asked = actions(&mut sender);
    assert!(!asked.iter().any(|action| matches!(action, Action::Remove { .. } | Action::RemoveAtEnd { .. })));
    assert!(sender.is_over() && sender.counts().removed == 2, "{asked:?}");
}

#[test]
fn a_receiver_that_was_not_asked_to_delete_breaks_the_protocol() {
    let mut sender = sender();
    sender.on_message(NOW, Message::Deletion(Deletion::Ended));
    let ended = actions(&mut sender);
    assert!(
        ended.iter().any(|action| matches!(action, Action::End(Err(SessionError::Protocol(_))) | Action::Leave)),
        "{ended:?}"
    );
}

#[test]
fn a_file_that_the_receiver_has_under_another_name_is_read_once_and_settled_by_its_digest() {
    let begun = |dry_run| {
        let settings = Settings { awaits_deletion: true, dry_run, ..sender().settings };
        let mut sender = Sender::new(settings, begin());
        let id = sender.announce(file(LARGE));
        sender.on_scanned(NOW);
        messages(&mut sender);
        (sender, id)
    };
    let candidates = |id| {
        let place = CandidatePlace { source: 0, path: b"old".to_vec() };
        Candidates { id, places: vec![place] }
    };
    let digest = FileDigest::Blake3([2; 32]);
    let answer = |id| CandidateAnswer { id, gone: 1, digest: Some(digest) };
    let asked = |dry_run| {
        let (mut sender, id) = begun(dry_run);
        sender.on_message(NOW, Message::Candidates(candidates(id)));
        assert!(actions(&mut sender).contains(&Action::Compare(candidates(id))));
        (sender, id)
    };

    let (mut renamed, id) = asked(false);
    renamed.on_compared(answer(id));
    assert_eq!(messages(&mut renamed), [Message::CandidateAnswer(answer(id))]);
    renamed.on_message(NOW, wants(id, vec![Want::Renamed(Some(digest))]));
    assert_eq!(actions(&mut renamed), [settled(id, LARGE, Fate::Renamed(Some(digest)))]);
    assert_eq!((renamed.counts().renamed, renamed.counts().files_done), (1, 0));
    assert_eq!(renamed.counts().to_send(), Some(ByteCount::ZERO));
    assert_ne!(renamed.tree(), Sender::new(renamed.settings, begin()).tree(), "it is part of the tree");

    // One that differs is wanted like any other, and the answer to a settled question is not sent.
    let (mut wanted, id) = asked(false);
    wanted.on_compared(answer(id));
    wanted.on_message(NOW, wants(id, vec![Want::All]));
    assert_eq!(actions(&mut wanted), [Action::Read { id, held: None, described: false }]);
    let (mut early, id) = asked(false);
    early.on_message(NOW, wants(id, vec![Want::All]));
    early.on_compared(answer(id));
    assert!(messages(&mut early).is_empty());

    let (mut dry, id) = asked(true);
    dry.on_compared(CandidateAnswer { digest: None, ..answer(id) });
    dry.on_message(NOW, wants(id, vec![Want::Renamed(None)]));
    assert_eq!(actions(&mut dry), [settled(id, LARGE, Fate::Renamed(None))]);

    for wrong in [Some(FileDigest::Blake3([3; 32])), None] {
        let (mut sender, id) = asked(false);
        sender.on_compared(answer(id));
        sender.on_message(NOW, wants(id, vec![Want::Renamed(wrong)]));
        assert!(protocol_error(&actions(&mut sender)), "{wrong:?}");
    }
    let (mut unread, id) = asked(false);
    unread.on_message(NOW, wants(id, vec![Want::Renamed(None)]));
    assert!(protocol_error(&actions(&mut unread)), "nothing was compared");
    let (mut twice, id) = asked(false);
    twice.on_message(NOW, Message::Candidates(candidates(id)));
    assert!(protocol_error(&actions(&mut twice)));
    let mut no_mirror = sender();
    let id = no_mirror.announce(file(LARGE));
    no_mirror.on_message(NOW, Message::Candidates(candidates(id)));
    assert!(protocol_error(&actions(&mut no_mirror)));
}

/// A sender with a large file of which the receiver wants the difference.
fn compared() -> (Sender, EntryId) {
    compared_blocks(3)
}

/// A sender with such a file of this number of blocks, the last of which is short.
fn compared_blocks(blocks: u64) -> (Sender, EntryId) {
    let mut sender = sender();
    let id = sender.announce(file(if blocks == 3 { LARGE } else { blocks * BLOCK_SIZE as u64 }));
    sender.on_scanned(NOW);
    sender.on_message(NOW, Message::Ready(Ready { resuming: false, ring_blocks: 1 }));
    actions(&mut sender);
    sender.on_message(NOW, wants(id, vec![Want::Difference]));
    assert_eq!(actions(&mut sender), [Action::Read { id, held: None, described: true }]);
    messages(&mut sender);
    (sender, id)
}

fn basis(id: EntryId, first: u32, blocks: usize, complete: bool) -> Basis {
    Basis { id, first, blocks: vec![vec![[1; 16]]; blocks], complete }
}

#[test]
fn a_file_is_read_as_the_receiver_describes_its_own() {
    let (mut sender, id) = compared();
    for (described, holes) in [(basis(id, 0, 1, false), vec![]), (basis(id, 1, 0, true), vec![0])] {
        let described_blocks = described.blocks.len();
        sender.on_message(NOW, Message::Basis(described.clone()));
        assert_eq!(actions(&mut sender), [Action::ReadDescribed(described)]);
        sender.on_description_read(id, described_blocks, holes);
    }
    assert_eq!(messages(&mut sender), [Message::Holes { id, blocks: vec![0] }]);
    sender.on_unchanged(ByteCount::new(100));
    assert_eq!(sender.counts().to_send(), Some(ByteCount::new(LARGE - 100)));
    // The receiver's file has changed meanwhile: a block that was described may be asked for.
    sender.on_message(NOW, Message::Resend { id, index: 0 });
    assert_eq!(actions(&mut sender), [Action::ReadAgain { id, index: 0 }]);
    sender.on_message(NOW, Message::Resend { id, index: 0 });
    assert!(protocol_error(&actions(&mut sender)), "it has described one block");
}

#[test]
fn descriptions_out_of_order_or_beyond_the_file_or_of_another_one_end_the_session() {
    let cases: [&[(u32, usize, bool)]; 5] = [
        &[(1, 2, false), (1, 1, false)],
        &[(0, 4, false)],
        &[(3, 1, true)],
        &[(0, 1, true), (1, 1, false)],
        &[(u32::MAX, 1, false)],
    ];
    for case in cases {
        let (mut sender, id) = compared();
        for (first, blocks, complete) in case {
            sender.on_message(NOW, Message::Basis(basis(id, *first, *blocks, *complete)));
        }
        assert!(protocol_error(&actions(&mut sender)), "{case:?}");
    }
    let mut unasked = sender();
    let id = unasked.announce(file(LARGE));
    unasked.on_message(NOW, wants(id, vec![Want::All]));
    unasked.on_message(NOW, Message::Basis(basis(id, 0, 1, true)));
    assert!(protocol_error(&actions(&mut unasked)));
}

#[test]
fn descriptions_that_wait_to_be_read_are_bounded_by_their_blocks() {
    let mut of_many = sender();
    let ids: Vec<EntryId> = (0..200).map(|_| of_many.announce(file(LARGE))).collect();
    of_many.on_message(NOW, wants(ids[0], vec![Want::Difference; ids.len()]));
    for id in ids {
        of_many.on_message(NOW, Message::Basis(basis(id, 0, 3, false)));
        of_many.on_message(NOW, Message::Basis(basis(id, 3, 0, true)));
    }
    assert!(!protocol_error(&actions(&mut of_many)), "they are many, and have few blocks");

    let (mut sender, id) = compared_blocks(1040);
    for number in 0..64 {
        sender.on_message(NOW, Message::Basis(basis(id, number * 16, 16, false)));
    }
    assert!(!protocol_error(&actions(&mut sender)));
    sender.on_description_read(id, 1, Vec::new());
    sender.on_message(NOW, Message::Basis(basis(id, 1024, 1, false)));
    assert!(!protocol_error(&actions(&mut sender)));
    sender.on_message(NOW, Message::Basis(basis(id, 1025, 1, false)));
    assert!(protocol_error(&actions(&mut sender)));
}

fn chunks(id: EntryId, number: usize, complete: bool) -> Message {
    let chunking = Chunking::for_bytes(ByteCount::ZERO);
    let chunks = vec![(1, [1; 16]); number];
    Message::Chunks(Chunks { id, chunking, basis: 0, offset: 0, chunks, covered: 0, complete })
}

/// A sender with a large file whose content the receiver looks for wherever it is.
fn looked_up() -> (Sender, EntryId) {
    let mut sender = sender();
    let id = sender.announce(file(LARGE));
    sender.on_scanned(NOW);
    sender.on_message(NOW, Message::Ready(Ready { resuming: false, ring_blocks: 1 }));
    actions(&mut sender);
    sender.on_message(NOW, wants(id, vec![Want::Delta]));
    assert_eq!(actions(&mut sender), [Action::AwaitChunks { id, held: None }]);
    (sender, id)
}

#[test]
fn a_file_is_read_as_chunks_come_and_any_block_may_be_asked_for() {
    let (mut sender, id) = looked_up();
    for told in [chunks(id, 3, false), chunks(id, 0, true)] {
        sender.on_message(NOW, told.clone());
        let Message::Chunks(told) = told else { unreachable!() };
        assert_eq!(actions(&mut sender), [Action::ReadMatched(told)]);
        sender.on_chunks_taken(3);
    }
    // The bases have changed meanwhile, or a connection was lost.
    for index in 0..block_count(LARGE) {
        sender.on_message(NOW, Message::Resend { id, index });
        assert_eq!(actions(&mut sender), [Action::ReadAgain { id, index }]);
    }
    sender.on_message(NOW, Message::Resend { id, index: 0 });
    assert!(protocol_error(&actions(&mut sender)), "all its blocks were asked for");
}

#[test]
fn chunks_that_nobody_awaits_or_that_are_too_many_end_the_session() {
    let (mut sender, id) = looked_up();
    sender.on_message(NOW, chunks(id, 1, true));
    sender.on_message(NOW, chunks(id, 1, true));
    assert!(protocol_error(&actions(&mut sender)), "they were complete");

    let mut unasked = self::sender();
    let id = unasked.announce(file(LARGE));
    unasked.on_message(NOW, wants(id, vec![Want::Difference]));
    unasked.on_message(NOW, chunks(id, 1, false));
    assert!(protocol_error(&actions(&mut unasked)));

    let (mut sender, id) = looked_up();
    let messages = MAX_CHUNKS as usize / 4096;
    for _ in 0..messages {
        sender.on_message(NOW, chunks(id, 4096, false));
        sender.on_chunks_taken(4096);
    }
    assert!(!protocol_error(&actions(&mut sender)));
    sender.on_message(NOW, chunks(id, 1, false));
    assert!(protocol_error(&actions(&mut sender)), "more than describe one file");

    let mut of_many = self::sender();
    let ids: Vec<EntryId> = (0..3).map(|_| of_many.announce(file(LARGE))).collect();
    of_many.on_message(NOW, wants(ids[0], vec![Want::Delta; ids.len()]));
    for id in &ids[..2] {
        (0..messages).for_each(|_| of_many.on_message(NOW, chunks(*id, 4096, false)));
    }
    assert!(!protocol_error(&actions(&mut of_many)));
    of_many.on_message(NOW, chunks(ids[2], 1, false));
    assert!(protocol_error(&actions(&mut of_many)), "more than may wait to be taken");
}
