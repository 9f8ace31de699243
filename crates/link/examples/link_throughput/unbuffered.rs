//! rustls' unbuffered connections: records are encrypted into one buffer for each write, and
//! decrypted in the buffer of the reads.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::thread;

use icdc_disk::pool::{BLOCK_SIZE, Block, BlockPool};
use rustls::client::{ClientConnectionData, UnbufferedClientConnection};
use rustls::server::{ServerConnectionData, UnbufferedServerConnection};
use rustls::unbuffered::{ConnectionState, EncodeError, UnbufferedStatus};

use super::{Ends, Failure, Half, READ, WRITE, filled_pool, head};

/// Room for the records of one write and of a head.
const OUT: usize = WRITE + (64 << 10);

pub(super) fn halves(ends: Ends, blocks: u32) -> Result<(Half, Half), Failure> {
    let Ends { near, far, client, server } = ends;
    let accepting = thread::spawn(move || Receiver::accept(UnbufferedServerConnection::new(server)?, far));
    let mut socket = near;
    let mut sender = UnbufferedClientConnection::new(client, icdc_trust::server_name())?;
    let rest = shake(&mut sender, &mut socket)?;
    let mut receiver = accepting.join().map_err(|_| "the accepting thread panicked")??;
    let pool = filled_pool()?;
    let send = move || {
        assert!(rest.is_empty(), "the receiving end has sent nothing more");
        let mut out = vec![0; OUT];
        for index in 0..blocks {
            let block = pool.take()?;
            let mut filled = encrypt(&mut sender, &head(index)?, &mut out)?;
            for piece in block[..BLOCK_SIZE].chunks(WRITE) {
                filled += encrypt(&mut sender, piece, &mut out[filled..])?;
                socket.write_all(&out[..filled])?;
                filled = 0;
            }
        }
        let UnbufferedStatus { state: Ok(ConnectionState::WriteTraffic(mut traffic)), .. } =
            sender.process_tls_records(&mut [])
        else {
            return Err("no traffic can be sent".into());
        };
        let length = traffic.queue_close_notify(&mut out)?;
        Ok(socket.write_all(&out[..length])?)
    };
    let receive = move || receiver.receive(blocks);
    Ok((Box::new(send), Box::new(receive)))
}

fn encrypt(sender: &mut UnbufferedClientConnection, data: &[u8], out: &mut [u8]) -> Result<usize, Failure> {
    match sender.process_tls_records(&mut []).state? {
        ConnectionState::WriteTraffic(mut traffic) => Ok(traffic.encrypt(data, out)?),
        other => Err(format!("{other:?} where traffic is sent").into()),
    }
}

struct Receiver {
    connection: UnbufferedServerConnection,
    socket: TcpStream,
    buffer: Vec<u8>,
    filled: usize,
}

impl Receiver {
    fn accept(mut connection: UnbufferedServerConnection, mut socket: TcpStream) -> Result<Self, Failure> {
        let mut buffer = shake(&mut connection, &mut socket)?;
        let filled = buffer.len();
        buffer.resize(READ, 0);
        Ok(Self { connection, socket, buffer, filled })
    }

    fn receive(&mut self, blocks: u32) -> Result<(), Failure> {
        let mut arrival = Arrival { pool: BlockPool::new(8)?, index: 0, head: 0, block: None };
        loop {
            let mut used = 0;
            let mut is_closed = false;
            while used < self.filled {
                let UnbufferedStatus { discard, state } =
                    self.connection.process_tls_records(&mut self.buffer[used..self.filled]);
                let mut discard = discard;
                match state? {
                    ConnectionState::ReadTraffic(mut traffic) => {
                        while let Some(record) = traffic.next_record() {
                            let record = record?;
                            discard += record.discard;
                            arrival.take(record.payload)?;
                        }
                    }
                    ConnectionState::PeerClosed | ConnectionState::Closed => is_closed = true,
                    _ => {}
                }
                used += discard;
                if discard == 0 {
                    break;
                }
            }
            self.buffer.copy_within(used..self.filled, 0);
            self.filled -= used;
            if is_closed && arrival.index == blocks {
                return Ok(());
            }
            match self.socket.read(&mut self.buffer[self.filled..])? {
                0 if arrival.index == blocks => return Ok(()),
                0 => return Err("the stream was cut".into()),
                count => self.filled += count,
            }
        }
    }
}

/// A block that arrives.
struct Arrival {
    pool: BlockPool,
    index: u32,
    /// Number of bytes of its head that have arrived.
    head: usize,
    /// The block, and the number of its bytes that have arrived; `None` before its head is
    /// complete.
    block: Option<(Block, usize)>,
}

impl Arrival {
    fn take(&mut self, mut data: &[u8]) -> Result<(), Failure> {
        while !data.is_empty() {
            let Some((block, filled)) = &mut self.block else {
                let missing = head(self.index)?.len() - self.head;
                let taken = missing.min(data.len());
                self.head += taken;
                data = &data[taken..];
                if taken == missing {
                    self.block = Some((self.pool.take()?, 0));
                }
                continue;
            };
            let taken = data.len().min(BLOCK_SIZE - *filled);
            block[*filled..][..taken].copy_from_slice(&data[..taken]);
            *filled += taken;
            data = &data[taken..];
            if *filled == BLOCK_SIZE {
                (self.block, self.head) = (None, 0);
                self.index += 1;
            }
        }
        Ok(())
    }
}

/// Runs the handshake; returns the bytes that arrived behind it.
fn shake<C: Party>(connection: &mut C, socket: &mut TcpStream) -> Result<Vec<u8>, Failure> {
    let mut incoming = Vec::new();
    let mut outgoing = Vec::new();
    loop {
        let UnbufferedStatus { discard, state } = connection.process(&mut incoming);
        let mut is_complete = false;
        let mut is_starved = false;
        match state? {
            ConnectionState::EncodeTlsData(mut data) => {
                let start = outgoing.len();
                if let Err(EncodeError::InsufficientSize(needed)) = data.encode(&mut []) {
                    outgoing.resize(start + needed.required_size, 0);
                    data.encode(&mut outgoing[start..])?;
                }
            }
            ConnectionState::TransmitTlsData(data) => {
                socket.write_all(&outgoing)?;
                outgoing.clear();
                data.done();
            }
            ConnectionState::BlockedHandshake => is_starved = true,
            ConnectionState::WriteTraffic(_) => is_complete = true,
            other => return Err(format!("{other:?} within a handshake").into()),
        }
        incoming.drain(..discard);
        if is_complete {
            return Ok(incoming);
        }
        if is_starved {
            let mut chunk = [0; 4096];
            let count = socket.read(&mut chunk)?;
            incoming.extend_from_slice(&chunk[..count]);
        }
    }
}

/// One side of a handshake.
trait Party {
    type Data;

    fn process<'c, 'i>(&'c mut self, incoming: &'i mut [u8]) -> UnbufferedStatus<'c, 'i, Self::Data>;
}

impl Party for UnbufferedClientConnection {
    type Data = ClientConnectionData;

    fn process<'c, 'i>(&'c mut self, incoming: &'i mut [u8]) -> UnbufferedStatus<'c, 'i, Self::Data> {
        self.process_tls_records(incoming)
    }
}

impl Party for UnbufferedServerConnection {
    type Data = ServerConnectionData;

    fn process<'c, 'i>(&'c mut self, incoming: &'i mut [u8]) -> UnbufferedStatus<'c, 'i, Self::Data> {
        self.process_tls_records(incoming)
    }
}
