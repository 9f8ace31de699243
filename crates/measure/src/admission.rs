//! Admission of a measurement's data connections: the agreed number, each with the proof that it
//! knows a token from the control link, followed by the run-up (see [`icdc_protocol::measure`]).
//!
//! The data port is open until all have arrived, for [`TIMEOUT`] at most. Up to [`MAX_UNPROVEN`]
//! connections may be waiting to send their proof; those that take longer than [`PROOF_TIMEOUT`],
//! and the oldest when there are too many, are closed without an answer.

use std::io::Read;
use std::net::{TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::time::Duration;

use icdc_protocol::measure::{Proof, Token, proof};
use icdc_session::SessionError;
use icdc_stop::StopSignal;
use icdc_tcp::clock;
use icdc_units::{Span, Time};
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::io::Errno;

use crate::expected::{Arrived, Awaited};
use crate::sockets::local;

/// Time limit for all agreed connections to arrive.
const TIMEOUT: Span = Span::from_secs(30);
/// Time limit for a connection to send its proof.
const PROOF_TIMEOUT: Span = Span::from_secs(10);
/// Maximum number of connections that have not sent their proof yet.
const MAX_UNPROVEN: usize = 128;
/// Pause of accepting when file descriptors are exhausted.
const DESCRIPTORS_PAUSE: Span = Span::from_millis(100);

/// A connection that has not sent its whole proof and run-up yet.
struct Unproven {
    stream: TcpStream,
    received: Vec<u8>,
    /// Number of bytes of the run-up that have arrived.
    run_up: usize,
    deadline: Time,
}

/// Number of bytes of the proof and of the length of the run-up.
const BEGINNING: usize = size_of::<Proof>() + 2;

/// Makes `count` random secret tokens, one for each data connection that is agreed on.
pub(super) fn tokens(count: u8) -> Result<Vec<Token>, SessionError> {
    let token = |_| {
        let mut token = Token::default();
        getrandom::fill(&mut token[..]).map_err(|error| local("random bytes", error))?;
        Ok(token)
    };
    (0..count).map(token).collect()
}

/// Waits for one data connection per token and returns them in the order of the tokens: accepted
/// from `listener`, or delivered by the listener for control links.
pub(super) fn admit(
    listener: Option<&TcpListener>,
    tokens: &[Token],
    awaited: &Awaited,
    stop: &StopSignal,
) -> Result<Vec<TcpStream>, SessionError> {
    if let Some(listener) = listener {
        listener.set_nonblocking(true).map_err(|error| local("fcntl(O_NONBLOCK)", error))?;
    }
    let woken = waker(stop)?;
    let mut admission = Admission {
        proofs: tokens.iter().map(proof).collect(),
        admitted: tokens.iter().map(|_| None).collect(),
        unproven: Vec::new(),
        is_starved: false,
    };
    let deadline = clock::now() + TIMEOUT;
    while let missing @ 1.. = admission.missing() {
        let next = admission.unproven.iter().map(|connection| connection.deadline).fold(deadline, Time::min);
        let next = if admission.is_starved { next.min(clock::now() + DESCRIPTORS_PAUSE) } else { next };
        wait(listener.filter(|_| !admission.is_starved), &admission.unproven, [&woken, &awaited.woken], next)?;
        if stop.is_requested() {
            return Err(SessionError::Interrupted);
        }
        let now = clock::now();
        if now >= deadline {
            let wanted = tokens.len();
            let reason = format!("{missing} of {wanted} data connections did not come within {TIMEOUT}");
            return Err(SessionError::Cut(reason));
        }
        admission.make_room();
        // Nothing to read means that an earlier iteration has read it.
        let _ = rustix::io::read(&awaited.woken, &mut [0; 8]);
        awaited.arrived.try_iter().for_each(|Arrived { stream, said: received }| admission.take(stream, received, now));
        admission.is_starved = listener.is_some_and(|listener| admission.accept(listener, now));
        admission.read_proofs(now)?;
    }
    Ok(admission.admitted.into_iter().flatten().collect())
}

/// The expected connections, and those that have not proved which one they are.
struct Admission {
    /// Proofs that are expected, in the order of the tokens.
    proofs: Vec<Proof>,
    admitted: Vec<Option<TcpStream>>,
    unproven: Vec<Unproven>,
    /// Whether the process had no file descriptors or memory for an accept.
    is_starved: bool,
}

impl Admission {
    /// Number of connections that have not arrived.
    fn missing(&self) -> usize {
        self.admitted.iter().filter(|place| place.is_none()).count()
    }

    /// Closes the oldest quarter of the unproven connections where there are too many. Each was
    /// read from at least once, and so will the next ones be before another is closed.
    fn make_room(&mut self) {
        if self.unproven.len() >= MAX_UNPROVEN {
            self.unproven.drain(..MAX_UNPROVEN / 4);
        }
    }

    /// Adds a new connection, of which `received` has been read, to those that have yet to send
    /// their proof.
    fn take(&mut self, stream: TcpStream, received: Vec<u8>, now: Time) {
        if stream.set_nonblocking(true).is_ok() {
            self.unproven.push(Unproven { stream, received, run_up: 0, deadline: now + PROOF_TIMEOUT });
        }
    }

    /// Accepts waiting connections, while fewer than [`MAX_UNPROVEN`] are unproven; true if file
    /// descriptors or memory were exhausted.
    fn accept(&mut self, listener: &TcpListener, now: Time) -> bool {
        while self.unproven.len() < MAX_UNPROVEN {
            match listener.accept() {
                Ok((stream, _)) => self.take(stream, Vec::new(), now),
                // Errors of a single connection (accept(2)), or a temporary lack of descriptors.
                Err(error) => {
                    return matches!(
                        Errno::from_io_error(&error),
                        Some(Errno::MFILE | Errno::NFILE | Errno::NOMEM | Errno::NOBUFS)
                    );
                }
            }
        }
        false
    }

    /// Reads from unproven connections: admits those whose proof is right, and closes those whose
    /// proof is wrong or late.
    fn read_proofs(&mut self, now: Time) -> Result<(), SessionError> {
        for mut connection in std::mem::take(&mut self.unproven) {
            match connection.read_opening(&self.proofs) {
                Incoming::All(proof) => {
                    let place = proof_index(&self.proofs, &proof);
                    match place.and_then(|place| self.admitted.get_mut(place)) {
                        Some(place @ None) => {
                            let stream = connection.stream;
                            stream.set_nonblocking(false).map_err(|error| local("fcntl(O_NONBLOCK)", error))?;
                            *place = Some(stream);
                        }
                        _ => tracing::info!("a connection to the data port with a wrong proof was closed"),
                    }
                }
                Incoming::Part if connection.deadline > now => self.unproven.push(connection),
                Incoming::Part | Incoming::Nonsense => {
                    tracing::info!("a connection to the data port without a proof was closed")
                }
            }
        }
        Ok(())
    }
}

/// State of reading a connection's opening.
enum Incoming {
    /// Some bytes of the opening are still to come.
    Part,
    /// The opening is complete; this is its proof.
    All(Proof),
    /// The opening is invalid.
    Nonsense,
}

impl Unproven {
    /// Reads the bytes that have arrived, and none after a wrong proof; returns the state.
    fn read_opening(&mut self, proofs: &[Proof]) -> Incoming {
        let mut scrap = [0; 16 << 10];
        loop {
            let missing = match self.received.as_slice().split_first_chunk::<{ size_of::<Proof>() }>() {
                Some((proof, _)) if proof_index(proofs, proof).is_none() => return Incoming::Nonsense,
                Some((proof, &[high, low])) => match usize::from(u16::from_be_bytes([high, low])) - self.run_up {
                    0 => return Incoming::All(*proof),
                    missing => missing,
                },
                _ => BEGINNING - self.received.len(),
            };
            let room = missing.min(scrap.len());
            match self.stream.read(&mut scrap[..room]) {
                Ok(0) => return Incoming::Nonsense,
                Ok(length) if self.received.len() < BEGINNING => self.received.extend_from_slice(&scrap[..length]),
                Ok(length) => self.run_up += length,
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => return Incoming::Part,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(_) => return Incoming::Nonsense,
            }
        }
    }
}

/// Index of the expected proof that equals `received`; `None` if there is none.
fn proof_index(proofs: &[Proof], received: &Proof) -> Option<usize> {
    proofs.iter().position(|known| same(known, received))
}

/// Whether two proofs are equal, compared in constant time.
fn same(known: &Proof, received: &Proof) -> bool {
    known.iter().zip(received).fold(0, |difference, (known, received)| difference | (known ^ received)) == 0
}

/// An eventfd that is readable once a stop is requested.
fn waker(stop: &StopSignal) -> Result<OwnedFd, SessionError> {
    let event = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).map_err(|error| local("eventfd", error))?;
    let teller = event.try_clone().map_err(|error| local("fcntl(F_DUPFD)", error))?;
    stop.on_request(move || {
        let _ = rustix::io::write(&teller, &1_u64.to_ne_bytes());
    });
    Ok(event)
}

/// Waits until a connection can be accepted, an unproven one has sent something, a descriptor of
/// `woken` is readable, or the time `until` has come.
fn wait(
    listener: Option<&TcpListener>,
    unproven: &[Unproven],
    woken: [&OwnedFd; 2],
    until: Time,
) -> Result<(), SessionError> {
    let streams = unproven.iter().map(|connection| PollFd::new(&connection.stream, PollFlags::IN));
    let listener = listener.map(|listener| PollFd::new(listener, PollFlags::IN));
    let woken = woken.map(|woken| PollFd::new(woken, PollFlags::IN));
    let mut watched: Vec<_> = listener.into_iter().chain(woken).chain(streams).collect();
    let timeout = Timespec::try_from(Duration::from(until - clock::now())).ok();
    match poll(&mut watched, timeout.as_ref()) {
        Ok(_) | Err(Errno::INTR) => Ok(()),
        Err(error) => Err(local("poll", error)),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use icdc_protocol::measure::DATA_MAGIC;

    use super::*;
    use crate::expected::Expected;

    #[test]
    fn only_the_right_tokens_are_let_in() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (tokens, expected) = (tokens(2).unwrap(), Expected::default());
        assert_ne!(tokens[0], tokens[1]);
        let admission = std::thread::spawn({
            let (tokens, expected) = (tokens.clone(), expected.clone());
            move || {
                let awaited = expected.register_all(&tokens).unwrap();
                admit(Some(&listener), &tokens, &awaited, &StopSignal::new()).unwrap()
            }
        });
        let _silent: Vec<TcpStream> = (0..2 * MAX_UNPROVEN).map(|_| TcpStream::connect(address).unwrap()).collect();
        let connect = |proof: &[u8], run_up: u16| {
            let mut stream = TcpStream::connect(address).unwrap();
            stream.write_all(&[proof, &run_up.to_be_bytes(), &vec![0; usize::from(run_up)]].concat()).unwrap();
            stream
        };
        let mut wrong = connect(&tokens[0], 3);
        let second = connect(&proof(&tokens[1]), 0);
        let mut again = connect(&proof(&tokens[1]), 0);
        let mut first = connect(&proof(&tokens[0]), 40_000);
        first.write_all(b"data").unwrap();
        let mut admitted = admission.join().unwrap();
        let peers: Vec<_> = admitted.iter().map(|stream| stream.peer_addr().unwrap()).collect();
        assert_eq!(peers, [first.local_addr().unwrap(), second.local_addr().unwrap()]);
        let mut data = [0; 4];
        admitted[0].read_exact(&mut data).unwrap();
        assert_eq!(&data, b"data", "the run-up is none");
        // Closed, and nothing told.
        for stream in [&mut wrong, &mut again] {
            assert!(matches!(stream.read(&mut [0; 1]), Ok(0) | Err(_)));
        }
        assert!(TcpStream::connect(address).is_err(), "the port is closed");
    }

    #[test]
    fn connections_that_were_handed_on_are_let_in_by_their_tokens() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (tokens, expected) = (tokens(1).unwrap(), Expected::default());
        let awaited = expected.register_all(&tokens).unwrap();
        let hand_on = |proof: &[u8], run_up: u16| {
            let mut stream = TcpStream::connect(address).unwrap();
            let opening = [&DATA_MAGIC[..], proof, &run_up.to_be_bytes(), &vec![0; usize::from(run_up)]].concat();
            stream.write_all(&opening).unwrap();
            expected.deliver(listener.accept().unwrap().0);
            stream
        };
        let mut wrong = hand_on(&[7; 32], 0);
        let mut right = hand_on(&proof(&tokens[0]), 20_000);
        right.write_all(b"data").unwrap();
        let mut admitted = admit(None, &tokens, &awaited, &StopSignal::new()).unwrap();
        let mut data = [0; 4];
        admitted[0].read_exact(&mut data).unwrap();
        assert_eq!(&data, b"data");
        assert!(matches!(wrong.read(&mut [0; 1]), Ok(0) | Err(_)), "closed");
        drop(awaited);
        let mut late = hand_on(&proof(&tokens[0]), 0);
        assert!(matches!(late.read(&mut [0; 1]), Ok(0) | Err(_)), "closed");
    }

    #[test]
    fn a_wish_to_stop_ends_the_wait() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let stop = StopSignal::new();
        let waiting = std::thread::spawn({
            let stop = stop.clone();
            move || {
                let (tokens, expected) = (tokens(1).unwrap(), Expected::default());
                let awaited = expected.register_all(&tokens).unwrap();
                admit(Some(&listener), &tokens, &awaited, &stop)
            }
        });
        stop.request();
        assert!(matches!(waiting.join().unwrap(), Err(SessionError::Interrupted)));
    }
}
