//! Survey of the items that a copy of the sources would announce, made by several threads and
//! without a session.
//!
//! Directories are listed in parallel, each by one thread, and put into scan order afterwards: most
//! of the time is spent waiting for the file system, and a network file system is used better with
//! more requests in flight.

use std::sync::{Condvar, Mutex, MutexGuard};

use icdc_disk::tree::{Directory, Incarnation, Kind, Name, Stat, TreeError, is_staging};
use icdc_protocol::message::{Problem, SendOptions};
use icdc_session::SessionError;
use icdc_stop::StopSignal;

use super::chosen::Chosen;
use super::examination::{STAGED, beneath, leaf, too_deep};
pub use super::linked::names_of;
use super::selection::{Selected, SelectedState};
use super::sources::{Root, Sources};
use crate::stage_thread::try_start;

/// Number of directories that are read at a time.
const READERS: usize = 16;

/// Result of a survey: the items of the sources, and those that are left out.
#[derive(Debug, Default)]
pub struct Survey {
    /// All items in scan order.
    pub items: Vec<Surveyed>,
    /// Items that are left out, with the reason; `error` is set for what cannot be copied.
    pub problems: Vec<Problem>,
}

/// An item of the sources, as a survey has found it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Surveyed {
    /// The item, in the form for a selection.
    pub selected: Selected,
    /// Bytes to be sent of the item: only those of its data, where holes are preserved.
    pub data: u64,
    /// Common identity of all names of a file with several, if they are copied as links.
    pub linked: Option<Incarnation>,
}

/// A directory that a thread of the survey is to read.
struct Task {
    /// Index of the node that takes the entries that are found.
    node: usize,
    above: Directory,
    /// Name of the directory in `above`; `None` for `above` itself.
    name: Option<Name>,
    /// Path of the directory from the source's parent.
    path: Vec<u8>,
    source: SourceRoot,
    /// Number of directories above this one.
    depth: usize,
    paths: usize,
}

/// Facts about a source on which decisions about its items depend.
#[derive(Clone, Copy)]
struct SourceRoot {
    /// Bytes at the start of its items' paths that are above the transfer root.
    above_root: usize,
    /// Device of the source.
    device: u64,
}

/// Entries that were found in one directory, in order.
#[derive(Default)]
struct Node {
    entries: Vec<Found>,
    /// Whether the directory could not be read, and is no item itself.
    is_lost: bool,
}

/// An item that was found in a directory; a directory has the node of its own entries.
struct Found {
    name: Vec<u8>,
    state: SelectedState,
    data: u64,
    linked: Option<Incarnation>,
    /// Index of the directory's node; `None` for anything but a directory.
    node: Option<usize>,
}

/// Directories to be read, and entries and problems that were found, shared by the threads of a
/// survey.
#[derive(Default)]
struct State {
    tasks: Vec<Task>,
    nodes: Vec<Node>,
    problems: Vec<Problem>,
    /// Number of tasks that are not done.
    open: usize,
}

/// A survey in progress, shared by its threads.
struct Walk<'a> {
    options: &'a SendOptions,
    chosen: Chosen,
    stop: &'a StopSignal,
    state: Mutex<State>,
    changed: Condvar,
}

/// Walks the sources, on several threads and without a session, and returns the items that a copy
/// would announce.
///
/// # Errors
/// A pattern of `options` that is none, and [`SessionError::Interrupted`].
pub fn survey(sources: &Sources, options: &SendOptions, stop: &StopSignal) -> Result<Survey, SessionError> {
    let chosen = Chosen::new(&options.choice).map_err(|error| SessionError::Local(error.to_string()))?;
    let walk = Walk { options, chosen, stop, state: Mutex::default(), changed: Condvar::new() };
    let roots: Vec<_> = sources.roots.iter().map(|(number, root)| (*number, walk.begin(root))).collect();
    std::thread::scope(|scope| {
        for _ in 1..READERS {
            if try_start(scope, "survey", || walk.read()).is_err() {
                break;
            }
        }
        // With this one there is always one.
        walk.read();
    });
    if stop.is_requested() {
        return Err(SessionError::Interrupted);
    }
    let State { nodes, mut problems, .. } = walk.state.into_inner().expect(NO_PANIC);
    problems.sort_by(|one, other| one.path.cmp(&other.path));
    let mut items = Vec::new();
    for (source, found) in roots {
        found.into_iter().for_each(|found| put_in_order(source, found, &nodes, &mut items));
    }
    problems.splice(0..0, sources.problems.iter().cloned());
    Ok(Survey { items, problems })
}

const NO_PANIC: &str = "no panic while what was found is noted";

impl Walk<'_> {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect(NO_PANIC)
    }

    /// Examines a source itself and queues its contents; `None` if it is no item.
    fn begin(&self, root: &Root) -> Option<Found> {
        let path = root.source.name.clone();
        // The contents of a directory are copied whatever its name.
        if root.name.is_some() && self.chosen.leaves_out(&path, &root.stat, None).is_some() {
            return None;
        }
        if root.stat.kind == Kind::Directory {
            let source = SourceRoot { above_root: root.above_transfer_root(), device: root.stat.dev };
            let (above, name) = (root.directory.clone(), root.name.clone());
            let node = self.add(Task { node: 0, above, name, path, source, depth: 0, paths: 0 });
            return Some(Found {
                name: Vec::new(),
                state: SelectedState::Directory,
                data: 0,
                linked: None,
                node: Some(node),
            });
        }
        let found = self.leaf(&root.directory, root.name.as_ref()?, &path, &root.stat)?;
        Some(Found { name: Vec::new(), ..found })
    }

    /// Queues a directory; gives the index of its node, which is new.
    fn add(&self, task: Task) -> usize {
        let mut state = self.lock();
        let node = state.nodes.len();
        state.nodes.push(Node::default());
        state.tasks.push(Task { node, ..task });
        state.open += 1;
        self.changed.notify_one();
        node
    }

    /// Examines an item that is not a directory; `None` if it is left out.
    fn leaf(&self, directory: &Directory, name: &Name, path: &[u8], stat: &Stat) -> Option<Found> {
        let links = self.options.preserve.links;
        let (stat, linked) = match names_of(directory, name, stat, links) {
            Ok(found) => found,
            Err(error) => {
                self.leave(path, error.to_string(), true);
                return None;
            }
        };
        if let Err(not_copied) = leaf(&stat, self.options.preserve) {
            self.lock().problems.push(not_copied.of(path.to_vec()));
            return None;
        }
        let data = data_of(&stat, self.options.preserve.sparse);
        Some(Found { name: name.as_bytes().to_vec(), state: SelectedState::of(&stat), data, linked, node: None })
    }

    /// Records that the item at `path` is left out; with `error`, because it cannot be copied.
    fn leave(&self, path: &[u8], reason: String, error: bool) {
        self.lock().problems.push(Problem { path: path.to_vec(), reason, error });
    }

    /// Body of a survey's thread: reads directories until there are no more.
    fn read(&self) {
        while let Some(task) = self.next() {
            let node = task.node;
            let outcome = if self.stop.is_requested() { Ok(Vec::new()) } else { self.list(&task) };
            let mut state = self.lock();
            match outcome {
                Ok(entries) => state.nodes[node].entries = entries,
                Err(error) => {
                    state.nodes[node].is_lost = true;
                    state.problems.push(Problem { path: task.path, reason: error.to_string(), error: true });
                }
            }
            state.open -= 1;
            if state.open == 0 {
                self.changed.notify_all();
            }
        }
    }

    /// Waits for a directory to read and takes the one that was queued last, so that few are open
    /// at a time; `None` when all are read.
    fn next(&self) -> Option<Task> {
        let waits = |state: &mut State| state.tasks.is_empty() && state.open > 0;
        let mut state = self.changed.wait_while(self.lock(), waits).expect(NO_PANIC);
        state.tasks.pop()
    }

    /// Lists a directory and examines what is in it.
    fn list(&self, task: &Task) -> Result<Vec<Found>, TreeError> {
        let directory = match &task.name {
            Some(name) => task.above.open_directory(name)?,
            None => task.above.clone(),
        };
        if let Some(left) = self.chosen.leaves_contents_out(&directory, task.source.device) {
            let kept = left.kept().and_then(|name| self.examine(task, &directory, name, None));
            return Ok(kept.into_iter().collect());
        }
        let names = directory.entries()?;
        let mut found = Vec::with_capacity(names.len());
        found.extend(names.iter().filter_map(|entry| self.examine(task, &directory, entry.name, entry.hint)));
        Ok(found)
    }

    /// Examines an entry of `directory`, which `task` is about, and queues a directory; `None` if it
    /// is left out.
    fn examine(&self, task: &Task, directory: &Directory, raw: &[u8], hint: Option<Kind>) -> Option<Found> {
        let path = beneath(&task.path, raw);
        let from_root = &path[task.source.above_root.min(path.len())..];
        let leave = |reason: String, error| {
            self.leave(&path, reason, error);
            None
        };
        if is_staging(raw) {
            return leave(STAGED.into(), false);
        }
        let name = match Name::new(raw) {
            Ok(name) => name,
            Err(error) => return leave(error.to_string(), true),
        };
        if hint.is_some_and(|kind| self.chosen.excludes(from_root, kind == Kind::Directory)) {
            return None;
        }
        let stat = match directory.stat(&name) {
            Ok(stat) => stat,
            Err(_) if self.chosen.excludes_any(from_root) => return None,
            Err(error) => return leave(error.to_string(), true),
        };
        if self.chosen.leaves_out(from_root, &stat, hint).is_some() {
            return None;
        }
        if stat.kind != Kind::Directory {
            return self.leaf(directory, &name, &path, &stat);
        }
        let (depth, paths) = (task.depth + 1, task.paths + task.path.len());
        if let Some(reason) = too_deep(depth, paths, &path) {
            return leave(reason, true);
        }
        let (above, name, source) = (directory.clone(), Some(name), task.source);
        let node = Some(self.add(Task { node: 0, above, name, path, source, depth, paths }));
        Some(Found { name: raw.to_vec(), state: SelectedState::Directory, data: 0, linked: None, node })
    }
}

/// Bytes to be sent of a file; only those of its data, if holes are preserved.
#[must_use]
pub fn data_of(stat: &Stat, sparse: bool) -> u64 {
    if sparse { stat.size.min(stat.blocks.saturating_mul(512)) } else { stat.size }
}

/// Appends an item and those beneath it to `items`, in scan order.
fn put_in_order(source: u32, root: Found, nodes: &[Node], items: &mut Vec<Surveyed>) {
    let item = |path: Vec<u8>, found: &Found| Surveyed {
        selected: Selected { source, path, state: found.state },
        data: found.data,
        linked: found.linked,
    };
    let is_lost = |found: &Found| found.node.is_some_and(|node| nodes[node].is_lost);
    if is_lost(&root) {
        return;
    }
    items.push(item(Vec::new(), &root));
    let Some(node) = root.node else { return };
    // Directories from the source down: (node, next entry, path).
    let mut levels = vec![(node, 0, Vec::new())];
    while let Some((node, next, path)) = levels.last_mut() {
        let Some(found) = nodes[*node].entries.get(*next) else {
            levels.pop();
            continue;
        };
        *next += 1;
        if is_lost(found) {
            continue;
        }
        let path = beneath(path, &found.name);
        items.push(item(path.clone(), found));
        if let Some(node) = found.node {
            levels.push((node, 0, path));
        }
    }
}
