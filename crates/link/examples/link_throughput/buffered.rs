//! rustls' buffered connections: plaintext through `writer` and `reader`.
//!
//! A writer gets as much at once as icdc writes; the socket is read in large pieces, because rustls
//! reads 4 KiB at a time.

use std::io::{self, BufReader, Read, Write};
use std::net::TcpStream;
use std::ops::DerefMut;
use std::thread;

use icdc_disk::pool::{BLOCK_SIZE, BlockPool};
use rustls::{ClientConnection, ConnectionCommon, ServerConnection, SideData};

use super::{Ends, Failure, Half, READ, WRITE, filled_pool, head};

pub(super) fn halves(ends: Ends, blocks: u32) -> Result<(Half, Half), Failure> {
    let Ends { mut near, far, client, server } = ends;
    let accepting = thread::spawn(move || shake(ServerConnection::new(server)?, far));
    let mut sender = ClientConnection::new(client, icdc_trust::server_name())?;
    while sender.is_handshaking() {
        sender.complete_io(&mut near)?;
    }
    flush(&mut sender, &mut near)?;
    let mut receiver = accepting.join().map_err(|_| "the accepting thread panicked")??;
    let pool = filled_pool()?;
    let send = move || {
        sender.set_buffer_limit(None);
        for index in 0..blocks {
            let block = pool.take()?;
            sender.writer().write_all(&head(index)?)?;
            for piece in block[..BLOCK_SIZE].chunks(WRITE) {
                sender.writer().write_all(piece)?;
                flush(&mut sender, &mut near)?;
            }
        }
        sender.send_close_notify();
        flush(&mut sender, &mut near)
    };
    let receive = move || {
        let pool = BlockPool::new(8)?;
        for index in 0..blocks {
            let mut block = pool.take()?;
            let mut head = head(index)?;
            receiver.read_exact(&mut head)?;
            receiver.read_exact(&mut block[..BLOCK_SIZE])?;
        }
        match receiver.read(&mut [0])? {
            0 => Ok(()),
            _ => Err("more than was sent".into()),
        }
    };
    Ok((Box::new(send), Box::new(receive)))
}

fn shake(mut connection: ServerConnection, mut socket: TcpStream) -> Result<Receiver, Failure> {
    while connection.is_handshaking() {
        connection.complete_io(&mut socket)?;
    }
    flush(&mut connection, &mut socket)?;
    Ok(Receiver { connection, socket: BufReader::with_capacity(READ, socket) })
}

fn flush<C, S>(connection: &mut C, socket: &mut TcpStream) -> Result<(), Failure>
where
    C: DerefMut<Target = ConnectionCommon<S>>,
    S: SideData,
{
    while connection.wants_write() {
        connection.write_tls(socket)?;
    }
    Ok(())
}

struct Receiver {
    connection: ServerConnection,
    socket: BufReader<TcpStream>,
}

impl Read for Receiver {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.connection.reader().read(out) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.connection.read_tls(&mut self.socket)?;
                    self.connection.process_new_packets().map_err(io::Error::other)?;
                }
                read => return read,
            }
        }
    }
}
