//! Devices of the default routes, addresses of devices, and the path MTU.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};

use icdc_netlink::NetlinkError;
use icdc_units::ByteCount;
use rustix::net::sockopt::{ip_mtu, ipv6_mtu};

use crate::System;

/// `RTF_REJECT` of linux/route.h: nothing is sent there.
const REJECT: u32 = 0x200;

/// Devices of the default routes, each once, without `lo` and routes that reject.
pub(super) fn default_devices(system: &System) -> Vec<String> {
    let four = system.text("/proc/net/route").unwrap_or_default();
    let six = system.text("/proc/net/ipv6_route").unwrap_or_default();
    let mut devices: Vec<String> = Vec::new();
    for device in four.lines().filter_map(default_four).chain(six.lines().filter_map(default_six)) {
        if device != "lo" && !devices.iter().any(|known| known == device) {
            devices.push(device.to_owned());
        }
    }
    devices
}

/// Device of a line `device destination gateway flags references use metric mask …`, if it is a
/// default route in use; `None` otherwise.
fn default_four(line: &str) -> Option<&str> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let is_default = *words.get(1)? == "00000000" && *words.get(7)? == "00000000";
    (is_default && is_used(words[3])).then_some(words[0])
}

/// Device of a line `destination length source length gateway metric references use flags device`,
/// if it is a default route in use; `None` otherwise.
fn default_six(line: &str) -> Option<&str> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let is_default = words.first()?.bytes().all(|digit| digit == b'0') && *words.get(1)? == "00";
    (is_default && is_used(words.get(8)?)).then_some(*words.get(9)?)
}

/// Whether a route with these flags (hexadecimal) carries traffic: it does not reject it.
fn is_used(flags: &str) -> bool {
    u32::from_str_radix(flags, 16).is_ok_and(|flags| flags & REJECT == 0)
}

/// Name of the device of each address of this host, in the calling thread's network namespace.
///
/// # Errors
/// The kernel does not list them.
pub fn addresses() -> Result<BTreeMap<IpAddr, String>, NetlinkError> {
    let names: BTreeMap<u32, String> = icdc_netlink::links()?.into_iter().map(|link| (link.index, link.name)).collect();
    let addresses = icdc_netlink::addresses()?.into_iter();
    Ok(addresses.filter_map(|one| Some((one.address, names.get(&one.device)?.clone()))).collect())
}

/// Any port will do: nothing is sent.
const SOME_PORT: u16 = 9;

/// The largest packet that the kernel would send to `address` whole, as far as it has learned;
/// `None` if there is no route, or no socket can be made.
#[must_use]
pub fn path_mtu(address: IpAddr) -> Option<ByteCount> {
    let own: IpAddr = match address {
        IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let socket = UdpSocket::bind(SocketAddr::new(own, 0)).ok()?;
    socket.connect(SocketAddr::new(address, SOME_PORT)).ok()?;
    let mtu = if address.is_ipv4() { ip_mtu(&socket) } else { ipv6_mtu(&socket) };
    Some(ByteCount::new(mtu.ok()?.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const FOUR: &str = "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT\n\
        wan0\t00000000\t010200C0\t0003\t0\t0\t0\t00000000\t0\t0\t0\n\
        wan1\t00000000\t010200C0\t0003\t0\t0\t100\t00000000\t0\t0\t0\n\
        dead\t00000000\t00000000\t0201\t0\t0\t0\t00000000\t0\t0\t0\n\
        lan0\t000200C0\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0\n";
    const ZERO: &str = "00000000000000000000000000000000";

    fn devices(four: &str, six: &str) -> Vec<String> {
        let root = tempfile::tempdir().unwrap();
        let system = System::at(root.path().to_owned());
        std::fs::create_dir_all(system.path("/proc/net")).unwrap();
        std::fs::write(system.path("/proc/net/route"), four).unwrap();
        std::fs::write(system.path("/proc/net/ipv6_route"), six).unwrap();
        default_devices(&system)
    }

    #[test]
    fn default_routes_name_their_devices() {
        let route = |flags: &str, device: &str| {
            format!(
                "{ZERO} 00 {ZERO} 00 fe800000000000000000000000000001 00000400 00000001 00000000 {flags} {device}\n"
            )
        };
        let six = [route("00000003", "wan0"), route("00000003", "six0"), route("00200200", "lo")].concat();
        assert_eq!(devices(FOUR, &six), ["wan0", "wan1", "six0"]);
        assert_eq!(devices("", ""), Vec::<String>::new());
        assert_eq!(devices("wan0\t00000000\n\u{fffd}\n\n", "0\n00 00\n"), Vec::<String>::new());
    }

    #[test]
    fn this_host_has_addresses() {
        for (address, device) in addresses().unwrap() {
            assert!(device == "lo" || !address.is_loopback(), "{address} {device}");
        }
    }

    #[test]
    fn the_path_to_this_host_has_an_mtu() {
        assert!(path_mtu(Ipv4Addr::LOCALHOST.into()).is_none_or(|mtu| mtu >= ByteCount::new(576)));
    }
}
