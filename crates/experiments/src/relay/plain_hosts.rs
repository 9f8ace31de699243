//! Plain hosts at the two ends of one lab or of several in a row: nothing about them is tuned, and
//! they know of no relay.
//!
//! ```text
//!  near ═ net 0 ═ a ══ path ══ b ═ net 1 ═ a ══ path ══ b ═ net 2 ═ far
//!      .34.1  .34.2             .35.1  .35.2             .36.1  .36.2      10.26.0.0/16
//! ```
//!
//! Each plain host has a network namespace of its own, which goes with this process however that
//! ends. Cables between the hosts have neither delay nor a rate: what stands in one rack. The labs'
//! hosts forward, so that a connection may also pass by their relays. It takes root: a user
//! namespace has room for the labs' hosts only.

use std::fs;
use std::io;
use std::net::Ipv4Addr;
use std::path::Path;

use icdc_lab::{Host, Lab, LabError, Settings, program};

use crate::harness::bench::Bench;
use crate::harness::error::ExperimentError;
use crate::harness::hosts::plain_host::PlainHost;
use crate::harness::hosts::temporary_lab::TemporaryLab;

/// Labs connected in a row, one for each leg of the route, and a plain host at either end.
pub(crate) struct Row {
    // The labs go before the hosts.
    pub(crate) labs: Vec<TemporaryLab>,
    pub(crate) near: PlainHost,
    pub(crate) far: PlainHost,
}

/// Settings of the two plain hosts, which are not tuned for the path.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plain {
    /// Name of the sender's congestion control.
    pub(crate) congestion: &'static str,
    /// Whether windows may be larger than 64 KiB (RFC 7323).
    pub(crate) window_scaling: bool,
}

impl Row {
    /// Makes a lab for each leg, the plain hosts, and all routes.
    pub(crate) fn new(bench: &Bench<'_>, legs: &[Settings], plain: Plain) -> Result<Self, ExperimentError> {
        let labs = legs.iter().map(|leg| TemporaryLab::new(bench, leg)).collect::<Result<Vec<_>, _>>()?;
        if labs.iter().any(|lab| lab.record.user_namespace) {
            let refused = io::Error::from(io::ErrorKind::PermissionDenied);
            return Err(ExperimentError::io("put plain hosts beside a lab, which only root can", refused));
        }
        let wires: Vec<usize> = labs.iter().flat_map(|lab| lab.record.wire_processors.clone()).collect();
        let (near, far) = (PlainHost::new(wires.clone())?, PlainHost::new(wires)?);
        let row = Self { labs, near, far };
        for net in 0..=row.last_net() {
            row.plug(net)?;
        }
        let router = [("ip_forward", "1"), ("tcp_congestion_control", USUAL)];
        for (place, lab) in row.labs.iter().enumerate() {
            lab.on(Host::A, || configure(&row.host_a(place), &router))?;
            lab.on(Host::B, || configure(&row.host_b(place), &router))?;
        }
        let scaling = if plain.window_scaling { "1" } else { "0" };
        let end = [
            ("tcp_congestion_control", USUAL),
            ("tcp_window_scaling", scaling),
            // Each run starts without the path metrics of an earlier one.
            ("tcp_no_metrics_save", "1"),
        ];
        for (host, net, own) in [(&row.near, 0, 1), (&row.far, row.last_net(), 2)] {
            let commands = format!(
                "link set lo up\nlink set eth0 up\naddress add {}/24 dev eth0\nroute add default via {}\n",
                address(net, own),
                address(net, 3 - own)
            );
            host.inside(|| configure(&commands, &end))?;
        }
        Ok(row)
    }

    /// Number of the net of the far host; that of the near host is 0.
    fn last_net(&self) -> usize {
        self.labs.len()
    }

    /// Address of the far host.
    pub(crate) fn far_address(&self) -> Ipv4Addr {
        address(self.last_net(), 2)
    }

    /// The place of a relay, the first one near the near host: its lab, its host, and its address.
    pub(crate) fn relay_place(&self, relay: usize) -> (&Lab, &'static str, Ipv4Addr) {
        match relay {
            0 => (&self.labs[0], "a", address(0, 2)),
            _ => (&self.labs[relay - 1], "b", address(relay, 1)),
        }
    }

    /// Joins the two hosts of a net by a cable (a veth pair).
    fn plug(&self, net: usize) -> Result<(), LabError> {
        let place = |host: &PlainHost| host.path().display().to_string();
        let plug = |own: &str, other: &str, place: &str| {
            let mtu = self.labs[0].record.settings.forward.mtu.as_u64();
            let arguments =
                format!("link add name {own} mtu {mtu} type veth peer name {other} mtu {mtu} netns {place}");
            program::ip(&arguments.split(' ').collect::<Vec<_>>(), "")
        };
        match (net.checked_sub(1).map(|before| &self.labs[before]), self.labs.get(net)) {
            (None, Some(first)) => first.on(Host::A, || plug("inward", "eth0", &place(&self.near))),
            (Some(last), None) => last.on(Host::B, || plug("onward", "eth0", &place(&self.far))),
            (Some(before), Some(after)) => {
                let other = after.record.namespaces[Host::A as usize].0.display().to_string();
                before.on(Host::B, || plug("onward", "inward", &other))
            }
            (None, None) => unreachable!("a row has a lab"),
        }
    }

    /// Commands for `ip` that make host a of a lab a router of the row.
    fn host_a(&self, lab: usize) -> String {
        let mut commands = format!("address add {}/24 dev inward\nlink set inward up\n", address(lab, 2));
        for net in (0..=self.last_net()).filter(|net| *net != lab) {
            let next = if net < lab { address(lab, 1) } else { OTHER_HOST[1] };
            commands += &format!("route add {}/24 via {next}\n", address(net, 0));
        }
        commands
    }

    /// Commands for `ip` that make host b of a lab a router of the row.
    fn host_b(&self, lab: usize) -> String {
        let own = lab + 1;
        let mut commands = format!("address add {}/24 dev onward\nlink set onward up\n", address(own, 1));
        for net in (0..=self.last_net()).filter(|net| *net != own) {
            let next = if net < own { OTHER_HOST[0] } else { address(own, 2) };
            commands += &format!("route add {}/24 via {next}\n", address(net, 0));
        }
        commands
    }
}

/// Congestion control of all hosts unless a socket has another: also of relays towards plain hosts.
/// Every system allows it.
const USUAL: &str = "reno";
/// Addresses of a lab's hosts, each as the other sees it.
const OTHER_HOST: [Ipv4Addr; 2] = [Ipv4Addr::new(10, 26, 33, 1), Ipv4Addr::new(10, 26, 33, 2)];
/// Third byte of the IPv4 addresses of net 0; those of the next nets follow.
const FIRST_NET: u8 = 34;

/// Address of one end, 1 (near) or 2 (far), of the cable of a net; 0 is the net itself.
fn address(net: usize, end: u8) -> Ipv4Addr {
    Ipv4Addr::new(10, 26, FIRST_NET + net as u8, end)
}

/// Sets up the host on which this runs: `commands` for `ip`, and `settings` below
/// `/proc/sys/net/ipv4`, as names and values.
pub(crate) fn configure(commands: &str, settings: &[(&str, &str)]) -> Result<(), ExperimentError> {
    program::ip(&["-batch", "-"], commands)?;
    settings.iter().try_for_each(|(name, value)| {
        let path = Path::new("/proc/sys/net/ipv4").join(name);
        fs::write(&path, value)
            .map_err(|error| ExperimentError::io(format!("write {value} to {}", path.display()), error))
    })
}
