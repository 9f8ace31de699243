//! Streams of `icdc-datagram` between two ends over UDP sockets of this host, also over a hop that loses packets.

#![allow(clippy::unwrap_used, reason = "a test may panic")]
#![allow(clippy::disallowed_methods, reason = "real sockets need real time")]

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, UdpSocket};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use icdc_datagram::{Accepted, Algorithm, DatagramError, Dialed, Listener, listen};
use icdc_trust::{Identity, ServerPin, client_config, server_config};

const PATIENCE: Duration = Duration::from_secs(10);
const MIB: usize = 1 << 20;

/// A listening end; streams that arrive at it.
struct Server {
    _listener: Listener,
    address: SocketAddr,
    accepted: Receiver<Accepted>,
}

fn server() -> Server {
    let (tell, accepted) = channel();
    let tls = server_config(&Identity::generate(), |_| true);
    let socket = listen("127.0.0.1:0".parse().unwrap()).unwrap();
    let take = move |stream| drop(tell.send(stream));
    let listener = Listener::start(socket, tls, Algorithm::default(), take).unwrap();
    Server { address: listener.address(), _listener: listener, accepted }
}

fn dial(address: SocketAddr) -> Result<Dialed, DatagramError> {
    let tls = client_config(&Identity::generate(), ServerPin::Verify(Box::new(|_| Ok(()))));
    Dialed::connect(address, tls, Algorithm::default(), PATIENCE, || false)
}

/// Bytes that no part of which equals another.
fn noise(length: usize, seed: u64) -> Vec<u8> {
    let mut state = seed | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    (0..length.div_ceil(8)).flat_map(|_| next().to_le_bytes()).take(length).collect()
}

/// Sends `bytes` and the end of the stream; receives what the other end has.
fn exchange(stream: &UnixStream, bytes: &[u8]) -> Vec<u8> {
    let mut received = Vec::new();
    thread::scope(|scope| {
        scope.spawn(|| {
            (&*stream).write_all(bytes).unwrap();
            stream.shutdown(Shutdown::Write).unwrap();
        });
        (&*stream).read_to_end(&mut received).unwrap();
    });
    received
}

/// A hop that loses one datagram in `one_in` in each direction, 0: none, and delays the others.
struct Hop {
    address: SocketAddr,
    lost: Arc<AtomicU64>,
    over: Arc<AtomicBool>,
}

impl Hop {
    fn to(server: SocketAddr, one_in: u64, delay: Duration) -> Self {
        let (front, back) = (UdpSocket::bind("127.0.0.1:0").unwrap(), UdpSocket::bind("127.0.0.1:0").unwrap());
        let address = front.local_addr().unwrap();
        back.connect(server).unwrap();
        let (lost, over) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
        let (client_is, client) = mpsc::channel();
        for socket in [&front, &back] {
            socket.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
        }
        let loses = |seed: u64| {
            let mut numbers = noise(8 << 16, seed).into_iter().cycle();
            let lost = Arc::clone(&lost);
            move || {
                let number = u16::from_le_bytes([numbers.next().unwrap(), numbers.next().unwrap()]);
                let loses = one_in > 0 && u64::from(number) % one_in == 0;
                lost.fetch_add(u64::from(loses), Ordering::Relaxed);
                loses
            }
        };
        let (mut there, mut back_again) = (loses(3), loses(5));
        let (from_server, to_server) = (back.try_clone().unwrap(), back);
        let (from_client, to_client) = (front.try_clone().unwrap(), front);
        let to_server = delayed(delay, move |datagram| drop(to_server.send(datagram)));
        let ended = Arc::clone(&over);
        thread::spawn(move || {
            let mut buffer = [0; 2048];
            while !ended.load(Ordering::Relaxed) {
                if let Ok((length, client)) = from_client.recv_from(&mut buffer) {
                    let _ = client_is.send(client);
                    if !there() {
                        let _ = to_server.send((Instant::now(), buffer[..length].to_vec()));
                    }
                }
            }
        });
        let mut known = None;
        let to_client = delayed(delay, move |datagram| {
            known = client.try_iter().last().or(known);
            if let Some(client) = known {
                let _ = to_client.send_to(datagram, client);
            }
        });
        let ended = Arc::clone(&over);
        thread::spawn(move || {
            let mut buffer = [0; 2048];
            while !ended.load(Ordering::Relaxed) {
                if let Ok(length) = from_server.recv(&mut buffer)
                    && !back_again()
                {
                    let _ = to_client.send((Instant::now(), buffer[..length].to_vec()));
                }
            }
        });
        Self { address, lost, over }
    }
}

/// Has datagrams sent so long after they have come.
fn delayed(delay: Duration, mut send: impl FnMut(&[u8]) + Send + 'static) -> mpsc::Sender<(Instant, Vec<u8>)> {
    let (give, given) = mpsc::channel::<(Instant, Vec<u8>)>();
    thread::spawn(move || {
        for (came, datagram) in given {
            thread::sleep((came + delay).saturating_duration_since(Instant::now()));
            send(&datagram);
        }
    });
    give
}

impl Drop for Hop {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
    }
}

#[test]
fn both_ends_receive_what_the_other_sends() {
    let server = server();
    let dialed = dial(server.address).unwrap();
    let (there, back) = (noise(20 * MIB, 1), noise(3 * MIB + 17, 2));
    let near = dialed.open().unwrap();
    thread::scope(|scope| {
        let received = scope.spawn(|| exchange(&near, &there));
        let far = server.accepted.recv_timeout(PATIENCE).unwrap();
        assert!(far.peer.ip().is_loopback());
        assert!(exchange(&far.socket, &back) == there);
        assert!(received.join().unwrap() == back);
    });
    assert!(dialed.state().delivered > 1000, "{:?}", dialed.state());
}

#[test]
fn several_streams_share_a_connection() {
    let server = server();
    let dialed = dial(server.address).unwrap();
    thread::scope(|scope| {
        for number in 0..5 {
            let near = dialed.open().unwrap();
            let sent = noise(2 * MIB, number + 1);
            scope.spawn(move || assert!(exchange(&near, &sent) == sent, "{number}"));
        }
        for _ in 0..5 {
            let mut far = server.accepted.recv_timeout(PATIENCE).unwrap().socket;
            scope.spawn(move || {
                let mut bytes = Vec::new();
                far.read_to_end(&mut bytes).unwrap();
                far.write_all(&bytes).unwrap();
            });
        }
    });
}

#[test]
fn what_is_lost_is_sent_again() {
    let server = server();
    let hop = Hop::to(server.address, 50, Duration::ZERO);
    let dialed = dial(hop.address).unwrap();
    let (there, back) = (noise(5 * MIB, 1), noise(MIB, 2));
    let near = dialed.open().unwrap();
    thread::scope(|scope| {
        let received = scope.spawn(|| exchange(&near, &there));
        let far = server.accepted.recv_timeout(PATIENCE).unwrap().socket;
        assert!(exchange(&far, &back) == there);
        assert!(received.join().unwrap() == back);
    });
    let lost = hop.lost.load(Ordering::Relaxed);
    assert!(lost > 20 && dialed.state().lost > 20, "{lost} {:?}", dialed.state());
}

#[test]
fn thousands_of_gaps_in_a_stream_do_not_end_it() {
    let server = server();
    let hop = Hop::to(server.address, 6, Duration::from_millis(200));
    let dialed = dial(hop.address).unwrap();
    let sent = noise(40 * MIB, 3);
    let near = dialed.open().unwrap();
    thread::scope(|scope| {
        let received = scope.spawn(|| exchange(&near, &sent));
        let far = server.accepted.recv_timeout(PATIENCE).unwrap();
        far.incoming.trust();
        let arrived = exchange(&far.socket, &[]);
        assert_eq!(arrived.len(), sent.len());
        assert!(arrived == sent, "what arrives is what was sent");
        assert_eq!(received.join().unwrap(), []);
    });
    assert!(hop.lost.load(Ordering::Relaxed) > 5_000, "{:?}", hop.lost);
}

#[test]
fn an_end_that_reads_nothing_holds_the_other_one_up_and_nobody_else() {
    let server = server();
    let dialed = dial(server.address).unwrap();
    let stalled = dialed.open().unwrap();
    let block = noise(MIB, 3);
    // What is given before it can leave, what a stranger may have under way, and what the sockets hold.
    let taken = fill(&stalled, &block);
    assert!((MIB / 4..20 * MIB).contains(&taken), "{taken} bytes were taken");
    let held = server.accepted.recv_timeout(PATIENCE).unwrap();
    let other = dial(server.address).unwrap();
    let near = other.open().unwrap();
    thread::scope(|scope| {
        let received = scope.spawn(|| exchange(&near, &block));
        let far = server.accepted.recv_timeout(PATIENCE).unwrap().socket;
        assert!(exchange(&far, b"answer") == block);
        assert_eq!(received.join().unwrap(), b"answer");
    });
    held.incoming.trust();
    let more = fill(&stalled, &block);
    assert!(more > 50 * MIB, "{more} more bytes were taken of one that is known");
}

/// Writes blocks until none has been taken for a while; returns how many bytes were, 150 MiB at most.
fn fill(stream: &UnixStream, block: &[u8]) -> usize {
    stream.set_write_timeout(Some(Duration::from_millis(1500))).unwrap();
    let mut taken = 0;
    while taken < 150 * MIB {
        match (&*stream).write(block) {
            Ok(count) => taken += count,
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::WouldBlock);
                break;
            }
        }
    }
    taken
}

#[test]
fn a_port_without_a_listener_is_told_in_time() {
    let silent = UdpSocket::bind("127.0.0.1:0").unwrap();
    let begin = Instant::now();
    let tls = client_config(&Identity::generate(), ServerPin::Verify(Box::new(|_| Ok(()))));
    let patience = Duration::from_millis(300);
    let address = silent.local_addr().unwrap();
    let error = Dialed::connect(address, Arc::clone(&tls), Algorithm::default(), patience, || false).err().unwrap();
    assert!(matches!(error, DatagramError::NoAnswer { .. }), "{error}");
    assert!(begin.elapsed() >= patience && begin.elapsed() < PATIENCE);
    let given_up = Dialed::connect(address, tls, Algorithm::default(), PATIENCE, || true).err().unwrap();
    assert!(matches!(given_up, DatagramError::GivenUp), "{given_up}");
}

#[test]
fn a_listener_that_ends_cuts_nothing_that_is_open() {
    let server = server();
    let dialed = dial(server.address).unwrap();
    let near = dialed.open().unwrap();
    (&near).write_all(b"begun").unwrap();
    let far = server.accepted.recv_timeout(PATIENCE).unwrap().socket;
    let address = server.address;
    drop(server);
    assert!(dial(address).is_err(), "it accepts no more");
    let sent = noise(MIB, 4);
    thread::scope(|scope| {
        scope.spawn(|| assert_eq!(exchange(&near, &sent), b"answer"));
        let mut all = exchange(&far, b"answer");
        assert_eq!(all.drain(..5).as_slice(), b"begun");
        assert!(all == sent);
    });
}

#[test]
fn random_datagrams_do_no_harm() {
    let server = server();
    let stranger = UdpSocket::bind("127.0.0.1:0").unwrap();
    let bytes = noise(4 * MIB, 6);
    for (number, datagram) in bytes.chunks(1200).enumerate() {
        let mut datagram = datagram.to_vec();
        // Some look like the first packets of a connection.
        if number % 2 == 0 {
            datagram[..5].copy_from_slice(&[0xc0, 0, 0, 0, 1]);
            datagram[5] = 8;
        }
        let _ = stranger.send_to(&datagram, server.address);
    }
    let dialed = dial(server.address).unwrap();
    let near = dialed.open().unwrap();
    (&near).write_all(b"x").unwrap();
    assert!(server.accepted.recv_timeout(PATIENCE).is_ok());
}
