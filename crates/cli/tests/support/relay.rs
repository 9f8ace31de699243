//! A running `icdc relay`, and ends to talk through it.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::AsFd;
use serde_json::Value;

use super::process::{Run, Signal, Start};
use super::{Ended, HERE, ICDC, Site};

/// No test waits longer than this for a byte.
pub const PATIENCE: Duration = Duration::from_secs(60);

static NUMBER: AtomicU32 = AtomicU32::new(0);

/// How many connections a test makes: `usual`, or what `ICDC_TEST_CONNECTIONS` says.
pub fn connections(usual: u64) -> u64 {
    std::env::var("ICDC_TEST_CONNECTIONS").ok().and_then(|text| text.parse().ok()).unwrap_or(usual)
}

/// A relay. Killed when dropped.
pub struct Relay {
    run: Run,
    socket: String,
}

impl Relay {
    /// `icdc relay WORDS…`, listening on loopback.
    pub fn start(site: &Site, words: &[&str]) -> Self {
        Self::launch(site, words, |command| command)
    }

    /// The same, as `place` changes the command: to run it on another host.
    pub fn launch(site: &Site, words: &[&str], place: impl Fn(Command) -> Command) -> Self {
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let socket = site.path(format!("relay-{number}.sock")).to_str().unwrap().to_owned();
        // The algorithms of icdc are there once on this machine: other tests load and unload them.
        let cc: &[&str] = if words.contains(&"--cc") { &[] } else { &["--cc", "cubic"] };
        let run = place(site.icdc(&[&["relay", "--status-socket", &socket], cc, words].concat())).start();
        assert!(run.wait_for_words("ready"), "{}", run.stderr());
        Self { run, socket }
    }

    /// Where the listener of this kind listens.
    pub fn address(&self, kind: &str) -> SocketAddr {
        let log = self.run.stderr();
        let line = log.lines().rfind(|line| line.contains(&format!("kind=\"{kind}\""))).expect("a line of the log");
        let (_, rest) = line.split_once("address=").unwrap();
        rest.split(' ').next().unwrap().parse().unwrap()
    }

    /// `icdc relay status --json`
    pub fn status(&self) -> Value {
        let output =
            Command::new(ICDC).args(["relay", "status", "--json", "--status-socket", &self.socket]).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice(&output.stdout).unwrap()
    }

    /// One of the sums of the status.
    pub fn total(&self, name: &str) -> u64 {
        self.status()["totals"][name].as_u64().unwrap()
    }

    /// Descriptors that it has open.
    pub fn descriptors(&self) -> usize {
        std::fs::read_dir(format!("/proc/{}/fd", self.run.pid().as_raw_nonzero())).unwrap().count()
    }

    /// Its resident memory in bytes (proc(5)).
    pub fn memory(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.run.pid().as_raw_nonzero())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
        line.trim().strip_suffix(" kB").unwrap().parse::<u64>().unwrap() << 10
    }

    pub fn socket(&self) -> &str {
        &self.socket
    }

    pub fn run(&self) -> &Run {
        &self.run
    }

    pub fn kill(self) -> Ended {
        self.run.kill()
    }

    /// Waits for its end.
    pub fn finish(self) -> Ended {
        self.run.finish()
    }

    /// Asks it to stop and waits for its end.
    pub fn stop(self) -> Ended {
        self.run.signal(Signal::TERM);
        self.run.finish()
    }
}

/// A listener on loopback.
pub fn listener() -> TcpListener {
    TcpListener::bind((HERE, 0)).unwrap()
}

/// Connects with a limit to how long a read or write may take.
pub fn connect(address: SocketAddr) -> TcpStream {
    patient(TcpStream::connect(address).unwrap())
}

pub fn accept(listener: &TcpListener) -> TcpStream {
    let patience = Timespec::try_from(PATIENCE).unwrap();
    let ready = poll(&mut [PollFd::new(listener, PollFlags::IN)], Some(&patience)).unwrap();
    assert_eq!(ready, 1, "nobody came to {}", listener.local_addr().unwrap());
    patient(listener.accept().unwrap().0)
}

pub fn patient(stream: TcpStream) -> TcpStream {
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.set_write_timeout(Some(PATIENCE)).unwrap();
    stream
}

/// Serves connections one after the other, each by `serve` on a thread of its own, until the test
/// ends.
pub fn server(serve: impl Fn(TcpStream) + Clone + Send + 'static) -> SocketAddr {
    let listener = listener();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let serve = serve.clone();
            std::thread::spawn(move || serve(patient(stream)));
        }
    });
    address
}

/// A server that gives back what it gets, and ends when its client does.
pub fn echo() -> SocketAddr {
    server(|mut stream| {
        let mut copy = stream.try_clone().unwrap();
        let _ = std::io::copy(&mut stream, &mut copy);
        let _ = copy.shutdown(std::net::Shutdown::Write);
    })
}

/// Sends bytes and the end while it reads everything that comes back.
pub fn exchange(mut stream: TcpStream, bytes: Vec<u8>) -> std::io::Result<Vec<u8>> {
    let mut copy = stream.try_clone()?;
    let writer: JoinHandle<std::io::Result<()>> = std::thread::spawn(move || {
        copy.write_all(&bytes)?;
        copy.shutdown(std::net::Shutdown::Write)
    });
    let mut back = Vec::new();
    stream.read_to_end(&mut back)?;
    writer.join().unwrap()?;
    Ok(back)
}

/// Closes it by a reset.
pub fn reset(stream: TcpStream) {
    rustix::net::sockopt::set_socket_linger(stream.as_fd(), Some(Duration::ZERO)).unwrap();
}

/// How a connection ends that nobody wants at `address`, as soon as it stands or a little later: an
/// error, by its kind.
pub fn refused(address: SocketAddr) -> std::io::ErrorKind {
    match TcpStream::connect(address) {
        Ok(stream) => read_error(&mut patient(stream)),
        Err(error) => error.kind(),
    }
}

/// What a read finds that nobody answers in order: an error, by its kind.
pub fn read_error(stream: &mut TcpStream) -> std::io::ErrorKind {
    let mut buffer = [0; 64 << 10];
    loop {
        match stream.read(&mut buffer) {
            Ok(0) => panic!("the connection ended in order"),
            Ok(_) => {}
            Err(error) => return error.kind(),
        }
    }
}

/// The beginning of a SOCKS connection without login, and the code of the reply.
pub fn socks(relay: SocketAddr, request: &[u8]) -> (TcpStream, u8) {
    let mut stream = connect(relay);
    stream.write_all(&[5, 1, 0]).unwrap();
    let mut answer = [0; 2];
    stream.read_exact(&mut answer).unwrap();
    assert_eq!(answer, [5, 0]);
    stream.write_all(request).unwrap();
    let code = socks_reply(&mut stream);
    (stream, code)
}

pub fn socks_reply(stream: &mut TcpStream) -> u8 {
    let mut reply = [0; 10];
    stream.read_exact(&mut reply).unwrap();
    assert_eq!((reply[0], reply[3]), (5, 1));
    reply[1]
}

/// A CONNECT request to an IPv4 address.
pub fn request(to: SocketAddr) -> Vec<u8> {
    let SocketAddr::V4(to) = to else { panic!("IPv4 is asked for") };
    [&[5, 1, 0, 1][..], &to.ip().octets(), &to.port().to_be_bytes()].concat()
}

/// A CONNECT request to a name.
pub fn request_name(name: &str, port: u16) -> Vec<u8> {
    [&[5, 1, 0, 3, name.len() as u8][..], name.as_bytes(), &port.to_be_bytes()].concat()
}
