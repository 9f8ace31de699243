//! Removes the items of a move at the source, on a thread of its own.
//!
//! The machine asks for it when the receiver has told that an item is durable under its final name.
//! Until then, and until it is removed, the item counts in the window that bounds announcements.

use crossbeam_channel::Receiver as Queue;

use super::executor::Executor;
use super::moved::{Last, RemovalJob, remove_last};
use crate::clock;

/// Body of the thread that removes moved items at the source, until the queue is closed or the
/// session ends.
pub(super) fn run(executor: &Executor<'_>, queue: &Queue<RemovalJob>) {
    for job in queue {
        match job {
            RemovalJob::Item(id) => {
                let Some((directory, leaving)) = executor.take_leaving(id) else { return };
                let outcome = leaving.remove_from(&directory);
                drop(directory);
                executor.with(|machine| machine.on_removed(clock::now(), id, outcome));
            }
            RemovalJob::Directory(id, path) => {
                let Some(leaving) = executor.take_leaving_directory(id) else { return };
                let outcome = leaving.remove_directory();
                let Some(outcome) = executor.keep_for_the_end(id, Last { path, leaving }, outcome) else { continue };
                executor.with(|machine| machine.on_directory_removed(clock::now(), id, outcome));
            }
            RemovalJob::Rest => {
                remove_last(executor.take_last(), |path, is_directory, outcome| {
                    executor.with(|machine| machine.on_removed_at_end(path, is_directory, outcome));
                });
                executor.with(|machine| machine.on_rest_removed(clock::now()));
            }
        }
    }
}
