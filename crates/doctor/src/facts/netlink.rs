//! rtnetlink(7): devices, queueing disciplines and routes, which have no file of their own in every
//! namespace.

use std::io;
use std::net::IpAddr;
use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, sendto, socket_with};

/// A device.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Link {
    pub(super) index: u32,
    pub(super) name: String,
    /// Hardware address.
    pub(super) address: Vec<u8>,
    pub(super) mtu: u32,
    pub(super) is_up: bool,
    pub(super) is_loopback: bool,
    /// Of a virtual device: `veth`, `bridge` and so on.
    pub(super) kind: Option<String>,
    /// Most segments that TCP hands over at once (`gso_max_segs`).
    pub(super) batch_segments: Option<u32>,
}

/// A queueing discipline of a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Qdisc {
    pub(super) device: u32,
    pub(super) parent: u32,
    pub(super) kind: String,
}

/// An address of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Address {
    pub(super) device: u32,
    pub(super) address: IpAddr,
}

/// The parent of a device's first discipline (linux/pkt_sched.h).
pub(super) const ROOT: u32 = 0xffff_ffff;
/// The parent of what only looks at arrivals.
const INGRESS: u32 = 0xffff_fff1;

// linux/netlink.h
const REQUEST: u16 = 1;
const DUMP: u16 = 0x300;
const ERROR: u16 = 2;
const DONE: u16 = 3;
const HEADER: usize = 16;
/// Two bits of an attribute's type say how its payload is written.
const TYPE: u16 = 0x3fff;

// linux/if_link.h
const IFLA_ADDRESS: u16 = 1;
const IFLA_IFNAME: u16 = 3;
const IFLA_MTU: u16 = 4;
const IFLA_LINKINFO: u16 = 18;
const IFLA_INFO_KIND: u16 = 1;
const IFLA_GSO_MAX_SEGS: u16 = 40;

// linux/if_addr.h
const IFA_ADDRESS: u16 = 1;
const IFA_LOCAL: u16 = 2;

/// Lengths of the structures before the attributes: `ifinfomsg`, `ifaddrmsg`, `tcmsg`, `rtmsg`.
const LINK_BODY: usize = 16;
const ADDRESS_BODY: usize = 8;
const QDISC_BODY: usize = 20;
const ROUTE_BODY: usize = 12;

/// The kernel answers at once; it need not be waited for longer.
const PATIENCE: Duration = Duration::from_secs(2);

/// All devices of this thread's network namespace.
pub(super) fn links() -> io::Result<Vec<Link>> {
    let answers = ask(libc::RTM_GETLINK, DUMP, &[0; LINK_BODY])?;
    Ok(answers.iter().filter_map(|body| link(body)).collect())
}

/// All queueing disciplines for what leaves.
pub(super) fn qdiscs() -> io::Result<Vec<Qdisc>> {
    let answers = ask(libc::RTM_GETQDISC, DUMP, &[0; QDISC_BODY])?;
    Ok(answers.iter().filter_map(|body| qdisc(body)).filter(|qdisc| qdisc.parent != INGRESS).collect())
}

/// All addresses of the devices.
pub(super) fn addresses() -> io::Result<Vec<Address>> {
    let answers = ask(libc::RTM_GETADDR, DUMP, &[0; ADDRESS_BODY])?;
    Ok(answers.iter().filter_map(|body| address(body)).collect())
}

/// The device that packets to `address` take.
pub(super) fn device_to(address: IpAddr) -> io::Result<Option<u32>> {
    let (family, octets) = match address {
        IpAddr::V4(address) => (libc::AF_INET, address.octets().to_vec()),
        IpAddr::V6(address) => (libc::AF_INET6, address.octets().to_vec()),
    };
    // struct rtmsg: family, length of the destination in bits, then what is left open.
    let mut body = vec![0; ROUTE_BODY];
    body[0] = family as u8;
    body[1] = (octets.len() * 8) as u8;
    body.extend(((4 + octets.len()) as u16).to_ne_bytes());
    body.extend(libc::RTA_DST.to_ne_bytes());
    body.extend(octets);
    let answers = ask(libc::RTM_GETROUTE, 0, &body)?;
    let found = answers.iter().filter_map(|answer| answer.get(ROUTE_BODY..)).flat_map(attributes);
    Ok(found.filter(|(kind, _)| *kind == libc::RTA_OIF).find_map(|(_, value)| number(value)))
}

/// Sends one request and collects the bodies of the answers.
fn ask(kind: u16, flags: u16, body: &[u8]) -> io::Result<Vec<Vec<u8>>> {
    // No protocol means NETLINK_ROUTE.
    let socket = socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, None)?;
    set_socket_timeout(&socket, Timeout::Recv, Some(PATIENCE))?;
    let mut request = Vec::with_capacity(HEADER + body.len());
    request.extend(((HEADER + body.len()) as u32).to_ne_bytes());
    request.extend(kind.to_ne_bytes());
    request.extend((REQUEST | flags).to_ne_bytes());
    // Sequence number and port: there is one request only, and the kernel knows the port.
    request.extend([0; 8]);
    request.extend(body);
    sendto(&socket, &request, SendFlags::empty(), &SocketAddrNetlink::new(0, 0))?;
    let mut answers = Vec::new();
    while !receive(&socket, &mut answers)? && flags & DUMP != 0 {}
    Ok(answers)
}

/// Takes one datagram; true if it was the last.
fn receive(socket: &OwnedFd, answers: &mut Vec<Vec<u8>>) -> io::Result<bool> {
    let mut buffer = vec![0_u8; 64 << 10];
    let (length, _) = recv(socket, &mut buffer[..], RecvFlags::empty())?;
    for (kind, body) in messages(&buffer[..length]) {
        match kind {
            DONE => return Ok(true),
            ERROR => {
                let errno = number(body).map_or(0, u32::cast_signed);
                return if errno == 0 { Ok(true) } else { Err(io::Error::from_raw_os_error(-errno)) };
            }
            _ => answers.push(body.to_vec()),
        }
    }
    // An empty datagram ends what would otherwise never end.
    Ok(length == 0)
}

/// Type and body of each message in a datagram.
fn messages(mut bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let length = number(bytes)? as usize;
        let kind = short(bytes.get(4..)?)?;
        let body = bytes.get(HEADER..length)?;
        bytes = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some((kind, body))
    })
}

/// Type and value of each attribute.
fn attributes(mut bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let length = usize::from(short(bytes)?);
        let kind = short(bytes.get(2..)?)?;
        let value = bytes.get(4..length)?;
        bytes = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some((kind & TYPE, value))
    })
}

fn link(body: &[u8]) -> Option<Link> {
    // struct ifinfomsg: family, type, index, flags, change.
    let flags = number(body.get(8..)?)?;
    let mut link = Link {
        index: number(body.get(4..)?)?,
        is_up: flags & libc::IFF_UP.cast_unsigned() != 0,
        is_loopback: flags & libc::IFF_LOOPBACK.cast_unsigned() != 0,
        ..Link::default()
    };
    for (kind, value) in attributes(body.get(LINK_BODY..)?) {
        match kind {
            IFLA_IFNAME => link.name = text(value),
            IFLA_ADDRESS => link.address = value.to_vec(),
            IFLA_MTU => link.mtu = number(value)?,
            IFLA_GSO_MAX_SEGS => link.batch_segments = number(value),
            IFLA_LINKINFO => {
                link.kind = attributes(value).find(|(kind, _)| *kind == IFLA_INFO_KIND).map(|(_, value)| text(value));
            }
            _ => {}
        }
    }
    Some(link)
}

fn qdisc(body: &[u8]) -> Option<Qdisc> {
    // struct tcmsg: family, index, handle, parent, info.
    let kind = attributes(body.get(QDISC_BODY..)?).find(|(kind, _)| *kind == libc::TCA_KIND)?;
    Some(Qdisc { device: number(body.get(4..)?)?, parent: number(body.get(12..)?)?, kind: text(kind.1) })
}

fn address(body: &[u8]) -> Option<Address> {
    // struct ifaddrmsg: family, length of the prefix, flags, scope, index.
    let device = number(body.get(4..)?)?;
    let attribute = |wanted| attributes(body.get(ADDRESS_BODY..)?).find(|(kind, _)| *kind == wanted);
    // On a line between two hosts the first of these is this end's, and the other one the far
    // end's.
    let (_, octets) = attribute(IFA_LOCAL).or_else(|| attribute(IFA_ADDRESS))?;
    let address = match octets.len() {
        4 => IpAddr::from(*octets.first_chunk::<4>()?),
        _ => IpAddr::from(*octets.first_chunk::<16>()?),
    };
    Some(Address { device, address })
}

fn number(bytes: &[u8]) -> Option<u32> {
    bytes.first_chunk().copied().map(u32::from_ne_bytes)
}

fn short(bytes: &[u8]) -> Option<u16> {
    bytes.first_chunk().copied().map(u16::from_ne_bytes)
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).trim_end_matches('\0').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
        let mut bytes = ((4 + value.len()) as u16).to_ne_bytes().to_vec();
        bytes.extend(kind.to_ne_bytes());
        bytes.extend(value);
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        bytes
    }

    #[test]
    fn a_device_is_read_from_its_attributes() {
        let mut body = vec![0; LINK_BODY];
        body[4..8].copy_from_slice(&7_u32.to_ne_bytes());
        body[8..12].copy_from_slice(&1_u32.to_ne_bytes());
        body.extend(attribute(IFLA_IFNAME, b"eth0\0"));
        body.extend(attribute(IFLA_MTU, &9000_u32.to_ne_bytes()));
        // Nested, with the flag that says so.
        body.extend(attribute(IFLA_LINKINFO | 0x8000, &attribute(IFLA_INFO_KIND, b"veth\0")));
        let link = link(&body).unwrap();
        assert_eq!((link.index, link.name.as_str(), link.mtu), (7, "eth0", 9000));
        assert!(link.is_up && !link.is_loopback);
        assert_eq!((link.kind.as_deref(), link.batch_segments), (Some("veth"), None));
    }

    #[test]
    fn an_address_is_this_end_s() {
        let mut body = vec![0; ADDRESS_BODY];
        body[4..8].copy_from_slice(&7_u32.to_ne_bytes());
        body.extend(attribute(IFA_ADDRESS, &[192, 0, 2, 9]));
        assert_eq!(address(&body), Some(Address { device: 7, address: [192, 0, 2, 9].into() }));
        body.extend(attribute(IFA_LOCAL, &[192, 0, 2, 1]));
        assert_eq!(address(&body), Some(Address { device: 7, address: [192, 0, 2, 1].into() }));
    }

    #[test]
    fn what_is_cut_or_lies_about_its_length_ends_the_reading() {
        let whole = attribute(1, b"12345678");
        for length in 0..whole.len() {
            assert_eq!(attributes(&whole[..length]).count(), 0, "{length}");
        }
        assert_eq!(attributes(&[0; 64]).count(), 0);
        assert_eq!(attributes(&[0xff; 64]).count(), 0);
        assert_eq!(messages(&[0; 64]).count(), 0);
        assert_eq!(messages(&[0xff; 64]).count(), 0);
        assert_eq!((link(&[0; 9]), qdisc(&[0; 20]), address(&[0; 9])), (None, None, None));
    }

    #[test]
    fn the_kernel_answers() {
        let links = links().unwrap();
        let loopback = links.iter().find(|link| link.is_loopback).unwrap();
        assert_eq!((loopback.name.as_str(), loopback.address.len()), ("lo", 6));
        qdiscs().unwrap();
        if loopback.is_up {
            let here: IpAddr = "127.0.0.1".parse().unwrap();
            assert_eq!(device_to(here).unwrap(), Some(loopback.index));
            assert!(addresses().unwrap().contains(&Address { device: loopback.index, address: here }));
        }
    }
}
