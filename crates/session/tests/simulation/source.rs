//! What is copied: a small tree whose files are numbers, and how it changes from one run to the next.

use std::collections::{BTreeMap, BTreeSet};

use icdc_protocol::block_map::block_count;
use icdc_protocol::limits::BLOCK_SIZE;
use icdc_protocol::message::{Digest, SourceKind};

use crate::disk::Number;
use crate::random::Random;

/// A block in bytes.
const BLOCK: u64 = BLOCK_SIZE as u64;
/// Length of a sparse file: so much of it is hole that nobody hashes its zeros.
const SPARSE_BLOCKS: u32 = 4200;

/// Directories in directories.
const DEEPEST: u32 = 3;

/// The value of a block, as far as anybody here computes one: what matters is that different blocks differ.
pub(crate) fn value_of(number: Number) -> Digest {
    let mut value = [0xb1; 32];
    value[..8].copy_from_slice(&number.to_le_bytes());
    value
}

/// The sources of a job.
#[derive(Clone, Debug)]
pub(crate) struct Source {
    pub(crate) roots: Vec<Root>,
    revisions: u64,
    /// The only source is a file that is announced as a stream.
    pub(crate) is_stream: bool,
}

/// One source, as it stands on the command line.
#[derive(Clone, Debug)]
pub(crate) struct Root {
    pub(crate) name: Vec<u8>,
    pub(crate) kind: SourceKind,
    pub(crate) node: Node,
}

/// Something in the tree.
#[derive(Clone, Debug)]
pub(crate) enum Node {
    File(File),
    Directory {
        children: BTreeMap<Vec<u8>, Node>,
        mtime: i64,
    },
    Symlink {
        target: Vec<u8>,
        mtime: i64,
    },
    /// A further name of the file with this revision, which comes before it.
    Link {
        revision: u64,
    },
}

/// A file in one version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct File {
    /// Names this state of the file; a later one has a higher number.
    pub(crate) revision: u64,
    /// Its first version had this revision.
    pub(crate) lineage: u64,
    pub(crate) body: Body,
    /// It has further names.
    pub(crate) linked: bool,
}

/// Contents of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Body {
    Small(Vec<u8>),
    Blocks { size: u64, sparse: bool, blocks: BTreeMap<u32, Number> },
}

impl File {
    fn small(revision: u64, length: usize) -> Self {
        let bytes = revision.to_le_bytes().into_iter().cycle().take(length).collect();
        Self { revision, lineage: revision, body: Body::Small(bytes), linked: false }
    }

    fn blocks(revision: u64, size: u64) -> Self {
        let blocks = (0..block_count(size)).map(|index| (index, number(revision, index))).collect();
        Self { revision, lineage: revision, body: Body::Blocks { size, sparse: false, blocks }, linked: false }
    }

    /// A file with something new at its start, behind which all but the end of another one is.
    fn moved(revision: u64, size: u64, before: &BTreeMap<u32, Number>) -> Self {
        let mut file = Self::blocks(revision, size);
        if let Body::Blocks { blocks, .. } = &mut file.body {
            let last = blocks.len() as u32 - 1;
            // The last block may be a short one.
            let moved = (1..last).filter_map(|index| Some((index, *before.get(&(index - 1))?)));
            blocks.extend(moved);
        }
        file
    }

    fn sparse(revision: u64, blocks: impl IntoIterator<Item = u32>) -> Self {
        let blocks = blocks.into_iter().map(|index| (index, number(revision, index))).collect();
        let size = u64::from(SPARSE_BLOCKS) * BLOCK;
        Self { revision, lineage: revision, body: Body::Blocks { size, sparse: true, blocks }, linked: false }
    }

    pub(crate) fn size(&self) -> u64 {
        match &self.body {
            Body::Small(bytes) => bytes.len() as u64,
            Body::Blocks { size, .. } => *size,
        }
    }

    pub(crate) fn is_sparse(&self) -> bool {
        matches!(self.body, Body::Blocks { sparse: true, .. })
    }

    /// As the sender announces it.
    pub(crate) fn version(&self) -> [u8; 16] {
        let mut version = [0x7e; 16];
        version[..8].copy_from_slice(&self.revision.to_le_bytes());
        version
    }

    pub(crate) fn mtime(&self) -> i64 {
        1_000_000 + self.revision as i64
    }
}

/// Contents of a block of a file in one version: like that of no other.
fn number(revision: u64, index: u32) -> Number {
    revision << 16 | u64::from(index + 1)
}

impl Source {
    /// A tree like those that are copied, but small.
    pub(crate) fn any(random: &mut Random) -> Self {
        let mut source = Self { roots: Vec::new(), revisions: 0, is_stream: false };
        let named = |name: &[u8], kind, node| Root { name: name.to_vec(), kind, node };
        match random.below(8) {
            // A single file, mostly a large one: there is no journal of the run.
            0 | 1 => {
                let node = Node::File(source.file(random, 2));
                source.roots.push(named(b"single", SourceKind::Item, node));
            }
            2..=4 => {
                let node = source.directory(random, 0);
                source.roots.push(named(b"tree", SourceKind::Directory, node));
            }
            5 | 6 => {
                let node = source.directory(random, 0);
                // `.` and `/` have no name.
                let name: &[u8] = if random.once_in(3) { b"" } else { b"tree" };
                source.roots.push(named(name, SourceKind::Contents, node));
            }
            // The contents of two directories go into one: what both have comes one after the other.
            _ => {
                for name in [b"one", b"two"] {
                    let node = source.directory(random, DEEPEST);
                    source.roots.push(named(name, SourceKind::Contents, node));
                }
            }
        }
        source
    }

    /// A tree with one thing of each kind.
    pub(crate) fn one_of_each() -> Self {
        let mut source = Self { roots: Vec::new(), revisions: 0, is_stream: false };
        let small = File::small(source.revise(), 16);
        let medium = File::blocks(source.revise(), 300 << 10);
        let large = File::blocks(source.revise(), 2 * BLOCK + 7);
        let inner = BTreeMap::from([(b"small".to_vec(), Node::File(small))]);
        let children = BTreeMap::from([
            (b"zero".to_vec(), Node::Directory { children: BTreeMap::new(), mtime: 76 }),
            (b"inner".to_vec(), Node::Directory { children: inner, mtime: 77 }),
            (b"large".to_vec(), Node::File(large)),
            (b"medium".to_vec(), Node::File(medium)),
            (b"symlink".to_vec(), Node::Symlink { target: b"large".to_vec(), mtime: 78 }),
        ]);
        let node = Node::Directory { children, mtime: 79 };
        source.roots.push(Root { name: b"tree".to_vec(), kind: SourceKind::Contents, node });
        source
    }

    /// Two directories that go into one, with a large file of one name in both.
    pub(crate) fn merged() -> Self {
        let mut source = Self { roots: Vec::new(), revisions: 0, is_stream: false };
        for name in [b"one", b"two"] {
            let large = File::blocks(source.revise(), 2 * BLOCK + 7);
            let children = BTreeMap::from([(b"large".to_vec(), Node::File(large))]);
            let node = Node::Directory { children, mtime: 79 };
            source.roots.push(Root { name: name.to_vec(), kind: SourceKind::Contents, node });
        }
        source
    }

    /// Two large files.
    pub(crate) fn two_files() -> Self {
        let mut source = Self { roots: Vec::new(), revisions: 0, is_stream: false };
        for name in [b"one", b"two"] {
            let node = Node::File(File::blocks(source.revise(), 2 * BLOCK + 7));
            source.roots.push(Root { name: name.to_vec(), kind: SourceKind::Item, node });
        }
        source
    }

    /// A directory with so many small files.
    pub(crate) fn wide(count: u32) -> Self {
        let mut source = Self { roots: Vec::new(), revisions: 0, is_stream: false };
        let file = |source: &mut Self| Node::File(File::small(source.revise(), 1));
        let children = (0..count).map(|number| (number.to_string().into_bytes(), file(&mut source))).collect();
        let node = Node::Directory { children, mtime: 79 };
        source.roots.push(Root { name: b"tree".to_vec(), kind: SourceKind::Contents, node });
        source
    }

    /// A single file that fits into a pack.
    pub(crate) fn small_file() -> Self {
        Self::small_file_of(16)
    }

    /// A single file without contents.
    pub(crate) fn empty_file() -> Self {
        Self::small_file_of(0)
    }

    fn small_file_of(length: usize) -> Self {
        let mut source = Self { roots: Vec::new(), revisions: 0, is_stream: false };
        let node = Node::File(File::small(source.revise(), length));
        source.roots.push(Root { name: b"single".to_vec(), kind: SourceKind::Item, node });
        source
    }

    /// A single file of a few blocks.
    pub(crate) fn single_file() -> Self {
        let mut source = Self { roots: Vec::new(), revisions: 0, is_stream: false };
        let node = Node::File(File::blocks(source.revise(), 3 * BLOCK));
        source.roots.push(Root { name: b"single".to_vec(), kind: SourceKind::Item, node });
        source
    }

    /// A stream of a few blocks.
    pub(crate) fn stream() -> Self {
        let mut source = Self { roots: Vec::new(), revisions: 0, is_stream: true };
        let node = Node::File(File::blocks(source.revise(), 2 * BLOCK + 7));
        source.roots.push(Root { name: b"single".to_vec(), kind: SourceKind::Item, node });
        source
    }

    fn revise(&mut self) -> u64 {
        self.revisions += 1;
        self.revisions
    }

    /// `large`: how much more often a file is large than usual.
    fn file(&mut self, random: &mut Random, large: u64) -> File {
        let revision = self.revise();
        match random.below(10 + 2 * large) {
            0 => File::small(revision, 0),
            1..=4 => File::small(revision, random.within(8, 64) as usize),
            5 => File::blocks(revision, 300 << 10),
            6 => File::blocks(revision, BLOCK),
            7 => File::sparse(revision, [1, 2, 7, SPARSE_BLOCKS - 1]),
            // More than one checkpoint.
            8 => File::blocks(revision, random.within(17, 40) * BLOCK - random.below(2) * 5),
            _ => File::blocks(revision, random.within(1, 6) * BLOCK + 1 + random.below(BLOCK)),
        }
    }

    fn directory(&mut self, random: &mut Random, depth: u32) -> Node {
        const NAMES: [&[u8]; 8] = [b"a", b"b", b"c", b"d", b"e", b"f", b"g", b"h"];
        let mut children = BTreeMap::new();
        let mut linkable = Vec::new();
        let count = random.below(if depth == 0 { 7 } else { 4 });
        for name in NAMES.iter().take(count as usize + usize::from(depth == 0)) {
            let node = match random.below(12) {
                0 | 1 if depth < DEEPEST => self.directory(random, depth + 1),
                2 => Node::Symlink { target: format!("to{}", self.revise()).into_bytes(), mtime: 55 },
                3 if !linkable.is_empty() => {
                    let (first, revision): &(Vec<u8>, u64) = random.pick(&linkable);
                    if let Some(Node::File(file)) = children.get_mut(first) {
                        file.linked = true;
                    }
                    Node::Link { revision: *revision }
                }
                _ => Node::File(self.file(random, 0)),
            };
            if let Node::File(file) = &node {
                linkable.push((name.to_vec(), file.revision));
            }
            children.insert(name.to_vec(), node);
        }
        Node::Directory { children, mtime: 40 + i64::from(depth) }
    }

    /// Some of the files become other ones, of the same size or not.
    pub(crate) fn change(&mut self, random: &mut Random) {
        let Self { roots, revisions, .. } = self;
        for root in roots {
            root.node.change(revisions, random);
        }
    }

    /// Some files and directories get names that nothing has had before.
    pub(crate) fn rename(&mut self, random: &mut Random) {
        let Self { roots, revisions, .. } = self;
        for root in roots {
            root.node.rename(revisions, random);
        }
    }

    /// The versions of all files.
    pub(crate) fn revisions(&self) -> BTreeSet<u64> {
        let mut found = BTreeSet::new();
        self.roots.iter().for_each(|root| root.node.revisions(&mut found));
        found
    }

    /// Whether the receiver keeps a journal of the run.
    pub(crate) fn is_run(&self) -> bool {
        self.roots.len() > 1 || self.roots.iter().any(|root| root.kind != SourceKind::Item)
    }

    pub(crate) fn find(&self, number: usize, path: &[Vec<u8>]) -> Option<&Node> {
        let start = &self.roots.get(number)?.node;
        path.iter().try_fold(start, |node, name| match node {
            Node::Directory { children, .. } => children.get(name),
            _ => None,
        })
    }
}

impl Node {
    fn rename(&mut self, revisions: &mut u64, random: &mut Random) {
        let Self::Directory { children, .. } = self else { return };
        children.values_mut().for_each(|child| child.rename(revisions, random));
        // Further names come behind the first.
        let may = |node: &Self| matches!(node, Self::Directory { .. } | Self::File(File { linked: false, .. }));
        let names: Vec<Vec<u8>> = children.iter().filter(|(_, node)| may(node)).map(|(name, _)| name.clone()).collect();
        for name in names {
            if random.once_in(3)
                && let Some(node) = children.remove(&name)
            {
                *revisions += 1;
                // It comes before the others or behind them.
                let first = if random.once_in(2) { "A" } else { "z" };
                children.insert(format!("{first}{revisions}").into_bytes(), node);
            }
        }
    }

    fn revisions(&self, found: &mut BTreeSet<u64>) {
        match self {
            Self::File(file) => drop(found.insert(file.revision)),
            Self::Directory { children, .. } => children.values().for_each(|child| child.revisions(found)),
            Self::Symlink { .. } | Self::Link { .. } => {}
        }
    }

    fn change(&mut self, revisions: &mut u64, random: &mut Random) {
        match self {
            // The other names would have to change as well.
            Self::File(File { linked: true, .. }) | Self::Symlink { .. } | Self::Link { .. } => {}
            Self::File(file) => {
                if random.once_in(3) {
                    *revisions += 1;
                    let revision = *revisions;
                    let lineage = file.lineage;
                    *file = match &file.body {
                        Body::Small(bytes) => File::small(revision, bytes.len()),
                        Body::Blocks { sparse: true, blocks, .. } => File::sparse(revision, blocks.keys().copied()),
                        Body::Blocks { size, blocks, .. } if random.once_in(2) => File::moved(revision, *size, blocks),
                        Body::Blocks { .. } => File::blocks(revision, random.within(1, 6) * BLOCK + 9),
                    };
                    file.lineage = lineage;
                }
            }
            Self::Directory { children, .. } => {
                for child in children.values_mut() {
                    child.change(revisions, random);
                }
            }
        }
    }
}
