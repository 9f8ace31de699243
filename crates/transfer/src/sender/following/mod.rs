//! Trees that are followed: what appears and changes in them is announced when it has settled.
//!
//! ```text
//!  watch thread, for the whole run                         one session after the other
//!  ───────────────────────────────                         ───────────────────────────
//!  walk ──► seen ─┐                                         ┌─► scan: announced ──► item settled ─┐
//!  inotify ───────┴─► Settling ─► examined ─► Queue ready ──┤                                     │
//!     ▲                                                     └─◄ cut: what is not durable ◄────────┤
//!     └────────────── changed while it was read, failed ◄─────────────────────────────────────────┘
//! ```
//!
//! A file that is still written after a while, and has become long, is queued before it has settled: its blocks travel as
//! they become whole, and it ends when it has settled. If that fails, it travels as any other.
//!
//! The queue outlives sessions: after a cut the next one is given what the far end had not made durable, and nothing
//! else. What has travelled is known by a hash of its path and version, 16 bytes for each, so that walking a tree again
//! costs no traffic.
//!
//! | module | contents |
//! |---|---|
//! | `options` | how sources are followed, and until when |
//! | `watching` | the watch thread: events, what is due, how the following ends |
//! | `walk`, `walking` | the walk of the followed trees |
//! | `growing`, `growth_options` | files that travel while they grow, and which may |
//! | `known` | versions that have travelled |
//! | `tree` | the trees, and what of them is chosen |

mod growing;
mod growth_options;
mod known;
mod options;
mod tree;
mod walk;
mod walking;
mod watching;

use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use icdc_disk::tree::Tree;
use icdc_limits::thread;
use icdc_protocol::message::{SendOptions, TransferId};

pub use self::options::{FollowOptions, SETTLE};
use self::tree::FollowedTree;
use self::watching::Watching;
use super::settled::Queue;
use super::sources::{Sources, find};
use crate::event::EventSink;

/// Sources that are followed (`--follow`) until the end of the run, with the thread that watches
/// them.
pub struct Follow {
    queue: Arc<Queue>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl std::fmt::Debug for Follow {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Follow").finish_non_exhaustive()
    }
}

impl Follow {
    /// Follows the directories `paths` beneath `tree` from now on.
    ///
    /// # Errors
    /// One is no directory or cannot be opened, or nothing can be watched; a sentence for the user.
    pub fn start(
        tree: &Tree,
        paths: &[Vec<u8>],
        send: &SendOptions,
        options: FollowOptions,
        events: &EventSink,
    ) -> Result<Self, String> {
        let found = find(tree, paths, send, &TransferId::default());
        if let Some(problem) = found.problems.first() {
            return Err(problem.reason.clone());
        }
        let trees = found.roots.iter().map(|(number, root)| FollowedTree::of(*number, root));
        let trees = trees.collect::<Result<Vec<_>, _>>()?;
        if send.moves && trees.len() > 1 && found.roots.iter().any(|(_, root)| root.name.is_none()) {
            return Err(
                "--move with --follow empties one source whose contents are copied (SRC/), or several that keep \
                        their names: run icdc once for each"
                    .to_owned(),
            );
        }
        let queue = Arc::new(Queue::new().map_err(|error| format!("cannot wait for changes: {error}"))?);
        let watching = Watching::new(trees, send, options, Arc::clone(&queue), Arc::clone(events))?;
        let thread = thread::start("watch", move || watching.run()).map_err(|error| error.to_string())?;
        Ok(Self { queue, thread: Mutex::new(Some(thread)) })
    }

    /// Whether the following has ended, and everything that has settled has arrived or failed.
    #[must_use]
    pub fn is_through(&self) -> bool {
        self.queue.is_through()
    }

    /// The sources as a session is to announce them: with `follow`, what settles in them until the
    /// following ends; without, what is there.
    #[must_use]
    pub fn attach_to(follow: Option<&Self>, sources: Sources) -> Sources {
        match follow {
            Some(follow) => Sources { settled: Some(Arc::clone(&follow.queue)), ..sources },
            None => sources,
        }
    }
}

impl Drop for Follow {
    fn drop(&mut self) {
        self.queue.stop();
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread {
            // Its panic was told where it was.
            let _ = thread.join();
        }
    }
}
