//! How far the announcements may run ahead.

use icdc_disk::tree::{Name, Tree};
use icdc_protocol::limits::MAX_XATTR_BYTES;
use icdc_protocol::message::Parent;

use super::*;

/// A book with the directory that its items are in.
struct Scene {
    ledger: Ledger,
    directory: Arc<OpenDirectory>,
    _temporary: tempfile::TempDir,
}

impl Scene {
    fn new() -> Self {
        let temporary = tempfile::tempdir().unwrap();
        let ledger = Ledger::new();
        let directory = ledger.hold_open(Tree::open(temporary.path()).unwrap().root().clone());
        Self { ledger, directory, _temporary: temporary }
    }

    fn has_room(&self) -> bool {
        self.has_room_at(0)
    }

    fn has_room_at(&self, depth: usize) -> bool {
        let book = self.ledger.lock();
        !self.ledger.is_full(&book, depth)
    }

    /// Announces a file with a path and attributes of this many bytes.
    fn announce(&self, path: usize, attributes: usize) -> EntryId {
        let id = self.ledger.next_id();
        let entry = Entry { xattrs: vec![(b"user.a".to_vec(), vec![0; attributes])], ..entry(id, file()) };
        let name = Name::new(b"name").unwrap();
        self.ledger.announce(Item { entry, path: vec![b'p'; path], directory: self.directory.clone(), name });
        id
    }

    /// Announces such files as long as there is room; answers how many.
    fn fill(&self, path: usize, attributes: usize) -> usize {
        let mut announced = 0;
        while self.has_room() {
            self.announce(path, attributes);
            announced += 1;
        }
        announced
    }
}

fn file() -> EntryKind {
    EntryKind::File { size: 1, version: [0; 16], sparse: false, linked: false }
}

fn entry(id: EntryId, kind: EntryKind) -> Entry {
    let (parent, name, owner, xattrs) = (Parent::Source(0), Vec::new(), None, Vec::new());
    Entry { id, parent, name, kind, mode: 0o644, mtime_seconds: 0, mtime_nanos: 0, owner, xattrs }
}

#[test]
fn light_items_are_bounded_by_their_number() {
    let scene = Scene::new();
    assert_eq!(scene.fill(1, 0), WINDOW);
    // The window slides with its oldest item, because the tree digest takes them in order.
    scene.ledger.settle(1, Settlement::Failed).unwrap();
    assert!(!scene.has_room());
    scene.ledger.settle(0, Settlement::Failed).unwrap();
    assert_eq!(scene.fill(1, 0), 2);
}

#[test]
fn heavy_items_are_bounded_by_their_bytes() {
    for (path, attributes) in [(4000, MAX_XATTR_BYTES - 6), (icdc_protocol::limits::MAX_SHOWN_PATH, 0)] {
        let scene = Scene::new();
        let announced = scene.fill(path, attributes);
        let each = path + attributes + 6;
        assert_eq!(announced, MAX_WEIGHT.div_ceil(each));
        assert!(announced < WINDOW && announced * each < MAX_PENDING_BYTES, "the receiver would refuse them");
        // Their bytes are gone as soon as they are settled, in whatever order.
        scene.ledger.settle(announced as EntryId - 1, Settlement::Skipped).unwrap();
        assert_eq!(scene.fill(path, attributes), 1);
        for id in 0..=announced as EntryId {
            scene.ledger.settle(id, Settlement::Published(None));
        }
        assert_eq!(scene.ledger.lock().weight, 0);
    }
}

#[test]
fn a_full_window_waits_for_a_settled_item() {
    let scene = Scene::new();
    scene.fill(0, MAX_XATTR_BYTES);
    let mut handed_on = false;
    assert!(scene.ledger.wait_for_room(0, || {
        handed_on = true;
        scene.ledger.settle(5, Settlement::Published(None));
    }));
    assert!(handed_on, "what was announced so far is handed on before the wait");
    assert!(scene.ledger.wait_for_room(0, || panic!("there is room")));
    scene.fill(0, MAX_XATTR_BYTES);
    assert!(!scene.ledger.wait_for_room(0, || scene.ledger.close()), "the session is over");
}

#[test]
fn open_directories_are_bounded() {
    const OPEN: usize = USUAL_DEPTH + OPEN_BESIDE;
    let scene = Scene::new();
    let mut announced = 0;
    while scene.has_room() {
        let id = scene.ledger.next_id();
        scene.ledger.announce_directory(b"d", &entry(id, EntryKind::Directory));
        announced += 1;
    }
    assert_eq!(announced, OPEN);
    assert!(
        !scene.has_room_at(USUAL_DEPTH) && scene.has_room_at(USUAL_DEPTH + 1),
        "a deep tree has its way down besides"
    );
    scene.ledger.directory_done(7, false).unwrap();
    assert!(scene.has_room());
    let held: Vec<_> = (1..OPEN).map(|_| scene.ledger.hold_open(scene.directory.directory.clone())).collect();
    assert!(!scene.has_room());
    drop(held);
    assert!(scene.has_room());
}
