//! Reads and writes of a socket that never blocks, with its readiness.

use std::io::{self, Read, Write};
use std::net::TcpStream;

/// Outcome of a read from a leg.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Received {
    /// This number of bytes was read.
    Bytes(usize),
    /// The other end has shut its direction down.
    End,
    /// There is nothing to read at present.
    WouldBlock,
}

/// Reads once; clears `readable` when there is nothing.
pub(super) fn read_from(mut socket: &TcpStream, into: &mut [u8], readable: &mut bool) -> io::Result<Received> {
    if !*readable {
        return Ok(Received::WouldBlock);
    }
    match retried(|| socket.read(into)) {
        Ok(0) => Ok(Received::End),
        Ok(count) => Ok(Received::Bytes(count)),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
            *readable = false;
            Ok(Received::WouldBlock)
        }
        Err(error) => Err(error),
    }
}

/// Writes once and returns the bytes taken; clears `writable` when there is no space.
pub(super) fn write_to(mut socket: &TcpStream, bytes: &[u8], writable: &mut bool) -> io::Result<usize> {
    if !*writable || bytes.is_empty() {
        return Ok(0);
    }
    match retried(|| socket.write(bytes)) {
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
            *writable = false;
            Ok(0)
        }
        outcome => outcome,
    }
}

/// Repeats a call that a signal has interrupted.
pub(super) fn retried<T>(mut call: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    loop {
        match call() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            outcome => return outcome,
        }
    }
}
