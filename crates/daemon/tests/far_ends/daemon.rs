//! Daemons.

use std::io;
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::thread::JoinHandle;

use icdc_client::{ConnectError, FailureKind, Far, Location};
use icdc_daemon::{Listeners, Observers, OperatorRequests, Prepared, ServeConfig};
use icdc_session_process::AllowedCongestion;
use icdc_stop::StopSignal;
use icdc_transfer::Event;
use icdc_trust::{Identity, KnownHosts, PublicKey};

use crate::{HOST, Scene, assert_same, copy, local, silent};

/// A daemon that runs in this process until it is dropped.
pub(crate) struct Daemon {
    stop: StopSignal,
    thread: Option<JoinHandle<()>>,
    port: u16,
    directory: PathBuf,
    pub(crate) key: PublicKey,
}

impl Daemon {
    pub(crate) fn start(scene: &Scene, name: &str) -> Self {
        let directory = scene.path(name);
        std::fs::create_dir(&directory).unwrap();
        std::fs::set_permissions(&directory, std::fs::Permissions::from_mode(0o755)).unwrap();
        let identity = Identity::generate();
        identity.save(&directory.join("identity")).unwrap();
        std::fs::write(directory.join("authorized_keys"), "").unwrap();
        let free = TcpListener::bind((HOST, 0)).unwrap().local_addr().unwrap();
        let config = ServeConfig {
            listen: SocketAddr::new(free.ip(), free.port()),
            root: None,
            authorized_keys: directory.join("authorized_keys"),
            identity: directory.join("identity"),
            max_rate: None,
            reread_max_rate: || Ok(None),
            congestion: AllowedCongestion::Named(Vec::new()),
            audit: None,
            metrics: None,
            session: crate::session_program(),
            listeners: Listeners::default(),
            successor: Vec::new(),
        };
        let stop = StopSignal::new();
        let thread = std::thread::spawn({
            let stop = stop.clone();
            move || {
                let prepared = Prepared::new(config).unwrap();
                prepared.serve(Observers::default(), &stop, &OperatorRequests::default(), &|_| ()).unwrap();
            }
        });
        assert!(crate::eventually(|| TcpStream::connect(free).is_ok()));
        Self { stop, thread: Some(thread), port: free.port(), directory, key: identity.public() }
    }

    /// One with a root of its own, beneath which the client has `options` besides.
    fn with_root(scene: &Scene, options: &str) -> (Self, PathBuf) {
        let (daemon, root) = (Self::start(scene, "daemon"), scene.path("root"));
        std::fs::create_dir(&root).unwrap();
        daemon.befriend(scene, &format!("root={}{options}", root.display()));
        (daemon, root)
    }

    /// Lets a key in, for what it writes as the user that this process runs as.
    pub(crate) fn authorize(&self, options: &str, key: PublicKey) {
        let says_user = options.contains("user=") || !rustix::process::geteuid().is_root();
        let options = format!("{options}{}", if says_user { "" } else { ",user=root" });
        let path = self.directory.join("authorized_keys");
        let text = std::fs::read_to_string(&path).unwrap();
        std::fs::write(&path, format!("{text}{options} {key} a tester\n")).unwrap();
    }

    /// Makes the daemon known and the client authorized.
    pub(crate) fn befriend(&self, scene: &Scene, options: &str) {
        KnownHosts::load(&scene.path("known_hosts")).unwrap().append(HOST, self.port, &self.key).unwrap();
        self.authorize(options, identity(scene));
    }

    pub(crate) fn at(&self, path: &Path) -> Location {
        Location::Daemon { host: HOST.to_owned(), port: self.port, path: path.as_os_str().as_bytes().to_vec() }
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        self.stop.request();
        let ended = self.thread.take().unwrap().join();
        assert!(ended.is_ok() || std::thread::panicking());
    }
}

/// The client's key, made when first asked for.
fn identity(scene: &Scene) -> PublicKey {
    let path = scene.path("identity");
    Identity::load(&path)
        .unwrap_or_else(|_| {
            Identity::generate().save(&path).unwrap();
            Identity::load(&path).unwrap()
        })
        .public()
}

#[test]
fn a_tree_goes_there_and_back_beneath_the_root() {
    let scene = Scene::new();
    let (daemon, root) = Daemon::with_root(&scene, ",rights=rw");
    let source = scene.tree("source");
    let (pushed, _) = copy(&local(&source), &daemon.at(Path::new("/there")), &scene.options());
    assert_eq!(pushed.unwrap().errors, 0);
    assert_same(&source, &root.join("there"));
    let (pulled, _) = copy(&daemon.at(Path::new("/there")), &local(&scene.path("back")), &scene.options());
    assert_eq!(pulled.unwrap().errors, 0);
    assert_same(&source, &scene.path("back"));
}

#[test]
fn a_key_without_the_right_or_without_a_line_is_refused() {
    let scene = Scene::new();
    let (daemon, root) = Daemon::with_root(&scene, "");
    let (refused, _) = copy(&local(&scene.tree("source")), &daemon.at(Path::new("/there")), &scene.options());
    let refused = refused.unwrap_err();
    assert_eq!(refused.kind(), FailureKind::NotLetIn, "{refused}");
    assert!(!root.join("there").exists());

    std::fs::write(daemon.directory.join("authorized_keys"), "").unwrap();
    let (refused, _) = copy(&daemon.at(Path::new("/")), &local(&scene.path("back")), &scene.options());
    let refused = refused.unwrap_err();
    assert_eq!(refused.kind(), FailureKind::NotLetIn, "{refused}");
    assert!(refused.to_string().contains(&identity(&scene).to_string()), "{refused}");
}

#[test]
fn a_root_that_is_missing_is_told_with_who_can_make_it() {
    let scene = Scene::new();
    let daemon = Daemon::start(&scene, "daemon");
    let root = scene.path("root");
    daemon.befriend(&scene, &format!("root={},rights=rw", root.display()));
    let refused = || {
        let (refused, _) = copy(&daemon.at(Path::new("/")), &local(&scene.path("back")), &scene.options());
        refused.unwrap_err().to_string()
    };
    let message = refused();
    let remedy =
        "no such directory; the daemon's operator must make the directory, or change the root= of this key's line";
    assert!(message.contains(&format!("root={}: {remedy}", root.display())), "{message}");
    std::fs::write(&root, "").unwrap();
    let message = refused();
    assert!(message.contains("This is the root= of this key's line: the daemon's operator must make it"), "{message}");
}

#[test]
fn an_unknown_daemon_becomes_known_by_the_users_word_only() {
    let scene = Scene::new();
    let daemon = Daemon::start(&scene, "daemon");
    let place = daemon.at(Path::new("/"));
    let open = |options| Far::open(&place, &options, &silent(), &icdc_stop::StopSignal::new()).map(|_| ());
    let error = open(scene.options()).unwrap_err().to_string();
    assert!(error.contains("icdc keygen"), "without an identity: {error}");

    let _ = identity(&scene);
    let error = open(scene.options()).unwrap_err();
    assert!(matches!(error, ConnectError::HostUnknown { .. }), "{error}");
    let text = error.to_string();
    let command = format!("icdc keygen --trust '{HOST}:{}' '{}'", daemon.port, daemon.key);
    assert!(text.contains(&command) && text.contains(&daemon.key.fingerprint()), "{text}");

    let answering = |answer| {
        let mut options = scene.options();
        options.confirm_host = Some(Box::new(move |_, _| answer));
        options
    };
    assert!(matches!(open(answering(false)), Err(ConnectError::HostUnknown { .. })));
    open(answering(true)).unwrap();
    open(scene.options()).unwrap();

    let other = Identity::generate().public();
    std::fs::write(scene.path("known_hosts"), format!("{HOST}:{} {other}\n", daemon.port)).unwrap();
    let error = open(answering(true)).unwrap_err();
    assert!(matches!(error, ConnectError::HostChanged { line: 1, .. }), "{error}");
}

/// Stands between a client and a daemon: passes nothing on before so many connections have come, and
/// then only the first ones.
struct Gate {
    port: u16,
    daemon: u16,
}

impl Gate {
    fn before(daemon: &Daemon, scene: &Scene, together: usize, passed: usize) -> Self {
        let listener = TcpListener::bind((HOST, 0)).unwrap();
        let gate = Self { port: listener.local_addr().unwrap().port(), daemon: daemon.port };
        KnownHosts::load(&scene.path("known_hosts")).unwrap().append(HOST, gate.port, &daemon.key).unwrap();
        std::thread::spawn(move || {
            let came: Vec<TcpStream> = (0..together).map(|_| listener.accept().unwrap().0).collect();
            let through = &came[..passed];
            let there: Vec<_> = through.iter().map(|_| TcpStream::connect((HOST, gate.daemon)).unwrap()).collect();
            std::thread::scope(|scope| {
                for (near, far) in through.iter().zip(&there) {
                    for (mut from, mut to) in [(near, far), (far, near)] {
                        scope.spawn(move || {
                            let _ = io::copy(&mut from, &mut to);
                            let _ = to.shutdown(Shutdown::Write);
                        });
                    }
                }
            });
        });
        gate
    }
}

#[test]
fn connections_beside_the_first_are_made_before_it_has_said_a_word() {
    let scene = Scene::new();
    let (daemon, root) = Daemon::with_root(&scene, ",rights=rw");
    let source = scene.tree("source");
    let mut options = scene.options();
    options.send.streams = Some(4);
    let gate = Gate::before(&daemon, &scene, 4, 4);
    let place = |path| Location::Daemon { port: gate.port, host: HOST.to_owned(), path };
    let (pushed, events) = copy(&local(&source), &place(b"/there".to_vec()), &options);
    assert_eq!(pushed.unwrap().errors, 0);
    let connected = events.iter().filter(|event| matches!(event, Event::Connected { .. })).count();
    assert_eq!(connected, 4, "{events:?}");
    assert_same(&source, &root.join("there"));
}

#[test]
fn a_session_that_is_over_waits_for_no_connection_beside_it() {
    let scene = Scene::new();
    let (daemon, _) = Daemon::with_root(&scene, ",rights=rw");
    std::fs::write(scene.path("file"), "a few bytes").unwrap();
    let mut options = scene.options();
    options.send.streams = Some(4);
    let gate = Gate::before(&daemon, &scene, 4, 1);
    let there = Location::Daemon { host: HOST.to_owned(), port: gate.port, path: b"/file".to_vec() };
    // A connection that says nothing has 15 s for its handshake, and then it is told that there are fewer.
    let (pushed, events) = copy(&local(&scene.path("file")), &there, &options);
    assert_eq!(pushed.unwrap().errors, 0);
    assert!(!events.iter().any(|event| matches!(event, Event::Notice { .. })), "{events:?}");
}

#[test]
fn a_daemon_that_is_not_there_is_named() {
    let scene = Scene::new();
    let _ = identity(&scene);
    let port = TcpListener::bind((HOST, 0)).unwrap().local_addr().unwrap().port();
    let place = Location::Daemon { host: HOST.to_owned(), port, path: b"/".to_vec() };
    let error = Far::open(&place, &scene.options(), &silent(), &icdc_stop::StopSignal::new()).map(|_| ()).unwrap_err();
    assert!(matches!(error, ConnectError::DaemonPort { .. }), "{error}");
    assert!(error.to_string().contains("icdc serve"), "{error}");
}

#[test]
fn a_daemon_that_is_root_acts_as_the_keys_user() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: acting as another user needs root");
        return;
    }
    let scene = Scene::new();
    std::fs::set_permissions(scene.directory.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    let daemon = Daemon::start(&scene, "daemon");
    let root = scene.path("root");
    std::fs::create_dir(&root).unwrap();
    std::fs::set_permissions(&root, std::fs::Permissions::from_mode(0o777)).unwrap();
    std::fs::write(root.join("secret"), "for root only").unwrap();
    std::fs::set_permissions(root.join("secret"), std::fs::Permissions::from_mode(0o600)).unwrap();
    daemon.befriend(&scene, &format!("root={},rights=rw,user=nobody", root.display()));

    let (pushed, events) = copy(&local(&scene.tree("source")), &daemon.at(Path::new("/there")), &scene.options());
    assert_eq!(pushed.unwrap().errors, 0, "{events:?}");
    assert_same(&scene.path("source"), &root.join("there"));
    for made in ["there", "there/large", "there/sub/7"] {
        let owner = std::fs::metadata(root.join(made)).unwrap().uid();
        assert_eq!(owner, 65534, "{made}");
    }
    let (pulled, events) = copy(&daemon.at(Path::new("/secret")), &local(&scene.path("back")), &scene.options());
    assert!(matches!(&pulled, Ok(summary) if summary.errors == 1), "{pulled:?} {events:?}");
    assert!(!scene.path("back").exists());
    assert_eq!(std::fs::metadata(root.join("secret")).unwrap().uid(), 0);
}

#[test]
fn a_daemon_that_stops_interrupts_its_sessions() {
    let scene = Scene::new();
    let daemon = Daemon::start(&scene, "daemon");
    daemon.befriend(&scene, "root=/,rights=rw");
    let source = scene.tree("source");
    let mut options = scene.options();
    options.send.rate = Some(icdc_units::Rate::from_bits_per_second(4_000_000));
    options.retry_for = icdc_units::Span::from_millis(1);
    let target = daemon.at(&scene.path("target"));
    let stop = daemon.stop.clone();
    let events: icdc_transfer::EventSink = std::sync::Arc::new(move |event| {
        if matches!(event, icdc_transfer::Event::Progress(sample) if sample.bytes_total > 0) {
            stop.request();
        }
    });
    let result = icdc_client::copy(&[local(&source)], &target, &options, &events, &StopSignal::new());
    assert_eq!(result.unwrap_err().kind(), FailureKind::Interrupted);
    drop(daemon);
    assert!(!scene.path("target/large").exists(), "nothing unfinished is seen under its name");
}
