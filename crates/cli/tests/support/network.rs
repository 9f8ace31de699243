//! Two network namespaces as two hosts with one cable between them.

use std::fs::File;
use std::os::fd::AsFd;
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use super::process::started_by;
use super::{has_program, is_root, skip, succeed};

/// Two hosts, `10.77.0.1` and `10.77.0.2`, that reach only each other. Gone when dropped.
pub struct Pair {
    pub near: Host,
    pub far: Host,
}

/// A host that shares everything but the network with this one.
pub struct Host {
    name: String,
    address: &'static str,
}

const CABLE: &str = "eth0";
const NEAR: &str = "10.77.0.1";
const FAR: &str = "10.77.0.2";
const SECOND_CABLE: &str = "eth1";
const SECOND_NEAR: &str = "10.77.1.1";
const SECOND_FAR: &str = "10.77.1.2";
/// Prefix of all names; the process id follows, so that what a killed test left can be told.
const PREFIX: &str = "icdc-test-";

impl Pair {
    /// `None` where there cannot be namespaces, with the reason on standard error.
    pub fn new() -> Option<Self> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        if !is_root() || !has_program("ip") {
            skip("network namespaces need root and iproute2");
            return None;
        }
        sweep();
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = |side| format!("{PREFIX}{}-{number}-{side}", std::process::id());
        let near = Host::new(name("near"), NEAR)?;
        let far = Host::new(name("far"), FAR)?;
        for host in [&near, &far] {
            succeed(host.ip().args(["link", "set", "lo", "up"]));
        }
        let pair = Self { near, far };
        pair.connect(CABLE, [NEAR, FAR]);
        Some(pair)
    }

    /// With a second cable, [`Host::DEVICES`] in all, and [`Host::address`] of the far host by either:
    /// by the second for connections of that device and for those that come from
    /// [`Self::SECOND_NEAR`].
    pub fn with_two_cables() -> Option<Self> {
        let pair = Self::new()?;
        pair.connect(SECOND_CABLE, [SECOND_NEAR, SECOND_FAR]);
        let by_second = ["via", SECOND_FAR, "dev", SECOND_CABLE];
        // Of two routes to one prefix the one with the lower metric is taken, unless the device is
        // given.
        let of_device = [&["route", "add", "10.77.0.0/24"][..], &by_second, &["metric", "100"]].concat();
        let of_address = [&["route", "add", "default"][..], &by_second, &["table", "101"]].concat();
        for words in [&of_device[..], &of_address, &["rule", "add", "from", SECOND_NEAR, "table", "101"]] {
            succeed(pair.near.ip().args(words));
        }
        Some(pair)
    }

    /// Address of the near host at the second cable.
    pub const SECOND_NEAR: &str = SECOND_NEAR;

    fn connect(&self, cable: &str, addresses: [&str; 2]) {
        let ends = ["link", "add", cable, "type", "veth", "peer", "name", cable, "netns", &self.far.name];
        succeed(self.near.ip().args(ends));
        for (host, address) in [&self.near, &self.far].into_iter().zip(addresses) {
            succeed(host.ip().args(["address", "add", &format!("{address}/24"), "dev", cable]));
            succeed(host.ip().args(["link", "set", cable, "up"]));
        }
    }

    /// Pulls the cable.
    pub fn unplug(&self) {
        succeed(self.near.ip().args(["link", "set", CABLE, "down"]));
    }

    /// Plugs the cable in again.
    pub fn plug(&self) {
        succeed(self.near.ip().args(["link", "set", CABLE, "up"]));
    }

    /// Breaks all TCP connections between the hosts. False where `ss` or the kernel cannot do it.
    pub fn cut(&self) -> bool {
        let killed = self.near.command("ss").args(["-K", "-H", "-t", "dst", FAR]).output();
        killed.is_ok_and(|output| output.status.success() && !output.stdout.is_empty())
    }
}

impl Host {
    fn new(name: String, address: &'static str) -> Option<Self> {
        let Output { status, stderr, .. } = Command::new("ip").args(["netns", "add", &name]).output().unwrap();
        if !status.success() {
            skip(&format!("no network namespaces: {}", String::from_utf8_lossy(&stderr)));
            return None;
        }
        Some(Self { name, address })
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    pub fn address(&self) -> &'static str {
        self.address
    }

    /// A command that runs on this host.
    pub fn command(&self, program: &str) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.name, program]);
        command
    }

    /// The same command, but on this host.
    pub fn run(&self, command: &Command) -> Command {
        within(&self.name, command)
    }

    /// What `work` makes, such as sockets, belongs to this host.
    pub fn inside<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        inside(&self.name, work)
    }

    /// Gives a command to nftables here, such as a table of rules.
    pub fn firewall(&self, command: &str) {
        succeed(self.command("nft").arg(command));
    }

    /// Bytes that have come to this host over the cable.
    pub fn received(&self) -> u64 {
        self.counted(CABLE, "rx_bytes")
    }

    /// Network devices where there are two cables.
    pub const DEVICES: [&str; 2] = [CABLE, SECOND_CABLE];

    /// Bytes that have passed each of two cables, in both directions.
    pub fn carried(&self) -> [u64; 2] {
        Self::DEVICES.map(|device| self.counted(device, "rx_bytes") + self.counted(device, "tx_bytes"))
    }

    fn counted(&self, device: &str, what: &str) -> u64 {
        let path = format!("/sys/class/net/{device}/statistics/{what}");
        succeed(self.command("cat").arg(path)).trim().parse().unwrap()
    }

    fn ip(&self) -> Command {
        let mut command = Command::new("ip");
        command.args(["-netns", &self.name]);
        command
    }
}

/// The same command, but in this network namespace.
pub fn within(namespace: &str, command: &Command) -> Command {
    let mut here = Command::new("ip");
    here.args(["netns", "exec", namespace]).stdin(Stdio::null());
    started_by(here, command)
}

impl Drop for Host {
    fn drop(&mut self) {
        remove(&self.name);
    }
}

/// Runs `work` in the network namespace of this name.
pub fn inside<T: Send>(name: &str, work: impl FnOnce() -> T + Send) -> T {
    let namespace = File::open(format!("/run/netns/{name}")).unwrap();
    thread::scope(|scope| {
        let inside = scope.spawn(|| {
            move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network)).unwrap();
            work()
        });
        inside.join().unwrap()
    })
}

fn remove(name: &str) {
    let _ = Command::new("ip").args(["netns", "delete", name]).output();
}

/// Removes the namespaces of tests that were killed.
fn sweep() {
    for entry in std::fs::read_dir("/run/netns").into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let owner = name.strip_prefix(PREFIX).and_then(|rest| rest.split('-').next()?.parse::<u32>().ok());
        if owner.is_some_and(|pid| !std::path::Path::new(&format!("/proc/{pid}")).exists()) {
            remove(&name);
        }
    }
}
