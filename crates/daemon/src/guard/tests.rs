//! The guard over real sockets.

use std::io::{Read, Write};
use std::net::SocketAddr;

use icdc_link::{receive, secure_client};
use icdc_protocol::Message;
use icdc_trust::{Identity, ServerPin, client_config, server_config};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::*;

/// Answers every ping, for a key or for all.
struct Echo {
    tls: Arc<rustls::ServerConfig>,
}

impl Service for Echo {
    fn tls(&self) -> Arc<rustls::ServerConfig> {
        Arc::clone(&self.tls)
    }

    fn serve(&self, mut link: Link) {
        while let Ok(message) = receive(link.inlet.as_mut()) {
            let sent = link.outlet.send(message.into()).and_then(|()| link.outlet.flush());
            if sent.is_err() {
                return;
            }
        }
    }

    fn take_data(&self, mut stream: TcpStream) {
        // What has come is still there.
        let mut opening = [0; DATA_OPENING];
        let _ = stream.read_exact(&mut opening).and_then(|()| stream.write_all(&opening));
    }
}

struct Scene {
    guard: Guard,
    address: SocketAddr,
    server: Identity,
    client: Identity,
}

impl Scene {
    fn new(limits: Limits) -> Self {
        let (server, client) = (Identity::generate(), Identity::generate());
        let welcome = client.public();
        let tls = server_config(&server, move |key| *key == welcome);
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let guard = Guard::start(vec![listener], Arc::new(Echo { tls }), limits).unwrap();
        Self { guard, address, server, client }
    }

    fn link(&self, identity: &Identity) -> Result<Link, LinkError> {
        let stream = TcpStream::connect(self.address).unwrap();
        let config = client_config(identity, ServerPin::Exact(self.server.public()));
        secure_client(stream, config, Span::from_secs(10))
    }
}

fn ping(link: &mut Link) -> Result<Message, LinkError> {
    link.outlet.send(Message::Ping.into())?;
    link.outlet.flush()?;
    receive(link.inlet.as_mut())
}

/// Whether the other end has closed the connection; waits for it.
fn is_closed(stream: &mut TcpStream, patience: Duration) -> bool {
    stream.set_read_timeout(Some(patience)).unwrap();
    match stream.read(&mut [0; 64]) {
        // An alert may precede the end.
        Ok(count) => count == 0 || is_closed(stream, patience),
        Err(error) => error.kind() == io::ErrorKind::ConnectionReset,
    }
}

#[test]
fn a_thousand_silent_connections_do_not_keep_anybody_out() {
    let limit = Rlimit { current: Some(4096), ..getrlimit(Resource::Nofile) };
    setrlimit(Resource::Nofile, limit).unwrap();
    let scene = Scene::new(Limits { patience: Span::from_secs(60), connections: 128, ..Limits::default() });
    let mut before = scene.link(&scene.client).unwrap();
    assert_eq!(ping(&mut before).unwrap(), Message::Ping);

    let mut silent: Vec<TcpStream> = (0..1000).map(|_| TcpStream::connect(scene.address).unwrap()).collect();
    let mut newcomer = scene.link(&scene.client).unwrap();
    assert_eq!(ping(&mut newcomer).unwrap(), Message::Ping);
    assert_eq!(ping(&mut before).unwrap(), Message::Ping, "who is inside is left alone");
    // All but the newest 128 have been closed, the oldest first.
    let open = silent.iter_mut().filter_map(|stream| (!is_closed(stream, Duration::from_millis(1))).then_some(()));
    assert!(open.count() <= 128);
    let threads = std::fs::read_dir("/proc/self/task").unwrap().count();
    assert!(threads < 100, "{threads} threads");
}

#[test]
fn silence_garbage_and_slow_handshakes_end_at_the_deadline() {
    let scene = Scene::new(Limits { patience: Span::from_millis(700), connections: 8, ..Limits::default() });
    let mut silent = TcpStream::connect(scene.address).unwrap();
    let mut garbage = TcpStream::connect(scene.address).unwrap();
    garbage.write_all(&[b'x'; 4096]).unwrap();
    // The beginning of a handshake record that never ends.
    let mut slow = TcpStream::connect(scene.address).unwrap();
    slow.write_all(&[22, 3, 1, 1, 0, 1]).unwrap();
    let start = clock::now();
    for stream in [&mut garbage, &mut slow, &mut silent] {
        assert!(is_closed(stream, Duration::from_secs(20)));
    }
    let took = clock::now() - start;
    assert!(took < Span::from_secs(10), "{took}");
    // One that is let in and then says nothing.
    let mut mute = scene.link(&scene.client).unwrap();
    assert!(receive(mute.inlet.as_mut()).is_err());
    assert!(clock::now() - start < Span::from_secs(10));
}

#[test]
fn who_has_spoken_is_not_hurried() {
    let scene = Scene::new(Limits { patience: Span::from_millis(500), connections: 8, ..Limits::default() });
    let mut link = scene.link(&scene.client).unwrap();
    ping(&mut link).unwrap();
    assert!(!icdc_stop::StopSignal::new().wait(Span::from_millis(1000)));
    assert_eq!(ping(&mut link).unwrap(), Message::Ping);
}

#[test]
fn the_opening_of_a_data_connection_is_handed_on_when_it_is_whole() {
    let scene = Scene::new(Limits { patience: Span::from_secs(60), connections: 8, ..Limits::default() });
    let opening = [&DATA_MAGIC[..], &[7; DATA_OPENING - DATA_MAGIC.len()]].concat();
    let mut stream = TcpStream::connect(scene.address).unwrap();
    for part in opening.chunks(20) {
        stream.write_all(part).unwrap();
        std::thread::yield_now();
    }
    let mut back = vec![0; opening.len()];
    stream.read_exact(&mut back).unwrap();
    assert_eq!(back, opening);
}

#[test]
fn other_keys_are_turned_away() {
    let scene = Scene::new(Limits::default());
    // In TLS 1.3 the client learns of it with the first answer.
    let refused = scene.link(&Identity::generate()).and_then(|mut link| ping(&mut link));
    assert!(refused.is_err());
    assert!(scene.link(&scene.client).and_then(|mut link| ping(&mut link)).is_ok());
}

#[test]
fn half_handshakes_make_room_for_newer_ones() {
    let scene = Scene::new(Limits { patience: Span::from_secs(60), connections: 4, ..Limits::default() });
    let mut slow: Vec<TcpStream> = (0..8).map(|_| TcpStream::connect(scene.address).unwrap()).collect();
    for stream in &mut slow {
        // An evicted one may be gone by now.
        let _ = stream.write_all(&[22, 3, 1]);
    }
    let mut link = scene.link(&scene.client).unwrap();
    assert_eq!(ping(&mut link).unwrap(), Message::Ping);
}

#[test]
fn closing_ends_unauthenticated_connections_and_waits_for_the_others() {
    let mut scene = Scene::new(Limits::default());
    let mut client = scene.link(&scene.client).unwrap();
    ping(&mut client).unwrap();
    let mut stranger = TcpStream::connect(scene.address).unwrap();
    scene.guard.close();
    assert!(is_closed(&mut stranger, Duration::from_secs(10)));
    assert!(TcpStream::connect(scene.address).is_err());
    assert!(!scene.guard.wait_until_served(Span::from_millis(50)));
    assert_eq!(ping(&mut client).unwrap(), Message::Ping);
    drop(client);
    assert!(scene.guard.wait_until_served(Span::from_secs(10)));
}
