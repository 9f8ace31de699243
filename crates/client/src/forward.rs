//! A far end that only forwards: its standard streams and a connection to a far end on the same
//! host become one stream of bytes.
//!
//! The bytes are encrypted from end to end and are not inspected. The end of one direction is
//! passed on; the process ends when both directions have, or soon after the far end's. The
//! session's own messages decide whether it has ended properly: the end that closes first may leave
//! data of the other unread, for which TCP reports a reset.

use std::fs::File;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Ipv6Addr, Shutdown, SocketAddr, TcpStream};
use std::os::fd::OwnedFd;
use std::sync::Arc;

use crossbeam_channel::unbounded;
use icdc_stop::StopSignal;
use icdc_tcp::Family;
use icdc_units::Span;

/// Maximum number of bytes of one read; a pipe to sshd holds 64 KiB.
const CHUNK: usize = 256 << 10;
/// Size of a read in bytes that counts as bulk data; after a smaller one the forwarder waits for
/// [`GATHER_TIME`], so that this process, sshd and the far end are not woken for each packet.
const BULK_READ: usize = 16 << 10;
/// Time for which the forwarder waits after a small read, so that more bytes gather.
const GATHER_TIME: Span = Span::from_millis(2);
/// Payload of a packet, in bytes: a shorter read is a message or the end of one, and is not
/// delayed.
const PACKET: usize = 1400;
/// Time limit for the starting end to end its direction after the far end has.
const CLOSE_TIMEOUT: Span = Span::from_secs(5);

/// Connects to the far end that listens on `port` of this host.
///
/// # Errors
/// The kernel refuses a system call.
pub fn connect(port: u16, family: Family) -> io::Result<TcpStream> {
    let stream = match family {
        Family::Any | Family::V4 => TcpStream::connect((Ipv4Addr::LOCALHOST, port)),
        Family::V6 => TcpStream::connect(SocketAddr::from((Ipv6Addr::LOCALHOST, port))),
    }?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

/// Event that ends forwarding.
enum Ending {
    /// Copying to the far end has ended, with this result.
    ToFarEnd(io::Result<()>),
    /// Copying from the far end has ended, with this result.
    FromFarEnd(io::Result<()>),
    /// The user asked to stop.
    Stopped,
}

/// Copies bytes from `stdin` to `stream` and from `stream` to `stdout` until both directions have
/// ended, the time limit after the end of the far end's has passed, or `stop` is requested. The
/// caller must end the process: a thread may still be reading.
///
/// # Errors
/// The kernel refuses a system call.
pub fn run(stdin: OwnedFd, stdout: OwnedFd, stream: TcpStream, stop: &StopSignal) -> io::Result<()> {
    let (mut stdin, mut stdout) = (File::from(stdin), File::from(stdout));
    let stream = Arc::new(stream);
    let (tell, endings) = unbounded();
    let there = (Arc::clone(&stream), tell.clone(), stop.clone());
    std::thread::Builder::new().name("there".into()).spawn(move || {
        let (stream, tell, asked) = there;
        let forwarded = pass_on(&mut stdin, &mut &*stream, &asked);
        // It fails if the far end was faster.
        let _ = stream.shutdown(Shutdown::Write);
        let _ = tell.send(Ending::ToFarEnd(forwarded));
    })?;
    let back = (Arc::clone(&stream), tell.clone(), stop.clone());
    std::thread::Builder::new().name("back".into()).spawn(move || {
        let (stream, tell, asked) = back;
        let forwarded = pass_on(&mut &*stream, &mut stdout, &asked);
        // This ends the input of the starting end.
        drop(stdout);
        let _ = tell.send(Ending::FromFarEnd(forwarded));
    })?;
    stop.on_request(move || {
        let _ = tell.send(Ending::Stopped);
    });
    let first = endings.recv();
    let second = match first {
        Ok(Ending::FromFarEnd(Ok(()))) => endings.recv_timeout(CLOSE_TIMEOUT.into()).ok(),
        // It fails if the far end closed first, whose last data is still to come.
        Ok(Ending::ToFarEnd(_)) => endings.recv().ok(),
        _ => None,
    };
    // Neither direction is needed any more.
    let _ = stream.shutdown(Shutdown::Both);
    [first.ok(), second].into_iter().flatten().try_for_each(|ending| match ending {
        Ending::ToFarEnd(Err(error)) | Ending::FromFarEnd(Err(error)) if is_of_an_end(&error) => Ok(()),
        Ending::ToFarEnd(forwarded) | Ending::FromFarEnd(forwarded) => forwarded,
        Ending::Stopped => Ok(()),
    })
}

/// Whether the error means that the peer of a read or write has ended.
fn is_of_an_end(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe)
}

/// Copies bytes until the end of the input, with a short delay after small reads.
fn pass_on(from: &mut impl Read, to: &mut impl Write, stop: &StopSignal) -> io::Result<()> {
    let mut buffer = vec![0; CHUNK];
    loop {
        match from.read(&mut buffer) {
            Ok(0) => return Ok(()),
            Ok(count) => {
                to.write_all(&buffer[..count])?;
                if (PACKET..BULK_READ).contains(&count) {
                    // After a request to stop the caller ends the process.
                    let _ = stop.wait(GATHER_TIME);
                }
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use icdc_tcp::clock;

    use super::*;

    /// Forwards to a far end of which `far` gets the connection, from a starting end that neither
    /// sends nor leaves. Returns how long that took.
    fn forwarding(stop: &StopSignal, far: impl FnOnce(TcpStream)) -> Span {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let stream = connect(listener.local_addr().unwrap().port(), Family::V4).unwrap();
        let (stdin, _starting_end) = rustix::pipe::pipe().unwrap();
        let (_output, stdout) = rustix::pipe::pipe().unwrap();
        far(listener.accept().unwrap().0);
        let begun = clock::now();
        run(stdin, stdout, stream, stop).unwrap();
        clock::now() - begun
    }

    #[test]
    fn it_ends_soon_after_the_far_end() {
        let took = forwarding(&StopSignal::new(), drop);
        assert!(took >= CLOSE_TIMEOUT && took < CLOSE_TIMEOUT * 4, "{took}");
    }

    #[test]
    fn a_far_end_that_leaves_words_unread_has_ended_no_less() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let stream = connect(listener.local_addr().unwrap().port(), Family::V4).unwrap();
        let (stdin, starting_end) = rustix::pipe::pipe().unwrap();
        let (output, stdout) = rustix::pipe::pipe().unwrap();
        let far = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            stream.write_all(b"the last words").unwrap();
            // Closing with something unread resets the connection.
            stream.peek(&mut [0]).unwrap();
        });
        File::from(starting_end).write_all(b"unread").unwrap();
        run(stdin, stdout, stream, &StopSignal::new()).unwrap();
        far.join().unwrap();
        let mut heard = String::new();
        File::from(output).read_to_string(&mut heard).unwrap();
        assert_eq!(heard, "the last words");
    }

    #[test]
    fn it_ends_when_it_is_asked_to() {
        let stop = StopSignal::new();
        let mut held = None;
        stop.request();
        assert!(forwarding(&stop, |stream| held = Some(stream)) < CLOSE_TIMEOUT);
    }
}
