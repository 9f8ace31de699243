//! One bulk flow between plain hosts, as iperf makes it: zeros by ordinary sockets, counted by the
//! receiver as it reads them.
//!
//! Sizes of socket buffers are set as `SO_SNDBUF` and `SO_RCVBUF`. Linux takes twice of that for
//! data and its overhead, so without a limit of its own a window is as large as was asked for, or
//! up to nearly twice that.

use std::io::{self, Read as _, Write as _};
use std::net::{SocketAddrV4, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use icdc_packet::clock;
use icdc_units::{ByteCount, Rate, Span, Time};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::sockopt::{self, Timeout};
use rustix::net::{AddressFamily, SocketType};

use crate::harness::error::ExperimentError;
use crate::harness::measurement::arrivals::Arrivals;
use crate::relay::plain_hosts::Row;

/// Time limit of each step.
const TIMEOUT: Span = Span::from_secs(30);
/// Interval of the checks whether all is over.
const STEP: Span = Span::from_millis(200);
/// Length of a bin of the receiver's count.
const BIN: Span = Span::from_millis(1);

/// A bulk flow of zeros from the near plain host to the far one, direct or through a relay.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PlainFlow {
    /// TCP port on the far host.
    pub(crate) port: u16,
    /// Address of the relay to which the sender connects, if not to the far host itself.
    pub(crate) relay: Option<SocketAddrV4>,
    /// Congestion control of the sender.
    pub(crate) congestion: &'static str,
    /// Size of the buffers of both sockets.
    pub(crate) buffer: ByteCount,
    /// Delay before the flow begins.
    pub(crate) delay: Span,
    /// Length of the flow, from its first byte on.
    pub(crate) lasts: Span,
}

/// Data that the receiver of a flow read.
#[derive(Clone, Debug)]
pub(crate) struct Carried {
    /// Time at which the first byte was read.
    pub(crate) first_byte: Time,
    /// Bytes read in each millisecond since the first byte.
    pub(crate) series_ms: Vec<u32>,
}

impl Carried {
    /// The bytes of each millisecond, for evaluation.
    pub(crate) fn arrivals(&self) -> Arrivals<'_> {
        Arrivals::new(&self.series_ms)
    }

    /// Mean rate from the first byte to the end.
    pub(crate) fn mean(&self) -> Rate {
        self.arrivals().mean(Span::ZERO, Span::MAX)
    }

    /// Time at which the receiver stopped counting.
    pub(crate) fn ended(&self) -> Time {
        self.first_byte + self.arrivals().length()
    }

    /// Mean rate between two times of the monotonic clock.
    pub(crate) fn mean_between(&self, from: Time, to: Time) -> Rate {
        self.arrivals().mean(from - self.first_byte, to - self.first_byte)
    }
}

impl PlainFlow {
    /// Sends and receives. `at_end` is called once the receiver has stopped counting, while the
    /// connection is still open.
    pub(crate) fn run<T>(&self, row: &Row, at_end: impl FnOnce() -> T) -> Result<(Carried, T), ExperimentError> {
        let over = AtomicBool::new(false);
        let listener = self.listen(row)?;
        thread::scope(|scope| {
            let receiver = scope.spawn(|| {
                let received = row.far.inside(|| self.receive(&listener, &over).map_err(failed("receive")));
                // A sender whose receiver has ended stops.
                over.fetch_or(received.is_err(), Ordering::Relaxed);
                received
            });
            let sender = scope.spawn(|| {
                let sent = row.near.inside(|| self.send(row, &over).map_err(failed("send")));
                over.fetch_or(sent.is_err(), Ordering::Relaxed);
                sent
            });
            let received = receiver.join().expect("receiving does not panic");
            let at_end = at_end();
            over.store(true, Ordering::Relaxed);
            // The sender's error says more than the receiver's lack of data.
            sender.join().expect("sending does not panic")?;
            let (_stream, carried) = received?;
            Ok((carried, at_end))
        })
    }

    /// Listens on the far host for the flow, with its receive buffer.
    fn listen(&self, row: &Row) -> Result<TcpListener, ExperimentError> {
        row.far.inside(|| {
            let listen = || -> io::Result<TcpListener> {
                let listener = TcpListener::bind((row.far_address(), self.port))?;
                sockopt::set_socket_recv_buffer_size_force(&listener, self.buffer.as_usize())?;
                Ok(listener)
            };
            listen().map_err(failed("listen"))
        })
    }

    /// Accepts the connection, and counts what it reads for the flow's length from the first byte
    /// on. Returns the connection, still open, and the count.
    fn receive(&self, listener: &TcpListener, over: &AtomicBool) -> io::Result<(TcpStream, Carried)> {
        let mut stream = accept(listener, self.delay + TIMEOUT, over)?;
        stream.set_read_timeout(Some(STEP.into()))?;
        let (mut buffer, mut bytes) = (vec![0; 256 << 10], Vec::new());
        let (begun, mut first_byte) = (clock::now(), None);
        loop {
            let count = match stream.read(&mut buffer) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(count) => count,
                Err(error) if is_timeout(&error) => 0,
                Err(error) => return Err(error),
            };
            let now = clock::now();
            if count > 0 {
                first_byte.get_or_insert(now);
            }
            match first_byte {
                Some(first) if now - first >= self.lasts => {
                    bytes.resize(self.lasts.as_millis() as usize, 0);
                    return Ok((stream, Carried { first_byte: first, series_ms: bytes }));
                }
                Some(first) => {
                    let bin = (now - first).ratio(BIN) as usize;
                    bytes.resize(bytes.len().max(bin + 1), 0);
                    bytes[bin] += count as u32;
                }
                None if over.load(Ordering::Relaxed) || now - begun > TIMEOUT => {
                    return Err(io::ErrorKind::TimedOut.into());
                }
                None => {}
            }
        }
    }

    /// Connects after the flow's delay, and sends zeros until `over`.
    fn send(&self, row: &Row, over: &AtomicBool) -> io::Result<()> {
        let begin = clock::now() + self.delay;
        while clock::now() < begin && !over.load(Ordering::Relaxed) {
            clock::sleep_until(begin.min(clock::now() + STEP));
        }
        let mut stream = self.connect(row)?;
        sockopt::set_socket_send_buffer_size_force(&stream, self.buffer.as_usize())?;
        stream.set_write_timeout(Some(STEP.into()))?;
        let zeros = vec![0; 64 << 10];
        while !over.load(Ordering::Relaxed) {
            match stream.write(&zeros) {
                Ok(_) => {}
                Err(error) if is_timeout(&error) => {}
                // The receiver has ended on purpose.
                Err(_) if over.load(Ordering::Relaxed) => break,
                Err(error) => return Err(error),
            }
        }
        // Queued data is discarded.
        Ok(sockopt::set_socket_linger(&stream, Some(Span::ZERO.into()))?)
    }

    /// Connects with all options set before the handshake: a later change of the algorithm would
    /// keep the pacing of the first.
    fn connect(&self, row: &Row) -> io::Result<TcpStream> {
        let socket = rustix::net::socket(AddressFamily::INET, SocketType::STREAM, None)?;
        sockopt::set_tcp_congestion(&socket, self.congestion)?;
        // It bounds connect as well.
        sockopt::set_socket_timeout(&socket, Timeout::Send, Some(TIMEOUT.into()))?;
        rustix::net::connect(&socket, &self.relay.unwrap_or(SocketAddrV4::new(row.far_address(), self.port)))?;
        Ok(TcpStream::from(socket))
    }

    /// Time from the call of `connect` to the first byte of an answer to a request of one byte.
    pub(crate) fn first_answer(&self, row: &Row) -> Result<Span, ExperimentError> {
        let over = AtomicBool::new(false);
        let listener = self.listen(row)?;
        thread::scope(|scope| {
            let answering = scope.spawn(|| {
                let answer = || -> io::Result<()> {
                    let mut stream = accept(&listener, TIMEOUT, &over)?;
                    stream.set_read_timeout(Some(TIMEOUT.into()))?;
                    stream.read_exact(&mut [0])?;
                    stream.write_all(&[0])
                };
                row.far.inside(|| answer().map_err(failed("answer")))
            });
            let asked = row.near.inside(|| {
                let ask = || -> io::Result<Span> {
                    let begun = clock::now();
                    let mut stream = self.connect(row)?;
                    stream.set_nodelay(true)?;
                    stream.set_read_timeout(Some(TIMEOUT.into()))?;
                    stream.write_all(&[0])?;
                    stream.read_exact(&mut [0])?;
                    Ok(clock::now() - begun)
                };
                ask().map_err(failed("ask"))
            });
            over.store(true, Ordering::Relaxed);
            let answered = answering.join().expect("answering does not panic");
            asked.and_then(|took| answered.map(|()| took))
        })
    }
}

/// Makes the error of a system call in the step `verb` of a flow.
fn failed(verb: &'static str) -> impl Fn(io::Error) -> ExperimentError {
    move |error| ExperimentError::io(format!("{verb} on a plain host"), error)
}

/// Whether a read or write ended by its time limit or a signal, and is to be tried again.
fn is_timeout(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut | io::ErrorKind::Interrupted)
}

/// Accepts the first connection. An error if the time limit or `over` comes first.
pub(crate) fn accept(listener: &TcpListener, patience: Span, over: &AtomicBool) -> io::Result<TcpStream> {
    let until = clock::now() + patience;
    let step = Timespec::try_from(Duration::from(STEP)).ok();
    while clock::now() < until && !over.load(Ordering::Relaxed) {
        if poll(&mut [PollFd::new(listener, PollFlags::IN)], step.as_ref()).is_ok_and(|ready| ready > 0) {
            return Ok(listener.accept()?.0);
        }
    }
    Err(io::ErrorKind::TimedOut.into())
}
