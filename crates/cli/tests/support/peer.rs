//! An end that knows the handshake and keeps to no other rule.

#![allow(unreachable_pub, reason = "a test program is its own crate")]
#![allow(dead_code, reason = "each test program uses a part")]
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use icdc_disk::BlockPool;
use icdc_link::{Link, LinkError, Parcel, secure_client, secure_server};
use icdc_protocol::message::{
    Begin, Entry, EntryId, EntryKind, FileDigest, Job, Parent, ReceiveOptions, Refusal, Request, Source, SourceKind,
    Transfer, Want,
};
use icdc_protocol::{Features, Message, Versions};
use icdc_trust::{Identity, PublicKey, ServerPin, client_config, server_config};
use icdc_units::Span;

use crate::support::daemon::{Daemon, location};
use crate::support::{Ended, HERE, Site, Start, succeed};

const PATIENCE: Span = Span::from_secs(20);
/// Time limit for a command whose other end does as it likes.
const AGAINST: Duration = Duration::from_secs(60);

/// One end of a link, driven by a test.
pub struct Peer {
    link: Link,
    pool: BlockPool,
    /// Whether it answers a receiver that asks whether its sender is still there.
    pub confirms: bool,
}

impl Peer {
    fn new(link: Link) -> Self {
        Self { link, pool: BlockPool::new(16).unwrap(), confirms: true }
    }

    /// Connects to a daemon as the site's client.
    pub fn connect(site: &Site, daemon: &Daemon) -> Self {
        Self::connect_as(&Identity::load(&site.path("home/.config/icdc/identity")).unwrap(), daemon)
    }

    /// Connects to a daemon as the holder of `identity`.
    pub fn connect_as(identity: &Identity, daemon: &Daemon) -> Self {
        Self::offer(identity, daemon, Versions::OURS).unwrap()
    }

    /// Connects to a daemon as the holder of `identity`, and says that it speaks `versions`.
    pub fn offer(identity: &Identity, daemon: &Daemon, versions: Versions) -> Result<Self, LinkError> {
        let (key, _) = PublicKey::parse_line(daemon.key()).unwrap();
        let stream = TcpStream::connect((HERE, daemon.port())).unwrap();
        let mut config = client_config(identity, ServerPin::Exact(key));
        Arc::make_mut(&mut config).alpn_protocols = versions.names();
        secure_client(stream, config, PATIENCE).map(Self::new)
    }

    /// The version of the protocol that was agreed upon.
    pub fn version(&self) -> Option<u32> {
        self.link.control.version()
    }

    /// Connects and asks a daemon to receive into `destination`.
    pub fn push(site: &Site, daemon: &Daemon, destination: &str) -> Self {
        let options = ReceiveOptions { resume: true, ..ReceiveOptions::default() };
        Self::push_asking(site, daemon, destination, options)
    }

    fn push_asking(site: &Site, daemon: &Daemon, destination: &str, options: ReceiveOptions) -> Self {
        let mut peer = Self::connect(site, daemon);
        let job = Transfer::Receive { destination: destination.into(), options };
        peer.say(Message::Request(Request::new(transfer(), job)));
        peer
    }

    /// As [`push`](Self::push), up to a directory with id 0 that is open.
    pub fn push_into_directory(site: &Site, daemon: &Daemon, destination: &str) -> Self {
        let options = ReceiveOptions { resume: true, ..ReceiveOptions::default() };
        Self::push_with(site, daemon, destination, options)
    }

    /// As [`push_into_directory`](Self::push_into_directory), with these options.
    pub fn push_with(site: &Site, daemon: &Daemon, destination: &str, options: ReceiveOptions) -> Self {
        let mut peer = Self::push_asking(site, daemon, destination, options);
        peer.say(begin(b"top", SourceKind::Directory));
        // An earlier session of the same run may still be ending.
        peer.hear_of(|message| matches!(message, Message::Ready(_)).then_some(()));
        peer.say(Message::Entries(vec![entry(0, Parent::Source(0), b"", EntryKind::Directory)]));
        peer
    }

    /// Sends a message; the link may be gone already.
    pub fn say(&mut self, message: Message) -> bool {
        self.link.outlet.send(message.into()).is_ok() && self.link.outlet.flush().is_ok()
    }

    /// Sends a message with a payload.
    pub fn say_with(&mut self, message: Message, payload: &[u8]) -> bool {
        let mut block = self.pool.take().unwrap();
        block[..payload.len()].copy_from_slice(payload);
        self.link.outlet.send(Parcel { message, payload: Some((block, payload.len()).into()) }).is_ok()
    }

    pub fn hear(&mut self) -> Result<Message, LinkError> {
        let message = self.link.inlet.receive(&self.pool).map(|parcel| parcel.message)?;
        if self.confirms && matches!(message, Message::Ready(_)) {
            self.say(Message::Confirmed);
        }
        Ok(message)
    }

    /// The first message that fits; panics if the other end breaks off before.
    #[track_caller]
    pub fn hear_of<T>(&mut self, what: impl Fn(&Message) -> Option<T>) -> T {
        loop {
            match self.hear() {
                Ok(Message::Abort(refusal) | Message::Refused(refusal)) => panic!("refused: {}", refusal.reason),
                Ok(message) => {
                    if let Some(found) = what(&message) {
                        return found;
                    }
                }
                Err(error) => panic!("{error}"),
            }
        }
    }

    /// Waits until the other end has asked for the contents of an entry.
    #[track_caller]
    pub fn hear_wanted(&mut self, id: EntryId) {
        self.hear_of(|message| match message {
            Message::Wants(wants) => {
                let answer = id.checked_sub(wants.first).and_then(|at| wants.answers.get(at as usize));
                matches!(answer, Some(Want::All | Want::Rest)).then_some(())
            }
            _ => None,
        });
    }

    /// Waits until an item has failed; answers why.
    #[track_caller]
    pub fn hear_failed(&mut self, id: EntryId) -> String {
        self.hear_of(|message| match message {
            Message::Done(done) => done.iter().find(|done| done.id == id).and_then(|done| done.outcome.clone().err()),
            _ => None,
        })
    }

    /// Asks for a job of a transfer.
    pub fn ask(&mut self, transfer: [u8; 16], job: impl Into<Job>) {
        self.say(Message::Request(Request::new(transfer, job)));
    }

    /// The words with which the other end refuses; panics if it ends without any.
    #[track_caller]
    pub fn hear_refusal(&mut self) -> Refusal {
        loop {
            match self.hear() {
                Ok(Message::Abort(refusal) | Message::Refused(refusal)) => return refusal,
                Ok(_) => {}
                Err(error) => panic!("no words, but: {error}"),
            }
        }
    }

    /// Closes this direction of the connection in order, and waits for the end of the other.
    pub fn close(self) {
        let Self { link: Link { outlet, mut inlet, .. }, pool, .. } = self;
        drop(outlet);
        while inlet.receive(&pool).is_ok() {}
    }

    /// Port of this end of the connection.
    pub fn port(&self) -> u16 {
        self.link.control.socket().unwrap().local_addr().unwrap().port()
    }

    /// Breaks the connection.
    pub fn cut(&self) {
        self.link.control.shutdown();
    }

    /// Why the connection ends.
    pub fn hear_end(&mut self) -> LinkError {
        loop {
            if let Err(error) = self.hear() {
                return error;
            }
        }
    }
}

/// A server on loopback that the site's client trusts.
pub struct Server {
    listener: TcpListener,
    identity: Identity,
}

impl Server {
    pub fn new(site: &Site) -> Self {
        let listener = TcpListener::bind((HERE, 0)).unwrap();
        let identity = Identity::generate();
        if !site.path("home/.config/icdc/identity").exists() {
            succeed(&mut site.icdc(&["keygen"]));
        }
        let place = format!("{HERE}:{}", listener.local_addr().unwrap().port());
        succeed(&mut site.icdc(&["keygen", "--trust", &place, &identity.public().to_string()]));
        Self { listener, identity }
    }

    pub fn port(&self) -> u16 {
        self.listener.local_addr().unwrap().port()
    }

    /// What it proves to be by.
    pub fn identity(&self) -> &Identity {
        &self.identity
    }

    /// The next connection, to an end that says that it speaks `versions`.
    pub fn accept_offering(&self, versions: Versions) -> Result<Peer, LinkError> {
        let mut config = server_config(&self.identity, |_| true);
        Arc::make_mut(&mut config).alpn_protocols = versions.names();
        secure_server(self.accept_silently(), config, PATIENCE).map(Peer::new)
    }

    /// The next connection, before a byte of it is answered.
    pub fn accept_silently(&self) -> TcpStream {
        self.listener.accept().unwrap().0
    }

    /// The next connection that comes as far as a request.
    pub fn accept(&self) -> Peer {
        let mut peer = self.accept_request();
        peer.say(Message::Accepted(Features::OURS));
        peer
    }

    /// The next connection, of which nothing but the handshake was heard.
    pub fn accept_unheard(&self) -> Peer {
        let stream = self.accept_silently();
        Peer::new(secure_server(stream, server_config(&self.identity, |_| true), PATIENCE).unwrap())
    }

    /// The next connection that comes as far as a request, which is not answered yet.
    pub fn accept_request(&self) -> Peer {
        let mut peer = self.accept_unheard();
        peer.hear_of(|message| matches!(message, Message::Request(_)).then_some(()));
        peer
    }
}

/// Runs a command about `top` at a server that takes its connection by `accept` and does as it likes.
pub fn run_against(words: &[&str], accept: fn(&Server) -> Peer, act: impl FnOnce(&mut Peer) + Send) -> Ended {
    let site = Site::new();
    let server = Server::new(&site);
    let started = Instant::now();
    let ended = std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut peer = accept(&server);
            act(&mut peer);
            peer.hear_end();
        });
        site.icdc(words).arg(location(server.port(), "top")).run()
    });
    assert!(started.elapsed() < AGAINST, "{:?}: {ended}", started.elapsed());
    ended
}

/// A name for a run that no other has.
pub fn transfer() -> [u8; 16] {
    let mut id = [0; 16];
    rustix::rand::getrandom(&mut id[..], rustix::rand::GetRandomFlags::empty()).unwrap();
    id
}

pub fn begin(name: &[u8], kind: SourceKind) -> Message {
    Message::Begin(Begin { job: [7; 32], sources: vec![Source { name: name.to_vec(), kind, identity: None }] })
}

pub fn entry(id: EntryId, parent: Parent, name: &[u8], kind: EntryKind) -> Entry {
    let (owner, xattrs) = (None, Vec::new());
    Entry { id, parent, name: name.to_vec(), kind, mode: 0o755, mtime_seconds: 0, mtime_nanos: 0, owner, xattrs }
}

pub fn file(size: u64) -> EntryKind {
    EntryKind::File { size, version: [3; 16], sparse: false, linked: false }
}

pub fn sparse_file(size: u64) -> EntryKind {
    EntryKind::File { size, version: [3; 16], sparse: true, linked: false }
}

pub fn symlink(target: &Path) -> EntryKind {
    EntryKind::Symlink { target: target.to_str().unwrap().into() }
}

/// Digest of a file as `b3sum` prints it.
pub fn digest(contents: &[u8]) -> FileDigest {
    FileDigest::Blake3(*blake3::hash(contents).as_bytes())
}

/// Names that must never be made.
pub fn evil_names() -> [Vec<u8>; 8] {
    [
        b"..".to_vec(),
        b".".to_vec(),
        Vec::new(),
        b"a/b".to_vec(),
        b"../evil".to_vec(),
        b"/evil".to_vec(),
        b"ev\0il".to_vec(),
        vec![b'x'; 256],
    ]
}
