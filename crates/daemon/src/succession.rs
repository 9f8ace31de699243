//! A daemon starts the next one, of a newer release, and hands its listening sockets over. No
//! connection is refused in between, and running sessions continue in the old one to their end.
//!
//! ```text
//! old ── starts ─► new: reads its files
//!  │ ── listeners ─► │
//!  │ ◄─── ready ──── │ accepts from now on
//!  │ ◄── running ──► │ sessions and temporary keys, as they change
//!  └ accepts no more; ends with its last session
//! ```

use std::ffi::OsString;
use std::io;
use std::net::TcpListener;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::admission::Admission;
use crate::admission::neighbours::Running;
use icdc_session_process::channel::Channel;

/// Time limit for the next daemon to accept connections.
const PATIENCE: Duration = Duration::from_secs(20);
/// Most listeners that are handed over: more than any daemon has.
const MOST: usize = 64;

/// Message from the old daemon to the new one. Other releases must understand it.
#[derive(Serialize, Deserialize)]
enum Handover {
    /// A listening socket comes with this message.
    Listener,
    /// The last message: nothing more follows.
    End,
    /// The socket at which metrics are served comes with this message.
    Metrics,
    /// Sessions and temporary keys of the old daemon.
    Running(Running),
}

/// Message from the new daemon to the old one: it accepts connections.
#[derive(Serialize, Deserialize)]
struct Ready;

/// Sockets and sessions that a daemon takes over from its predecessor.
#[derive(Debug)]
pub struct Inheritance {
    /// Listening sockets of the predecessor.
    pub listeners: Vec<TcpListener>,
    /// Listening socket at which metrics are served, if they are.
    pub metrics: Option<TcpListener>,
    /// Sessions and temporary keys of the old daemon.
    pub(crate) running: Running,
    predecessor: Arc<Channel>,
}

impl Inheritance {
    /// Receives over standard input what the old daemon hands over.
    ///
    /// # Errors
    /// There is no daemon at the other end, or it hands over no listener.
    pub fn take() -> io::Result<Self> {
        let stdin = rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdin(), 3)?;
        let predecessor = Channel::new(UnixStream::from(stdin))?;
        predecessor.set_patience(PATIENCE)?;
        let (mut listeners, mut metrics, mut running) = (Vec::new(), None, Running::default());
        let nobody = || io::Error::other("expected a daemon on standard input; it is for `icdc serve` to call");
        loop {
            match predecessor.receive::<Handover>().map_err(|_| nobody())?.ok_or_else(nobody)? {
                (Handover::Listener, Some(socket)) if listeners.len() < MOST => listeners.push(socket.into()),
                (Handover::Metrics, Some(socket)) => metrics = Some(socket.into()),
                (Handover::Running(now), None) => running = now,
                (Handover::End, _) if !listeners.is_empty() => {
                    return Ok(Self { listeners, metrics, running, predecessor: Arc::new(predecessor) });
                }
                _ => return Err(nobody()),
            }
        }
    }

    /// Counts the old daemon's sessions and temporary keys as well from now on.
    ///
    /// # Errors
    /// The kernel refuses a system call.
    pub(crate) fn share(&self, admission: &Arc<Admission>) -> io::Result<()> {
        admission.beside(Arc::clone(&self.predecessor), &self.running, Running::default())
    }

    /// Tells the old daemon that this one accepts connections.
    pub(crate) fn accept(self) {
        // One that is gone accepts nothing either.
        let _ = self.predecessor.send(&Ready, None);
    }
}

/// Starts `program` as the next daemon, gives it the listening sockets and what counts for the keys
/// of `admission`, and waits until it accepts connections; returns its process id.
///
/// # Errors
/// The kernel refuses a system call.
pub(crate) fn succeed(
    program: &[OsString],
    listeners: &[TcpListener],
    metrics: Option<&TcpListener>,
    admission: &Arc<Admission>,
) -> io::Result<u32> {
    let (channel, far) = Channel::pair()?;
    channel.set_patience(PATIENCE)?;
    let (program, arguments) = program.split_first().ok_or_else(|| io::Error::other("no program"))?;
    let running = admission.running_now();
    let mut child = Command::new(program).args(arguments).stdin(Stdio::from(OwnedFd::from(far))).spawn()?;
    let handed_over = || -> io::Result<()> {
        for listener in listeners {
            channel.send(&Handover::Listener, Some(listener.as_fd()))?;
        }
        if let Some(metrics) = metrics {
            channel.send(&Handover::Metrics, Some(metrics.as_fd()))?;
        }
        channel.send(&Handover::Running(running.clone()), None)?;
        channel.send(&Handover::End, None)?;
        match channel.receive::<Ready>()? {
            Some(_) => Ok(()),
            None => Err(io::Error::other("it ended before it listened; its own messages say why")),
        }
    };
    match handed_over() {
        Ok(()) => {
            if let Err(error) = admission.beside(Arc::new(channel), &Running::default(), running) {
                tracing::warn!("each daemon counts its own sessions only: {error}");
            }
            Ok(child.id())
        }
        Err(error) => {
            // It has no sessions.
            let _ = child.kill();
            let _ = child.wait();
            Err(error)
        }
    }
}
