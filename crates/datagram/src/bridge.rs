//! One stream of a connection and the local socket that it leads to.

use std::io::{self, IoSlice, Read as _, Write as _};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bytes::{Buf as _, Bytes, BytesMut};
use quinn_proto::{Connection, FinishError, ReadError, StreamId, VarInt, WriteError};

use crate::order::Order;

/// Bytes that are read from the local socket at once.
const READ: usize = 128 << 10;
/// Number of chunks that are written to it at once.
const CHUNKS: usize = 64;
/// Bytes that are handed on before others have their turn.
const TURN: usize = 512 << 10;

/// Time in which the other end has to acknowledge something, once the program has closed its end, for what it has given to arrive.
const GONE_TIMEOUT: Duration = Duration::from_secs(2);
/// Time in which all of that has to arrive.
const ALL_GONE_TIMEOUT: Duration = Duration::from_secs(60);

/// A stream and its local socket.
pub(crate) struct Bridge {
    pub(crate) socket: UnixStream,
    stream: StreamId,
    /// Whether the socket may have something to read, and room to write, as epoll has told.
    pub(crate) readable: bool,
    pub(crate) writable: bool,
    /// Whether the program has closed its end: it reads no more.
    pub(crate) is_gone: bool,
    /// Its end, once it has closed it.
    gone: Option<Gone>,
    space: BytesMut,
    /// What was read and the stream has not taken.
    outgoing: Option<Bytes>,
    outgoing_ended: bool,
    /// Whether the other end has all that was given, its end included, or wants no more.
    is_delivered: bool,
    /// What was received beyond what is missing.
    order: Order,
    /// What was received and the socket has not taken.
    incoming: Vec<Bytes>,
    incoming_ended: bool,
    /// Number of bytes carried in both directions.
    carried: Arc<AtomicU64>,
}

impl Bridge {
    /// A bridge between a stream and a socket, which does not block.
    pub(crate) fn new(socket: UnixStream, stream: StreamId) -> Self {
        Self {
            socket,
            stream,
            readable: false,
            writable: true,
            is_gone: false,
            gone: None,
            space: BytesMut::new(),
            outgoing: None,
            outgoing_ended: false,
            is_delivered: false,
            order: Order::default(),
            incoming: Vec::new(),
            incoming_ended: false,
            carried: Arc::default(),
        }
    }

    /// Count of the bytes that the stream carries in both directions.
    pub(crate) fn carried(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.carried)
    }

    /// Number of bytes received that wait for earlier ones, or for room in the socket.
    pub(crate) fn waiting(&self) -> u64 {
        self.order.bytes()
    }

    /// Whether both directions have ended, and the other end has everything.
    pub(crate) fn has_ended(&self) -> bool {
        self.is_delivered && self.incoming_ended
    }

    /// Notes that the other end has all that was given, or wants no more.
    pub(crate) fn mark_delivered(&mut self) {
        (self.outgoing_ended, self.is_delivered) = (true, true);
    }

    /// Gives the stream no more: the other end wants none. What the program writes fails from now on.
    pub(crate) fn stop_giving(&mut self) {
        self.outgoing = None;
        self.mark_delivered();
        let _ = self.socket.shutdown(Shutdown::Read);
    }

    /// Gives up what the program has given and the other end does not have, once the program has closed its end and nothing has
    /// arrived for a while; returns when that is. `delivered`: number of packets of the connection that have arrived.
    pub(crate) fn lapse(&mut self, connection: &mut Connection, now: Instant, delivered: u64) -> Option<Instant> {
        if !self.is_gone || self.is_delivered {
            return None;
        }
        let gone = self.gone.get_or_insert(Gone { since: now, progressed: now, delivered });
        if gone.delivered != delivered {
            (gone.progressed, gone.delivered) = (now, delivered);
        }
        let lapses = (gone.progressed + GONE_TIMEOUT).min(gone.since + ALL_GONE_TIMEOUT);
        if now < lapses {
            return Some(lapses);
        }
        // One that has ended needs no more.
        let _ = connection.send_stream(self.stream).reset(VarInt::from_u32(0));
        self.stop_giving();
        None
    }

    fn stop_receiving(&mut self, connection: &mut Connection) {
        (self.order, self.incoming) = (Order::default(), Vec::new());
        self.incoming_ended = true;
        // One that has ended needs no more.
        let _ = connection.recv_stream(self.stream).stop(VarInt::from_u32(0));
    }

    /// Ends the local socket: the connection is gone.
    pub(crate) fn cut(&self) {
        // It fails if the program was faster.
        let _ = self.socket.shutdown(Shutdown::Both);
    }

    /// Gives the stream about as many bytes as `wanted` of what the local socket has; returns how many, and one for its end.
    pub(crate) fn give(&mut self, connection: &mut Connection, wanted: usize) -> usize {
        let mut given = 0;
        while !self.outgoing_ended && given < wanted {
            let Some(bytes) = self.outgoing.take().or_else(|| self.read()) else { break };
            if bytes.is_empty() {
                self.outgoing_ended = true;
                given += 1;
                match connection.send_stream(self.stream).finish() {
                    Ok(()) => {}
                    Err(FinishError::Stopped(_) | FinishError::ClosedStream) => self.is_delivered = true,
                }
                break;
            }
            let mut chunks = [bytes];
            match connection.send_stream(self.stream).write_chunks(&mut chunks) {
                Ok(written) => {
                    given += written.bytes;
                    self.carried.fetch_add(written.bytes as u64, Ordering::Relaxed);
                    let [rest] = chunks;
                    if !rest.is_empty() {
                        self.outgoing = Some(rest);
                    }
                }
                Err(WriteError::Blocked) => {
                    let [rest] = chunks;
                    self.outgoing = Some(rest);
                    break;
                }
                Err(WriteError::Stopped(_) | WriteError::ClosedStream) => {
                    self.stop_giving();
                    break;
                }
            }
        }
        given
    }

    /// Reads from the local socket: nothing at its end; `None` if there is nothing now.
    fn read(&mut self) -> Option<Bytes> {
        if !self.readable {
            return None;
        }
        if self.space.len() < READ {
            self.space = BytesMut::zeroed(4 * READ);
        }
        loop {
            match (&self.socket).read(&mut self.space[..READ]) {
                Ok(count) => return Some(self.space.split_to(count).freeze()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.readable = false;
                    return None;
                }
                Err(_) => return Some(Bytes::new()),
            }
        }
    }

    /// Hands what has arrived to the local socket, and keeps about `most` bytes beyond what is missing; returns how many bytes, and
    /// whether there may be more at once.
    pub(crate) fn deliver(&mut self, connection: &mut Connection, most: u64) -> (usize, bool) {
        let mut moved = 0;
        if self.is_gone && !self.incoming_ended {
            self.stop_receiving(connection);
        }
        while !self.incoming_ended {
            let end = self.receive(connection, most);
            if matches!(end, End::Broken) {
                self.incoming_ended = true;
                self.cut();
                break;
            }
            if !self.writable {
                break;
            }
            if !self.incoming.is_empty() {
                match self.write() {
                    Ok(count) => {
                        moved += count;
                        self.carried.fetch_add(count as u64, Ordering::Relaxed);
                    }
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.writable = false,
                    Err(_) => self.stop_receiving(connection),
                }
            }
            match end {
                End::Later if self.incoming.is_empty() => break,
                End::Now if self.incoming.is_empty() && self.order.bytes() == 0 => {
                    self.incoming_ended = true;
                    let _ = self.socket.shutdown(Shutdown::Write);
                }
                _ => {}
            }
            if moved >= TURN {
                return (moved, true);
            }
        }
        (moved, false)
    }

    /// Takes chunks from the stream, as many as are written at once. Those beyond what is missing wait, and so do all while the
    /// socket has no room, up to about `most` bytes.
    fn receive(&mut self, connection: &mut Connection, most: u64) -> End {
        let mut stream = connection.recv_stream(self.stream);
        let Ok(mut chunks) = stream.read(false) else {
            self.fill();
            return End::Now;
        };
        let end = loop {
            self.fill();
            let is_full = self.incoming.len() >= CHUNKS;
            if is_full && (self.writable || self.order.bytes() >= most) {
                break End::Not;
            }
            // A chunk of no bytes tells where the next one begins.
            let is_beyond = self.order.bytes() >= most
                && matches!(chunks.next(0), Ok(Some(chunk)) if chunk.offset > self.order.next());
            if is_beyond {
                break End::Later;
            }
            match chunks.next(usize::MAX) {
                Ok(Some(chunk)) => self.order.add(chunk.offset, chunk.bytes),
                Ok(None) => break End::Now,
                Err(ReadError::Blocked) => break End::Later,
                Err(ReadError::Reset(_)) => break End::Broken,
            }
        };
        // What is to be told of the flow control leaves with the next packets.
        let _ = chunks.finalize();
        end
    }

    /// Takes as many chunks as are written at once, of those that are in order.
    fn fill(&mut self) {
        while self.incoming.len() < CHUNKS
            && let Some(chunk) = self.order.take()
        {
            self.incoming.push(chunk);
        }
    }

    /// Writes what was received to the local socket; returns the number of bytes.
    fn write(&mut self) -> io::Result<usize> {
        let slices: Vec<IoSlice<'_>> = self.incoming.iter().map(|chunk| IoSlice::new(chunk)).collect();
        let count = loop {
            match (&self.socket).write_vectored(&slices) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                written => break written?,
            }
        };
        let mut left = count;
        let mut whole = 0;
        for chunk in &mut self.incoming {
            if chunk.len() > left {
                chunk.advance(left);
                break;
            }
            left -= chunk.len();
            whole += 1;
        }
        self.incoming.drain(..whole);
        Ok(count)
    }
}

/// What happens after the program has closed its end, or both directions of it have ended.
struct Gone {
    since: Instant,
    /// Time at which packets of the connection were last seen to arrive, and their number.
    progressed: Instant,
    delivered: u64,
}

/// How far a stream has been received.
enum End {
    /// There may be more.
    Not,
    /// There is no more now.
    Later,
    /// That was all.
    Now,
    /// The other end has given up.
    Broken,
}
