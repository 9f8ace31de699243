//! Bytes per millisecond, from the sockets or, where that is allowed, from packets captured at the
//! device.

use std::collections::HashSet;
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use crossbeam_channel::{RecvTimeoutError, Sender, bounded};
use icdc_packet::{Capture, Port, Segment};
use icdc_protocol::limits::MAX_BINS;
use icdc_units::{Span, Time};

/// Length of a bin (interval in which bytes are counted).
const BIN: Span = Span::from_millis(1);
/// Polling interval of the capture's ring.
const PAUSE: Duration = Duration::from_millis(5);

/// Number of bytes that arrived in each millisecond since the first ones. Data after the time
/// limit does not count; bins end at [`MAX_BINS`].
pub(super) struct Arrivals {
    limit: Span,
    origin: Option<Time>,
    last: Time,
    bytes: u64,
    bins: Vec<u32>,
}

impl Arrivals {
    /// A count before the first bytes; data that arrives later than `limit` after these does not
    /// count.
    pub(super) fn new(limit: Span) -> Self {
        Self { limit, origin: None, last: Time::ORIGIN, bytes: 0, bins: Vec::new() }
    }

    /// Counts bytes that arrived at `at`; false, and nothing is counted, if that is after the time
    /// limit.
    pub(super) fn add(&mut self, at: Time, bytes: u64) -> bool {
        let origin = *self.origin.get_or_insert(at);
        let since = at - origin;
        if since >= self.limit {
            return false;
        }
        self.last = self.last.max(at);
        self.bytes += bytes;
        let bin = (since.as_nanos() / BIN.as_nanos()) as usize;
        if bin < MAX_BINS {
            if self.bins.len() <= bin {
                self.bins.resize(bin + 1, 0);
            }
            self.bins[bin] = self.bins[bin].saturating_add(u32::try_from(bytes).unwrap_or(u32::MAX));
        }
        true
    }

    /// Time of the first bytes; `None` before.
    pub(super) fn origin(&self) -> Option<Time> {
        self.origin
    }

    /// Time from the first bytes to the last; zero before any.
    pub(super) fn span(&self) -> Span {
        self.origin.map_or(Span::ZERO, |origin| self.last - origin)
    }

    /// Number of bytes that arrived within the time limit.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Bytes per millisecond over `span`, padded with zeros.
    pub(super) fn into_bins(mut self, span: Span) -> Vec<u32> {
        let length = (span.as_nanos().div_ceil(BIN.as_nanos()) as usize).min(MAX_BINS);
        self.bins.resize(self.bins.len().max(length), 0);
        self.bins
    }
}

/// Captures the packets of some connections on a thread of its own.
pub(super) struct PacketWatch {
    end: Sender<()>,
    thread: JoinHandle<Result<Arrivals, String>>,
}

impl PacketWatch {
    /// Starts the capture; `None` where the process may not capture packets, no socket is
    /// connected, or no thread can be started.
    pub(super) fn start(sockets: &[Arc<TcpStream>], limit: Span) -> Option<Self> {
        let flows: HashSet<Flow> = sockets.iter().filter_map(|socket| Flow::of(socket)).collect();
        let any = flows.iter().next()?;
        // All share the port to which they were made, at this end or the other.
        let is_here = flows.iter().all(|flow| flow.port == any.port);
        let port = if is_here { Port::Destination(any.port) } else { Port::Source(any.peer.port()) };
        let capture = match Capture::open(port, any.peer.is_ipv6()) {
            Ok(capture) => capture,
            Err(error) => {
                tracing::debug!("arrivals come from the sockets: {error}");
                return None;
            }
        };
        let (end, ended) = bounded(1);
        let watch = move || {
            let (mut capture, mut arrivals) = (capture, Arrivals::new(limit));
            loop {
                let last = ended.recv_timeout(PAUSE) != Err(RecvTimeoutError::Timeout);
                capture.drain(|segment| {
                    if !segment.data.is_zero() && flows.contains(&Flow::from(&segment)) {
                        arrivals.add(segment.at, segment.data.as_u64());
                    }
                });
                if last {
                    break;
                }
            }
            match capture.overflow() {
                Ok(0) => Ok(arrivals),
                Ok(lost) => Err(format!(
                    "{lost} packets were not captured for lack of room; arrivals are the times of reading from the sockets instead"
                )),
                Err(error) => Err(error.to_string()),
            }
        };
        let thread = std::thread::Builder::new().name("packets".into()).spawn(watch).ok()?;
        Some(Self { end, thread })
    }

    /// Ends the capture; returns the arrivals, or the reason why they are incomplete.
    pub(super) fn finish(self) -> Result<Arrivals, String> {
        drop(self.end);
        self.thread.join().unwrap_or_else(|_| Err("the packet watch failed".into()))
    }
}

/// One direction of a connection, as identified by the addresses in its packets.
#[derive(PartialEq, Eq, Hash)]
struct Flow {
    peer: SocketAddr,
    port: u16,
}

impl Flow {
    /// Data from the peer of a connection to this end; `None` if the socket is not connected.
    fn of(socket: &TcpStream) -> Option<Self> {
        let peer = socket.peer_addr().ok()?;
        let port = socket.local_addr().ok()?.port();
        Some(Self { peer: icdc_tcp::canonical(peer), port })
    }
}

impl From<&Segment> for Flow {
    fn from(segment: &Segment) -> Self {
        Self { peer: segment.source, port: segment.destination_port }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_fall_into_their_millisecond_and_late_ones_do_not_count() {
        let start = Time::ORIGIN + Span::from_secs(7);
        let mut arrivals = Arrivals::new(Span::from_millis(10));
        assert!(arrivals.add(start, 1));
        assert!(arrivals.add(start + Span::from_micros(999), 2));
        assert!(arrivals.add(start + Span::from_micros(3000), 4));
        assert!(!arrivals.add(start + Span::from_millis(10), 8));
        assert_eq!((arrivals.bytes(), arrivals.span()), (7, Span::from_millis(3)));
        assert_eq!(arrivals.into_bins(Span::from_micros(4500)), [3, 0, 0, 4, 0]);
    }

    #[test]
    fn memory_is_bounded() {
        let mut arrivals = Arrivals::new(Span::MAX);
        arrivals.add(Time::ORIGIN, 1);
        assert!(arrivals.add(Time::ORIGIN + Span::from_secs(86_000), 5));
        assert_eq!((arrivals.bytes(), arrivals.bins.len()), (6, 1));
        assert_eq!(arrivals.into_bins(Span::from_secs(86_000)).len(), MAX_BINS);
    }
}
