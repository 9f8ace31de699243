//! Links within one process: two bounded channels of parcels.
//!
//! A parcel changes owner and nothing is copied, so a payload stays a block of the sender's pool
//! until the receiver drops it: the pool of the sender bounds the memory of both. There is no sign
//! of life to wait for and so no [`LinkError::Silent`]; all other ends are those of a TCP link.

use std::convert::Infallible;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded, select_biased};
use icdc_disk::pool::BlockPool;
use icdc_units::{ByteCount, Rate, Span};

use crate::control::{Control, SendTimes};
use crate::error::LinkError;
use crate::halves::{Inlet, Outlet};
use crate::link::Link;
use crate::memory_pace::{Due, Pace};
use crate::parcel::Parcel;

/// Maximum number of parcels that may wait in each direction: enough to keep both threads running,
/// as a socket's buffers would.
const DEPTH: usize = 16;

/// Description of the other end, for messages.
const PEER: &str = "this process";

/// Makes a pair of links within this process, which are each other's peer.
#[must_use]
pub fn memory_pair() -> (Link, Link) {
    let (stop, stopped) = bounded(0);
    let wire = Arc::new(Wire {
        stop: Mutex::new(Some(stop)),
        stopped_by: AtomicU8::new(NOBODY),
        received: Default::default(),
        paces: Default::default(),
    });
    let (first_sender, first_receiver) = bounded(DEPTH);
    let (second_sender, second_receiver) = bounded(DEPTH);
    let link = |number, sender, receiver| {
        let end = End { number, wire: Arc::clone(&wire), stopped: stopped.clone() };
        let outlet = MemoryOutlet { sender, due: Due::default(), end: end.clone() };
        Link::new(outlet, MemoryInlet { receiver, end: end.clone() }, Arc::new(end))
    };
    (link(1, first_sender, second_receiver), link(2, second_sender, first_receiver))
}

/// Value of [`Wire::stopped_by`] while neither end has stopped the link.
const NOBODY: u8 = 0;

/// State that both ends of a link in memory share.
struct Wire {
    /// Sender that is dropped to wake all waiting threads.
    stop: Mutex<Option<Sender<Infallible>>>,
    stopped_by: AtomicU8,
    /// Number of payload bytes that each end has received.
    received: [AtomicU64; 2],
    /// Rate limits of what each end sends.
    paces: [Pace; 2],
}

/// One end of the link in memory.
#[derive(Clone)]
struct End {
    number: u8,
    wire: Arc<Wire>,
    stopped: Receiver<Infallible>,
}

impl End {
    /// Ends the link for both ends and wakes their threads. The end that does so first is the one
    /// that has stopped it.
    fn stop(&self) {
        let _ = self.wire.stopped_by.compare_exchange(NOBODY, self.number, Ordering::SeqCst, Ordering::SeqCst);
        drop(self.wire.stop.lock().expect("nothing panics under this lock").take());
    }

    /// Index of this end's count in [`Wire::received`].
    fn index(&self) -> usize {
        usize::from(self.number - 1)
    }

    /// Payload bytes that the end of this index has received.
    fn count(&self, index: usize) -> ByteCount {
        ByteCount::new(self.wire.received[index].load(Ordering::Relaxed))
    }

    /// Rate limit of what this end sends.
    fn pace(&self) -> &Pace {
        &self.wire.paces[self.index()]
    }

    /// Waits for `span`; false if the link has ended.
    fn wait(&self, span: Span) -> bool {
        self.stopped.recv_timeout(span.into()) == Err(RecvTimeoutError::Timeout)
    }

    /// Error of calls after the link was stopped: [`LinkError::Stopped`] if this end did so, else a
    /// cut.
    fn reason(&self) -> LinkError {
        match self.wire.stopped_by.load(Ordering::SeqCst) {
            by if by == self.number => LinkError::Stopped,
            _ => cut(),
        }
    }
}

impl Control for End {
    fn shutdown(&self) {
        self.stop();
    }

    fn peer(&self) -> &str {
        PEER
    }

    fn received(&self) -> ByteCount {
        self.count(self.index())
    }

    fn delivered(&self) -> ByteCount {
        self.count(1 - self.index())
    }

    fn set_rate(&self, rate: Option<Rate>) {
        self.pace().set(rate);
    }

    fn send_times(&self) -> SendTimes {
        SendTimes { paced: self.pace().waited(), ..SendTimes::default() }
    }
}

/// Sending half of a link in memory, which delays parcels by the rate limit.
struct MemoryOutlet {
    sender: Sender<Parcel>,
    due: Due,
    end: End,
}

impl Outlet for MemoryOutlet {
    fn send(&mut self, parcel: Parcel) -> Result<(), LinkError> {
        self.due.wait_for(self.end.pace(), parcel.payload_length(), |span| self.end.wait(span));
        select_biased! {
            recv(self.end.stopped) -> _ => Err(self.end.reason()),
            send(self.sender, parcel) -> sent => sent.map_err(|_| cut()),
        }
    }

    fn flush(&mut self) -> Result<(), LinkError> {
        Ok(())
    }
}

impl Drop for MemoryOutlet {
    fn drop(&mut self) {
        if thread::panicking() {
            self.end.stop();
        }
    }
}

/// Receiving half of a link in memory, which counts payload bytes.
struct MemoryInlet {
    receiver: Receiver<Parcel>,
    end: End,
}

impl Inlet for MemoryInlet {
    fn receive(&mut self, _pool: &BlockPool) -> Result<Parcel, LinkError> {
        let parcel = select_biased! {
            recv(self.end.stopped) -> _ => self.receive_after_stop(),
            recv(self.receiver) -> parcel => parcel.map_err(|_| LinkError::Closed),
        }?;
        self.end.wire.received[self.end.index()].fetch_add(parcel.payload_length() as u64, Ordering::Relaxed);
        Ok(parcel)
    }
}

impl MemoryInlet {
    /// Result of receiving on a stopped link: [`LinkError::Stopped`] if this end has stopped it;
    /// else a message that the peer sent before it stopped, as it would arrive over a socket, or
    /// the reason once there is none.
    fn receive_after_stop(&self) -> Result<Parcel, LinkError> {
        match self.end.reason() {
            LinkError::Stopped => Err(LinkError::Stopped),
            reason => self.receiver.try_recv().map_err(|_| reason),
        }
    }
}

fn cut() -> LinkError {
    LinkError::Cut { peer: PEER.to_owned() }
}
