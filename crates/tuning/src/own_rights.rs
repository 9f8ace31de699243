//! A thread that keeps the process's own rights, for threads that act as another user.
//!
//! A session of a daemon that acts as a user has that user's access to files and no capability. A
//! few tasks need the daemon's rights all the same: known paths are remembered, and socket buffers
//! enlarged. This thread does them; nothing that a user can choose, no name and no content, is an
//! input of these tasks.

use std::io;
use std::sync::OnceLock;
use std::time::Duration;

use crossbeam_channel::{Sender, bounded};

type Task = Box<dyn FnOnce() + Send>;

static KEEPER: OnceLock<Keeper> = OnceLock::new();

/// A file server that does not answer must not hold up sessions for long.
const TIMEOUT: Duration = Duration::from_secs(1);
/// Tasks that may wait for the one before, each with a descriptor at most; a task takes
/// milliseconds.
const DEPTH: usize = 64;

/// Starts the thread, with the rights of the calling one, for as long as the process lives.
///
/// # Errors
/// The process may have no further thread.
pub fn keep() -> io::Result<()> {
    // Of two that are started at once, one ends without a task.
    if KEEPER.get().is_none() {
        let _ = KEEPER.set(Keeper::start()?);
    }
    Ok(())
}

/// Returns what `work` returns, run by that thread, or by the calling one in a process without it,
/// where no thread acts as another user. `None` if it takes too long, and it is run later then, or
/// if too many others wait already, and it is not run at all.
pub fn run<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    match KEEPER.get() {
        Some(keeper) => keeper.run(work),
        None => Some(work()),
    }
}

struct Keeper(Sender<Task>);

impl Keeper {
    fn start() -> io::Result<Self> {
        let (sender, tasks) = bounded::<Task>(DEPTH);
        let serve = move || tasks.iter().for_each(|task| task());
        std::thread::Builder::new().name("own-rights".to_owned()).spawn(serve)?;
        Ok(Self(sender))
    }

    fn run<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> Option<T> {
        let (answer, answered) = bounded(1);
        let task = move || {
            // The caller may have given up.
            let _ = answer.send(work());
        };
        self.0.try_send(Box::new(task)).ok()?;
        answered.recv_timeout(TIMEOUT).ok()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn what_waits_for_a_task_that_hangs_is_bounded_and_the_rest_is_dropped() {
        let keeper = Keeper::start().unwrap();
        let (begun, has_begun) = bounded(1);
        let (end, ended) = bounded::<()>(0);
        let hung = keeper.run(move || {
            begun.send(()).unwrap();
            let _ = ended.recv();
        });
        has_begun.recv().unwrap();
        assert_eq!(hung, None);
        let held = Arc::new(());
        std::thread::scope(|scope| {
            for _ in 0..3 * DEPTH {
                let held = Arc::clone(&held);
                let keeper = &keeper;
                scope.spawn(move || assert_eq!(keeper.run(move || drop(held)), None));
            }
        });
        assert_eq!(Arc::strong_count(&held), 1 + DEPTH);
        drop(end);
        // Those that wait are run in turn; then there is room again.
        while keeper.run(|| ()).is_none() {}
        assert_eq!(Arc::strong_count(&held), 1);
    }
}
