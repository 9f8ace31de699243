//! Events of a worker's sockets (epoll), by leg.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use rustix::buffer::spare_capacity;
use rustix::event::{Timespec, epoll};
use rustix::io::Errno;

/// Events that are taken at a time.
const EVENTS: usize = 256;
/// Token of the mailbox's descriptor.
const WAKEUP: u64 = u64::MAX;

/// Watches the legs of one worker, and its mailbox.
pub(crate) struct Poller {
    epoll: OwnedFd,
    last_id: u64,
}

/// Leg of a connection that an event refers to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    /// The leg to the client.
    Near,
    /// The leg to the destination or the next relay.
    Far,
}

/// An event that the poller reports.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Event {
    /// There are messages in the mailbox.
    Wakeup,
    /// Something has happened at a leg.
    Leg {
        /// The connection, or the warm leg.
        id: u64,
        side: Side,
        readiness: Readiness,
    },
}

/// Readiness of a socket after an event.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Readiness {
    pub(crate) readable: bool,
    pub(crate) writable: bool,
    /// Whether TCP urgent data has arrived.
    pub(crate) has_urgent: bool,
    /// The socket has an error.
    pub(crate) failed: bool,
}

/// Buffer for the events of one wait.
pub(crate) struct Events(Vec<epoll::Event>);

impl Events {
    /// Room for events; empty.
    pub(crate) fn new() -> Self {
        Self(Vec::with_capacity(EVENTS))
    }

    /// Events of the last wait.
    pub(crate) fn iter(&self) -> impl Iterator<Item = Event> {
        self.0.iter().map(|event| match event.data.u64() {
            WAKEUP => Event::Wakeup,
            token => {
                let side = if token & 1 == 0 { Side::Near } else { Side::Far };
                Event::Leg { id: token >> 1, side, readiness: Readiness::of(event.flags) }
            }
        })
    }
}

impl Readiness {
    /// Readiness by the flags of an event.
    fn of(flags: epoll::EventFlags) -> Self {
        let failed = flags.contains(epoll::EventFlags::ERR);
        let gone = epoll::EventFlags::RDHUP | epoll::EventFlags::HUP | epoll::EventFlags::ERR;
        Self {
            readable: flags.intersects(epoll::EventFlags::IN | epoll::EventFlags::PRI | gone),
            writable: flags.intersects(epoll::EventFlags::OUT | epoll::EventFlags::HUP | epoll::EventFlags::ERR),
            has_urgent: flags.contains(epoll::EventFlags::PRI),
            failed,
        }
    }
}

impl Poller {
    /// Watches `wakeup` and nothing else yet.
    ///
    /// # Errors
    /// The kernel refuses a system call.
    pub(crate) fn new(wakeup: &impl AsFd) -> io::Result<Self> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        epoll::add(&epoll, wakeup, epoll::EventData::new_u64(WAKEUP), epoll::EventFlags::IN)?;
        Ok(Self { epoll, last_id: 0 })
    }

    /// An id that no connection and no warm leg has had.
    pub(crate) fn new_id(&mut self) -> u64 {
        self.last_id += 1;
        self.last_id
    }

    /// Watches a leg until it is closed.
    ///
    /// # Errors
    /// The kernel refuses a system call.
    pub(crate) fn watch(&self, leg: &impl AsFd, id: u64, side: Side) -> io::Result<()> {
        Ok(epoll::add(&self.epoll, leg, token(id, side), interest())?)
    }

    /// Changes the id of a watched leg, as when a warm leg becomes the far leg of a connection.
    ///
    /// # Errors
    /// The kernel refuses a system call.
    pub(crate) fn rename(&self, leg: &impl AsFd, id: u64, side: Side) -> io::Result<()> {
        Ok(epoll::modify(&self.epoll, leg, token(id, side), interest())?)
    }

    /// Waits for events; `None` waits without limit. A signal ends the wait without events.
    pub(crate) fn wait(&self, events: &mut Events, timeout: Option<&Timespec>) -> io::Result<()> {
        events.0.clear();
        match epoll::wait(&self.epoll, spare_capacity(&mut events.0), timeout) {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(errno) => Err(errno.into()),
        }
    }
}

/// Events for which legs are watched, edge-triggered.
fn interest() -> epoll::EventFlags {
    let data = epoll::EventFlags::IN | epoll::EventFlags::PRI | epoll::EventFlags::OUT;
    data | epoll::EventFlags::RDHUP | epoll::EventFlags::ET
}

/// Token of a leg in epoll: its id and side.
fn token(id: u64, side: Side) -> epoll::EventData {
    epoll::EventData::new_u64((id << 1) | u64::from(side == Side::Far))
}
