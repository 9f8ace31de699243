//! One item that is not a directory: examined, described and announced.

use icdc_disk::tree::{CAPABILITY, Directory, FoundXattrs, Incarnation, Kind, Name, Stat, TreeError, Xattrs};
use icdc_protocol::limits::MAX_XATTR_BYTES;
use icdc_protocol::message::{EntryKind, NoticeKind, Parent};
use icdc_session::sender::{Found, Removal};

use super::super::examination::{Leaf, leaf};
use super::super::executor::PendingItem;
use super::super::linked::{NameOf, names_of};
use super::super::misstated::Held;
use super::super::source_version::{held_version, version};
use super::Scan;
use super::children::Extent;
use crate::attribute_kinds::looked_for;

impl Scan<'_> {
    /// Announces an item that is not a directory. `None` when the session is over.
    pub(super) fn visit(
        &mut self,
        directory: &Directory,
        name: Name,
        parent: Parent,
        path: Vec<u8>,
        stat: &Stat,
        extent: &Extent,
    ) -> Option<()> {
        let growing = self.growing_at(&path);
        if growing.as_ref().is_some_and(|file| !self.may_grow(file, stat)) {
            // It is announced when it has settled.
            return Some(());
        }
        let (stat, file) = match names_of(directory, &name, stat, self.preserve.links) {
            Ok((stat, file)) => (&{ stat }, file),
            Err(error) => return self.fail_item(path, &error),
        };
        if growing.is_none() && stat.kind == Kind::File && self.settles_again(&path, stat) {
            return Some(());
        }
        if let Some(reason) = self.differs(extent, stat) {
            return self.fail(path, reason);
        }
        let held = match stat.kind {
            Kind::File if growing.is_none() => match self.misstated.contents(directory, &name, stat) {
                Ok(held) => held,
                Err(reason) => return self.fail(path, reason),
            },
            _ => None,
        };
        let wire_name = if let Parent::Directory(_) = parent { name.as_bytes().to_vec() } else { Vec::new() };
        let kind = match leaf(stat, self.preserve) {
            Err(not_copied) => {
                self.note_left_out(parent, name.as_bytes());
                return self.report(not_copied.of(path));
            }
            Ok(Leaf::File) if growing.is_some() => EntryKind::Stream,
            Ok(Leaf::File) => self.file_kind(stat, file, held.as_ref()),
            Ok(Leaf::Special(special)) => EntryKind::Special(special),
            Ok(Leaf::Symlink) => match directory.read_link(&name) {
                Ok(target) => EntryKind::Symlink { target },
                Err(error) => return self.fail_item(path, &error),
            },
        };
        let xattrs = match self.xattrs(directory, &name, stat, &path) {
            Ok(xattrs) => xattrs,
            Err(error) => return self.fail_item(path, &error),
        };
        if self.moving.is_some() {
            if let Some(reason) = self.merging.obstacle(&path) {
                return self.fail(path, reason.to_owned());
            }
        } else if let Some(problem) = self.merging.note(&path) {
            self.report(problem)?;
        }
        if self.linked.name_of(file) == NameOf::OneTooMany
            && let Some(reason) = self.linked.reason()
        {
            self.leave_out(path.clone(), reason)?;
        }
        let first = file.filter(|_| matches!(kind, EntryKind::File { linked: true, .. })).zip(Some(path.clone()));
        let mut found = self.found(parent, wire_name, kind, stat, xattrs, path);
        if let NameOf::Further(_, name) = self.linked.name_of(file) {
            found.first = Some(name);
        }
        found.held = held.as_ref().map_or(0, |held| held.len());
        let (removal, leaving) = self.removal(directory, &name, parent, stat);
        found.removal = removal;
        self.await_room()?;
        let leaving = leaving.map(Box::new);
        let followed = self.take_followed(&found.path);
        let place = PendingItem {
            directory: directory.clone(),
            name,
            device: stat.dev,
            held,
            leaving,
            followed,
            block_device: None,
        };
        let id = self.executor.announce(found, place);
        if let Some((file, path)) = first {
            self.linked.announced(file, id, &path);
        }
        self.note(extent, id);
        Some(())
    }

    /// Reports that an item cannot be examined; of sources that are followed, one that is gone is none. `None` when the
    /// session is over.
    fn fail_item(&mut self, path: Vec<u8>, error: &TreeError) -> Option<()> {
        if self.following.is_some() && error.is_missing() { Some(()) } else { self.fail(path, error.to_string()) }
    }

    /// Form in which a regular file is announced: as a file of this size and version, or as a hard
    /// link to a name that was announced.
    fn file_kind(&self, stat: &Stat, file: Option<Incarnation>, held: Option<&Held>) -> EntryKind {
        let sparse = self.preserve.sparse && held.is_none() && stat.blocks.saturating_mul(512) < stat.size;
        let (size, version) = match held {
            Some(held) => (held.len() as u64, held_version(stat, held)),
            None => (stat.size, version(stat)),
        };
        let linked = match self.linked.name_of(file) {
            NameOf::Further(to, _) => {
                return EntryKind::HardLink { to, size, version, sparse };
            }
            name => name == NameOf::First,
        };
        EntryKind::File { size, version, sparse, linked }
    }

    /// Extended attributes of a regular file, if they are preserved.
    fn xattrs(&mut self, directory: &Directory, name: &Name, stat: &Stat, path: &[u8]) -> Result<Xattrs, TreeError> {
        if !self.preserve.attributes() || stat.kind != Kind::File {
            return Ok(Vec::new());
        }
        let (file, _) = directory.open_file(name)?;
        Ok(self.bounded_xattrs(directory.xattrs(name, &file, looked_for(self.preserve))?, path))
    }

    /// Extended attributes, of those found, that are announced with the item; the user is notified
    /// of those that are left out.
    pub(super) fn bounded_xattrs(&mut self, found: FoundXattrs, path: &[u8]) -> Xattrs {
        let FoundXattrs { carried: mut found, has_others } = found;
        if has_others {
            self.notices.note(NoticeKind::AttributesLeftOut, path);
        }
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

    /// Description of an item for its announcement, with the attributes that the options preserve.
    pub(super) fn found(
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
            above: self.above_root,
            first: None,
            held: 0,
            removal: Removal::Never,
        }
    }
}
