//! Walks the sources depth first and announces what it finds.
//!
//! Directories are opened by descriptor and never through a link; names within a directory go in
//! byte order, so that two runs over the same tree announce the same sequence. Of a selection only
//! its items are examined.

mod entered;
mod listed;
mod pruning;

use std::ops::Range;
use std::sync::Arc;

use icdc_disk::tree::{
    CAPABILITY, Directory, FoundXattrs, Incarnation, Kind, Listing, Name, Stat, TreeError, Xattrs, is_staging,
};
use icdc_protocol::limits::{MAX_DELETED, MAX_DELETED_BYTES, MAX_NAME, MAX_XATTR_BYTES};
use icdc_protocol::message::{
    Choice, EntryId, EntryKind, LeftOut, Mirrored, NoticeKind, Parent, Preserve, Problem, SendOptions,
};
use icdc_session::sender::{Found, Need, Removal};
use icdc_session::{ById, SessionError};

use self::entered::{Entered, Waiting};
use super::chosen::{Chosen, Left};
use super::examination::{Leaf, STAGED, beneath, leaf, too_deep};
use super::executor::{Contents, Executor, Place};
use super::linked::{Linked, NameOf, names_of};
use super::listed::Listed;
use super::merging::Merging;
use super::misstated::{Held, Misstated};
use super::moved::Leaving;
use super::selection::{Child, SelectedState, Selection};
use super::sources::Root;
use crate::attribute_kinds::looked_for;
use crate::clock;
use crate::event::Event;
use crate::notices::{Noticed, Notices};

/// Most names that are left out in one message.
const NAMES_LEFT_OUT: usize = 1024;
const _: () = assert!(NAMES_LEFT_OUT <= MAX_DELETED && NAMES_LEFT_OUT * MAX_NAME <= MAX_DELETED_BYTES);

/// What is said of an item that was listed and is gone. A session of a move that has not noticed yet
/// that its connection is lost may still remove what is at the destination, which is no failure of
/// the next one.
const VANISHED: &str = "vanished while the directory was read";

/// Walk of the sources that announces what it finds.
pub(super) struct Scan<'a> {
    executor: &'a Executor<'a>,
    preserve: Preserve,
    chosen: Chosen,
    /// Bytes at the start of a path of the present source that are above the transfer root.
    above_root: usize,
    /// Device of the present source.
    device: u64,
    /// Number of the present source.
    source: u32,
    /// Whether only the contents of the present source are copied, into a directory that is there.
    source_is_contents: bool,
    /// Whether a directory is announced only with something in it that is none.
    prunes: bool,
    linked: Linked,
    merging: Merging,
    /// Notices about metadata that are left out, which many items may share.
    notices: Notices,
    misstated: Misstated,
    selection: Option<Arc<Selection>>,
    /// Announced items of the selection: entry id and place in the selection.
    announced: Vec<(EntryId, usize)>,
    /// Number of directories from the source down to the present one.
    depth: usize,
    /// Names in each open directory that exist and are not announced, for a receiver that deletes
    /// what the source has not; `None` for any other.
    left_out: Option<ById<Vec<Vec<u8>>>>,
    /// Whether the receiver deletes what rules exclude, too.
    deletes_excluded: bool,
    /// What removes items at the source; `None` if they stay.
    moving: Option<Moving>,
    /// Names below the only source that are copied; `None` for everything.
    listed: Option<Listed<'a>>,
}

/// A move: where the present source begins.
#[derive(Default)]
struct Moving {
    /// Directory of the source and its name there; `None` of the name for the contents of a
    /// directory, and of both before the first source.
    root: Option<(Directory, Option<Name>)>,
}

/// A directory being walked.
struct Level {
    directory: Directory,
    entered: Entered,
    path: Vec<u8>,
    /// Total length in bytes of the paths from the source down to this directory.
    paths: usize,
    children: Children,
}

/// Entries of a directory that are yet to be visited.
enum Children {
    /// All names listed in the directory, from index `next` on.
    Listed { names: Listing, next: usize },
    /// The one name that is visited of contents that are left out; `None` when it was.
    Kept(Option<&'static [u8]>),
    /// Items of the selection at these places, which are beneath a path of `above` bytes (its
    /// slash included).
    Selected { places: Range<usize>, above: usize },
    /// Names of the list that begin with this path below the source, its slash included.
    Named { above: Vec<u8> },
}

/// An entry of a directory, to be visited.
struct Named {
    name: Vec<u8>,
    /// Kind of the entry according to its directory, which may have changed.
    hint: Option<Kind>,
    extent: Extent,
}

/// How much is announced at a name: everything there, or only what a selection (a shard's plan)
/// holds.
#[derive(Clone)]
enum Extent {
    /// Everything at the name, with what is beneath it.
    All,
    /// Only selected items: the one at this place of the selection, if the name is one itself, and
    /// those at the places beneath it.
    Selected { place: Option<usize>, beneath: Range<usize> },
    /// Only what the list names beneath the name.
    Listed,
}

impl<'a> Scan<'a> {
    pub(super) fn new(
        executor: &'a Executor<'a>,
        options: &SendOptions,
        selection: Option<Arc<Selection>>,
        listed: Option<Listed<'a>>,
    ) -> Result<Self, SessionError> {
        // A selection was chosen when it was made.
        let choice = if selection.is_some() { &Choice::default() } else { &options.choice };
        let chosen = Chosen::new(choice).map_err(|error| SessionError::Local(error.to_string()))?;
        Ok(Self {
            executor,
            preserve: options.preserve,
            chosen,
            above_root: 0,
            device: 0,
            source: 0,
            source_is_contents: false,
            prunes: options.prune_empty_dirs,
            linked: Linked::default(),
            merging: Merging::default(),
            misstated: Misstated::default(),
            notices: Notices::default(),
            selection,
            announced: Vec::new(),
            depth: 0,
            left_out: matches!(options.mirrored, Mirrored::KeepingExcluded | Mirrored::WithExcluded)
                .then(ById::default),
            deletes_excluded: options.mirrored == Mirrored::WithExcluded,
            moving: options.moves.then(Moving::default),
            listed,
        })
    }

    /// Announces every source; returns early when the session ends.
    pub(super) fn run(mut self, roots: Vec<(u32, Root)>) {
        self.merging = Merging::of(&roots);
        for (number, root) in roots {
            self.merging.enter(&root);
            if let Some(moving) = &mut self.moving {
                moving.root = Some((root.directory.clone(), root.name.clone()));
            }
            (self.above_root, self.device, self.source) = (root.above_transfer_root(), root.stat.dev, number);
            // The contents of a directory are copied whatever its name.
            if root.name.is_some() && self.chosen.leaves_out(&root.source.name, &root.stat, None).is_some() {
                continue;
            }
            self.source_is_contents = root.name.is_none();
            let Some(extent) = self.extent_of(number) else { continue };
            let parent = Parent::Source(number);
            let path = root.source.name.clone();
            let done = match (root.name, root.stat.kind) {
                // The contents of a directory.
                (None, _) => self.enter(root.directory, path, &root.stat, extent),
                (Some(name), Kind::Directory) => match root.directory.open_directory(&name) {
                    Ok(inner) => self.enter(inner, path, &root.stat, extent),
                    Err(error) => self.fail(path, error.to_string()),
                },
                (Some(name), _) => self.visit(&root.directory, name, parent, path, &root.stat, &extent),
            };
            if done.is_none() {
                return;
            }
        }
        *self.executor.announced.lock().expect("no panic while places are noted") = std::mem::take(&mut self.announced);
        if let Some(problem) = self.merging.summary()
            && self.report(problem).is_none()
        {
            return;
        }
        for notice in self.notices.take_changed() {
            (self.executor.events)(Event::Noticed(Noticed::of(&notice)));
            self.executor.with(|machine| machine.on_noticed(notice));
        }
        self.executor.with(|machine| machine.on_scanned(clock::now()));
    }

    /// Records that this name in the last of `levels` exists and is not announced, because a rule
    /// excludes it.
    fn note_excluded(&mut self, levels: &mut [Level], name: &[u8]) {
        let (Some(left_out), false) = (&mut self.left_out, self.deletes_excluded) else { return };
        match levels.last_mut().map(|level| &mut level.entered) {
            Some(Entered::Announced(id)) => left_out.entry(*id).or_default().push(name.to_vec()),
            Some(Entered::Waiting(waiting)) => waiting.excluded.push(name.to_vec()),
            None => {}
        }
    }

    /// Records that this name exists and is not announced.
    fn note_left_out(&mut self, parent: Parent, name: &[u8]) {
        if let (Some(left_out), Parent::Directory(id)) = (&mut self.left_out, parent) {
            left_out.entry(id).or_default().push(name.to_vec());
        }
    }

    /// Tells the receiver what is left out of a directory with the entry `directory`, all of which
    /// has been announced. `None` when the session is over.
    fn tell_left_out(&mut self, level: &Level, directory: EntryId) -> Option<()> {
        if self.left_out.is_some() && matches!(level.children, Children::Kept(_)) {
            self.await_need(Need::Problem)?;
            self.executor.with(|machine| machine.on_left_out(directory, LeftOut::Unread));
        }
        let names = self.left_out.as_mut().and_then(|left_out| left_out.remove(&directory)).unwrap_or_default();
        for names in names.chunks(NAMES_LEFT_OUT) {
            self.await_need(Need::Problem)?;
            self.executor.with(|machine| machine.on_left_out(directory, LeftOut::Names(names.to_vec())));
        }
        Some(())
    }

    /// Waits until the session has room for what is needed. `None` when it is over.
    fn await_need(&self, need: Need) -> Option<()> {
        self.executor.await_room(need).then_some(())
    }

    /// How much is announced of a source; `None` for nothing.
    fn extent_of(&self, source: u32) -> Option<Extent> {
        let Some(selection) = &self.selection else {
            return Some(if self.listed.is_some() { Extent::Listed } else { Extent::All });
        };
        let places = selection.of_source(source);
        let first = selection.items().get(places.clone())?.first()?;
        let place = first.path.is_empty().then_some(places.start);
        Some(Extent::Selected { place, beneath: places.start + usize::from(place.is_some())..places.end })
    }

    /// Reason why a selected item is not announced; `None` if it is as it was when selected.
    fn differs(&self, extent: &Extent, stat: &Stat) -> Option<String> {
        let (Extent::Selected { place, .. }, Some(selection)) = (extent, &self.selection) else { return None };
        let selected = place.and_then(|place| selection.items().get(place)).map(|item| item.state);
        let is_as_expected = match selected {
            Some(state) => SelectedState::of(stat) == state,
            None => stat.kind == Kind::Directory,
        };
        (!is_as_expected).then(|| "has changed since it was planned".into())
    }

    /// Records that an item of the selection was announced as entry `id`.
    fn note(&mut self, extent: &Extent, id: EntryId) {
        if let Extent::Selected { place: Some(place), .. } = extent {
            self.announced.push((id, *place));
        }
    }

    /// Announces an item that is not a directory. `None` when the session is over.
    fn visit(
        &mut self,
        directory: &Directory,
        name: Name,
        parent: Parent,
        path: Vec<u8>,
        stat: &Stat,
        extent: &Extent,
    ) -> Option<()> {
        let (stat, file) = match names_of(directory, &name, stat, self.preserve.links) {
            Ok((stat, file)) => (&{ stat }, file),
            Err(error) => return self.fail(path, error.to_string()),
        };
        if let Some(reason) = self.differs(extent, stat) {
            return self.fail(path, reason);
        }
        let held = match stat.kind {
            Kind::File => match self.misstated.contents(directory, &name, stat) {
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
            Ok(Leaf::File) => self.file_kind(stat, file, held.as_ref()),
            Ok(Leaf::Special(special)) => EntryKind::Special(special),
            Ok(Leaf::Symlink) => match directory.read_link(&name) {
                Ok(target) => EntryKind::Symlink { target },
                Err(error) => return self.fail(path, error.to_string()),
            },
        };
        let xattrs = match self.xattrs(directory, &name, stat, &path) {
            Ok(xattrs) => xattrs,
            Err(error) => return self.fail(path, error.to_string()),
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
        let place = Place { directory: directory.clone(), name, device: stat.dev, held, leaving };
        let id = self.executor.announce(found, place);
        if let Some((file, path)) = first {
            self.linked.announced(file, id, &path);
        }
        self.note(extent, id);
        Some(())
    }

    /// Extended attributes of a regular file, if they are preserved.
    fn xattrs(&mut self, directory: &Directory, name: &Name, stat: &Stat, path: &[u8]) -> Result<Xattrs, TreeError> {
        if !self.preserve.attributes() || stat.kind != Kind::File {
            return Ok(Vec::new());
        }
        let (file, _) = directory.open_file(name)?;
        Ok(self.bounded_xattrs(directory.xattrs(name, &file, looked_for(self.preserve))?, path))
    }

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

    /// Announces a directory, and walks what is to be announced of its contents. `None` when the
    /// session is over.
    fn enter(&mut self, directory: Directory, path: Vec<u8>, stat: &Stat, extent: Extent) -> Option<()> {
        if let Some(reason) = self.differs(&extent, stat) {
            return self.fail(path, reason);
        }
        let selection = self.selection.clone();
        let mut levels = Vec::new();
        self.push_level(&mut levels, directory, Vec::new(), path, stat, extent)?;
        loop {
            self.depth = levels.len();
            let Some(level) = levels.last_mut() else { break };
            let child = match &level.children {
                Children::Named { above } => {
                    let above = above.clone();
                    self.next_listed(&above)?
                }
                _ => level.children.next(selection.as_deref()),
            };
            match child {
                Some(child) if matches!(child.extent, Extent::Listed) => self.enter_listed(&mut levels, child.name)?,
                Some(child) => self.visit_child(&mut levels, child)?,
                None => {
                    let level = levels.pop().expect("a level was just seen");
                    // Nothing is in it, if it has not been announced.
                    if let Some(id) = level.entered.id() {
                        self.tell_left_out(&level, id)?;
                        self.executor.with(|machine| machine.leave_directory(id));
                    }
                }
            }
        }
        Some(())
    }

    /// Announces an entry of the last of `levels`, which is not empty; of a directory, becomes the
    /// last of them. `None` when the session is over.
    fn visit_child(&mut self, levels: &mut Vec<Level>, child: Named) -> Option<()> {
        let Some(level) = levels.last() else { return Some(()) };
        let Named { name: raw, hint, extent } = child;
        let path = beneath(&level.path, &raw);
        let from_root = &path[self.above_root.min(path.len())..];
        if is_staging(&raw) {
            return self.leave_out(path, STAGED.into());
        }
        let name = match Name::new(&raw) {
            Ok(name) => name,
            Err(error) => return self.fail(path, error.to_string()),
        };
        let directory = level.directory.clone();
        if hint.is_some_and(|kind| self.chosen.excludes(from_root, kind == Kind::Directory)) {
            self.note_excluded(levels, &raw);
            return Some(());
        }
        let stat = match directory.stat(&name) {
            Ok(stat) => stat,
            Err(_) if self.chosen.excludes_any(from_root) => return Some(()),
            Err(error) if self.moving.is_some() && error.is_missing() => return self.leave_out(path, VANISHED.into()),
            Err(error) if matches!(level.children, Children::Named { .. }) => {
                return self.fail(path, error.to_string());
            }
            Err(error) => return self.fail(path, extent.reason_of(&error)),
        };
        if let Some(left) = self.chosen.leaves_out(from_root, &stat, hint) {
            match left {
                Left::Rule => self.note_excluded(levels, &raw),
                // A receiver that deletes must know of it, and so of the directory.
                _ if self.left_out.is_some() => {
                    let id = self.announce_waiting(levels)?;
                    self.note_left_out(Parent::Directory(id), &raw);
                }
                _ => {}
            }
            return Some(());
        }
        if stat.kind != Kind::Directory {
            let parent = Parent::Directory(self.announce_waiting(levels)?);
            return self.visit(&directory, name, parent, path, &stat, &extent);
        }
        let too_deep = || too_deep(levels.len(), level.paths, &path);
        if let Some(reason) = self.differs(&extent, &stat).or_else(too_deep) {
            return self.fail(path, reason);
        }
        match directory.open_directory(&name) {
            Ok(inner) => {
                self.pass_over_listed(&level.children, &raw)?;
                self.push_level(levels, inner, raw, path, &stat, extent)
            }
            Err(error) if self.moving.is_some() && error.is_missing() => self.leave_out(path, VANISHED.into()),
            Err(error) => self.fail(path, error.to_string()),
        }
    }

    /// Enters a directory, which is announced at once, or with the first item in it that is none.
    /// `None` when the session is over.
    fn push_level(
        &mut self,
        levels: &mut Vec<Level>,
        directory: Directory,
        wire_name: Vec<u8>,
        path: Vec<u8>,
        stat: &Stat,
        extent: Extent,
    ) -> Option<()> {
        let left = match &extent {
            Extent::All | Extent::Listed => self.chosen.leaves_contents_out(&directory, self.device),
            Extent::Selected { .. } => None,
        };
        let children = match (&extent, left) {
            (_, Some(left)) => Children::Kept(left.kept()),
            (Extent::All, None) => match directory.entries() {
                Ok(names) => Children::Listed { names, next: 0 },
                Err(error) => return self.fail(path, error.to_string()),
            },
            (Extent::Listed, None) => {
                let above = levels.last().map_or_else(Vec::new, |above| above.children.path_to(&wire_name));
                Children::Named { above }
            }
            (Extent::Selected { beneath, .. }, None) => {
                let above = levels.last().map_or(0, |above| above.children.above() + wire_name.len() + 1);
                Children::Selected { places: beneath.clone(), above }
            }
        };
        let xattrs = if self.preserve.attributes() {
            match directory.own_xattrs(looked_for(self.preserve)) {
                Ok(found) => self.bounded_xattrs(found, &path),
                Err(error) => return self.fail(path, error.to_string()),
            }
        } else {
            Vec::new()
        };
        let paths = levels.last().map_or(0, |above| above.paths) + path.len();
        let parent = Parent::Source(self.source);
        let mut found = self.found(parent, wire_name, EntryKind::Directory, stat, xattrs, path.clone());
        if matches!(extent, Extent::Selected { place: None, .. }) {
            // Other runs may still be at work in it.
            found.mode |= 0o700;
        }
        let leaving = self.leaving_directory(levels.last(), &directory, &found.name);
        found.removal = match &leaving {
            None => Removal::Never,
            Some(_) if levels.is_empty() => Removal::AtEnd,
            Some(_) => Removal::WhenPublished,
        };
        let is_contents = levels.is_empty() && self.source_is_contents;
        let has_left_out = self.left_out.is_some() && matches!(children, Children::Kept(_));
        let entered = Entered::Waiting(Box::new(Waiting { found, leaving, excluded: Vec::new() }));
        levels.push(Level { directory, entered, path, paths, children });
        if !self.prunes || is_contents || has_left_out {
            let id = self.announce_waiting(levels)?;
            self.note(&extent, id);
        }
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
            above: self.above_root,
            first: None,
            held: 0,
            removal: Removal::Never,
        }
    }

    /// When an item that is no directory is removed at the source, and how it is found then.
    fn removal(&self, directory: &Directory, name: &Name, parent: Parent, stat: &Stat) -> (Removal, Option<Leaving>) {
        let Some(Moving { root: Some((root, _)) }) = &self.moving else { return (Removal::Never, None) };
        let (root, directory) = (root.clone(), directory.whereabouts());
        let is_inner = matches!(parent, Parent::Directory(_));
        let leaving = Leaving { root, directory, name: name.clone(), stat: *stat, is_inner };
        let is_last = !is_inner || stat.nlink > 1;
        (if is_last { Removal::AtEnd } else { Removal::WhenPublished }, Some(leaving))
    }

    /// How a directory is found that is to be removed at the source, `name` in the directory
    /// `above`; `None` if it stays.
    fn leaving_directory(&self, above: Option<&Level>, directory: &Directory, name: &[u8]) -> Option<Leaving> {
        let Some(Moving { root: Some((root, named)) }) = &self.moving else { return None };
        let is_inner = above.is_some();
        let (above, name) = match above {
            Some(level) => (&level.directory, Name::new(name).ok()?),
            None => (root, named.clone()?),
        };
        let stat = directory.own_stat().ok()?;
        Some(Leaving { root: root.clone(), directory: above.whereabouts(), name, stat, is_inner })
    }

    /// Waits until an item may be announced. `None` when the session is over.
    fn await_room(&self) -> Option<()> {
        self.await_need(Need::Item { depth: self.depth })
    }

    /// Reports a problem to the machine. `None` when the session is over.
    fn report(&self, problem: Problem) -> Option<()> {
        self.await_need(Need::Problem)?;
        self.executor.with(|machine| machine.on_problem(problem));
        Some(())
    }

    fn fail(&mut self, path: Vec<u8>, reason: String) -> Option<()> {
        self.report(Problem { path, reason, error: true })
    }

    fn leave_out(&mut self, path: Vec<u8>, reason: String) -> Option<()> {
        self.report(Problem { path, reason, error: false })
    }

    fn bounded_xattrs(&mut self, found: FoundXattrs, path: &[u8]) -> Xattrs {
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
}

impl Extent {
    /// Text of the reason why a name cannot be examined, in the terms of this extent.
    fn reason_of(&self, error: &TreeError) -> String {
        match self {
            Self::All | Self::Listed if error.is_missing() => VANISHED.into(),
            Self::Selected { .. } if error.is_missing() => "is gone since it was planned".into(),
            _ => error.to_string(),
        }
    }
}

impl Children {
    /// The next entry to visit; `None` at the end.
    fn next(&mut self, selection: Option<&Selection>) -> Option<Named> {
        match self {
            Self::Listed { names, next } => {
                let entry = names.get(*next)?;
                *next += 1;
                Some(Named { name: entry.name.to_vec(), hint: entry.hint, extent: Extent::All })
            }
            // The scan reads the list.
            Self::Named { .. } => None,
            Self::Kept(name) => Some(Named { name: name.take()?.to_vec(), hint: None, extent: Extent::All }),
            Self::Selected { places, above } => {
                let Child { name, place, beneath } = selection?.first_child(places.clone(), *above)?;
                places.start = beneath.end;
                Some(Named { name, hint: None, extent: Extent::Selected { place, beneath } })
            }
        }
    }

    /// Length in bytes of the path from the source down to these entries, with its slash.
    fn above(&self) -> usize {
        match self {
            Self::Listed { .. } | Self::Kept(_) | Self::Named { .. } => 0,
            Self::Selected { above, .. } => *above,
        }
    }
}

/// Version of a file, a digest of its attributes: any write, truncation or replacement changes it.
/// Equal on all hosts that share the file system, whose device number differs between them.
pub(super) fn version(stat: &Stat) -> [u8; 16] {
    let mut hasher = blake3::Hasher::new_derive_key("icdc source version 2");
    for part in [stat.ino, stat.size] {
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

/// Whether the name of the file refers to another file or version now.
pub(super) fn is_another(contents: &Contents) -> bool {
    contents.directory.stat(&contents.name).is_ok_and(|stat| version(&stat) != contents.version)
}

/// Version of a file whose contents were read, with a digest of them: a change need not show
/// otherwise.
fn held_version(stat: &Stat, contents: &[u8]) -> [u8; 16] {
    let mut hasher = blake3::Hasher::new_derive_key("icdc contents version 1");
    hasher.update(&version(stat)).update(contents);
    let mut version = [0; 16];
    version.copy_from_slice(&hasher.finalize().as_bytes()[..16]);
    version
}
