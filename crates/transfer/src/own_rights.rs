//! What a process may do itself, for threads that act as another user.
//!
//! A session of a daemon that acts as a user has that user's access to files and no capability
//! ([`credentials`](crate::listen::credentials)). A few things are the daemon's own all the same: what is remembered of
//! paths, and how large a socket's buffers may be. They are done by a thread that keeps the daemon's rights, and no name or content
//! that a user could choose has a part in them.

use std::io;
use std::sync::OnceLock;
use std::time::Duration;

use crossbeam_channel::{Sender, bounded, unbounded};

type Errand = Box<dyn FnOnce() + Send>;

static KEEPER: OnceLock<Sender<Errand>> = OnceLock::new();

/// A file server that does not answer must not hold up sessions for long.
const PATIENCE: Duration = Duration::from_secs(1);

/// Starts that thread, with the rights of the calling one, for as long as the process lives.
pub(crate) fn keep() -> io::Result<()> {
    let (sender, errands) = unbounded::<Errand>();
    if KEEPER.set(sender).is_err() {
        return Ok(());
    }
    let serve = move || errands.iter().for_each(|errand| errand());
    std::thread::Builder::new().name("own-rights".to_owned()).spawn(serve).map(drop)
}

/// What `work` gives, done by that thread; in a process without it no thread acts as anybody else. `None` if it takes too
/// long; it is done later then.
pub(crate) fn run<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    let Some(keeper) = KEEPER.get() else { return Some(work()) };
    let (answer, answered) = bounded(1);
    let errand = move || {
        // Whoever asked may have given up.
        let _ = answer.send(work());
    };
    keeper.send(Box::new(errand)).ok()?;
    answered.recv_timeout(PATIENCE).ok()
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
