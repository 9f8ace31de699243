//! What a connection needs of the thread that drives it.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use icdc_units::Time;
use rustix::event::epoll;

use crate::house::House;
use crate::leg::Leg;
use crate::mailbox::Mailbox;
use crate::pipe::Pipes;
use crate::worker::WarmLegs;

/// What is read at a time where bytes have to pass through this process.
const SCRATCH: usize = 256 << 10;

/// The belongings of one thread.
pub(crate) struct Tools {
    pub(crate) house: Arc<House>,
    pub(crate) mailbox: Arc<Mailbox>,
    pub(crate) epoll: OwnedFd,
    pub(crate) pipes: Pipes,
    pub(crate) scratch: Vec<u8>,
    pub(crate) warm: WarmLegs,
    pub(crate) now: Time,
}

/// Which leg of a connection an event is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    Near,
    Far,
}

/// What events say about a leg.
fn interest() -> epoll::EventFlags {
    let data = epoll::EventFlags::IN | epoll::EventFlags::PRI | epoll::EventFlags::OUT;
    data | epoll::EventFlags::RDHUP | epoll::EventFlags::ET
}

fn token(id: u64, side: Side) -> epoll::EventData {
    epoll::EventData::new_u64((id << 1) | u64::from(side == Side::Far))
}

/// The connection and the leg of an event.
pub(crate) fn of_token(token: u64) -> (u64, Side) {
    (token >> 1, if token & 1 == 0 { Side::Near } else { Side::Far })
}

impl Tools {
    pub(crate) fn new(house: Arc<House>, mailbox: Arc<Mailbox>, now: Time) -> std::io::Result<Self> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let (pipes, warm) = (Pipes::default(), WarmLegs::default());
        Ok(Self { house, mailbox, epoll, pipes, scratch: vec![0; SCRATCH], warm, now })
    }

    /// From now on events tell of this leg. They end when it is closed.
    pub(crate) fn watch(&self, leg: &Leg, id: u64, side: Side) -> std::io::Result<()> {
        Ok(epoll::add(&self.epoll, leg.socket(), token(id, side), interest())?)
    }

    /// The same for a leg that had another number until now.
    pub(crate) fn watch_as(&self, leg: &Leg, id: u64, side: Side) -> std::io::Result<()> {
        Ok(epoll::modify(&self.epoll, leg.socket(), token(id, side), interest())?)
    }
}
