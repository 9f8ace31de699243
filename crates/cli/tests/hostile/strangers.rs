//! Crowds of strangers at a daemon, and somebody with a key and a long round trip among them.

use std::collections::VecDeque;
use std::fs;
use std::io::Write;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use icdc_trust::{Identity, ServerPin, client_config, server_name};
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, connect, socket_with};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::support::daemon::Daemon;
use crate::support::lab::{B, Lab};
use crate::support::process::eventually;
use crate::support::{Ended, HERE, Site, Start};

/// What a client sends first.
fn client_hello() -> Vec<u8> {
    let pin = ServerPin::Exact(Identity::generate().public());
    let config: Arc<rustls::ClientConfig> = client_config(&Identity::generate(), pin);
    let mut client = rustls::ClientConnection::new(config, server_name()).unwrap();
    let mut hello = Vec::new();
    client.write_tls(&mut hello).unwrap();
    hello
}

/// Connections that may be open in this process at once.
fn raise_descriptor_limit() {
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: limit.maximum.or(Some(1 << 16)), ..limit }).unwrap();
}

/// Begins handshakes and leaves them, 1,500 a second and from the sources in turn, until told to stop. The oldest are
/// closed when there are many. Tells how many there were.
fn flood(port: u16, sources: &[Ipv4Addr], stop: &AtomicBool, begun: &AtomicU32) {
    let hello = client_hello();
    let mut open = VecDeque::new();
    let start = Instant::now();
    for (number, source) in (1_u32..).zip(sources.iter().cycle()) {
        if stop.load(Ordering::Relaxed) {
            return;
        }
        std::thread::sleep((start + number * Duration::from_micros(667)).saturating_duration_since(Instant::now()));
        let socket =
            socket_with(AddressFamily::INET, SocketType::STREAM, SocketFlags::NONBLOCK | SocketFlags::CLOEXEC, None);
        let socket = socket.unwrap();
        bind(&socket, &SocketAddrV4::new(*source, 0)).unwrap();
        // Within this host the connection is made at once, or it is not.
        let _ = connect(&socket, &SocketAddr::from((B.parse::<Ipv4Addr>().unwrap(), port)));
        let mut stream = TcpStream::from(socket);
        if stream.write_all(&hello).is_ok() {
            begun.fetch_add(1, Ordering::Relaxed);
        }
        open.push_back(stream);
        if open.len() > 3000 {
            open.pop_front();
        }
    }
}

/// Copies at 300 ms while strangers at the daemon's own host begin handshakes from `sources`.
fn copies_among(sources: &[Ipv4Addr]) {
    raise_descriptor_limit();
    let Some(lab) = Lab::up(&["--rate", "100mbit", "--rtt", "300ms"]) else { return };
    let site = Site::new();
    let root = site.directory("root");
    let daemon = Daemon::in_lab(&lab, &site, "daemon", &format!("root={},rights=rw", root.display()));
    fs::write(site.path("file"), "data").unwrap();
    let (stop, begun) = (AtomicBool::new(false), AtomicU32::new(0));
    let copy = |number: u32| -> Ended {
        let mut command = lab.on_a(&site, "copy");
        command.args(["--json"]).arg(site.path("file")).arg(daemon.location(&format!("copy-{number}"))).run()
    };
    let ended: Vec<Ended> = std::thread::scope(|scope| {
        scope.spawn(|| lab.inside("b", || flood(daemon.port(), sources, &stop, &begun)));
        // Every place that strangers can take is taken.
        assert!(eventually(|| begun.load(Ordering::Relaxed) >= 1000));
        let ended = (0..4).map(copy).collect();
        stop.store(true, Ordering::Relaxed);
        ended
    });
    for (number, ended) in ended.into_iter().enumerate() {
        let ended = ended.expect_code(0);
        assert_eq!(ended.all("reconnecting").count(), 0, "{ended}");
        assert_eq!(fs::read(root.join(format!("copy-{number}"))).unwrap(), b"data");
    }
}

#[test]
fn half_handshakes_of_one_address_do_not_keep_a_distant_client_out() {
    copies_among(&[Ipv4Addr::new(127, 9, 9, 9)]);
}

#[test]
fn half_handshakes_of_many_addresses_do_not_keep_a_distant_client_out() {
    let sources: Vec<Ipv4Addr> = (0..=199).map(|number| Ipv4Addr::new(127, number, 1, 1)).collect();
    copies_among(&sources);
}

#[test]
fn a_thousand_silent_connections_do_not_delay_a_start() {
    raise_descriptor_limit();
    let site = Site::new();
    let root = site.directory("root");
    let daemon = Daemon::start(&site, &root, "rw");
    fs::write(site.path("file"), "data").unwrap();
    let crowd =
        || -> Vec<TcpStream> { (0..1000).map(|_| TcpStream::connect((HERE, daemon.port())).unwrap()).collect() };
    let copy = |name: String| {
        let started = Instant::now();
        site.copy(&["file"]).arg(daemon.location(&name)).run().expect_code(0);
        started.elapsed()
    };
    // The best of several, in turn: what else the machine does strikes both.
    let (mut alone, mut among) = (Duration::MAX, Duration::MAX);
    for round in 0..5 {
        alone = alone.min(copy(format!("alone-{round}")));
        let silent = crowd();
        among = among.min(copy(format!("among-{round}")));
        drop(silent);
    }
    eprintln!("alone {alone:?}, among a thousand {among:?}");
    assert!(among < alone * 2, "{alone:?} became {among:?}");
}
