//! Limits on announcements, and the memory of the ledger.

#![allow(clippy::unwrap_used, reason = "a test that fails says where")]

use icdc_protocol::limits::MAX_XATTR_BYTES;

use super::*;

/// Items.
const LEVELS: usize = OPEN / 3 * 2;
const WINDOW: usize = 96 << 10;

fn file(size: u64) -> EntryKind {
    EntryKind::File { size, version: [0; 16], sparse: false, linked: false }
}

fn entry(id: EntryId, parent: Parent, kind: EntryKind) -> Entry {
    let (name, owner, xattrs) = (Vec::new(), None, Vec::new());
    Entry { id, parent, name, kind, mode: 0o644, mtime_seconds: 0, mtime_nanos: 0, owner, xattrs }
}

/// Announces a file with a path and attributes of this many bytes.
fn announce(ledger: &mut Ledger, path: usize, attributes: usize) -> EntryId {
    let id = ledger.next_id();
    let entry = entry(id, Parent::Source(0), file(1));
    let entry = Entry { xattrs: vec![(b"user.a".to_vec(), vec![0; attributes])], ..entry };
    ledger.announce(Item { entry, path: vec![b'p'; path], above: 0, first: None, held: 0, removal: Removal::Never });
    id
}

/// Announces such files as long as there is room; gives their number.
fn fill(ledger: &mut Ledger, path: usize, attributes: usize) -> usize {
    let mut announced = 0;
    while ledger.has_room(0) {
        announce(ledger, path, attributes);
        announced += 1;
    }
    announced
}

fn announce_directory(ledger: &mut Ledger, parent: Parent) -> EntryId {
    let id = ledger.next_id();
    ledger.announce_directory(Item {
        entry: entry(id, parent, EntryKind::Directory),
        path: b"d".to_vec(),
        above: 0,
        first: None,
        held: 0,
        removal: Removal::Never,
    });
    id
}

#[test]
fn light_items_are_bounded_by_their_number() {
    let mut ledger = Ledger::new(Window::default(), true);
    assert_eq!(fill(&mut ledger, 1, 0), WINDOW);
    // The window slides with its oldest item, because the tree digest takes them in order.
    ledger.settle(1, &Settlement::Failed).unwrap();
    assert!(!ledger.has_room(0));
    ledger.settle(0, &Settlement::Failed).unwrap();
    assert_eq!(fill(&mut ledger, 1, 0), 2);
}

#[test]
fn heavy_items_are_bounded_by_their_bytes() {
    for (path, attributes) in [(4000, MAX_XATTR_BYTES - 6), (icdc_protocol::limits::MAX_SHOWN_PATH, 0)] {
        let mut ledger = Ledger::new(Window::default(), true);
        let announced = fill(&mut ledger, path, attributes);
        let each = path + attributes + 6;
        assert_eq!(announced, (64usize << 20).div_ceil(each));
        assert!(announced < WINDOW && announced * each < MAX_PENDING_BYTES, "the receiver would refuse them");
        // Their bytes are gone as soon as they are settled, in whatever order.
        ledger.settle(announced as EntryId - 1, &Settlement::Skipped).unwrap();
        assert_eq!(fill(&mut ledger, path, attributes), 1);
        for id in 0..=announced as EntryId {
            ledger.settle(id, &Settlement::Published(None));
        }
        assert_eq!(ledger.weight, 0);
    }
}

#[test]
fn announced_directories_are_bounded_until_they_are_done() {
    let mut ledger = Ledger::new(Window::default(), true);
    let mut announced = 0;
    while ledger.has_room(0) {
        let id = announce_directory(&mut ledger, Parent::Source(0));
        ledger.leave_directory(id);
        announced += 1;
    }
    assert_eq!(announced, OPEN);
    assert!(!ledger.has_room(LEVELS) && ledger.has_room(LEVELS + 1), "a deep tree has room for its levels besides");
    assert_eq!(ledger.directory_done(7, false).unwrap(), b"d");
    assert!(ledger.has_room(0));
    assert!(ledger.directory_done(7, true).is_none(), "it ends once");
    assert_eq!(ledger.counts().failed, 0);
}

#[test]
fn open_directories_are_bounded_until_the_scan_and_their_items_have_left_them() {
    let mut ledger = Ledger::new(Window::default(), true);
    let mut items = Vec::new();
    for _ in 0..OPEN {
        assert!(ledger.has_room(0));
        let directory = announce_directory(&mut ledger, Parent::Source(0));
        for _ in 0..2 {
            let id = ledger.next_id();
            let entry = entry(id, Parent::Directory(directory), file(1));
            ledger.announce(Item { entry, path: Vec::new(), above: 0, first: None, held: 0, removal: Removal::Never });
            items.push(id);
        }
        ledger.leave_directory(directory);
        ledger.directory_done(directory, false);
    }
    assert!(!ledger.has_room(0), "each is open for its items");
    ledger.settle(items[0], &Settlement::Skipped);
    assert!(!ledger.has_room(0), "the other item is still in it");
    ledger.settle(items[1], &Settlement::Skipped);
    assert!(ledger.has_room(0));
    for id in items {
        ledger.settle(id, &Settlement::Failed);
    }
    assert!(ledger.open.is_empty());
}

#[test]
fn the_tree_digest_does_not_depend_on_the_order_of_settling() {
    let digest = |order: [EntryId; 4]| {
        let mut ledger = Ledger::new(Window::default(), true);
        for path in 1..=4 {
            announce(&mut ledger, path, 0);
        }
        for id in order {
            let how = match id {
                0 => Settlement::Skipped,
                1 => Settlement::TakenOver(FileDigest::Blake3([1; 32])),
                id => Settlement::Published(Some(FileDigest::Blake3([id as u8; 32]))),
            };
            ledger.settle(id, &how).unwrap();
        }
        assert!(ledger.settle(2, &Settlement::Failed).is_none(), "an item is settled once");
        ledger.tree()
    };
    assert_eq!(digest([0, 1, 2, 3]), digest([3, 1, 0, 2]));
}

#[test]
fn an_item_is_asked_for_once_and_then_gives_what_the_receiver_holds() {
    let mut ledger = Ledger::new(Window::default(), true);
    let id = ledger.next_id();
    let size = 3 * icdc_protocol::limits::BLOCK_SIZE as u64;
    ledger.announce(Item {
        entry: entry(id, Parent::Source(0), file(size)),
        path: Vec::new(),
        above: 0,
        first: None,
        held: 0,
        removal: Removal::Never,
    });
    assert!(ledger.hold(id, 0, &[[1; 32]]) && ledger.hold(id, 2, &[[3; 32]]));
    assert!(!ledger.hold(id, 2, &[[3; 32], [4; 32]]), "there is no such block");
    assert!(!ledger.hold(id, u32::MAX, &[[3; 32], [4; 32]]));
    assert!(!ledger.hold(id + 1, 0, &[]), "there is no such item");
    let held = ledger.ask(id).unwrap().unwrap();
    assert_eq!((held.count(), held.get(2)), (2, Some([3; 32])));
    assert!(ledger.ask(id).is_err() && !ledger.hold(id, 1, &[[2; 32]]), "the receiver has said what it wants");
    assert_eq!(ledger.resend(id, 3), Some(false), "there is no such block");
    assert_eq!((ledger.resend(id, 2), ledger.resend(id, 2)), (Some(true), Some(false)), "it holds two blocks");
    let end = ledger.read(id, 1, Ok(FileDigest::Blake3([9; 32]))).unwrap();
    assert_eq!(ledger.end_of(id), Some(end.into()));
    assert_eq!(ledger.digest(id), Some(FileDigest::Blake3([9; 32])));
    ledger.settle(id, &Settlement::Published(ledger.digest(id))).unwrap();
    assert_eq!((ledger.resend(id, 0), ledger.end_of(id), ledger.digest(id)), (None, None, None));
    assert_eq!(ledger.only(), Some(FileDigest::Blake3([9; 32])));
}

#[test]
fn half_a_million_items_take_the_memory_of_one_window() {
    assert!(size_of::<Slot>() <= 40 && size_of::<Open>() <= 320, "besides path, name and attributes");
    let mut ledger = Ledger::new(Window::default(), true);
    let mut settled = 0;
    while settled < 500_000 {
        fill(&mut ledger, 10, 0);
        // The oldest is settled last: until then the window cannot slide.
        for id in (settled..ledger.next_id()).rev() {
            assert_eq!(ledger.slots.len(), WINDOW);
            ledger.settle(id, &Settlement::Published(None)).unwrap();
        }
        settled = ledger.next_id();
        assert!(ledger.slots.is_empty() && ledger.slots.capacity() <= 2 * WINDOW);
    }
    assert!(ledger.open.is_empty() && ledger.weight == 0);
}
