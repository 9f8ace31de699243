//! Tests over real sockets. Here: pairs of ends, and a proxy between them that watches, changes and
//! cuts.

mod differential;
mod forwarded;
mod handed_over;
mod hostile;
mod interop;
mod streams;

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use icdc_trust::{Identity, ServerPin, client_config, server_config};
use icdc_units::Span;
use rustls::{ClientConfig, ServerConfig};

use super::{Carrier, SecureSettings, secure_client_with, secure_server_with};
use crate::tests::spawn;
use crate::{Link, LinkError};

const DEADLINE: Span = Span::from_secs(10);

fn settings() -> SecureSettings {
    SecureSettings { dead_after: Span::from_secs(10), ..SecureSettings::default() }
}

/// Configurations of two ends that know each other.
fn configs() -> (Arc<ClientConfig>, Arc<ServerConfig>) {
    let (alice, bob) = (Identity::generate(), Identity::generate());
    let admitted = alice.public();
    let server = server_config(&bob, move |key| *key == admitted);
    (client_config(&alice, ServerPin::Exact(bob.public())), server)
}

fn listen() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    (listener, address)
}

/// Two connected sockets.
fn sockets() -> (TcpStream, TcpStream) {
    let (listener, address) = listen();
    let client = TcpStream::connect(address).unwrap();
    (client, listener.accept().unwrap().0)
}

/// A carrier of this socket, which stays open with it.
fn carrier(socket: &TcpStream) -> Carrier {
    socket.try_clone().unwrap().into()
}

/// Two links that are each other's peer, over these sockets.
fn pair_over<T: Into<Carrier> + Send + 'static>(sockets: (T, T), settings: SecureSettings) -> (Link, Link) {
    let (client, server) = configs();
    let accepting = spawn(move || secure_server_with(sockets.1, server, DEADLINE, settings));
    let client = secure_client_with(sockets.0, client, DEADLINE, settings).unwrap();
    (client, accepting.join().unwrap().unwrap())
}

fn pair() -> (Link, Link) {
    pair_over(sockets(), settings())
}

/// Function of a proxy on bytes on their way from client to server, of which the first is number
/// `offset`. Returns how many of them to pass on; fewer than all ends both connections behind them.
type Tamper = Box<dyn FnMut(u64, &mut [u8]) -> usize + Send>;

/// Two links with a proxy between them.
fn proxied(settings: SecureSettings, tamper: Tamper) -> (Link, Link) {
    let (client, near) = sockets();
    let (far, server) = sockets();
    let back = (far.try_clone().unwrap(), near.try_clone().unwrap());
    spawn(move || forward(near, far, tamper));
    spawn(move || forward(back.0, back.1, Box::new(|_, bytes| bytes.len())));
    pair_over((client, server), settings)
}

fn forward(mut from: TcpStream, mut to: TcpStream, mut tamper: Tamper) {
    let mut buffer = vec![0; 256 << 10];
    let mut offset = 0;
    while let Ok(count @ 1..) = from.read(&mut buffer) {
        let passed = tamper(offset, &mut buffer[..count]);
        offset += count as u64;
        if to.write_all(&buffer[..passed]).is_err() || passed < count {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Write);
    // Takes what the client still sends, so that it is not reset before it has closed.
    while let Ok(1..) = from.read(&mut buffer) {}
}

/// Reads the stream of records that passes a proxy; the lengths of all bodies of encrypted records.
#[derive(Clone, Default)]
struct Sniffer(Arc<Mutex<(Vec<u8>, Vec<usize>)>>);

impl Sniffer {
    fn tamper(&self) -> Tamper {
        let sniffer = self.clone();
        Box::new(move |_, bytes| {
            let mut state = sniffer.0.lock().unwrap();
            let (pending, lengths) = &mut *state;
            pending.extend_from_slice(bytes);
            let mut at = 0;
            while let Some(&[kind, _, _, high, low]) = pending[at..].first_chunk() {
                let length = usize::from(u16::from_be_bytes([high, low]));
                if pending.len() < at + 5 + length {
                    break;
                }
                if kind == 23 {
                    lengths.push(length);
                }
                at += 5 + length;
            }
            pending.drain(..at);
            bytes.len()
        })
    }

    /// Records whose content has this length.
    fn count(&self, content: usize) -> usize {
        self.0.lock().unwrap().1.iter().filter(|&&body| body == content + 17).count()
    }
}

/// Waits, where a test has nothing to wait for but time.
fn pause(millis: u64) {
    let _ = crossbeam_channel::never::<()>().recv_timeout(Duration::from_millis(millis));
}

/// Both results of a handshake between these configurations.
fn handshake(
    client: Arc<ClientConfig>,
    server: Arc<ServerConfig>,
) -> (Result<Link, LinkError>, JoinHandle<Result<Link, LinkError>>) {
    let sockets = sockets();
    let accepting = spawn(move || secure_server_with(sockets.1, server, DEADLINE, settings()));
    (secure_client_with(sockets.0, client, DEADLINE, settings()), accepting)
}
