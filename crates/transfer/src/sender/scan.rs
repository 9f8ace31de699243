//! Walks the sources depth first and announces what it finds.
//!
//! Directories are opened by descriptor and never through a link; names within a directory go in
//! byte order, so that two runs over the same tree announce the same sequence.

use icdc_disk::tree::{CAPABILITY, Directory, Kind, Listing, Name, Stat, is_staging};
use icdc_protocol::limits::{MAX_DEPTH, MAX_FILE_SIZE, MAX_LEVEL_PATHS, MAX_NAME, MAX_SHOWN_PATH, MAX_XATTR_BYTES};
use icdc_protocol::message::{EntryId, EntryKind, Parent, Preserve, Problem, SendOptions};
use icdc_session::SessionError;
use icdc_session::sender::{Found, Need};

use super::exclude::Exclude;
use super::executor::Executor;
use super::linked::{Linked, NameOf};
use super::merging::Merging;
use super::sources::Root;
use crate::clock;

pub(super) struct Scan<'a> {
    executor: &'a Executor<'a>,
    preserve: Preserve,
    exclude: Exclude,
    linked: Linked,
    merging: Merging,
    /// Directories from the source down to where the walk stands.
    depth: usize,
}

/// A directory being walked.
struct Level {
    directory: Directory,
    id: EntryId,
    path: Vec<u8>,
    /// Bytes of the paths from the source down to this one.
    paths: usize,
    names: Listing,
    next: usize,
}

impl<'a> Scan<'a> {
    pub(super) fn new(executor: &'a Executor<'a>, options: &SendOptions) -> Result<Self, SessionError> {
        let exclude = Exclude::new(&options.exclude).map_err(SessionError::Local)?;
        Ok(Self {
            executor,
            preserve: options.preserve,
            exclude,
            linked: Linked::default(),
            merging: Merging::default(),
            depth: 0,
        })
    }

    /// Announces every source; returns early when the session ends.
    pub(super) fn run(mut self, roots: Vec<(u32, Root)>) {
        self.merging = Merging::of(&roots);
        for (number, root) in roots {
            self.merging.enter(&root);
            let parent = Parent::Source(number);
            let path = root.source.name.clone();
            let done = match root.name {
                // The contents of a directory.
                None => self.enter(root.directory, parent, path, &root.stat),
                Some(name) => match root.stat.kind {
                    Kind::Directory => match root.directory.open_directory(&name) {
                        Ok(inner) => self.enter(inner, parent, path, &root.stat),
                        Err(error) => self.fail(path, error.to_string()),
                    },
                    _ => self.visit(&root.directory, name, parent, path, &root.stat),
                },
            };
            if done.is_none() {
                return;
            }
        }
        if let Some(problem) = self.merging.rest()
            && self.tell(problem).is_none()
        {
            return;
        }
        self.executor.with(|machine| machine.on_scanned(clock::now()));
    }

    /// Announces anything but a directory. `None` when the session is over.
    fn visit(&mut self, directory: &Directory, name: Name, parent: Parent, path: Vec<u8>, stat: &Stat) -> Option<()> {
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
            self.tell(problem)?;
        }
        if self.preserve.links
            && stat.kind == Kind::File
            && self.linked.look(stat) == NameOf::OneTooMany
            && let Some(reason) = self.linked.reason()
        {
            self.leave_out(path.clone(), reason)?;
        }
        let linked = matches!(kind, EntryKind::File { linked: true, .. });
        let found = self.found(parent, wire_name, kind, stat, xattrs, path);
        self.await_room()?;
        let id = self.executor.announce(found, directory, name);
        if linked {
            self.linked.announced(stat, id);
        }
        Some(())
    }

    fn file_kind(&self, stat: &Stat) -> EntryKind {
        let linked = match self.linked.look(stat) {
            NameOf::Further(to) if self.preserve.links => return EntryKind::HardLink { to },
            name => self.preserve.links && name == NameOf::First,
        };
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
                self.executor.with(|machine| machine.leave_directory(level.id));
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
        let paths = levels.last().map_or(0, |above| above.paths) + path.len();
        let found = self.found(parent, wire_name, EntryKind::Directory, stat, xattrs, path.clone());
        self.await_room()?;
        let id = self.executor.with(|machine| machine.announce(found));
        levels.push(Level { directory, id, path, paths, names, next: 0 });
        Some(())
    }

    fn found(
        &self,
        parent: Parent,
        name: Vec<u8>,
        kind: EntryKind,
        stat: &Stat,
        xattrs: Vec<(Vec<u8>, Vec<u8>)>,
        path: Vec<u8>,
    ) -> Found {
        Found {
            parent,
            name,
            kind,
            mode: stat.mode & 0o7777,
            mtime: (stat.mtime.seconds, stat.mtime.nanos),
            owner: self.preserve.owner.then_some((stat.uid, stat.gid)),
            xattrs,
            path,
        }
    }

    /// Waits until an item may be announced. `None` when the session is over.
    fn await_room(&self) -> Option<()> {
        self.executor.await_room(Need::Item { depth: self.depth }).then_some(())
    }

    /// Tells of a problem. `None` when the session is over.
    fn tell(&self, problem: Problem) -> Option<()> {
        let has_room = self.executor.await_room(Need::Problem);
        has_room.then(|| self.executor.with(|machine| machine.on_problem(problem)))
    }

    fn fail(&mut self, path: Vec<u8>, reason: String) -> Option<()> {
        self.tell(Problem { path, reason, error: true })
    }

    fn leave_out(&mut self, path: Vec<u8>, reason: String) -> Option<()> {
        self.tell(Problem { path, reason, error: false })
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

/// Why the directory at `path` is not descended into. Every level keeps its path, here and at the
/// receiver.
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
pub(super) fn version(stat: &Stat) -> [u8; 16] {
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
