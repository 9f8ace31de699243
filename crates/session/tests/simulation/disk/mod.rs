//! A file system in memory that knows what a power cut would leave of it.
//!
//! Whatever is written can be read at once, and a process that is killed takes nothing of it away. A power cut does:
//! of what no flush covered, any part may be gone, in any order, torn or whole; of names as well. A flush covers what
//! was written when it began. One that fails may lose what it was for, and says so only once.

mod contents;
mod directory;

use std::collections::{BTreeMap, BTreeSet};

pub(crate) use self::contents::{Contents, Number, Write};
use self::directory::{Change, Names};
use super::random::Random;

/// Beginning of the names of items that no source has.
pub(crate) const STRAY: &[u8] = b"stray";

/// A file, directory or link, whatever its names are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Inode(pub(crate) u64);

/// Why something cannot be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DiskError {
    Missing,
    Existing,
    IsADirectory,
}

/// What is found under a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    File,
    Directory,
    Symlink(Vec<u8>),
}

#[derive(Clone, Debug)]
struct Node {
    kind: Kind,
    durable: Contents,
    live: Contents,
    unsynced: Vec<(u64, Write)>,
    names: Names,
    /// Number of its last change, which stands for the time of that (ctime).
    changed: u64,
}

/// When a flush began.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mark(u64);

/// The file system.
#[derive(Clone, Debug)]
pub(crate) struct Disk {
    nodes: BTreeMap<Inode, Node>,
    /// What is not as the medium has it.
    dirty: BTreeSet<Inode>,
    locks: BTreeMap<Inode, Holder>,
    changes: u64,
    ignores_locks: bool,
}

/// What has a name, if anything: its inode, and the number of its last change.
pub(crate) type Occupant = Option<(Inode, u64)>;

/// Who holds a lock: a session.
pub(crate) type Holder = u64;

const ROOT: Inode = Inode(0);

impl Disk {
    /// An empty one.
    pub(crate) fn new() -> Self {
        let (nodes, dirty, locks) = (BTreeMap::new(), BTreeSet::new(), BTreeMap::new());
        let mut disk = Self { nodes, dirty, locks, changes: 1 << 20, ignores_locks: false };
        disk.make(Kind::Directory);
        disk
    }

    pub(crate) fn root(&self) -> Inode {
        ROOT
    }

    fn make(&mut self, kind: Kind) -> Inode {
        let inode = Inode(self.nodes.len() as u64);
        let (durable, live) = (Contents::default(), Contents::default());
        let node = Node { kind, durable, live, unsynced: Vec::new(), names: Names::default(), changed: 0 };
        self.nodes.insert(inode, node);
        inode
    }

    fn node(&self, inode: Inode) -> &Node {
        self.nodes.get(&inode).expect("inodes are never removed")
    }

    /// Number of names of a file.
    pub(crate) fn count_names(&self, inode: Inode) -> u64 {
        self.nodes.values().flat_map(|node| node.names.iter()).filter(|(_, named)| *named == inode).count() as u64
    }

    /// Number of changes so far.
    pub(crate) fn changes(&self) -> u64 {
        self.changes
    }

    /// A node that is about to be changed.
    fn changed(&mut self, inode: Inode) -> (u64, &mut Node) {
        self.changes += 1;
        self.dirty.insert(inode);
        let node = self.nodes.get_mut(&inode).expect("inodes are never removed");
        node.changed = self.changes;
        (self.changes, node)
    }

    pub(crate) fn find(&self, directory: Inode, name: &[u8]) -> Option<Inode> {
        self.node(directory).names.get(name)
    }

    /// What has a name by now.
    pub(crate) fn occupant(&self, directory: Inode, name: &[u8]) -> Occupant {
        self.find(directory, name).map(|inode| (inode, self.node(inode).changed))
    }

    pub(crate) fn names(&self, directory: Inode) -> impl Iterator<Item = (&[u8], Inode)> {
        self.node(directory).names.iter()
    }

    pub(crate) fn kind(&self, inode: Inode) -> &Kind {
        &self.node(inode).kind
    }

    /// What can be read of it.
    pub(crate) fn contents(&self, inode: Inode) -> &Contents {
        &self.node(inode).live
    }

    /// What would survive a power cut for certain.
    pub(crate) fn durable(&self, inode: Inode) -> &Contents {
        &self.node(inode).durable
    }

    /// Opens a directory that is there, or makes it.
    pub(crate) fn make_directory(&mut self, directory: Inode, name: &[u8]) -> Result<Inode, DiskError> {
        match self.find(directory, name) {
            Some(found) if *self.kind(found) == Kind::Directory => Ok(found),
            Some(_) => Err(DiskError::Existing),
            None => {
                let made = self.make(Kind::Directory);
                self.change_names(directory, Change::Set(name.to_vec(), made));
                Ok(made)
            }
        }
    }

    /// Makes an empty file under a name that is free.
    pub(crate) fn create(&mut self, directory: Inode, name: &[u8]) -> Result<Inode, DiskError> {
        self.enter(directory, name, Kind::File)
    }

    pub(crate) fn make_symlink(&mut self, directory: Inode, name: &[u8], target: &[u8]) -> Result<Inode, DiskError> {
        self.enter(directory, name, Kind::Symlink(target.to_vec()))
    }

    fn enter(&mut self, directory: Inode, name: &[u8], kind: Kind) -> Result<Inode, DiskError> {
        if self.find(directory, name).is_some() {
            return Err(DiskError::Existing);
        }
        let made = self.make(kind);
        self.change_names(directory, Change::Set(name.to_vec(), made));
        Ok(made)
    }

    pub(crate) fn link(&mut self, directory: Inode, name: &[u8], to: Inode) -> Result<(), DiskError> {
        if self.find(directory, name).is_some() {
            return Err(DiskError::Existing);
        }
        self.change_names(directory, Change::Set(name.to_vec(), to));
        Ok(())
    }

    /// Gives what has the name `from` the name `to`, in place of what has that.
    pub(crate) fn rename(&mut self, directory: Inode, from: &[u8], to: &[u8]) -> Result<(), DiskError> {
        let inode = self.find(directory, from).ok_or(DiskError::Missing)?;
        match self.find(directory, to) {
            Some(found) if found == inode => return Ok(()),
            Some(found) if *self.kind(found) == Kind::Directory => return Err(DiskError::IsADirectory),
            _ => {}
        }
        self.change_names(directory, Change::Rename(from.to_vec(), to.to_vec(), inode));
        Ok(())
    }

    pub(crate) fn remove(&mut self, directory: Inode, name: &[u8]) -> Result<(), DiskError> {
        let inode = self.find(directory, name).ok_or(DiskError::Missing)?;
        if *self.kind(inode) == Kind::Directory {
            return Err(DiskError::IsADirectory);
        }
        self.change_names(directory, Change::Remove(name.to_vec()));
        Ok(())
    }

    /// Puts items into a directory that no source has: a file, and a directory with another.
    pub(crate) fn make_strays(&mut self, directory: Inode) {
        let made = self.create(directory, b"stray").and_then(|_| {
            let inner = self.make_directory(directory, b"strays")?;
            self.create(inner, b"inner")
        });
        debug_assert!(made.is_ok(), "the directory is empty");
    }

    pub(crate) fn remove_directory(&mut self, directory: Inode, name: &[u8]) -> Result<(), DiskError> {
        let inode = self.find(directory, name).ok_or(DiskError::Missing)?;
        if self.names(inode).next().is_some() {
            return Err(DiskError::Existing);
        }
        self.change_names(directory, Change::Remove(name.to_vec()));
        Ok(())
    }

    fn change_names(&mut self, directory: Inode, change: Change) {
        let (number, node) = self.changed(directory);
        node.names.change(number, change);
        // A directory's time is that of its last change, unlike any that a source has.
        let write = Write::Mtime((number as i64, 0));
        node.live.apply(&write);
        node.unsynced.push((number, write));
    }

    pub(crate) fn write(&mut self, inode: Inode, write: Write) {
        let (number, node) = self.changed(inode);
        node.live.apply(&write);
        node.unsynced.push((number, write));
    }

    /// A flush of a file or directory begins.
    pub(crate) fn begin_sync(&self) -> Mark {
        Mark(self.changes)
    }

    /// The flush of `inode` is through.
    pub(crate) fn synced(&mut self, inode: Inode, Mark(mark): Mark) {
        let node = self.nodes.get_mut(&inode).expect("inodes are never removed");
        node.sync(mark);
        if node.unsynced.is_empty() && node.names.is_durable() {
            self.dirty.remove(&inode);
        }
    }

    /// The flush of `inode` has failed: some of what it was for is gone.
    pub(crate) fn sync_failed(&mut self, inode: Inode, Mark(mark): Mark, random: &mut Random) {
        let node = self.nodes.get_mut(&inode).expect("inodes are never removed");
        for (number, write) in std::mem::take(&mut node.unsynced) {
            let is_covered = number <= mark && matches!(write, Write::Block(..) | Write::Bytes(..));
            if !is_covered || random.once_in(2) {
                node.unsynced.push((number, write));
            }
        }
        node.reread();
    }

    /// Everything on the file system is flushed.
    pub(crate) fn sync_filesystem(&mut self) {
        let all = std::mem::take(&mut self.dirty);
        for inode in all {
            self.nodes.get_mut(&inode).expect("inodes are never removed").sync(u64::MAX);
        }
    }

    /// From now on a lock is had by whoever asks for it.
    pub(crate) fn ignore_locks(&mut self, ignores_locks: bool) {
        self.ignores_locks = ignores_locks;
    }

    /// Takes the lock of a file, unless another session holds it.
    pub(crate) fn lock(&mut self, inode: Inode, holder: Holder) -> bool {
        *self.locks.entry(inode).or_insert(holder) == holder || self.ignores_locks
    }

    /// Whether another session than `holder` has the lock.
    pub(crate) fn is_locked(&self, inode: Inode, holder: Holder) -> bool {
        !self.ignores_locks && self.locks.get(&inode).is_some_and(|other| *other != holder)
    }

    pub(crate) fn unlock(&mut self, inode: Inode, holder: Holder) {
        if self.locks.get(&inode) == Some(&holder) {
            self.locks.remove(&inode);
        }
    }

    /// A session's process is gone.
    pub(crate) fn unlock_all(&mut self, holder: Holder) {
        self.locks.retain(|_, other| *other != holder);
    }

    /// The medium loses a block of a file that nobody has locked and that `may` be chosen under all its names, if there
    /// is one.
    pub(crate) fn rot(&mut self, random: &mut Random, may: impl Fn(&[u8], Inode) -> bool) {
        let mut files = BTreeMap::new();
        for (name, inode) in self.nodes.values().flat_map(|node| node.names.iter()) {
            *files.entry(inode).or_insert(true) &= may(name, inode) && !self.locks.contains_key(&inode);
        }
        let files: Vec<Inode> = files.into_iter().filter(|(_, all)| *all).map(|(inode, _)| inode).collect();
        if files.is_empty() {
            return;
        }
        let node = self.nodes.get_mut(random.pick(&files)).expect("inodes are never removed");
        let indices: Vec<u32> = node.durable.blocks.keys().copied().collect();
        // One of a single block is not gone on with.
        if indices.len() < 2 {
            return;
        }
        let index = *random.pick(&indices);
        if let Some(torn) = Write::Block(index, 1).torn(random) {
            node.durable.apply(&torn);
            node.reread();
        }
    }

    /// The machine fails and starts again.
    pub(crate) fn cut_power(&mut self, random: &mut Random) {
        self.locks.clear();
        for inode in std::mem::take(&mut self.dirty) {
            let node = self.nodes.get_mut(&inode).expect("inodes are never removed");
            for (_, write) in std::mem::take(&mut node.unsynced) {
                if let Some(write) = write.survivor(random) {
                    node.durable.apply(&write);
                }
            }
            node.live = node.durable.clone();
            node.names.cut_power(random);
        }
    }
}

impl Node {
    fn sync(&mut self, mark: u64) {
        let durable = &mut self.durable;
        self.unsynced.retain(|(number, write)| {
            if *number <= mark {
                durable.apply(write);
            }
            *number > mark
        });
        self.names.sync(mark);
    }

    fn reread(&mut self) {
        self.live = self.durable.clone();
        for (_, write) in &self.unsynced {
            self.live.apply(write);
        }
    }
}
