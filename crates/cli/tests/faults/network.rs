//! The path fails: connections are cut, the cable is pulled, bits flip. One run goes on by itself.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::time::{Duration, Instant};

use icdc_protocol::limits::DEAD_AFTER;

use crate::support::daemon::{Daemon, location};
use crate::support::network::Pair;
use crate::support::{Ended, HERE, MIB, Run, Shape, Signal, Site, Start, assert_no_leftovers, assert_same, data, skip};

const SIZE: u64 = 48 * MIB + 3;

/// Starts a slow push between two hosts.
fn push(site: &Site, pair: &Pair, rate: &str) -> Run {
    data::file(&site.path("source"), SIZE, 40);
    let mut command = site.copy(&["--rate", rate, "--ssh", &site.ssh_to(&pair.far)]);
    command.arg(site.path("source")).arg(site.on_host(pair.far.address(), "copy"));
    pair.near.run(&command).start()
}

#[track_caller]
fn assert_went_on(site: &Site, ended: &Ended) {
    assert_eq!(ended.code, Some(0), "{ended}");
    assert!(ended.all("reconnecting").next().is_some(), "the connection was not cut: {ended}");
    assert!(ended.stderr.contains("icdc: connected again\n"), "{ended}");
    assert_same(&site.path("source"), &site.path("copy"));
    assert_no_leftovers(site.root());
}

#[test]
fn connections_are_cut() {
    let Some(pair) = Pair::new() else { return };
    let site = Site::new();
    let run = push(&site, &pair, "160mbit");
    for bytes in [8, 24] {
        assert!(run.wait_for_bytes(bytes * MIB), "{}", run.finish());
        if !pair.cut() {
            return skip("this kernel cannot destroy sockets (ss -K)");
        }
    }
    let ended = run.finish();
    assert_went_on(&site, &ended);
    let sent = ended.number("bytes_sent");
    assert!(sent <= SIZE + 2 * 64 * MIB, "{ended}");
}

#[test]
fn an_outage_is_the_networks_and_an_interrupt_ends_it_soon() {
    let Some(pair) = Pair::new() else { return };
    let site = Site::new();
    let run = push(&site, &pair, "40mbit");
    assert!(run.wait_for_bytes(8 * MIB), "{}", run.finish());
    pair.unplug();
    let silent = |event: &serde_json::Value| event["silent_ms"].as_u64().unwrap_or(0);
    assert!(run.wait_for(|event| silent(event) > 4000), "{}", run.finish());
    let events = run.events();
    let told: Vec<_> = events.iter().filter(|event| silent(event) > 1500).map(|event| &event["limited_by"]).collect();
    assert!(told.iter().all(|stage| *stage == "network"), "{told:?}");
    let begun = Instant::now();
    run.signal(Signal::INT);
    let ended = run.finish().expect_code(4);
    assert!(begun.elapsed() < Duration::from_secs(6), "{:?}: {ended}", begun.elapsed());
}

#[test]
fn the_cable_is_out_for_twenty_seconds() {
    let Some(pair) = Pair::new() else { return };
    let site = Site::new();
    let mut run = push(&site, &pair, "160mbit");
    assert!(run.wait_for_bytes(16 * MIB), "{}", run.finish());
    pair.unplug();
    let waits = run.runs_after(Duration::from_secs(20));
    pair.plug();
    assert!(waits, "{}", run.finish());
    assert_went_on(&site, &run.finish());
}

/// A proxy on loopback that does one thing to the bytes that pass, when told to.
struct Proxy {
    port: u16,
    mischief: Arc<AtomicU8>,
    closed: Arc<AtomicBool>,
}

const NOTHING: u8 = 0;
const FLIP_FORTH: u8 = 1;
const FLIP_BACK: u8 = 2;
const CUT: u8 = 3;
/// Cuts a connection other than the first one, in the middle of its data.
const CUT_FURTHER: u8 = 4;
/// Lets nothing more pass there, and leaves it open.
const STALL_FURTHER: u8 = 5;

impl Proxy {
    fn before(port: u16) -> Self {
        let listener = TcpListener::bind((HERE, 0)).unwrap();
        let own = listener.local_addr().unwrap().port();
        let mischief = Arc::new(AtomicU8::new(NOTHING));
        let closed = Arc::new(AtomicBool::new(false));
        let proxy = Self { port: own, mischief: Arc::clone(&mischief), closed: Arc::clone(&closed) };
        std::thread::spawn(move || {
            for (number, client) in listener.incoming().flatten().enumerate() {
                if closed.load(Ordering::Relaxed) {
                    return;
                }
                let Ok(server) = TcpStream::connect((HERE, port)) else {
                    continue;
                };
                for (from, to, flip) in [(&client, &server, FLIP_FORTH), (&server, &client, FLIP_BACK)] {
                    let (from, to) = (from.try_clone().unwrap(), to.try_clone().unwrap());
                    let mischief = Arc::clone(&mischief);
                    std::thread::spawn(move || pass(from, to, &mischief, flip, number > 0));
                }
            }
        });
        proxy
    }

    fn order(&self, what: u8) {
        self.mischief.store(what, Ordering::SeqCst);
    }

    fn was_done(&self) -> bool {
        self.mischief.load(Ordering::SeqCst) == NOTHING
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.closed.store(true, Ordering::Relaxed);
        let _ = TcpStream::connect((HERE, self.port));
    }
}

fn pass(mut from: TcpStream, mut to: TcpStream, mischief: &AtomicU8, flip: u8, is_further: bool) {
    let mut buffer = vec![0; 64 << 10];
    while let Ok(length @ 1..) = from.read(&mut buffer) {
        let take = |what| mischief.compare_exchange(what, NOTHING, Ordering::SeqCst, Ordering::SeqCst).is_ok();
        if take(flip) {
            buffer[length / 2] ^= 0x10;
        } else if take(CUT) || (is_further && length == buffer.len() && take(CUT_FURTHER)) {
            break;
        } else if is_further && length == buffer.len() && take(STALL_FURTHER) {
            loop {
                std::thread::park();
            }
        }
        if to.write_all(&buffer[..length]).is_err() {
            break;
        }
    }
    let _ = from.shutdown(Shutdown::Both);
    let _ = to.shutdown(Shutdown::Both);
}

#[derive(Clone, Copy)]
enum Direction {
    Push,
    Pull,
}

/// Copies through a proxy that commits `mischief` in mid-stream.
fn through_proxy(direction: Direction, mischief: u8) -> Ended {
    let site = Site::new();
    let source = data::file(&site.path("source"), SIZE, 41);
    let daemon = Daemon::start(&site, site.root(), "rw");
    let proxy = Proxy::before(daemon.port());
    daemon.trust(&site, proxy.port);
    let far = |name| location(proxy.port, name);
    let mut command = site.copy(&["--rate", "320mbit"]);
    match direction {
        Direction::Push => command.arg(&source).arg(far("copy")),
        Direction::Pull => command.arg(far("source")).arg(site.path("copy")),
    };
    let run = command.start();
    assert!(run.wait_for_bytes(8 * MIB), "{}", run.finish());
    proxy.order(mischief);
    let ended = run.finish();
    assert!(proxy.was_done(), "nothing passed any more: {ended}");
    if ended.code == Some(0) {
        assert!(ended.all("reconnecting").next().is_some(), "it went unnoticed: {ended}");
        assert_same(&source, &site.path("copy"));
        assert_no_leftovers(&site.path("."));
    } else {
        assert!(!ended.stderr.is_empty(), "{ended}");
        assert_absent_or_same(&source, &site.path("copy"));
    }
    ended
}

fn assert_absent_or_same(source: &Path, copy: &Path) {
    if copy.exists() {
        assert_same(source, copy);
    }
}

#[test]
fn a_bit_flips_on_the_way_to_the_daemon() {
    through_proxy(Direction::Push, FLIP_FORTH).expect_code(0);
    through_proxy(Direction::Pull, FLIP_FORTH).expect_code(0);
}

#[test]
fn a_bit_flips_on_the_way_from_the_daemon() {
    through_proxy(Direction::Push, FLIP_BACK).expect_code(0);
    through_proxy(Direction::Pull, FLIP_BACK).expect_code(0);
}

#[test]
fn a_proxy_drops_the_connection() {
    through_proxy(Direction::Push, CUT).expect_code(0);
    through_proxy(Direction::Pull, CUT).expect_code(0);
}

/// Copies over four connections, to one of which after the first `mischief` is done in the middle.
#[track_caller]
fn one_of_four(mischief: u8, direction: Direction, prepare: impl Fn(&Path) -> PathBuf) {
    let site = Site::new();
    let source = prepare(&site.path("source"));
    let daemon = Daemon::start(&site, site.root(), "rw");
    let proxy = Proxy::before(daemon.port());
    daemon.trust(&site, proxy.port);
    let far = |name| location(proxy.port, name);
    // All connections take blocks from the beginning.
    let mut command = site.copy(&["--streams", "4", "--cc", "cubic", "--rate", "320mbit"]);
    match direction {
        Direction::Push => command.arg(&source).arg(far("copy")),
        Direction::Pull => command.arg(far("source")).arg(site.path("copy")),
    };
    let run = command.start();
    assert!(run.wait_for_bytes(8 * MIB), "{}", run.finish());
    proxy.order(mischief);
    let begun = Instant::now();
    let ended = run.finish().expect_code(0);
    // One that is silent is not waited for as long as a session whose peer has died.
    let took = begun.elapsed();
    assert!(took < DEAD_AFTER.into(), "it took {took:?}: {ended}\n{}", daemon.run().stderr());
    assert!(proxy.was_done(), "no further connection carried data: {ended}");
    assert!(ended.all("reconnecting").next().is_none(), "one session is enough: {ended}\n{}", daemon.run().stderr());
    let mut notices = ended.all("notice").filter_map(|event| event["text"].as_str());
    // The receiver knows which of them has stalled; the sender, that something ended there.
    let words = if mischief == STALL_FURTHER && matches!(direction, Direction::Pull) {
        "nothing arrived over it"
    } else {
        "was lost"
    };
    assert!(notices.any(|text| text.contains(words)), "{ended}");
    assert_same(&source, &site.path("copy"));
    assert_no_leftovers(&site.path("."));
}

#[test]
fn a_further_connection_of_a_large_file_is_cut() {
    for direction in [Direction::Push, Direction::Pull] {
        one_of_four(CUT_FURTHER, direction, |path| data::file(path, SIZE, 42));
    }
}

#[test]
fn a_further_connection_of_many_small_files_is_cut() {
    let shape = Shape { small: 3000, ..Shape::default() };
    for direction in [Direction::Push, Direction::Pull] {
        one_of_four(CUT_FURTHER, direction, |path| data::tree(path, 43, &shape));
    }
}

#[test]
fn a_further_connection_of_a_push_goes_silent() {
    one_of_four(STALL_FURTHER, Direction::Push, |path| data::file(path, SIZE, 44));
}

#[test]
fn a_further_connection_of_a_pull_goes_silent() {
    one_of_four(STALL_FURTHER, Direction::Pull, |path| data::file(path, SIZE, 45));
}
