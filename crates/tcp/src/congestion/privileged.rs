//! Loading for threads that have given up their privileges, as a daemon's sessions do that act as
//! another user.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::OnceLock;
use std::sync::mpsc::{Sender, SyncSender, channel, sync_channel};

use icdc_cc::Algorithm;
use icdc_rate::known_paths::Resumption;

use super::hold::{Hold, take};

static KEEPER: OnceLock<Sender<Request>> = OnceLock::new();

struct Request {
    socket: OwnedFd,
    algorithm: &'static Algorithm,
    known: Option<Resumption>,
    answer: SyncSender<Result<Option<Hold>, String>>,
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
        for Request { socket, algorithm, known, answer } in requests {
            // Whoever asked waits for it.
            let _ = answer.send(take(&socket, algorithm, known));
        }
    };
    std::thread::Builder::new().name("algorithms".to_owned()).spawn(serve).map(drop)
}

/// Asks that thread; `None` if there is none.
pub(super) fn ask(
    fd: &impl AsFd,
    algorithm: &'static Algorithm,
    known: Option<Resumption>,
) -> Option<Result<Option<Hold>, String>> {
    let (answer, answered) = sync_channel(1);
    let socket = fd.as_fd().try_clone_to_owned().ok()?;
    KEEPER.get()?.send(Request { socket, algorithm, known, answer }).ok()?;
    answered.recv().ok()
}
