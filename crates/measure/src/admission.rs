//! Which connections are those of a measurement: as many connections as were agreed, each with the proof that it knows a
//! token that was told over the control link, and after it the run-up (see [`icdc_protocol::measure`]).
//!
//! A port of its own is open until they are there, for [`PATIENCE`] at most. A stranger gets a place among
//! [`MOST_STRANGERS`] for the time it takes to say that; who is slower than [`PROOF_PATIENCE`], or
//! last in line when all places are taken, is closed without an answer.

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

/// How long all agreed connections may take to come.
const PATIENCE: Span = Span::from_secs(30);
/// How long one may take to say its proof.
const PROOF_PATIENCE: Span = Span::from_secs(10);
/// Connections that have not said their proof yet.
const MOST_STRANGERS: usize = 128;
/// How long nobody is accepted once descriptors are lacking.
const STARVED_PAUSE: Span = Span::from_millis(100);

/// A connection that has said a part of its proof and its run-up.
struct Stranger {
    stream: TcpStream,
    said: Vec<u8>,
    /// Bytes of the run-up that have come.
    run_up: usize,
    deadline: Time,
}

/// Proof and length of the run-up.
const BEGINNING: usize = size_of::<Proof>() + 2;

/// Random tokens, one per connection.
pub(super) fn tokens(count: u8) -> Result<Vec<Token>, SessionError> {
    let token = |_| {
        let mut token = Token::default();
        getrandom::fill(&mut token[..]).map_err(|error| local("random bytes", error))?;
        Ok(token)
    };
    (0..count).map(token).collect()
}

/// One connection per token, in the order of the tokens: accepted from `listener`, or handed on by
/// whoever listens for control links.
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
    let mut gate = Gate {
        proofs: tokens.iter().map(proof).collect(),
        admitted: tokens.iter().map(|_| None).collect(),
        strangers: Vec::new(),
        is_starved: false,
    };
    let deadline = clock::now() + PATIENCE;
    while let missing @ 1.. = gate.missing() {
        let next = gate.strangers.iter().map(|stranger| stranger.deadline).fold(deadline, Time::min);
        let next = if gate.is_starved { next.min(clock::now() + STARVED_PAUSE) } else { next };
        wait(listener.filter(|_| !gate.is_starved), &gate.strangers, [&woken, &awaited.woken], next)?;
        if stop.is_requested() {
            return Err(SessionError::Interrupted);
        }
        let now = clock::now();
        if now >= deadline {
            let wanted = tokens.len();
            let reason = format!("{missing} of {wanted} data connections did not come within {PATIENCE}");
            return Err(SessionError::Cut(reason));
        }
        gate.make_room();
        // Nothing to read means that another round has taken it.
        let _ = rustix::io::read(&awaited.woken, &mut [0; 8]);
        awaited.arrived.try_iter().for_each(|Arrived { stream, said }| gate.take(stream, said, now));
        gate.is_starved = listener.is_some_and(|listener| gate.accept(listener, now));
        gate.read_proofs(now)?;
    }
    Ok(gate.admitted.into_iter().flatten().collect())
}

/// Connections that are expected, and those that have not shown yet which they are.
struct Gate {
    /// In the order of the tokens.
    proofs: Vec<Proof>,
    admitted: Vec<Option<TcpStream>>,
    strangers: Vec<Stranger>,
    /// The process lacks descriptors or memory for an accept.
    is_starved: bool,
}

impl Gate {
    /// Number of connections that have not come.
    fn missing(&self) -> usize {
        self.admitted.iter().filter(|place| place.is_none()).count()
    }

    /// Closes the oldest strangers where there are too many. All of them have been read from; whoever comes next is
    /// read from as well before another one is closed.
    fn make_room(&mut self) {
        if self.strangers.len() >= MOST_STRANGERS {
            self.strangers.drain(..MOST_STRANGERS / 4);
        }
    }

    /// Takes a connection of which `said` has been read.
    fn take(&mut self, stream: TcpStream, said: Vec<u8>, now: Time) {
        if stream.set_nonblocking(true).is_ok() {
            self.strangers.push(Stranger { stream, said, run_up: 0, deadline: now + PROOF_PATIENCE });
        }
    }

    /// Accepts what waits at `listener`; whether descriptors or memory were lacking for that.
    fn accept(&mut self, listener: &TcpListener, now: Time) -> bool {
        while self.strangers.len() < MOST_STRANGERS {
            match listener.accept() {
                Ok((stream, _)) => self.take(stream, Vec::new(), now),
                // Those of one connection (accept(2)), or a lack of descriptors that may pass.
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

    /// Reads what has come from strangers: admits those whose proof is right, and closes those whose proof is wrong or
    /// late.
    fn read_proofs(&mut self, now: Time) -> Result<(), SessionError> {
        for mut stranger in std::mem::take(&mut self.strangers) {
            match stranger.read_opening(&self.proofs) {
                Incoming::All(proof) => {
                    let place = place(&self.proofs, &proof);
                    match place.and_then(|place| self.admitted.get_mut(place)) {
                        Some(place @ None) => {
                            let stream = stranger.stream;
                            stream.set_nonblocking(false).map_err(|error| local("fcntl(O_NONBLOCK)", error))?;
                            *place = Some(stream);
                        }
                        _ => tracing::info!("a connection to the data port with a wrong proof was closed"),
                    }
                }
                Incoming::Part if stranger.deadline > now => self.strangers.push(stranger),
                Incoming::Part | Incoming::Nonsense => {
                    tracing::info!("a connection to the data port without a proof was closed")
                }
            }
        }
        Ok(())
    }
}

/// The first bytes of a stranger.
enum Incoming {
    Part,
    All(Proof),
    /// It will never be one that was agreed on.
    Nonsense,
}

impl Stranger {
    /// Reads what is there. Of a wrong proof nothing more is read.
    fn read_opening(&mut self, proofs: &[Proof]) -> Incoming {
        let mut scrap = [0; 16 << 10];
        loop {
            let missing = match self.said.as_slice().split_first_chunk::<{ size_of::<Proof>() }>() {
                Some((proof, _)) if place(proofs, proof).is_none() => return Incoming::Nonsense,
                Some((proof, &[high, low])) => match usize::from(u16::from_be_bytes([high, low])) - self.run_up {
                    0 => return Incoming::All(*proof),
                    missing => missing,
                },
                _ => BEGINNING - self.said.len(),
            };
            let room = missing.min(scrap.len());
            match self.stream.read(&mut scrap[..room]) {
                Ok(0) => return Incoming::Nonsense,
                Ok(length) if self.said.len() < BEGINNING => self.said.extend_from_slice(&scrap[..length]),
                Ok(length) => self.run_up += length,
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => return Incoming::Part,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(_) => return Incoming::Nonsense,
            }
        }
    }
}

/// Which of the proofs it is.
fn place(proofs: &[Proof], said: &Proof) -> Option<usize> {
    proofs.iter().position(|known| same(known, said))
}

/// Compares in a time that does not tell where the first difference is.
fn same(known: &Proof, said: &Proof) -> bool {
    known.iter().zip(said).fold(0, |difference, (known, said)| difference | (known ^ said)) == 0
}

/// Readable once a stop is requested.
fn waker(stop: &StopSignal) -> Result<OwnedFd, SessionError> {
    let event = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).map_err(|error| local("eventfd", error))?;
    let teller = event.try_clone().map_err(|error| local("fcntl(F_DUPFD)", error))?;
    stop.on_request(move || {
        let _ = rustix::io::write(&teller, &1_u64.to_ne_bytes());
    });
    Ok(event)
}

fn wait(
    listener: Option<&TcpListener>,
    strangers: &[Stranger],
    woken: [&OwnedFd; 2],
    until: Time,
) -> Result<(), SessionError> {
    let streams = strangers.iter().map(|stranger| PollFd::new(&stranger.stream, PollFlags::IN));
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
                let awaited = expected.await_all(&tokens).unwrap();
                admit(Some(&listener), &tokens, &awaited, &StopSignal::new()).unwrap()
            }
        });
        let _silent: Vec<TcpStream> = (0..2 * MOST_STRANGERS).map(|_| TcpStream::connect(address).unwrap()).collect();
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
        let awaited = expected.await_all(&tokens).unwrap();
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
                let awaited = expected.await_all(&tokens).unwrap();
                admit(Some(&listener), &tokens, &awaited, &stop)
            }
        });
        stop.request();
        assert!(matches!(waiting.join().unwrap(), Err(SessionError::Interrupted)));
    }
}
