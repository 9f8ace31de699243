//! Links over a pair of pipes, in clear: how an end talks to one that `ssh` started.
//!
//! Only messages travel here, and few: ssh protects them. Every wait is a `poll` that also watches
//! an eventfd, so that [`LinkControl::shutdown`](crate::LinkControl::shutdown) wakes it. The pipes
//! stay in blocking mode, because that flag is shared with other processes that hold them; a pipe
//! that polls writable takes [`PIPE_BUF`](CHUNK) bytes without blocking.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use icdc_disk::pool::BlockPool;
use icdc_protocol::frame;
use icdc_units::Span;
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::io::Errno;

use crate::assembler::Assembler;
use crate::control::Control;
use crate::error::LinkError;
use crate::halves::{Inlet, Outlet};
use crate::link::Link;
use crate::parcel::Parcel;

/// Maximum number of bytes of one write (POSIX's `PIPE_BUF` on Linux).
const CHUNK: usize = 4096;
/// Maximum number of bytes of one read.
const READ: usize = 64 << 10;

/// A link that reads frames from `reader` and writes them to `writer`; frames with a payload are
/// refused both ways. The end of the stream between two frames is its orderly close. `dead_after`
/// limits the silence of the peer; `None` if the peer need not send anything. `peer` names it in
/// messages.
///
/// # Errors
/// Error that the kernel returned: no eventfd can be had.
pub fn stdio_link(
    reader: impl Into<OwnedFd>,
    writer: impl Into<OwnedFd>,
    peer: &str,
    dead_after: Option<Span>,
) -> io::Result<Link> {
    let wake = eventfd(0, EventfdFlags::CLOEXEC)?;
    let shared = Arc::new(StdioControl { wake, stopped: AtomicBool::new(false), peer: peer.to_owned() });
    let inlet = StdioInlet {
        shared: Arc::clone(&shared),
        reader: reader.into(),
        dead_after,
        buffer: vec![0; READ],
        clear: 0..0,
        assembler: Assembler::default(),
    };
    let outlet = StdioOutlet { shared: Arc::clone(&shared), writer: writer.into(), pending: Vec::new() };
    Ok(Link::new(outlet, inlet, shared))
}

/// State that both halves and the control of a link over pipes share.
struct StdioControl {
    wake: OwnedFd,
    stopped: AtomicBool,
    peer: String,
}

impl StdioControl {
    /// Waits until `fd` is ready (or at its end); an error if the link is stopped or `limit`
    /// passes.
    fn wait(&self, fd: &OwnedFd, events: PollFlags, limit: Option<Span>) -> Result<(), LinkError> {
        let timeout = limit.map(timespec);
        loop {
            let mut fds = [PollFd::new(&self.wake, PollFlags::IN), PollFd::new(fd, events)];
            match poll(&mut fds, timeout.as_ref()) {
                Ok(0) => return Err(LinkError::Silent { peer: self.peer.clone(), after: limit.unwrap_or(Span::MAX) }),
                Ok(_) if !fds[0].revents().is_empty() => return Err(LinkError::Stopped),
                Ok(_) => return Ok(()),
                Err(Errno::INTR) => {}
                Err(error) => return Err(self.io("poll", error)),
            }
        }
    }

    fn io(&self, call: &'static str, error: Errno) -> LinkError {
        LinkError::io(&self.peer, call, error.into())
    }
}

impl Control for StdioControl {
    fn shutdown(&self) {
        if !self.stopped.swap(true, Ordering::SeqCst) {
            // The counter stays up: every later wait returns at once.
            let written = rustix::io::write(&self.wake, &1_u64.to_ne_bytes());
            debug_assert!(written.is_ok(), "an eventfd takes its first write");
        }
    }

    fn peer(&self) -> &str {
        &self.peer
    }
}

/// Sending half of a link over pipes.
struct StdioOutlet {
    shared: Arc<StdioControl>,
    writer: OwnedFd,
    pending: Vec<u8>,
}

impl Outlet for StdioOutlet {
    fn send(&mut self, parcel: Parcel) -> Result<(), LinkError> {
        if parcel.payload.is_some() {
            return Err(LinkError::Protocol("payloads do not travel over standard streams".into()));
        }
        frame::encode(&parcel.message, 0, &mut self.pending).map_err(LinkError::Unsendable)?;
        if self.pending.len() >= READ { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> Result<(), LinkError> {
        // Taken out, so that data of a failed write are not sent a second time when the outlet is
        // dropped.
        let mut pending = std::mem::take(&mut self.pending);
        let mut rest = pending.as_slice();
        while !rest.is_empty() {
            self.shared.wait(&self.writer, PollFlags::OUT, None)?;
            match rustix::io::write(&self.writer, &rest[..rest.len().min(CHUNK)]) {
                Ok(count) => rest = &rest[count..],
                Err(Errno::INTR | Errno::AGAIN) => {}
                Err(error) => return Err(self.shared.io("write", error)),
            }
        }
        pending.clear();
        self.pending = pending;
        Ok(())
    }
}

impl Drop for StdioOutlet {
    fn drop(&mut self) {
        if !self.shared.stopped.load(Ordering::SeqCst)
            && let Err(error) = self.flush()
        {
            tracing::debug!("{}: last frames not sent: {error}", self.shared.peer);
        }
    }
}

/// Receiving half of a link over pipes.
struct StdioInlet {
    shared: Arc<StdioControl>,
    reader: OwnedFd,
    dead_after: Option<Span>,
    buffer: Vec<u8>,
    /// Range of the buffer that has been read and not yet parsed.
    clear: std::ops::Range<usize>,
    assembler: Assembler,
}

impl Inlet for StdioInlet {
    fn receive(&mut self, pool: &BlockPool) -> Result<Parcel, LinkError> {
        loop {
            while !self.clear.is_empty() {
                let (taken, parcel) = self.assembler.feed(&self.buffer[self.clear.clone()], pool)?;
                self.clear.start += taken;
                match parcel {
                    Some(Parcel { payload: Some(_), .. }) => {
                        return Err(LinkError::Protocol("a payload came over standard streams".into()));
                    }
                    Some(parcel) => return Ok(parcel),
                    None => {}
                }
            }
            self.shared.wait(&self.reader, PollFlags::IN, self.dead_after)?;
            match rustix::io::read(&self.reader, &mut self.buffer) {
                Ok(0) if self.assembler.is_between_frames() => return Err(LinkError::Closed),
                Ok(0) => return Err(LinkError::Cut { peer: self.shared.peer.clone() }),
                Ok(count) => self.clear = 0..count,
                Err(Errno::INTR | Errno::AGAIN) => {}
                Err(error) => return Err(self.shared.io("read", error)),
            }
        }
    }
}

fn timespec(span: Span) -> Timespec {
    let nanos = span.as_nanos();
    Timespec { tv_sec: (nanos / 1_000_000_000) as i64, tv_nsec: (nanos % 1_000_000_000) as i64 }
}
