//! Loading for threads that have given up their privileges, as a daemon's sessions do that act as
//! another user.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::OnceLock;
use std::sync::mpsc::{Sender, SyncSender, channel, sync_channel};

use icdc_cc::Algorithm;

use super::hold::{Taken, take};
use super::told::Told;

static KEEPER: OnceLock<Sender<Request>> = OnceLock::new();

struct Request {
    socket: OwnedFd,
    algorithm: &'static Algorithm,
    told: Told,
    answer: SyncSender<Result<Taken, String>>,
}

/// Starts a thread that keeps the privileges of the calling one for as long as the process lives.
/// From then on it loads what [`choose`](super::choose) asks for in any thread, and lets the socket
/// use it: algorithms of ours and no others.
///
/// # Errors
/// No thread.
pub fn keep_privileges() -> io::Result<()> {
    let (sender, requests) = channel::<Request>();
    if KEEPER.set(sender).is_err() {
        return Ok(());
    }
    let serve = move || {
        for Request { socket, algorithm, told, answer } in requests {
            // Whoever asked waits for it.
            let _ = answer.send(take(&socket, algorithm, &told));
        }
    };
    std::thread::Builder::new().name("algorithms".to_owned()).spawn(serve).map(drop)
}

/// Asks that thread; `None` if there is none.
pub(super) fn ask(fd: &impl AsFd, algorithm: &'static Algorithm, told: Told) -> Option<Result<Taken, String>> {
    let (answer, answered) = sync_channel(1);
    let socket = fd.as_fd().try_clone_to_owned().ok()?;
    KEEPER.get()?.send(Request { socket, algorithm, told, answer }).ok()?;
    answered.recv().ok()
}
