//! Measurements of processor time on loopback: rounds in which each contender runs once, and the
//! two ends of a flow of zeros in this process.

use std::io::{self, Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddrV4, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Sender;

use icdc_packet::clock;
use icdc_units::{ByteCount, Span, Time};
use rustix::thread::{Pid, gettid};

use crate::harness::bench::Bench;
use crate::harness::error::ExperimentError;
use crate::harness::repetition::calm;

/// Bytes of one write or read.
pub(crate) const PIECE: usize = 128 << 10;
/// Address on loopback at which the kernel chooses the port.
pub(crate) const ANY_PORT: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0);

/// Runs each contender once per round, in rotating order; returns the results of each.
pub(crate) fn in_turns<C: Copy, T>(
    bench: &Bench<'_>,
    contenders: &[C],
    runs: u64,
    name: impl Fn(C) -> String,
    measure: impl Fn(C) -> Result<T, ExperimentError>,
) -> Result<Vec<Vec<T>>, ExperimentError> {
    let mut turns: Vec<Vec<T>> = contenders.iter().map(|_| Vec::new()).collect();
    for round in 0..runs as usize {
        for turn in 0..contenders.len() {
            let place = (turn + round) % contenders.len();
            (bench.say)(&format!("{}, round {} of {runs}", name(contenders[place]), round + 1));
            // A disturbance of one of several busy programs stops all of them.
            calm::wait(Span::from_millis(20), bench.patience, bench.say);
            turns[place].push(measure(contenders[place])?);
        }
    }
    Ok(turns)
}

/// Sets a flag when dropped, also on failure.
pub(crate) struct Over<'a>(pub(crate) &'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Sends until `over`; first reports its thread's number.
pub(crate) fn send(mut stream: TcpStream, tell: &Sender<Pid>, over: &AtomicBool) {
    let _ = tell.send(gettid());
    let zeros = vec![0; PIECE];
    // Writing fails once the reader has ended.
    while !over.load(Ordering::Relaxed) && stream.write_all(&zeros).is_ok() {}
}

/// Reads until `until`; returns the number of bytes.
pub(crate) fn read_until(stream: &mut TcpStream, buffer: &mut [u8], until: Time) -> io::Result<ByteCount> {
    let mut bytes = ByteCount::ZERO;
    while clock::now() < until {
        match stream.read(buffer)? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            count => bytes += ByteCount::from(count),
        }
    }
    Ok(bytes)
}
