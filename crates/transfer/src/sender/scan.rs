//! Walks the sources depth first and announces what it finds.
//!
//! Directories are opened by descriptor and never through a link; names within a directory go in
//! byte order, so that two runs over the same tree announce the same sequence.

use std::collections::HashMap;
use std::sync::Arc;

use icdc_disk::tree::{CAPABILITY, Directory, Kind, Listing, Name, Stat, is_staging};
use icdc_protocol::frame::{ENTRIES_OVERHEAD, entry_length};
use icdc_protocol::limits::{
    MAX_DEPTH, MAX_FILE_SIZE, MAX_HEAD, MAX_LEVEL_PATHS, MAX_NAME, MAX_SHOWN_PATH, MAX_XATTR_BYTES,
};
use icdc_protocol::message::{Entry, EntryId, EntryKind, Message, Parent, Preserve, Problem, SendOptions};

use super::exclude::Exclude;
use super::ledger::{Item, Ledger, OpenDirectory};
use super::merging::Merging;
use super::sources::Root;
use crate::error::SessionError;

/// Entries in one message.
const BATCH: usize = 256;

pub(crate) struct Scan<'a> {
    ledger: &'a Ledger,
    tell: &'a dyn Fn(Message) -> Option<()>,
    problem: &'a dyn Fn(Problem),
    preserve: Preserve,
    exclude: Exclude,
    batch: Vec<Entry>,
    /// Bytes that the batch takes in a message.
    batch_bytes: usize,
    /// First announced name of each file with several names: (device, inode) → id.
    linked: HashMap<(u64, u64), EntryId>,
    merging: Merging,
    /// Directories from the source down to where the walk stands.
    depth: usize,
}

/// A directory being walked.
struct Level {
    directory: Arc<OpenDirectory>,
    id: EntryId,
    path: Vec<u8>,
    /// Bytes of the paths from the source down to this one.
    paths: usize,
    names: Listing,
    next: usize,
}

impl<'a> Scan<'a> {
    pub(crate) fn new(
        ledger: &'a Ledger,
        tell: &'a dyn Fn(Message) -> Option<()>,
        problem: &'a dyn Fn(Problem),
        options: &SendOptions,
    ) -> Result<Self, SessionError> {
        let exclude = Exclude::new(&options.exclude).map_err(SessionError::Local)?;
        Ok(Self {
            ledger,
            tell,
            problem,
            preserve: options.preserve,
            exclude,
            batch: Vec::new(),
            batch_bytes: 0,
            linked: HashMap::new(),
            merging: Merging::default(),
            depth: 0,
        })
    }

    /// Announces every source; returns early when the session ends.
    pub(crate) fn run(mut self, roots: Vec<(u32, Root)>) {
        self.merging = Merging::of(&roots);
        for (number, root) in roots {
            self.merging.enter(&root);
            let parent = Parent::Source(number);
            let path = root.source.name.clone();
            let done = match root.name {
                // The contents of a directory.
                None => self.enter(root.directory, parent, path, &root.stat),
                Some(name) => {
                    let directory = self.ledger.hold_open(root.directory);
                    match root.stat.kind {
                        Kind::Directory => match directory.open_directory(&name) {
                            Ok(inner) => self.enter(inner, parent, path, &root.stat),
                            Err(error) => self.fail(path, error.to_string()),
                        },
                        _ => self.visit(&directory, name, parent, path, &root.stat),
                    }
                }
            };
            if done.is_none() {
                return;
            }
        }
        self.flush();
        if let Some(problem) = self.merging.rest() {
            (self.problem)(problem);
        }
        self.ledger.scan_complete();
        self.tell(Message::Totals(self.ledger.counts().totals));
    }

    /// Announces anything but a directory. `None` when the session is over.
    fn visit(
        &mut self,
        directory: &Arc<OpenDirectory>,
        name: Name,
        parent: Parent,
        path: Vec<u8>,
        stat: &Stat,
    ) -> Option<()> {
        let wire_name = match parent {
            Parent::Source(_) => Vec::new(),
            Parent::Directory(_) => name.as_bytes().to_vec(),
        };
        let kind = match stat.kind {
            Kind::Directory => return self.fail(path, "became a directory while it was looked at".into()),
            Kind::File if stat.size > MAX_FILE_SIZE => return self.fail(path, "larger than icdc can address".into()),
            Kind::File => self.file_kind(stat),
            Kind::Symlink if !self.preserve.links => {
                return self.leave_out(path, "symbolic link left out (--preserve without links)".into());
            }
            Kind::Symlink => match directory.read_link(&name) {
                Ok(target) => EntryKind::Symlink { target },
                Err(error) => return self.fail(path, error.to_string()),
            },
            Kind::Other(what) => return self.fail(path, format!("{what} is not copied")),
        };
        let xattrs = if self.preserve.xattr && stat.kind == Kind::File {
            match directory.open_file(&name).and_then(|(file, _)| directory.xattrs(&name, &file)) {
                Ok(found) => self.bounded_xattrs(found, &path),
                Err(error) => return self.fail(path, error.to_string()),
            }
        } else {
            Vec::new()
        };
        if let Some(problem) = self.merging.note(&path) {
            (self.problem)(problem);
        }
        let linked = matches!(kind, EntryKind::File { linked: true, .. });
        let entry = self.entry(parent, wire_name, kind, stat, xattrs)?;
        if linked {
            self.linked.insert((stat.dev, stat.ino), entry.id);
        }
        self.announce(Item { entry, path, directory: directory.clone(), name });
        Some(())
    }

    fn file_kind(&self, stat: &Stat) -> EntryKind {
        let linked = self.preserve.links && stat.nlink > 1;
        if linked && let Some(first) = self.linked.get(&(stat.dev, stat.ino)) {
            return EntryKind::HardLink { to: *first };
        }
        let sparse = self.preserve.sparse && stat.blocks.saturating_mul(512) < stat.size;
        EntryKind::File { size: stat.size, version: version(stat), sparse, linked }
    }

    /// Announces a directory and everything in it.
    fn enter(&mut self, directory: Directory, parent: Parent, path: Vec<u8>, stat: &Stat) -> Option<()> {
        let mut levels = Vec::new();
        self.push_level(&mut levels, directory, parent, Vec::new(), path, stat)?;
        loop {
            self.depth = levels.len();
            let Some(level) = levels.last_mut() else { break };
            let Some(raw) = level.names.get(level.next).map(|entry| entry.name.to_vec()) else {
                let level = levels.pop().expect("a level was just seen");
                self.flush();
                self.tell(Message::DirEnd { id: level.id });
                continue;
            };
            level.next += 1;
            let mut path = level.path.clone();
            if !path.is_empty() {
                path.push(b'/');
            }
            path.extend_from_slice(&raw);
            if is_staging(&raw) {
                self.leave_out(path, "left behind by an unfinished copy, not copied".into())?;
                continue;
            }
            let name = match Name::new(&raw) {
                Ok(name) => name,
                Err(error) => {
                    self.fail(path, error.to_string())?;
                    continue;
                }
            };
            if self.exclude.matches(&path, &raw) {
                continue;
            }
            let parent = Parent::Directory(level.id);
            let directory = level.directory.clone();
            let stat = match directory.stat(&name) {
                Ok(stat) => stat,
                Err(error) => {
                    let gone = error.is_missing();
                    let reason = if gone { "vanished while the directory was read".into() } else { error.to_string() };
                    self.fail(path, reason)?;
                    continue;
                }
            };
            if stat.kind != Kind::Directory {
                self.visit(&directory, name, parent, path, &stat)?;
            } else if let Some(reason) = too_deep(&levels, &path) {
                self.fail(path, reason)?;
            } else {
                match directory.open_directory(&name) {
                    Ok(inner) => self.push_level(&mut levels, inner, parent, raw, path, &stat)?,
                    Err(error) => self.fail(path, error.to_string())?,
                }
            }
        }
        Some(())
    }

    fn push_level(
        &mut self,
        levels: &mut Vec<Level>,
        directory: Directory,
        parent: Parent,
        wire_name: Vec<u8>,
        path: Vec<u8>,
        stat: &Stat,
    ) -> Option<()> {
        let names = match directory.entries() {
            Ok(listing) => listing,
            Err(error) => return self.fail(path, error.to_string()),
        };
        let xattrs = if self.preserve.xattr {
            match directory.own_xattrs() {
                Ok(found) => self.bounded_xattrs(found, &path),
                Err(error) => return self.fail(path, error.to_string()),
            }
        } else {
            Vec::new()
        };
        let entry = self.entry(parent, wire_name, EntryKind::Directory, stat, xattrs)?;
        let id = entry.id;
        let directory = self.ledger.hold_open(directory);
        self.ledger.announce_directory(&path, &entry);
        self.push(entry);
        let paths = levels.last().map_or(0, |above| above.paths) + path.len();
        levels.push(Level { directory, id, path, paths, names, next: 0 });
        Some(())
    }

    fn entry(
        &mut self,
        parent: Parent,
        name: Vec<u8>,
        kind: EntryKind,
        stat: &Stat,
        xattrs: Vec<(Vec<u8>, Vec<u8>)>,
    ) -> Option<Entry> {
        let ledger = self.ledger;
        if !ledger.wait_for_room(self.depth, || self.flush()) {
            return None;
        }
        Some(Entry {
            id: ledger.next_id(),
            parent,
            name,
            kind,
            mode: stat.mode & 0o7777,
            mtime_seconds: stat.mtime.seconds,
            mtime_nanos: stat.mtime.nanos,
            owner: self.preserve.owner.then_some((stat.uid, stat.gid)),
            xattrs,
        })
    }

    fn announce(&mut self, item: Item) {
        let entry = item.entry.clone();
        self.ledger.announce(item);
        self.push(entry);
    }

    fn push(&mut self, entry: Entry) {
        let bytes = entry_length(&entry);
        if self.batch_bytes + bytes > MAX_HEAD - ENTRIES_OVERHEAD {
            self.flush();
        }
        self.batch_bytes += bytes;
        self.batch.push(entry);
        if self.batch.len() >= BATCH {
            self.flush();
        }
    }

    fn flush(&mut self) {
        if !self.batch.is_empty() {
            let entries = std::mem::take(&mut self.batch);
            self.batch_bytes = 0;
            self.tell(Message::Entries(entries));
            self.tell(Message::Totals(self.ledger.counts().totals));
        }
    }

    fn tell(&self, message: Message) {
        // Once the session is over the ledger says so too.
        let _ = (self.tell)(message);
    }

    fn fail(&mut self, path: Vec<u8>, reason: String) -> Option<()> {
        self.ledger.count_failure();
        (self.problem)(Problem { path, reason, error: true });
        Some(())
    }

    fn leave_out(&mut self, path: Vec<u8>, reason: String) -> Option<()> {
        (self.problem)(Problem { path, reason, error: false });
        Some(())
    }

    fn bounded_xattrs(&mut self, mut found: Vec<(Vec<u8>, Vec<u8>)>, path: &[u8]) -> Vec<(Vec<u8>, Vec<u8>)> {
        if !self.preserve.owner && found.iter().any(|(name, _)| name == CAPABILITY) {
            found.retain(|(name, _)| name != CAPABILITY);
            let reason = "its capabilities are left out, they travel with the owner only (--preserve all)".into();
            let _ = self.leave_out(path.to_vec(), reason);
        }
        let bytes: usize = found.iter().map(|(name, value)| name.len() + value.len()).sum();
        if bytes > MAX_XATTR_BYTES {
            let reason =
                format!("its {bytes} bytes of extended attributes are left out (the most is {MAX_XATTR_BYTES})");
            let _ = self.leave_out(path.to_vec(), reason);
            return Vec::new();
        }
        found
    }
}

/// Why the directory at `path` is not descended into. Every level keeps its path, here and at the receiver.
fn too_deep(levels: &[Level], path: &[u8]) -> Option<String> {
    let paths = levels.last().map_or(0, |level| level.paths) + path.len();
    if levels.len() >= MAX_DEPTH {
        Some(format!("nested deeper than {MAX_DEPTH} directories"))
    } else if paths > MAX_LEVEL_PATHS || path.len() + 1 + MAX_NAME > MAX_SHOWN_PATH {
        Some(format!("its path of {} bytes is longer than icdc can follow", path.len()))
    } else {
        None
    }
}

/// Names this state of a file: any write, truncation or replacement changes it.
pub(crate) fn version(stat: &Stat) -> [u8; 16] {
    let mut hasher = blake3::Hasher::new_derive_key("icdc source version 1");
    for part in [stat.dev, stat.ino, stat.size] {
        hasher.update(&part.to_le_bytes());
    }
    for time in [stat.mtime, stat.ctime] {
        hasher.update(&time.seconds.to_le_bytes());
        hasher.update(&time.nanos.to_le_bytes());
    }
    let mut version = [0; 16];
    version.copy_from_slice(&hasher.finalize().as_bytes()[..16]);
    version
}
