//! The receiving end of the data: one thread per connection that discards it, and a shared record
//! of arrivals.

use std::net::{Shutdown, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

use crossbeam_channel::{Sender, unbounded};
use icdc_limits::thread::start_scoped;
use icdc_protocol::limits::{MAX_BINS, MAX_MEASURE_ERRORS};
use icdc_protocol::measure::{ControlMessage, MeasureRequest, Received, Sample};
use icdc_session::SessionError;
use icdc_tcp::clock;
use icdc_units::{Span, Time};
use rustix::io::Errno;
use rustix::net::{RecvFlags, recv};

use crate::arrivals::{Arrivals, PacketWatch};
use crate::control_link::{ControlLink, Incoming, Next, Watched};
use crate::sockets::granted;

/// Time limit for the arrival of the first byte.
const FIRST_BYTE: Span = Span::from_secs(30);
/// Maximum number of bytes that one call discards. The memory is never touched.
const MAX_DISCARDED: usize = 4 << 20;

/// Result of receiving: the receiver's figures, and the bytes by the millisecond.
pub(super) struct Reception {
    pub(super) received: Received,
    pub(super) bins: Vec<u32>,
    pub(super) interrupted: bool,
}

/// Sends `Go` and receives until the measurement is over.
pub(super) fn run(
    order: &MeasureRequest,
    sockets: &[Arc<TcpStream>],
    control: &ControlLink,
    samples: &mut dyn FnMut(Vec<Sample>),
) -> Result<Reception, SessionError> {
    let limit = Span::from_nanos(order.nanos);
    let packets = PacketWatch::start(sockets, limit);
    let book = SharedArrivals { over: AtomicBool::new(false), arrivals: Mutex::new(Arrivals::new(limit)) };
    let mut ending = Ending::default();
    let (tell, events) = unbounded();
    let watched = thread::scope(|scope| {
        for (number, socket) in sockets.iter().enumerate() {
            let (book, tell) = (&book, tell.clone());
            let name = format!("receive-{number}");
            if let Err(error) = start_scoped(scope, &name, move || discard(socket, number, book, &tell)) {
                book.end(sockets);
                return Err(SessionError::Local(error.to_string()));
            }
        }
        control.send(ControlMessage::Go);
        let watched = Watched { control, workers: &events };
        let watched = watch(limit, sockets.len(), watched, samples, &mut ending);
        book.end(sockets);
        watched
    });
    let packets = packets.map(PacketWatch::finish);
    watched?;
    Ok(ending.into_reception(
        order,
        sockets,
        book.arrivals.into_inner().unwrap_or_else(PoisonError::into_inner),
        packets,
    ))
}

/// State of the arrivals that the receiving threads share.
struct SharedArrivals {
    over: AtomicBool,
    arrivals: Mutex<Arrivals>,
}

impl SharedArrivals {
    /// The arrivals, locked.
    fn arrivals(&self) -> MutexGuard<'_, Arrivals> {
        self.arrivals.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends the receiving threads. The connections stay open, so that the sender is not disturbed
    /// before it has the result.
    fn end(&self, sockets: &[Arc<TcpStream>]) {
        self.over.store(true, Ordering::Release);
        for socket in sockets {
            // It fails for a connection that has ended.
            let _ = socket.shutdown(Shutdown::Read);
        }
    }
}

/// Event of a receiving thread.
enum Event {
    /// The first bytes have arrived, at this time.
    First(Time),
    /// Receiving on a connection has ended.
    Ended(End),
}

/// Reason why receiving on a connection ended.
enum End {
    /// The sender closed the connection, or this end has ended the measurement.
    InOrder,
    /// The time limit of the measurement has passed.
    ByTime,
    /// Receiving failed, for this reason.
    Broken(String),
}

/// Body of the thread of one connection: discards its data and counts it until the end. The first
/// bytes and the end are reported by `tell`.
fn discard(socket: &TcpStream, number: usize, book: &SharedArrivals, tell: &Sender<Event>) {
    let mut buffer = vec![0; MAX_DISCARDED];
    let end = loop {
        match recv(socket, &mut buffer[..], RecvFlags::TRUNC) {
            _ if book.over.load(Ordering::Acquire) => break End::InOrder,
            Ok((_, 0)) => break End::InOrder,
            Ok((_, length)) => {
                let at = clock::now();
                let mut arrivals = book.arrivals();
                let first = arrivals.origin().is_none();
                let in_time = arrivals.add(at, length as u64);
                drop(arrivals);
                if first {
                    let _ = tell.send(Event::First(at));
                }
                if !in_time {
                    break End::ByTime;
                }
            }
            Err(Errno::INTR) => {}
            Err(errno) => break End::Broken(format!("data connection {number}: recv: {errno}")),
        }
    };
    let _ = tell.send(Event::Ended(end));
}

/// End of receiving: by the time limit or not, by an interruption or not, and the errors of
/// connections.
#[derive(Default)]
struct Ending {
    by_time: bool,
    interrupted: bool,
    errors: Vec<String>,
}

/// Waits until all connections have ended, the time limit has passed, or an end has interrupted;
/// notes in `ending` which. Passes on the sender's samples.
fn watch(
    limit: Span,
    connections: usize,
    watched: Watched<'_, Event>,
    samples: &mut dyn FnMut(Vec<Sample>),
    ending: &mut Ending,
) -> Result<(), SessionError> {
    let mut open = connections;
    let mut deadline = clock::now() + FIRST_BYTE;
    let mut begun = false;
    while open > 0 {
        match watched.next(deadline) {
            Next::Worker(Event::First(at)) => (begun, deadline) = (true, at + limit),
            Next::Worker(Event::Ended(end)) => {
                open -= 1;
                match end {
                    End::InOrder => {}
                    End::ByTime => ending.by_time = true,
                    End::Broken(reason) => ending.errors.push(reason),
                }
            }
            Next::Deadline if begun => {
                ending.by_time = true;
                return Ok(());
            }
            Next::Deadline => return Err(SessionError::Cut(format!("no data came within {FIRST_BYTE}"))),
            Next::Incoming(Incoming::Control(ControlMessage::Samples(taken))) => samples(taken),
            Next::Incoming(Incoming::Stop | Incoming::Interrupt) => {
                ending.interrupted = true;
                return Ok(());
            }
            Next::Incoming(other) => return Err(other.unexpected("data")),
        }
    }
    Ok(())
}

impl Ending {
    /// Makes the result. Bytes by the millisecond are those of captured `packets`, else of reads
    /// from the sockets (`arrivals`).
    fn into_reception(
        mut self,
        order: &MeasureRequest,
        sockets: &[Arc<TcpStream>],
        arrivals: Arrivals,
        packets: Option<Result<Arrivals, String>>,
    ) -> Reception {
        let span = if self.by_time { Span::from_nanos(order.nanos) } else { arrivals.span() };
        let bytes = arrivals.bytes();
        let mut notices = Vec::new();
        let (seen, packets) = match packets {
            Some(Ok(seen)) => (seen, true),
            Some(Err(reason)) => {
                notices.push(reason);
                (arrivals, false)
            }
            None => (arrivals, false),
        };
        if span.as_millis() as usize > MAX_BINS {
            let kept = Span::from_millis(MAX_BINS as u64);
            notices.push(format!("arrivals by the millisecond are those of the first {kept}"));
        }
        let bins = if bytes == 0 { Vec::new() } else { seen.into_bins(span) };
        self.errors.truncate(MAX_MEASURE_ERRORS);
        let received = Received {
            bytes,
            nanos: span.as_nanos(),
            packets,
            bins: bins.len() as u32,
            window: granted(order, sockets.first().map(Arc::as_ref), |buffers| buffers.receive),
            errors: self.errors,
            notices,
        };
        Reception { received, bins, interrupted: self.interrupted }
    }
}
