//! A far end that only forwards: its standard streams and a connection to a far end on the same
//! host become one stream of bytes.
//!
//! What passes is encrypted from end to end; nothing is looked at. An end of one direction is
//! passed on; the process ends when both have, or soon after the far end's. Whether that was the end
//! of the session is for those to say whose it is: who ends first leaves words of the other unread,
//! and TCP then tells of a reset.

use std::fs::File;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Ipv6Addr, Shutdown, SocketAddr, TcpStream};
use std::os::fd::OwnedFd;
use std::sync::Arc;

use crossbeam_channel::unbounded;
use icdc_stop::StopSignal;
use icdc_tcp::Family;
use icdc_units::Span;

/// Most bytes of one read: what a pipe to sshd holds is 64 KiB.
const CHUNK: usize = 256 << 10;
/// What is read at a time where much flows, and how long is waited for more where less does: so that
/// this process, sshd and the far end are not woken for each packet of a connection on a long path.
const MUCH: usize = 16 << 10;
const GATHERING: Span = Span::from_millis(2);
/// A packet's payload: who sends less sends a message, or its end.
const PACKET: usize = 1400;
/// How long the starting end may take to end its direction after the far end has.
const FAREWELL: Span = Span::from_secs(5);

/// Connects to the far end that listens on `port` of this host.
pub fn connect(port: u16, family: Family) -> io::Result<TcpStream> {
    let stream = match family {
        Family::Any | Family::V4 => TcpStream::connect((Ipv4Addr::LOCALHOST, port)),
        Family::V6 => TcpStream::connect(SocketAddr::from((Ipv6Addr::LOCALHOST, port))),
    }?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

/// What ends forwarding.
enum Ending {
    There(io::Result<()>),
    Back(io::Result<()>),
    Asked,
}

/// Forwards until both directions have ended, the far end's has and the other one does not follow,
/// or somebody asks to stop. The caller ends the process: a thread may still wait for input.
pub fn run(stdin: OwnedFd, stdout: OwnedFd, stream: TcpStream, stop: &StopSignal) -> io::Result<()> {
    let (mut stdin, mut stdout) = (File::from(stdin), File::from(stdout));
    let stream = Arc::new(stream);
    let (tell, told) = unbounded();
    let there = (Arc::clone(&stream), tell.clone(), stop.clone());
    std::thread::Builder::new().name("there".into()).spawn(move || {
        let (stream, tell, asked) = there;
        let forwarded = pass_on(&mut stdin, &mut &*stream, &asked);
        // It fails if the far end was faster.
        let _ = stream.shutdown(Shutdown::Write);
        let _ = tell.send(Ending::There(forwarded));
    })?;
    let back = (Arc::clone(&stream), tell.clone(), stop.clone());
    std::thread::Builder::new().name("back".into()).spawn(move || {
        let (stream, tell, asked) = back;
        let forwarded = pass_on(&mut &*stream, &mut stdout, &asked);
        // The starting end reads to here.
        drop(stdout);
        let _ = tell.send(Ending::Back(forwarded));
    })?;
    stop.on_request(move || {
        let _ = tell.send(Ending::Asked);
    });
    let first = told.recv();
    let second = match first {
        Ok(Ending::Back(Ok(()))) => told.recv_timeout(FAREWELL.into()).ok(),
        // It fails if the far end was faster, whose last words are on their way back.
        Ok(Ending::There(_)) => told.recv().ok(),
        _ => None,
    };
    // Nobody reads any more, so nobody writes either.
    let _ = stream.shutdown(Shutdown::Both);
    [first.ok(), second].into_iter().flatten().try_for_each(|ending| match ending {
        Ending::There(Err(error)) | Ending::Back(Err(error)) if is_of_an_end(&error) => Ok(()),
        Ending::There(forwarded) | Ending::Back(forwarded) => forwarded,
        Ending::Asked => Ok(()),
    })
}

/// Whether whoever was read from or written to has ended.
fn is_of_an_end(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe)
}

/// Passes bytes on up to the end of them, as they come; gathers them a little where they come in
/// small pieces.
fn pass_on(from: &mut impl Read, to: &mut impl Write, stop: &StopSignal) -> io::Result<()> {
    let mut buffer = vec![0; CHUNK];
    loop {
        match from.read(&mut buffer) {
            Ok(0) => return Ok(()),
            Ok(count) => {
                to.write_all(&buffer[..count])?;
                if (PACKET..MUCH).contains(&count) {
                    // Whoever has asked to stop ends the process.
                    let _ = stop.wait(GATHERING);
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
        assert!(took >= FAREWELL && took < FAREWELL * 4, "{took}");
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
        assert!(forwarding(&stop, |stream| held = Some(stream)) < FAREWELL);
    }
}
