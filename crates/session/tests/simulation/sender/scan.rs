//! The scan over the model of a source: what is announced, in which order.

use std::collections::BTreeMap;

use icdc_protocol::message::SourceKind;
use icdc_protocol::message::{EntryId, EntryKind, Parent};
use icdc_session::sender::{Found, Removal};

use crate::source::{File, Node, Source};

/// A path within the source with this number, as components.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place {
    pub(crate) root: usize,
    pub(crate) path: Vec<Vec<u8>>,
}

/// What is next to announce.
#[derive(Clone, Debug)]
enum Step {
    Announce { place: Place, node: Node },
    Leave(Place),
}

/// An item that was announced.
#[derive(Clone, Debug)]
pub(crate) struct Announced {
    pub(crate) place: Place,
    /// In the version that was announced.
    pub(crate) file: Option<File>,
    pub(crate) what: What,
}

/// What an announced entry is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum What {
    File,
    Directory { mtime: i64 },
    Symlink { target: Vec<u8> },
    Link { revision: u64 },
}

/// See the module's description.
#[derive(Debug)]
pub(crate) struct Scan {
    steps: std::collections::VecDeque<Step>,
    directories: BTreeMap<Place, EntryId>,
    files: BTreeMap<u64, EntryId>,
    pub(crate) announced: BTreeMap<EntryId, Announced>,
    /// Whether items are removed at the source.
    moves: bool,
}

/// What a step of the scan comes to.
pub(crate) enum Next {
    Announce(Found, usize),
    Leave(EntryId),
    Through,
}

impl Scan {
    pub(crate) fn of(source: &Source, moves: bool) -> Self {
        let mut steps = Vec::new();
        for (root, found) in source.roots.iter().enumerate() {
            list(Place { root, path: Vec::new() }, &found.node, &mut steps);
        }
        let (directories, files, announced) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        Self { steps: steps.into(), directories, files, announced, moves }
    }

    /// What is next; it stays next until [`announced`](Self::announced) or [`left`](Self::left).
    pub(crate) fn next(&self, source: &Source) -> Next {
        match self.steps.front() {
            None => Next::Through,
            Some(Step::Leave(place)) => Next::Leave(self.directories[place]),
            Some(Step::Announce { place, node }) => Next::Announce(self.found(place, node, source), place.path.len()),
        }
    }

    fn found(&self, place: &Place, node: &Node, source: &Source) -> Found {
        let (kind, mtime) = match node {
            Node::Directory { mtime, .. } => (EntryKind::Directory, *mtime),
            Node::Symlink { target, mtime } => (EntryKind::Symlink { target: target.clone() }, *mtime),
            Node::Link { revision } => {
                let to = self.files.get(revision).copied().expect("the first name comes first");
                (EntryKind::HardLink { to, size: 0, version: [0; 16], sparse: false }, 1_000_000 + *revision as i64)
            }
            Node::File(_) if source.is_stream => (EntryKind::Stream, 1),
            Node::File(file) => {
                let (size, version, sparse, linked) = (file.size(), file.version(), file.is_sparse(), file.linked);
                (EntryKind::File { size, version, sparse, linked }, file.mtime())
            }
        };
        let (parent, name) = match place.path.split_last() {
            None => (Parent::Source(place.root as u32), Vec::new()),
            Some((name, above)) => {
                let above = Place { root: place.root, path: above.to_vec() };
                (Parent::Directory(self.directories[&above]), name.clone())
            }
        };
        let root = source.roots[place.root].name.clone();
        let path = std::iter::once(&root).chain(&place.path).cloned().collect::<Vec<_>>().join(&b'/');
        let mode = if kind == EntryKind::Directory { 0o755 } else { 0o644 };
        Found {
            parent,
            name,
            kind,
            mode,
            mtime: (mtime, 0),
            owner: None,
            xattrs: Vec::new(),
            path,
            above: if source.roots[place.root].kind == SourceKind::Contents { root.len() + 1 } else { 0 },
            first: None,
            held: 0,
            removal: self.removal(place, node, source),
        }
    }

    fn removal(&self, place: &Place, node: &Node, source: &Source) -> Removal {
        let is_root = place.path.is_empty();
        let has_several_names = matches!(node, Node::Link { .. } | Node::File(File { linked: true, .. }));
        match (self.moves, is_root && source.roots[place.root].kind == SourceKind::Contents) {
            (false, _) | (true, true) => Removal::Never,
            (true, false) if is_root || has_several_names => Removal::AtEnd,
            (true, false) => Removal::WhenPublished,
        }
    }

    /// What was next is announced under this id.
    pub(crate) fn announced(&mut self, id: EntryId) {
        let Some(Step::Announce { place, node }) = self.steps.pop_front() else { return };
        let (file, what) = match node {
            Node::Directory { mtime, .. } => {
                self.directories.insert(place.clone(), id);
                (None, What::Directory { mtime })
            }
            Node::Symlink { target, .. } => (None, What::Symlink { target }),
            Node::Link { revision } => (None, What::Link { revision }),
            Node::File(file) => {
                self.files.insert(file.revision, id);
                (Some(file), What::File)
            }
        };
        self.announced.insert(id, Announced { place, file, what });
    }

    /// The directory that was next is left.
    pub(crate) fn left(&mut self) {
        self.steps.pop_front();
    }
}

fn list(place: Place, node: &Node, steps: &mut Vec<Step>) {
    match node {
        Node::Directory { children, mtime } => {
            let bare = Node::Directory { children: BTreeMap::new(), mtime: *mtime };
            steps.push(Step::Announce { place: place.clone(), node: bare });
            for (name, child) in children {
                let mut inner = place.clone();
                inner.path.push(name.clone());
                list(inner, child, steps);
            }
            steps.push(Step::Leave(place));
        }
        other => steps.push(Step::Announce { place, node: other.clone() }),
    }
}
