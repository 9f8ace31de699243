//! An `icdc serve` on loopback with an identity, one authorized key, and a client that knows its
//! key.

use std::iter;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicU16, Ordering};

use rustix::net::{AddressFamily, SocketType, bind, getsockname, socket};

use super::lab::{B, Lab};
use super::network::Host;
use super::process::{Run, Signal, Start};
use super::refusals::as_on_linux_3_10;
use super::{Ended, HERE, ICDC, Site, is_root, succeed};

/// A running daemon. Killed when dropped.
pub struct Daemon {
    run: Run,
    address: String,
    port: u16,
    key: String,
}

impl Daemon {
    /// Serves `root` with `rights` (`r`, `w` or `rw`). The client's identity and known hosts are
    /// those of the site's home.
    pub fn start(site: &Site, root: &Path, rights: &str) -> Self {
        Self::named(site, "daemon", &format!("root=\"{}\",rights={rights}", root.display()))
    }

    /// Like [`start`](Self::start), with an allocator that gives back what is freed: with glibc's
    /// usual number of arenas some 200 MiB of a large session stay with the threads that it had.
    pub fn with_one_arena(site: &Site, root: &Path, rights: &str) -> Self {
        let options = format!("root=\"{}\",rights={rights}", root.display());
        Self::launch(site, "daemon", &options, HERE, |mut command| {
            command.env("MALLOC_ARENA_MAX", "1");
            command
        })
    }

    /// Like [`start`](Self::start), as on Linux 3.10.
    pub fn on_an_old_kernel(site: &Site, root: &Path, rights: &str) -> Self {
        let options = format!("root=\"{}\",rights={rights}", root.display());
        Self::launch(site, "daemon", &options, HERE, |mut command| {
            as_on_linux_3_10(&mut command);
            command
        })
    }

    /// Keeps its keys in the directory `name` of the site, and grants the client's key `options`.
    /// Without `user=` the daemon acts as the user of this process, root included.
    pub fn named(site: &Site, name: &str, options: &str) -> Self {
        Self::launch(site, name, options, HERE, |command| command)
    }

    /// The same, by a command that is changed before it starts.
    pub fn adapted(site: &Site, options: &str, adapt: impl Fn(&mut Command)) -> Self {
        Self::launch(site, "daemon", options, HERE, |mut command| {
            adapt(&mut command);
            command
        })
    }

    /// The same on another host.
    pub fn on(host: &Host, site: &Site, name: &str, options: &str) -> Self {
        Self::launch(site, name, options, host.address(), |command| host.run(&command))
    }

    /// The same on host b of a lab, telling everything that happens inside.
    pub fn in_lab(lab: &Lab, site: &Site, name: &str, options: &str) -> Self {
        // Whoever runs the lab is root in its hosts.
        let options = if options.contains("user=") { options.to_owned() } else { format!("{options},user=root") };
        Self::launch(site, name, &options, B, |command| {
            let mut inside = site.icdc(&["lab", "exec", "--name", &lab.name, "b", "--", ICDC]);
            inside.args(command.get_args()).env("RUST_LOG", "debug");
            inside
        })
    }

    fn launch(site: &Site, name: &str, options: &str, address: &str, place: impl Fn(Command) -> Command) -> Self {
        let keys = site.directory(name);
        if !site.path("home/.config/icdc/identity").exists() {
            succeed(&mut site.icdc(&["keygen"]));
        }
        let identity = keys.join("identity");
        succeed(site.icdc(&["keygen", "--identity"]).arg(&identity));
        let client = std::fs::read_to_string(site.path("home/.config/icdc/identity.pub")).unwrap();
        std::fs::write(keys.join("authorized_keys"), format!("{} {client}", with_user(options))).unwrap();
        let key = std::fs::read_to_string(keys.join("identity.pub")).unwrap().trim().to_owned();
        let mut command = site.icdc(&["serve", "--listen", &format!("{address}:0"), "--identity"]);
        command.arg(&identity).arg("--authorized-keys").arg(keys.join("authorized_keys"));
        let run = place(command).start();
        assert!(run.wait_for_words("fingerprint"), "the daemon does not listen: {}", run.stderr());
        let log = run.stderr();
        let (_, rest) = log.split_once(&format!("{address}:")).expect("the log names the port");
        let port = rest.split(|character: char| !character.is_ascii_digit()).next().unwrap().parse().unwrap();
        let daemon = Self { run, address: address.to_owned(), port, key };
        daemon.trust(site, port);
        daemon
    }

    /// Makes the site's client believe that this daemon listens on `port` of its host, as a proxy
    /// does.
    pub fn trust(&self, site: &Site, port: u16) {
        succeed(&mut site.icdc(&["keygen", "--trust", &format!("{}:{port}", self.address), &self.key]));
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    /// Its public key, as `identity.pub` has it.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// `icdc://ADDRESS:PORT/PATH`; the path is relative to the daemon's root.
    pub fn location(&self, path: &str) -> String {
        format!("icdc://{}:{}/{path}", self.address, self.port)
    }

    pub fn run(&self) -> &Run {
        &self.run
    }

    /// Asks it to stop and waits for its end.
    pub fn stop(self) -> Ended {
        self.run.signal(Signal::TERM);
        self.run.finish()
    }
}

/// The options of a line with the user of this process said where none is, as a daemon run by root
/// wants it.
pub fn with_user(options: &str) -> String {
    let says_user = options.contains("user=") || !is_root();
    format!("{options}{}", if says_user { "" } else { ",user=root" })
}

/// A place at a daemon, or at a proxy before one, on loopback.
pub fn location(port: u16, path: &str) -> String {
    format!("icdc://{HERE}:{port}/{path}")
}

/// A port that was free a moment ago, below those that the kernel gives to whoever asks for any.
pub fn free_port() -> u16 {
    static TRIED: AtomicU16 = AtomicU16::new(0);
    let (first, count) = (10_000, 22_000);
    let begin = (std::process::id() % u32::from(count)) as u16;
    let mut ports = iter::repeat_with(|| first + begin.wrapping_add(TRIED.fetch_add(97, Ordering::Relaxed)) % count);
    ports.find(|port| TcpListener::bind((HERE, *port)).is_ok()).unwrap()
}

/// An address at which nobody listens, nor will anybody else as long as this lasts.
pub struct Nobody {
    pub address: SocketAddr,
    _bound: OwnedFd,
}

impl Nobody {
    pub fn new() -> Self {
        let bound = socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
        bind(&bound, &SocketAddr::new(HERE.parse().unwrap(), 0)).unwrap();
        let address = getsockname(&bound).unwrap().try_into().unwrap();
        Self { address, _bound: bound }
    }
}
