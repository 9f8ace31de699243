//! `icdc relay` with many connections: what idle ones cost, and that short ones leave nothing
//! behind.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::support::process::eventually;
use crate::support::relay::{Relay, accept, connect, connections, echo, exchange, listener, reset};
use crate::support::{MIB, Site, skip};

const IDLE: u64 = 10_000;
/// What so many may cost in memory.
const MEMORY_OF_IDLE: u64 = 100_000_000;
/// Unless `ICDC_TEST_CONNECTIONS` says otherwise.
const SHORT: u64 = 20_000;
const AT_ONCE: u64 = 8;

/// One relay to a destination, with room for everybody.
fn forward(site: &Site, to: SocketAddr) -> Relay {
    let room = ["--connections", "1000000", "--per-client", "1000000"];
    Relay::start(site, &[&["--forward", &format!("127.0.0.1:0={to}")], &room[..]].concat())
}

/// Lets this process, and what it starts, have `wanted` descriptors, or as many as it may; tells
/// how many that are.
fn allow_descriptors(wanted: u64) -> u64 {
    let most = getrlimit(Resource::Nofile).maximum.unwrap_or(u64::MAX);
    let set = |to: u64| {
        let limit = Rlimit { current: Some(to), maximum: Some(most.max(to)) };
        setrlimit(Resource::Nofile, limit).is_ok()
    };
    // To raise what all may have is a privilege.
    if set(wanted) || set(wanted.min(most)) {
        wanted.min(getrlimit(Resource::Nofile).current.unwrap_or(wanted))
    } else {
        0
    }
}

#[test]
fn idle_connections_cost_little() {
    // Two for each at the relay, and two here.
    let idle = (allow_descriptors(2 * IDLE + 1000).saturating_sub(200) / 2).min(IDLE);
    if idle < IDLE / 2 {
        skip(&format!("{IDLE} idle connections need twice as many descriptors (ulimit -Hn)"));
        return;
    }
    let site = Site::new();
    let server = listener();
    let relay = forward(&site, server.local_addr().unwrap());
    let address = relay.address("forward");
    // Each has been used.
    let serving = thread::spawn(move || {
        let serve = |_: u64| {
            let mut stream = accept(&server);
            let mut byte = [0];
            stream.read_exact(&mut byte).unwrap();
            stream.write_all(&byte).unwrap();
            stream
        };
        (0..=idle).map(serve).collect::<Vec<TcpStream>>()
    });
    let client = |_: u64| {
        let mut stream = connect(address);
        stream.write_all(b"x").unwrap();
        stream.read_exact(&mut [0]).unwrap();
        stream
    };
    let first = client(0);
    let before = relay.memory();
    let clients: Vec<TcpStream> = (0..idle).map(client).collect();
    let grown = relay.memory().saturating_sub(before);
    let served = serving.join().unwrap();
    eprintln!("{idle} idle connections: {grown} bytes");
    assert!(grown <= MEMORY_OF_IDLE * idle / IDLE, "{grown} bytes for {idle} idle connections");
    drop((first, clients, served));
    assert!(eventually(|| relay.total("open") == 0), "{}", relay.status()["totals"]);
}

#[test]
fn short_connections_leave_nothing_behind() {
    let site = Site::new();
    let far = Relay::start(&site, &["--peer", "127.0.0.1:0", "--connections", "1000000", "--per-client", "1000000"]);
    let route = format!("default={}", far.address("peer"));
    let to = echo();
    let forward = format!("127.0.0.1:0={to}");
    let near = Relay::start(&site, &["--forward", &forward, "--route", &route, "--per-client", "1000000"]);
    let address = near.address("forward");
    let relays = [&near, &far];
    let settled = || relays.iter().all(|relay| relay.total("open") == 0);
    let churn = |count: u64| {
        let next = AtomicU64::new(0);
        thread::scope(|scope| {
            for _ in 0..AT_ONCE {
                scope.spawn(|| {
                    loop {
                        let number = next.fetch_add(1, Ordering::Relaxed);
                        if number >= count {
                            break;
                        }
                        visit(address, number);
                    }
                });
            }
        });
        assert!(eventually(settled), "{} {}", near.status()["totals"], far.status()["totals"]);
    };
    let state = || relays.map(|relay| (relay.descriptors(), relay.memory()));
    let count = connections(SHORT);
    // Pipes and memory that are kept for the next ones.
    churn(count / 10);
    let before = state();
    churn(count);
    let after = state();
    eprintln!("{count} short connections: {before:?} became {after:?}");
    for (before, after) in before.iter().zip(&after) {
        assert!(after.0 <= before.0 + 64, "descriptors: {before:?} became {after:?}");
        assert!(after.1 <= before.1 + 16 * MIB, "memory: {before:?} became {after:?}");
    }
    assert_eq!(near.total("accepted"), count / 10 + count);
}

/// A few bytes and one of the ways in which connections end.
fn visit(address: SocketAddr, number: u64) {
    let mut stream = connect(address);
    match number % 4 {
        0 => reset(stream),
        1 => assert_eq!(exchange(stream, vec![1; 100]).unwrap().len(), 100),
        2 => {
            stream.write_all(b"some bytes").unwrap();
            stream.read_exact(&mut [0; 10]).unwrap();
            reset(stream);
        }
        _ => {
            stream.shutdown(Shutdown::Write).unwrap();
            assert_eq!(stream.read(&mut [0]).unwrap(), 0);
        }
    }
}
