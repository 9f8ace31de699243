//! The two ends of a flow of zeros on loopback, in this process.

use std::io::{self, Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddrV4, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Sender;

use icdc_packet::clock;
use icdc_units::{ByteCount, Time};
use rustix::thread::{Pid, gettid};

/// What a program writes and reads at a time.
pub(super) const PIECE: usize = 128 << 10;
/// Any port.
pub(super) const ANY_PORT: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0);

/// Says that it is over, also if it failed.
pub(super) struct Over<'a>(pub(super) &'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Sends until it is over; tells its thread before.
pub(super) fn send(mut stream: TcpStream, tell: &Sender<Pid>, over: &AtomicBool) {
    let _ = tell.send(gettid());
    let zeros = vec![0; PIECE];
    // Nobody reads any more when it is over, and then it ends.
    while !over.load(Ordering::Relaxed) && stream.write_all(&zeros).is_ok() {}
}

/// Reads until then; gives how much came.
pub(super) fn read_until(stream: &mut TcpStream, buffer: &mut [u8], until: Time) -> io::Result<ByteCount> {
    let mut bytes = ByteCount::ZERO;
    while clock::now() < until {
        match stream.read(buffer)? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            count => bytes += ByteCount::from(count),
        }
    }
    Ok(bytes)
}
