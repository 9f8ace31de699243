//! What is remembered of everything that happened, so that it can be told whether something is not as it must be.

use std::collections::{BTreeMap, BTreeSet};

use icdc_protocol::block_map::block_length;
use icdc_protocol::message::Digest;
use icdc_units::ByteCount;

use crate::disk::{Contents, Disk, Inode, Kind, Number, STRAY};
use crate::receiver::staging;
use crate::source::{Body, File, Node, Source, value_of};

/// A path below the destination, as its components.
pub(crate) type Path = Vec<Vec<u8>>;

/// An unfinished file: its directory, its name, and the version that it is to become.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Unfinished {
    pub(crate) directory: Inode,
    pub(crate) name: Vec<u8>,
    pub(crate) revision: u64,
}

/// See the module's description.
#[derive(Debug, Default)]
pub(crate) struct Audit {
    /// Every version that a file of this size and time has ever had at the source.
    versions: BTreeMap<u64, File>,
    /// What a user was told of as copied.
    promised: BTreeSet<Path>,
    /// The newest version of each file, by its first, that a user was told of as copied there.
    newest: BTreeMap<(Path, u64), u64>,
    /// Versions that a user was told of as copied and that had other names at the source then.
    renamed: BTreeSet<u64>,
    /// Blocks that are noted in the journal of an unfinished file.
    noted: BTreeMap<Unfinished, BTreeSet<u32>>,
}

impl Audit {
    /// Learns of all versions that the source has now.
    pub(crate) fn learn(&mut self, source: &Source) {
        for root in &source.roots {
            self.learn_node(&root.node);
        }
        let now = source.revisions();
        self.renamed.retain(|revision| now.contains(revision));
    }

    /// Some files have other names at the source. Those that were copied must not be gone until they have these names at
    /// the destination, too.
    pub(crate) fn on_renamed(&mut self, source: &Source) {
        let now = source.revisions();
        self.promised.clear();
        self.renamed = self.newest.values().copied().filter(|revision| now.contains(revision)).collect();
    }

    fn learn_node(&mut self, node: &Node) {
        match node {
            Node::File(file) => drop(self.versions.insert(file.revision, file.clone())),
            Node::Directory { children, .. } => children.values().for_each(|child| self.learn_node(child)),
            Node::Symlink { .. } | Node::Link { .. } => {}
        }
    }

    /// The file with this revision.
    pub(crate) fn version(&self, revision: u64) -> Option<&File> {
        self.versions.get(&revision)
    }

    /// Length of the block with this number in its file.
    pub(crate) fn length_of(&self, block: Number, index: u32) -> Option<ByteCount> {
        let file = self.versions.get(&(block >> 16))?;
        Some(ByteCount::from(block_length(file.size(), index)))
    }

    /// Which version of which file a published file is.
    pub(crate) fn revision_of(&self, contents: &Contents) -> Result<u64, String> {
        let revision = (contents.mtime.0 - 1_000_000) as u64;
        let file =
            self.versions.get(&revision).ok_or_else(|| format!("has the time {:?} of no version", contents.mtime))?;
        if is_like(file, contents) { Ok(revision) } else { Err(format!("is not what version {revision} is")) }
    }

    /// Everything that has a final name is whole, and no older than what a user was told of.
    pub(crate) fn check_tree(&self, disk: &Disk) -> Result<(), String> {
        let mut path = Vec::new();
        let mut found = BTreeSet::new();
        self.check_directory(disk, disk.root(), &mut path, &mut found)?;
        match self.renamed.difference(&found).next() {
            Some(lost) => Err(format!("version {lost} was renamed and is gone")),
            None => Ok(()),
        }
    }

    fn check_directory(
        &self,
        disk: &Disk,
        directory: Inode,
        path: &mut Path,
        all: &mut BTreeSet<u64>,
    ) -> Result<(), String> {
        for (name, inode) in disk.names(directory) {
            // What was there before any copy is of no version.
            if staging::is_staging(name) || name.starts_with(STRAY) {
                continue;
            }
            path.push(name.to_vec());
            match disk.kind(inode) {
                Kind::Directory => self.check_directory(disk, inode, path, all)?,
                Kind::Symlink(_) => {}
                Kind::File => {
                    let shown = show(path);
                    let found = self.revision_of(disk.contents(inode)).map_err(|what| format!("{shown} {what}"))?;
                    all.insert(found);
                    if self.is_old(path, found) {
                        return Err(format!("{shown} has gone back to version {found}"));
                    }
                }
            }
            path.pop();
        }
        for promised in self.promised.iter().filter(|promised| promised.len() == path.len() + 1) {
            if promised.starts_with(path) && promised.last().is_some_and(|name| disk.find(directory, name).is_none()) {
                return Err(format!("{} was copied and is gone", show(promised)));
            }
        }
        Ok(())
    }

    /// A user is told that everything is copied.
    pub(crate) fn promise(&mut self, path: Path, revision: u64) {
        self.promised.insert(path.clone());
        if let Some(file) = self.versions.get(&revision) {
            let newest = self.newest.entry((path, file.lineage)).or_default();
            *newest = revision.max(*newest);
        }
    }

    /// Whether a user was told of a newer version of the file as copied.
    fn is_old(&self, path: &Path, revision: u64) -> bool {
        let file = self.versions.get(&revision);
        let newest = file.and_then(|file| self.newest.get(&(path.clone(), file.lineage)));
        newest.is_some_and(|newest| revision < *newest)
    }

    /// The machine has failed. What the journals say now is all that counts.
    pub(crate) fn power_was_cut(&mut self) {
        self.noted.clear();
    }

    /// Something has got its final name: it must be whole, durable, and no older than what a user was told of.
    pub(crate) fn check_published(&self, disk: &Disk, inode: Inode, path: &Path) -> Result<(), String> {
        if *disk.kind(inode) != Kind::File {
            return Ok(());
        }
        let shown = show(path);
        let revision = self.revision_of(disk.contents(inode)).map_err(|what| format!("{shown} {what}"))?;
        self.revision_of(disk.durable(inode)).map_err(|what| format!("{shown} is not durable: it {what}"))?;
        if self.is_old(path, revision) { Err(format!("{shown} goes back to version {revision}")) } else { Ok(()) }
    }

    /// Blocks were noted as durable: they must be.
    pub(crate) fn noted(
        &mut self,
        disk: &Disk,
        part: Inode,
        file: &Unfinished,
        blocks: &[(u32, Digest)],
    ) -> Result<(), String> {
        for (index, value) in blocks {
            let number: Number = disk.durable(part).blocks.get(index).copied().unwrap_or_default();
            if value_of(number) != *value {
                return Err(format!("block {index} was noted and is not durable"));
            }
        }
        self.noted.entry(file.clone()).or_default().extend(blocks.iter().map(|(index, _)| *index));
        Ok(())
    }

    /// Whether a block is noted, and therefore not to be sent again.
    pub(crate) fn is_noted(&self, file: &Unfinished, index: u32) -> bool {
        self.noted.get(file).is_some_and(|noted| noted.contains(&index))
    }

    /// All blocks that are noted.
    pub(crate) fn noted_of(&self, file: &Unfinished) -> BTreeSet<u32> {
        self.noted.get(file).cloned().unwrap_or_default()
    }

    /// A block that was noted is damaged, and was asked for.
    pub(crate) fn is_damaged(&mut self, file: &Unfinished, index: u32) {
        if let Some(noted) = self.noted.get_mut(file) {
            noted.remove(&index);
        }
    }

    /// Nobody goes on with an unfinished file.
    pub(crate) fn is_gone(&mut self, file: &Unfinished) {
        self.noted.remove(file);
    }

    /// A version has the final name: others that had it are begun anew.
    pub(crate) fn is_named(&mut self, file: &Unfinished) {
        self.noted.retain(|other, _| {
            (other.directory, &other.name) != (file.directory, &file.name) || other.revision == file.revision
        });
    }

    /// A run is complete: the next one sends again what it has published.
    pub(crate) fn is_put_away(&mut self) {
        self.noted.clear();
    }
}

/// Whether a file on the disk is this version.
pub(crate) fn is_like(file: &File, contents: &Contents) -> bool {
    match &file.body {
        Body::Small(bytes) => contents.bytes == *bytes && contents.blocks.is_empty(),
        Body::Blocks { size, blocks, .. } => contents.length == *size && contents.blocks == *blocks,
    }
}

pub(crate) fn show(path: &Path) -> String {
    path.iter().map(|name| String::from_utf8_lossy(name)).collect::<Vec<_>>().join("/")
}
