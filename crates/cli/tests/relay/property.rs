//! Many connections at once, each with its own fate: nothing is lost, doubled or out of order.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::support::process::eventually;
use crate::support::relay::{Relay, connect, connections, reset, server};
use crate::support::{Noise, Site};

/// Unless `ICDC_TEST_CONNECTIONS` says otherwise.
const CONNECTIONS: u64 = 2000;
const AT_ONCE: u64 = 20;

/// What one end does with its direction.
#[derive(Clone, Copy, Debug)]
struct Part {
    seed: u64,
    bytes: u64,
    /// It breaks off by a reset after so many bytes.
    resets_after: Option<u64>,
}

/// How the writing of one end ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Written {
    Whole,
    InPart,
    Failed,
}

/// Both ends know both parts by the number of the connection.
fn parts(seed: u64) -> [Part; 2] {
    let mut noise = Noise::new(seed);
    let part = |noise: &mut Noise| {
        let bytes = match noise.below(4) {
            0 => 0,
            1 => noise.below(100),
            2 => noise.below(100_000),
            _ => noise.below(2_000_000),
        };
        let resets_after = (noise.below(8) == 0).then(|| noise.below(bytes + 1));
        Part { seed: noise.next(), bytes, resets_after }
    };
    [part(&mut noise), part(&mut noise)]
}

/// Plays one end; tells whether it saw the other's whole part.
fn play(mut stream: TcpStream, own: Part, other: Part) -> bool {
    let mut writer = stream.try_clone().unwrap();
    let writing = std::thread::spawn(move || {
        let (mut data, mut pauses) = (Noise::new(own.seed), Noise::new(own.seed ^ 1));
        let bytes = data.bytes(own.bytes as usize);
        let end = own.resets_after.unwrap_or(own.bytes) as usize;
        let mut sent = 0;
        while sent < end {
            let piece = (pauses.below(70_000) as usize + 1).min(end - sent);
            if writer.write_all(&bytes[sent..sent + piece]).is_err() {
                return Written::Failed;
            }
            sent += piece;
            if pauses.below(10) == 0 {
                std::thread::sleep(Duration::from_millis(pauses.below(20)));
            }
        }
        if own.resets_after.is_some() {
            return Written::InPart;
        }
        if writer.shutdown(Shutdown::Write).is_ok() { Written::Whole } else { Written::Failed }
    });
    let expected = Noise::new(other.seed).bytes(other.bytes as usize);
    let mut pauses = Noise::new(other.seed ^ 2);
    let (mut got, mut buffer) = (0, vec![0; 50_000]);
    if own.resets_after.is_some() {
        stream.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
    }
    let mut ended = false;
    let whole = loop {
        let most = pauses.below(50_000) as usize + 1;
        match stream.read(&mut buffer[..most]) {
            Ok(0) => {
                ended = true;
                break got == expected.len();
            }
            Ok(count) => {
                assert!(got + count <= expected.len(), "more than was sent: {other:?}");
                assert!(buffer[..count] == expected[got..got + count], "other bytes at {got}: {other:?}");
                got += count;
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                assert!(own.resets_after.is_some(), "nothing comes any more after {got} bytes: {other:?}");
            }
            Err(_) => break false,
        }
        if pauses.below(40) == 0 {
            std::thread::sleep(Duration::from_millis(pauses.below(30)));
        }
        if own.resets_after.is_some() && writing.is_finished() {
            break false;
        }
    };
    let written = writing.join().unwrap();
    // A write that fails takes the error of a reset away from the reader, which then sees no more
    // than an end.
    let in_order = whole || !ended || written == Written::Failed;
    assert!(in_order, "an end in order comes after everything, not after {got} bytes: {other:?}");
    if own.resets_after.is_some() {
        reset(stream);
    }
    whole && written == Written::Whole
}

#[test]
fn random_connections_keep_every_byte() {
    let site = Site::new();
    let seed = Noise::logged("relay").next();
    let each = connections(CONNECTIONS).div_ceil(AT_ONCE);
    let complete: &'static AtomicU64 = Box::leak(Box::default());
    let to = server(move |mut stream| {
        let mut number = [0; 8];
        if stream.read_exact(&mut number).is_err() {
            return;
        }
        let [client, own] = parts(u64::from_be_bytes(number));
        if play(stream, own, client) {
            complete.fetch_add(1, Ordering::Relaxed);
        }
    });
    let far = Relay::start(&site, &["--peer", "127.0.0.1:0"]);
    let (forward, route) = (format!("127.0.0.1:0={to}"), format!("default={}", far.address("peer")));
    let near = Relay::start(&site, &["--forward", &forward, "--route", &route, "--warm", "4"]);
    let address: SocketAddr = near.address("forward");
    let players: Vec<_> = (0..AT_ONCE)
        .map(|player| {
            std::thread::spawn(move || {
                let mut expected = 0;
                for round in 0..each {
                    let number = seed.wrapping_add(player * each + round);
                    let [own, other] = parts(number);
                    let mut stream = connect(address);
                    stream.write_all(&number.to_be_bytes()).unwrap();
                    let whole = play(stream, own, other);
                    let undisturbed = own.resets_after.is_none() && other.resets_after.is_none();
                    assert!(whole || !undisturbed, "connection {number} broke: {own:?} {other:?}");
                    expected += u64::from(undisturbed);
                }
                expected
            })
        })
        .collect();
    let expected: u64 = players.into_iter().map(|player| player.join().unwrap()).sum();
    assert!(eventually(|| complete.load(Ordering::Relaxed) >= expected), "the other ends saw everything as well");
    assert!(eventually(|| near.total("open") == 0), "{}", near.status());
    assert!(eventually(|| near.total("buffered") == 0 && far.total("buffered") == 0));
    assert_eq!(near.total("accepted"), each * AT_ONCE);
}
