//! The thread of a copy that answers requests, and looks at the clock where the rate depends on it.

use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::Duration;

use icdc_schedule::until_next_minute;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::sockopt::socket_peercred;
use rustix::pipe::PipeFlags;
use rustix::process::{Signal, getpid, kill_process};

use super::controls::Controls;
use super::message::{Request, receive, send};
use super::names::HeldName;
use super::place::{Bound, Place};

/// Time limit of a read or a write of a request: whoever asks sends it at once.
const LIMIT: Duration = Duration::from_secs(2);
/// Interval at which the clock is looked at after a connection could not be taken, for want of descriptors.
const PAUSE: Timespec = Timespec { tv_sec: 1, tv_nsec: 0 };

/// A running thread that answers requests; it ends when this is dropped, and its socket is removed.
pub(crate) struct Listener {
    bound: Option<Arc<Bound>>,
    /// The name of the copy, if it has one; it goes after the socket.
    _name: Option<HeldName>,
    /// Closed at the end, which the thread waits for.
    _ender: OwnedFd,
}

impl Listener {
    /// Starts the thread. Where there is no place for a socket, a copy without a name runs without one.
    ///
    /// # Errors
    /// The copy cannot have the name that it was given, as a sentence.
    pub(crate) fn start(controls: &Arc<Controls>) -> Result<Option<Self>, String> {
        let bound = Place::make().and_then(|place| reached(place.listen())).map(Arc::new);
        let Some(name) = controls.name() else { return Ok(Self::begin(controls, bound, None)) };
        let unreached = || {
            let name = name.as_str();
            format!(
                "--name {name}: this copy cannot listen to icdc ctl; name a directory of your own with XDG_RUNTIME_DIR, or leave --name out"
            )
        };
        let bound = bound.ok_or_else(unreached)?;
        let held = HeldName::take(name, &bound).inspect_err(|_| bound.remove())?;
        Self::begin(controls, Some(bound), Some(held)).map(Some).ok_or_else(unreached)
    }

    /// Starts the thread that answers at `bound`; `None` if there is nothing to do, or it cannot start.
    fn begin(controls: &Arc<Controls>, bound: Option<Arc<Bound>>, name: Option<HeldName>) -> Option<Self> {
        if bound.is_none() && !controls.depends_on_time() {
            return None;
        }
        let (ended, ender) = reached(rustix::pipe::pipe_with(PipeFlags::CLOEXEC).map_err(io::Error::from))?;
        let listener = Self { bound: bound.clone(), _name: name, _ender: ender };
        let controls = Arc::clone(controls);
        reached(icdc_limits::thread::start("ctl", move || attend(bound.as_deref(), &ended, &controls)))?;
        Some(listener)
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        // By this thread: the process may end before the other one looks.
        self.bound.iter().for_each(|bound| bound.remove());
    }
}

/// The result of a step without which no request reaches the copy; `None` after an error.
fn reached<T>(step: Result<T, impl std::fmt::Display>) -> Option<T> {
    step.inspect_err(|error| tracing::debug!(%error, "icdc ctl does not reach this copy")).ok()
}

/// Answers requests, and applies the rate of the time, until the other end of `ended` is closed.
fn attend(bound: Option<&Bound>, ended: &OwnedFd, controls: &Controls) {
    loop {
        controls.apply();
        let next = controls.depends_on_time().then(|| {
            let seconds = until_next_minute().as_secs();
            Timespec { tv_sec: seconds, tv_nsec: 0 }
        });
        let mut either: Vec<PollFd<'_>> = vec![PollFd::new(ended, PollFlags::IN)];
        either.extend(bound.map(|bound| PollFd::new(&bound.listener, PollFlags::IN)));
        match poll(&mut either, next.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return tracing::debug!(%error, "poll"),
        }
        if !either[0].revents().is_empty() {
            return;
        }
        let Some(bound) = bound.filter(|_| either.get(1).is_some_and(|listener| !listener.revents().is_empty())) else {
            continue;
        };
        match bound.listener.accept() {
            Ok((stream, _)) => answer(&stream, controls),
            Err(error) => {
                tracing::debug!(%error, "accept");
                let _ = poll(&mut [PollFd::new(ended, PollFlags::IN)], Some(&PAUSE));
            }
        }
    }
}

/// Answers one request of this user or of root; others get no answer.
fn answer(stream: &UnixStream, controls: &Controls) {
    let own = rustix::process::geteuid();
    let is_allowed = socket_peercred(stream.as_fd()).is_ok_and(|peer| peer.uid == own || peer.uid.is_root());
    if !is_allowed {
        return tracing::debug!("another user's request is not answered");
    }
    let answered = receive::<Request>(stream, LIMIT).and_then(|request| {
        send(stream, &controls.carry_out(&request), LIMIT)?;
        Ok(request)
    });
    match answered {
        // As by Ctrl-C, which a copy that another one has started ignores: the first one stops it cleanly, a second one at once.
        Ok(Request::Stop) => {
            let _ = kill_process(getpid(), Signal::TERM);
        }
        Ok(_) => {}
        Err(error) => tracing::debug!(%error, "a request was not understood"),
    }
}
