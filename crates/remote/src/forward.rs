//! A far end that only forwards: its standard streams and a connection to a far end on the same
//! host become one stream of bytes.
//!
//! What passes is encrypted from end to end; nothing is looked at. An end of one direction is
//! passed on; the process ends when both have.

use std::fs::File;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Ipv6Addr, Shutdown, SocketAddr, TcpStream};
use std::os::fd::OwnedFd;

use icdc_tcp::Family;

/// Most bytes of one read: what a pipe to sshd holds is 64 KiB.
const CHUNK: usize = 256 << 10;

/// Connects to the far end that listens on `port` of this host.
pub(crate) fn connect(port: u16, family: Family) -> io::Result<TcpStream> {
    let stream = match family {
        Family::Any | Family::V4 => TcpStream::connect((Ipv4Addr::LOCALHOST, port)),
        Family::V6 => TcpStream::connect(SocketAddr::from((Ipv6Addr::LOCALHOST, port))),
    }?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

/// Forwards until both directions have ended.
pub(crate) fn run(stdin: OwnedFd, stdout: OwnedFd, stream: &TcpStream) -> io::Result<()> {
    let (mut stdin, mut stdout) = (File::from(stdin), File::from(stdout));
    std::thread::scope(|scope| {
        let there = std::thread::Builder::new().name("forward".into()).spawn_scoped(scope, move || {
            let forwarded = pass_on(&mut stdin, &mut &*stream);
            // It fails if the far end was faster.
            let _ = stream.shutdown(Shutdown::Write);
            forwarded
        })?;
        let back = pass_on(&mut &*stream, &mut stdout);
        // The starting end reads to here.
        drop(stdout);
        if back.is_err() {
            // Nobody reads any more, so nobody writes either.
            let _ = stream.shutdown(Shutdown::Both);
            return back;
        }
        there.join().expect("forwarding does not panic")
    })
}

/// Passes bytes on up to the end of them, as they come.
fn pass_on(from: &mut impl Read, to: &mut impl Write) -> io::Result<()> {
    let mut buffer = vec![0; CHUNK];
    loop {
        match from.read(&mut buffer) {
            Ok(0) => return Ok(()),
            Ok(count) => to.write_all(&buffer[..count])?,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}
