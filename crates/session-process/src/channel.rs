//! Messages and descriptors over a Unix socket, between a daemon and a process that it has started.
//!
//! ```text
//! length (4 bytes, little endian; with the descriptor, if there is one) ─ message (postcard)
//! ```
//!
//! Both ends are the same program: a message that cannot be read is a mistake, or an end that
//! somebody else has taken over. It ends the channel.

use std::io::{self, IoSlice, IoSliceMut, Read as _};
use std::mem::MaybeUninit;
use std::net::Shutdown;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use icdc_tcp::clock;
use icdc_units::Span;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags,
};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// Longest message, in bytes: the state of a link has what arrived unread, 1 MiB at most.
const LONGEST: usize = 2 << 20;
/// Time limit for the other end to read: each end reads all the time, so one that does not has been
/// stopped.
const PATIENCE: Span = Span::from_secs(1);

/// Outcome of a receive with a time limit.
pub enum Received<T> {
    /// A message has arrived.
    Message(T),
    /// No message within the time limit.
    Nothing,
    /// The other process has closed the channel.
    End,
}

/// One end of a Unix socket over which a daemon and a process that it has started exchange messages
/// and descriptors.
#[derive(Debug)]
pub struct Channel {
    socket: UnixStream,
    /// Lock by which one message is sent at a time.
    sending: Mutex<()>,
}

impl Channel {
    /// The end of a channel at this socket.
    ///
    /// # Errors
    /// The kernel refuses a system call.
    pub fn new(socket: UnixStream) -> io::Result<Self> {
        socket.set_write_timeout(Some(PATIENCE.into()))?;
        Ok(Self { socket, sending: Mutex::default() })
    }

    /// A new channel: this end, and the socket for the other one.
    ///
    /// # Errors
    /// The kernel refuses a system call.
    pub fn pair() -> io::Result<(Self, UnixStream)> {
        let (near, far) = UnixStream::pair()?;
        Ok((Self::new(near)?, far))
    }

    /// Sends a message, and a descriptor with it. A message that the other end does not take in
    /// time ends the channel.
    ///
    /// # Errors
    /// The kernel refuses a system call.
    pub fn send(&self, message: &impl Serialize, descriptor: Option<BorrowedFd<'_>>) -> io::Result<()> {
        let frame = frame(message)?;
        let _turn = self.sending.lock().unwrap_or_else(PoisonError::into_inner);
        let deadline = clock::now() + PATIENCE;
        let mut sent = self.send_some(&frame, descriptor, SendFlags::NOSIGNAL);
        while let Ok(count) = sent
            && count < frame.len()
        {
            sent = match clock::now() < deadline {
                true => self.send_some(&frame[count..], None, SendFlags::NOSIGNAL).map(|more| count + more),
                false => Err(io::ErrorKind::TimedOut.into()),
            };
        }
        sent.map(drop).inspect_err(|_| self.close())
    }

    /// Sends like [`send`](Self::send), but does not wait: for threads that others depend on. If
    /// the other end does not take the message at once, the channel ends.
    ///
    /// # Errors
    /// The kernel refuses a system call.
    pub fn send_at_once(&self, message: &impl Serialize, descriptor: Option<BorrowedFd<'_>>) -> io::Result<()> {
        let frame = frame(message)?;
        let sent = match self.sending.try_lock() {
            Ok(_turn) => self.send_some(&frame, descriptor, SendFlags::NOSIGNAL | SendFlags::DONTWAIT),
            Err(_) => Err(io::ErrorKind::WouldBlock.into()),
        };
        let whole = match sent {
            Ok(count) if count == frame.len() => Ok(()),
            Ok(_) => Err(io::ErrorKind::WouldBlock.into()),
            Err(error) => Err(error),
        };
        whole.inspect_err(|_| self.close())
    }

    /// Sends what the socket takes, with the descriptor; returns the number of bytes sent.
    fn send_some(&self, bytes: &[u8], descriptor: Option<BorrowedFd<'_>>, flags: SendFlags) -> io::Result<usize> {
        let descriptors: Vec<BorrowedFd<'_>> = descriptor.into_iter().collect();
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        if !descriptors.is_empty() {
            ancillary.push(SendAncillaryMessage::ScmRights(&descriptors));
        }
        loop {
            // The descriptor goes with the first byte.
            match rustix::net::sendmsg(&self.socket, &[IoSlice::new(bytes)], &mut ancillary, flags) {
                Err(rustix::io::Errno::INTR) => {}
                sent => return Ok(sent?),
            }
        }
    }

    /// Receives the next message, with the descriptor that came with it; `None` at the end of the
    /// channel.
    pub fn receive<T: DeserializeOwned>(&self) -> io::Result<Option<(T, Option<OwnedFd>)>> {
        let Some((length, descriptor)) = self.receive_length()? else { return Ok(None) };
        if length > LONGEST {
            return Err(io::Error::other("a message of the other process is too long"));
        }
        let mut body = vec![0; length];
        (&self.socket).read_exact(&mut body)?;
        Ok(Some((postcard::from_bytes(&body).map_err(io::Error::other)?, descriptor)))
    }

    /// Receives the next message like [`receive`](Self::receive), but waits for at most `patience`.
    ///
    /// # Errors
    /// The kernel refuses a system call.
    pub fn receive_within<T: DeserializeOwned>(&self, patience: Duration) -> io::Result<Received<T>> {
        let mut watched = [PollFd::new(&self.socket, PollFlags::IN)];
        match poll(&mut watched, Timespec::try_from(patience).ok().as_ref()) {
            Ok(0) | Err(rustix::io::Errno::INTR) => return Ok(Received::Nothing),
            Ok(_) => {}
            Err(errno) => return Err(errno.into()),
        }
        // The rest of a message follows its beginning at once.
        self.socket.set_read_timeout(Some(PATIENCE.into()))?;
        Ok(self.receive()?.map_or(Received::End, |(message, _)| Received::Message(message)))
    }

    /// Receives the length of the next message, with a descriptor; `None` at the end of the
    /// channel.
    fn receive_length(&self) -> io::Result<Option<(usize, Option<OwnedFd>)>> {
        let mut length = [0; 4];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let received = loop {
            let slice = &mut [IoSliceMut::new(&mut length)];
            match rustix::net::recvmsg(&self.socket, slice, &mut ancillary, RecvFlags::CMSG_CLOEXEC) {
                Err(rustix::io::Errno::INTR) => {}
                Err(errno) => return Err(errno.into()),
                Ok(received) => break received.bytes,
            }
        };
        if received == 0 {
            return Ok(None);
        }
        let descriptors = ancillary.drain().filter_map(|message| match message {
            RecvAncillaryMessage::ScmRights(descriptors) => Some(descriptors),
            _ => None,
        });
        let descriptor = descriptors.flatten().next();
        (&self.socket).read_exact(&mut length[received..])?;
        Ok(Some((u32::from_le_bytes(length) as usize, descriptor)))
    }

    /// Ends the channel: whoever waits at either end is told.
    pub fn close(&self) {
        // It fails if the other end was faster.
        let _ = self.socket.shutdown(Shutdown::Both);
    }

    /// Sets the time limit of [`receive`](Self::receive); by default it waits for ever.
    ///
    /// # Errors
    /// The kernel refuses a system call.
    pub fn set_patience(&self, patience: Duration) -> io::Result<()> {
        self.socket.set_read_timeout(Some(patience))
    }
}

/// Encodes a message, preceded by its length.
fn frame(message: &impl Serialize) -> io::Result<Vec<u8>> {
    let frame = postcard::to_extend(message, vec![0; 4]).map_err(io::Error::other)?;
    let length = frame.len() - 4;
    if length > LONGEST {
        return Err(io::Error::other("the message is too long"));
    }
    let mut frame = frame;
    frame[..4].copy_from_slice(&(length as u32).to_le_bytes());
    Ok(frame)
}

impl AsFd for Channel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::Write as _;

    use super::*;

    fn pair() -> (Channel, Channel) {
        let (near, far) = Channel::pair().unwrap();
        (near, Channel::new(far).unwrap())
    }

    #[test]
    fn messages_and_descriptors_arrive_in_order() {
        let (near, far) = pair();
        let file = tempfile::tempfile().unwrap();
        let sending = std::thread::spawn(move || {
            near.send(&vec![7_u8; 1 << 20], None).unwrap();
            near.send(&"with a file", Some(file.as_fd())).unwrap();
            near.send(&"without", None).unwrap();
        });
        let (long, none): (Vec<u8>, _) = far.receive().unwrap().unwrap();
        assert!(long == vec![7; 1 << 20] && none.is_none());
        let (text, descriptor): (String, _) = far.receive().unwrap().unwrap();
        assert_eq!(text, "with a file");
        File::from(descriptor.unwrap()).write_all(b"x").unwrap();
        let (text, descriptor): (String, _) = far.receive().unwrap().unwrap();
        assert!(text == "without" && descriptor.is_none());
        sending.join().unwrap();
        assert!(far.receive::<String>().unwrap().is_none(), "the end");
    }

    #[test]
    fn what_is_no_message_is_an_error_and_costs_no_memory() {
        let (near, mut far) = Channel::pair().unwrap();
        far.write_all(&u32::MAX.to_le_bytes()).unwrap();
        assert!(near.receive::<String>().is_err());
        let (near, mut far) = Channel::pair().unwrap();
        far.write_all(&[1, 0, 0, 0, 9]).unwrap();
        assert!(near.receive::<String>().is_err(), "a text of nine bytes of which none is there");
        let (near, mut far) = Channel::pair().unwrap();
        far.write_all(&[1, 0]).unwrap();
        drop(far);
        assert!(near.receive::<String>().is_err(), "half a length");
    }

    #[test]
    fn an_end_that_reads_nothing_ends_the_channel() {
        let (near, _far) = Channel::pair().unwrap();
        while near.send(&vec![0_u8; 1 << 20], None).is_ok() {}
        assert!(near.receive::<String>().unwrap().is_none());
    }

    #[test]
    fn what_must_not_wait_ends_the_channel_instead() {
        let (near, far) = pair();
        near.send_at_once(&"at once", None).unwrap();
        assert_eq!(far.receive::<String>().unwrap().unwrap().0, "at once");
        let (near, _far) = pair();
        while near.send_at_once(&vec![0_u8; 1 << 16], None).is_ok() {}
        assert!(near.receive::<String>().unwrap().is_none());
    }
}
