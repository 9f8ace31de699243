//! A lab of its own for a test, and sockets on its hosts.

use std::net::{TcpListener, TcpStream, UdpSocket};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

use serde_json::Value;

use super::network::{self, within};
use super::process::eventually;
use super::{ICDC, Site, is_root, skip};

pub const A: &str = "10.26.33.1";
pub const B: &str = "10.26.33.2";

static NUMBER: AtomicU32 = AtomicU32::new(0);

/// A lab that is taken down when dropped.
pub struct Lab {
    pub name: String,
}

impl Lab {
    /// `icdc lab up WORDS…` under a name of its own; `None`, with the reason told, where only root
    /// could.
    pub fn up(words: &[&str]) -> Option<Self> {
        if !is_root() {
            skip("sockets inside a lab need root");
            return None;
        }
        let lab = Self { name: unused_name() };
        let output = lab.icdc("up", words);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        Some(lab)
    }

    /// `icdc lab COMMAND --name NAME WORDS…`
    pub fn icdc(&self, command: &str, words: &[&str]) -> Output {
        Command::new(ICDC).args(["lab", command, "--name", &self.name]).args(words).output().unwrap()
    }

    /// `icdc VERB` on host a, whose far end starts on whichever host the words to come name.
    pub fn on_a(&self, site: &Site, verb: &str) -> Command {
        let shell = format!("{ICDC} lab exec --name {} --shell", self.name);
        let inside = ["lab", "exec", "--name", &self.name, "a", "--", ICDC];
        site.icdc(&[&inside, [verb, "--ssh", &shell, "--remote-icdc", ICDC].as_slice()].concat())
    }

    /// The same command, but on a host of the lab.
    pub fn run_on(&self, host: &str, command: &Command) -> Command {
        within(&format!("icdc-{}-{host}", self.name), command)
    }

    pub fn status(&self) -> Value {
        let output = self.icdc("status", &["--json"]);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice(&output.stdout).unwrap()
    }

    /// The status once it no longer changes: the wire brings it up to date ten times a second.
    pub fn settled_status(&self) -> Value {
        let mut last = self.status();
        let settled = eventually(|| {
            // What is compared must not be the same update.
            thread::sleep(Duration::from_millis(400));
            let before = std::mem::replace(&mut last, self.status());
            last["a_to_b"]["offered_packets"] == before["a_to_b"]["offered_packets"]
                && last["a_to_b"]["held_packets"] == 0
        });
        assert!(settled, "packets are still on their way: {last}");
        last
    }

    pub fn wire(&self) -> i32 {
        i32::try_from(self.status()["wire_pid"].as_i64().unwrap()).unwrap()
    }

    /// A UDP socket on host a, sending to one on host b.
    pub fn udp(&self) -> (UdpSocket, UdpSocket) {
        let receiver = self.inside("b", || UdpSocket::bind((B, 0)).unwrap());
        // What arrives while the test does not get to run must not be lost: it would look like the
        // path's doing.
        rustix::net::sockopt::set_socket_recv_buffer_size_force(&receiver, 64 << 20).unwrap();
        let to = receiver.local_addr().unwrap();
        let sender = self.inside("a", move || {
            let sender = UdpSocket::bind((A, 0)).unwrap();
            sender.connect(to).unwrap();
            sender
        });
        (sender, receiver)
    }

    /// A TCP connection from host a to host b.
    pub fn tcp(&self) -> (TcpStream, TcpStream) {
        let listener = self.inside("b", || TcpListener::bind((B, 0)).unwrap());
        let to = listener.local_addr().unwrap();
        let sender = self.inside("a", move || TcpStream::connect(to).unwrap());
        (sender, listener.accept().unwrap().0)
    }

    /// What `work` makes, such as sockets, belongs to that host.
    pub fn inside<T: Send>(&self, host: &str, work: impl FnOnce() -> T + Send) -> T {
        network::inside(&format!("icdc-{}-{host}", self.name), work)
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        self.icdc("down", &[]);
    }
}

pub fn unused_name() -> String {
    format!("test-{}-{}", std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed))
}

/// Numbers of the datagrams that arrive until none has for a while.
pub fn numbers(receiver: &UdpSocket) -> Vec<u32> {
    receiver.set_read_timeout(Some(Duration::from_secs(3))).unwrap();
    let mut numbers = Vec::new();
    let mut buffer = [0; 2048];
    while let Ok(length) = receiver.recv(&mut buffer) {
        numbers.push(u32::from_be_bytes(buffer[..length][..4].try_into().unwrap()));
    }
    numbers
}

pub fn datagram(number: u32, length: usize) -> Vec<u8> {
    let mut datagram = vec![0; length];
    datagram[..4].copy_from_slice(&number.to_be_bytes());
    datagram
}
