//! A thread that keeps the process's own rights, for threads that act as another user.
//!
//! A session of a daemon that acts as a user has that user's access to files and no capability. A
//! few tasks need the daemon's rights all the same: known paths are remembered, and socket buffers
//! enlarged. This thread does them; nothing that a user can choose, no name and no content, is an
//! input of these tasks.

use std::io;
use std::sync::OnceLock;
use std::time::Duration;

use crossbeam_channel::{Sender, bounded, unbounded};

type Task = Box<dyn FnOnce() + Send>;

static TASKS: OnceLock<Sender<Task>> = OnceLock::new();

/// A file server that does not answer must not hold up sessions for long.
const TIMEOUT: Duration = Duration::from_secs(1);

/// Starts the thread, with the rights of the calling one, for as long as the process lives.
///
/// # Errors
/// The process may have no further thread.
pub fn keep() -> io::Result<()> {
    let (sender, tasks) = unbounded::<Task>();
    if TASKS.set(sender).is_err() {
        return Ok(());
    }
    let serve = move || tasks.iter().for_each(|task| task());
    std::thread::Builder::new().name("own-rights".to_owned()).spawn(serve).map(drop)
}

/// Returns what `work` returns, run by that thread, or by the calling one in a process without it,
/// where no thread acts as another user. `None` if it takes too long; it is run later then.
pub fn run<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    let Some(tasks) = TASKS.get() else { return Some(work()) };
    let (answer, answered) = bounded(1);
    let task = move || {
        // The caller may have given up.
        let _ = answer.send(work());
    };
    tasks.send(Box::new(task)).ok()?;
    answered.recv_timeout(TIMEOUT).ok()
}
