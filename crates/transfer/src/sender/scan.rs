//! Walks the sources depth first and announces what it finds.
//!
//! Directories are opened by descriptor and never through a link; names within a directory go in
//! byte order, so that two runs over the same tree announce the same sequence. Of a selection only
//! its items are examined.
//!
//! | file | contents |
//! |---|---|
//! | `batch`, `followed` | what has settled in sources that are followed, batch by batch |
//! | `block_device` | a source that is a block device, as a file |
//! | `children` | entries of a directory that are yet to be visited |
//! | `entered`, `pruning` | directories that are announced only with the first item in them |
//! | `item` | an item that is not a directory |
//! | `left_out` | names that are not announced, for a receiver that deletes |
//! | `listed` | the walk along a list of names |
//! | `removal` | when and how moved items are removed at the source |
//! | `selected` | the walk of a selection |

mod batch;
mod block_device;
mod children;
mod entered;
mod followed;
mod item;
mod left_out;
mod listed;
mod pruning;
mod removal;
mod selected;

use std::sync::Arc;

use icdc_disk::tree::{Directory, Kind, Name, Stat, is_staging};
use icdc_protocol::message::{Choice, EntryId, EntryKind, Mirrored, Parent, Preserve, Problem, SendOptions};
use icdc_session::sender::{Need, Removal};
use icdc_session::{ById, SessionError};

use self::batch::Following;
use self::children::{Children, Extent, Named, VANISHED};
use self::entered::{Entered, Waiting};

use super::chosen::{Chosen, Left};
use super::examination::{STAGED, beneath, too_deep};
use super::executor::Executor;
use super::linked::Linked;
use super::listed::Listed;
use super::merging::Merging;
use super::misstated::Misstated;
use super::selection::Selection;
use super::sources::Root;
use crate::attribute_kinds::looked_for;
use crate::clock;
use crate::event::Event;
use crate::notices::{Noticed, Notices};

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
    /// Removal of items at the source; `None` if they stay.
    moving: Option<Moving>,
    /// Names below the only source that are copied; `None` for everything.
    listed: Option<Listed<'a>>,
    /// Settled items that are being announced; `None` unless the sources are followed.
    following: Option<Following>,
}

/// A move: where the present source begins.
#[derive(Default)]
struct Moving {
    /// Directory of the source and its name there; `None` of the name for the contents of a
    /// directory, and of both before the first source.
    root: Option<(Directory, Option<Name>)>,
}

/// Directory that the scan is walking, with its entries that are yet to be visited.
struct Level {
    directory: Directory,
    entered: Entered,
    path: Vec<u8>,
    /// Total length in bytes of the paths from the source down to this directory.
    paths: usize,
    children: Children,
}

impl<'a> Scan<'a> {
    /// Scan of a session with these options; with a `selection` or a list it announces only the
    /// items of that.
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
            following: None,
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
            let device = root.device.clone().zip(root.name.clone());
            if let Some((device, name)) = device {
                if self.visit_device(&root, device, name).is_none() {
                    return;
                }
                continue;
            }
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
        self.end();
    }

    /// Ends the scan: everything is announced.
    fn end(mut self) {
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

    /// Waits until the session has room for what is needed. `None` when it is over.
    fn await_need(&self, need: Need) -> Option<()> {
        self.executor.await_room(need).then_some(())
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

    /// Announces an entry of the directory that is last in `levels`; an entry that is a directory
    /// is added to `levels`, to be walked next. `None` when the session is over.
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
            Err(error) if self.following.is_some() && error.is_missing() => return Some(()),
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
        if self.following.is_some() {
            // It has become a directory, which is found as one.
            return Some(());
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

    /// Enters a directory: adds it to `levels`, and announces it at once, or later with the first
    /// item in it that is no directory. `None` when the session is over.
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
        self.note_followed_directory(levels);
        Some(())
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

    /// Reports that the item at `path` cannot be copied, which is an error. `None` when the session
    /// is over.
    fn fail(&mut self, path: Vec<u8>, reason: String) -> Option<()> {
        self.report(Problem { path, reason, error: true })
    }

    /// Reports that the item at `path` is left out, which is no error. `None` when the session is
    /// over.
    fn leave_out(&mut self, path: Vec<u8>, reason: String) -> Option<()> {
        self.report(Problem { path, reason, error: false })
    }
}
