//! A thread that keeps the process's own rights, for threads that act as another user.
//!
//! A session of a daemon that acts as a user has that user's access to files and no capability
//! ([`credentials`](crate::listen::credentials)). A few tasks need the daemon's rights all the
//! same: known paths are remembered, and socket buffers enlarged. This thread does them; nothing
//! that a user can choose, no name and no content, is an input of these tasks.

use std::io;
use std::sync::OnceLock;
use std::time::Duration;

use crossbeam_channel::{Sender, bounded, unbounded};

type Task = Box<dyn FnOnce() + Send>;

static TASKS: OnceLock<Sender<Task>> = OnceLock::new();

/// A file server that does not answer must not hold up sessions for long.
const TIMEOUT: Duration = Duration::from_secs(1);

/// Starts the thread, with the rights of the calling one, for as long as the process lives.
pub(crate) fn keep() -> io::Result<()> {
    let (sender, tasks) = unbounded::<Task>();
    if TASKS.set(sender).is_err() {
        return Ok(());
    }
    let serve = move || tasks.iter().for_each(|task| task());
    std::thread::Builder::new().name("own-rights".to_owned()).spawn(serve).map(drop)
}

/// Returns what `work` returns, run by that thread, or by the calling one in a process without it,
/// where no thread acts as another user. `None` if it takes too long; it is run later then.
pub(crate) fn run<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    let Some(tasks) = TASKS.get() else { return Some(work()) };
    let (answer, answered) = bounded(1);
    let task = move || {
        // The caller may have given up.
        let _ = answer.send(work());
    };
    tasks.send(Box::new(task)).ok()?;
    answered.recv_timeout(TIMEOUT).ok()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;
    use crate::listen::credentials::Credentials;

    #[test]
    fn a_thread_that_acts_as_a_user_can_have_done_what_it_may_not() {
        if !rustix::process::geteuid().is_root() {
            eprintln!("skipped: acting as another user needs root");
            return;
        }
        let directory = tempfile::tempdir().unwrap();
        std::fs::set_permissions(directory.path(), std::fs::Permissions::from_mode(0o700)).unwrap();
        let file = directory.path().join("file");
        std::fs::write(&file, "daemon's").unwrap();
        keep().unwrap();
        let acting = std::thread::spawn(move || {
            Credentials::of_user("nobody").unwrap().assume_for_this_thread().unwrap();
            let itself = std::fs::read(&file).map_err(|error| error.kind());
            (itself, run(move || std::fs::read(&file).unwrap()))
        });
        let (itself, done) = acting.join().unwrap();
        assert_eq!(itself, Err(io::ErrorKind::PermissionDenied));
        assert_eq!(done.as_deref(), Some(&b"daemon's"[..]));
    }
}
