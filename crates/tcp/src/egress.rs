//! Egress of a connection from this host, where it is not left to the routing table.
//!
//! | | how | who may |
//! |---|---|---|
//! | device | `SO_BINDTODEVICE`: routes by that device only, and only what arrives by it | everybody since Linux 5.7, before that `CAP_NET_RAW` |
//! | address | `bind(2)`: it is the source address; which device that means is up to the rules of routing (`ip rule`) | everybody |
//!
//! Both are set before the handshake, so that its first segment already takes that path.

use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;
use std::sync::Arc;

use rustix::io::Errno;
use socket2::{Domain, Socket, Type};
use thiserror::Error;

use crate::Family;

/// File in which the kernel lists the devices of this network namespace: two lines of headings,
/// then a line for each.
const DEVICES: &str = "/proc/net/dev";
/// Maximum length of a device's name (`IFNAMSIZ`, less the byte at its end).
const MAX_DEVICE_NAME: usize = 15;

/// Network device or source address by which a connection leaves this host, where a user names one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Egress {
    /// A network device.
    Device(DeviceName),
    /// An address of this host, which becomes the source address.
    Address(IpAddr),
}

/// Name of a network device, checked for a form that the kernel accepts; the device need not exist.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceName(String);

/// Reason why a text names neither a device nor an address.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum EgressSyntaxError {
    /// The text is no address, and the kernel takes no such device name.
    #[error(
        "write the name of a network device, up to {MAX_DEVICE_NAME} characters such as eth1, or an IP address of this host"
    )]
    Neither,
    /// A link-local address, which means nothing without its device.
    #[error("a link-local address is that of one device: name the device in its place")]
    LinkLocal,
}

impl FromStr for Egress {
    type Err = EgressSyntaxError;

    fn from_str(text: &str) -> Result<Self, EgressSyntaxError> {
        match text.parse() {
            Ok(IpAddr::V6(address)) if address.is_unicast_link_local() => return Err(EgressSyntaxError::LinkLocal),
            Ok(address) => return Ok(Self::Address(address.to_canonical())),
            Err(_) => {}
        }
        // As dev_valid_name() of the kernel.
        let improper = |byte: u8| byte == b'/' || byte == b':' || byte.is_ascii_whitespace() || byte.is_ascii_control();
        let is_name = (1..=MAX_DEVICE_NAME).contains(&text.len()) && !matches!(text, "." | "..");
        match is_name && !text.bytes().any(improper) {
            true => Ok(Self::Device(DeviceName(text.to_owned()))),
            false => Err(EgressSyntaxError::Neither),
        }
    }
}

impl fmt::Display for Egress {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Device(DeviceName(name)) => out.write_str(name),
            Self::Address(address) => address.fmt(out),
        }
    }
}

impl Egress {
    /// Address family of the connections that can leave by this egress.
    #[must_use]
    pub fn family(&self) -> Family {
        match self {
            Self::Device(_) => Family::Any,
            Self::Address(IpAddr::V4(_)) => Family::V4,
            Self::Address(IpAddr::V6(_)) => Family::V6,
        }
    }

    /// Checks that this host has the device or address and that this thread may use it.
    ///
    /// # Errors
    /// See [`EgressError`].
    pub fn check(&self) -> Result<(), EgressError> {
        let domain = if self.family() == Family::V6 { Domain::IPV6 } else { Domain::IPV4 };
        let socket = Socket::new(domain, Type::STREAM, None);
        let socket = socket.map_err(|cause| self.refused(Refused { call: "socket", cause }))?;
        self.apply(&socket).map_err(|refused| self.refused(refused))
    }

    /// Makes `socket`, which is not connected yet, leave by this egress.
    ///
    /// # Errors
    /// See [`Refused`].
    pub(crate) fn apply(&self, socket: &Socket) -> Result<(), Refused> {
        match self {
            Self::Device(DeviceName(name)) => {
                socket.bind_device(Some(name.as_bytes())).map_err(|cause| Refused { call: BIND_TO_DEVICE, cause })
            }
            Self::Address(address) => {
                socket.bind(&SocketAddr::new(*address, 0).into()).map_err(|cause| Refused { call: BIND, cause })
            }
        }
    }

    /// Makes the error of a system call that refused this egress one for users, with the cause that
    /// it points to.
    pub(crate) fn refused(&self, Refused { call, cause }: Refused) -> EgressError {
        match (self, Errno::from_io_error(&cause)) {
            (Self::Device(device), Some(Errno::NODEV)) => {
                EgressError::NoDevice { device: device.0.clone(), devices: devices().join(", ") }
            }
            (Self::Device(device), Some(Errno::PERM)) => EgressError::NotPermitted { device: device.0.clone(), cause },
            (Self::Address(address), Some(Errno::ADDRNOTAVAIL)) => EgressError::NoAddress { address: *address },
            _ => EgressError::Refused { egress: self.clone(), call, cause },
        }
    }

    /// Description of an egress for the end of a sentence (" by DEVICE" or " from ADDRESS"); empty
    /// where none was named.
    #[must_use]
    pub fn told(egress: Option<&Self>) -> String {
        match egress {
            None => String::new(),
            Some(Self::Device(DeviceName(name))) => format!(" by {name}"),
            Some(Self::Address(address)) => format!(" from {address}"),
        }
    }

    /// Text of the command (`ip route get …`) that shows the kernel's route to `destination` by
    /// this egress.
    #[must_use]
    pub fn route_query(egress: Option<&Self>, destination: IpAddr) -> String {
        let through = match egress {
            None => String::new(),
            Some(Self::Device(DeviceName(name))) => format!(" oif {name}"),
            Some(Self::Address(address)) => format!(" from {address}"),
        };
        format!("ip route get {destination}{through}")
    }
}

/// Name of the system call that binds a socket to a device, in errors.
pub(crate) const BIND_TO_DEVICE: &str = "setsockopt(SO_BINDTODEVICE)";
/// Name of the system call that binds a socket to an address, in errors.
pub(crate) const BIND: &str = "bind";

/// A system call by which an egress was to be set and that the kernel refused, with its error.
#[derive(Debug)]
pub(crate) struct Refused {
    pub(crate) call: &'static str,
    pub(crate) cause: io::Error,
}

/// Reason why a connection cannot leave by the requested egress.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum EgressError {
    /// There is no network device of this name.
    #[error("this host has no network device {device}; it has {devices}")]
    NoDevice {
        /// Name of the device.
        device: String,
        /// Names of the existing devices.
        devices: String,
    },
    /// The kernel does not let this user choose the device.
    #[error(
        "the kernel does not let this user choose the device {device} ({BIND_TO_DEVICE}: {cause}): before Linux 5.7 that \
         takes CAP_NET_RAW. Name an address of the device in its place, with a rule of routing for it (`ip rule add from \
         ADDRESS ...`), or run as root"
    )]
    NotPermitted {
        /// Name of the device.
        device: String,
        /// Error that the kernel returned.
        cause: io::Error,
    },
    /// The address is not one of this host's.
    #[error("this host has no address {address}; see those that it has: `ip -brief address`")]
    NoAddress {
        /// The requested source address.
        address: IpAddr,
    },
    /// Another system call failed.
    #[error("no connection can leave by {egress}: {call}: {cause}")]
    Refused {
        /// Requested egress.
        egress: Egress,
        /// Name of the system call.
        call: &'static str,
        /// Error that the kernel returned.
        cause: io::Error,
    },
}

/// Names of the network devices in this network namespace, for a message; empty if they cannot be
/// read.
fn devices() -> Vec<String> {
    let listed = std::fs::read_to_string(DEVICES).unwrap_or_default();
    listed.lines().skip(2).filter_map(|line| Some(line.split_once(':')?.0.trim().to_owned())).collect()
}

/// Devices or source addresses that a user named for the connections of one run, which use them in
/// turn; if there are none, the routing table decides.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Egresses(Arc<[Egress]>);

impl FromIterator<Egress> for Egresses {
    fn from_iter<I: IntoIterator<Item = Egress>>(egresses: I) -> Self {
        Self(egresses.into_iter().collect())
    }
}

impl Egresses {
    /// Egress of connection number `number`, counted from 0; `None` where no egress is named.
    #[must_use]
    pub fn of(&self, number: u8) -> Option<&Egress> {
        self.0.get(self.turn(number))
    }

    /// Index of the egress that connection number `number`, counted from 0, uses; connections with
    /// the same index leave by the same egress.
    #[must_use]
    pub fn turn(&self, number: u8) -> usize {
        usize::from(number) % self.0.len().max(1)
    }

    /// Least number of connections that uses each egress; 1 where none is named.
    #[must_use]
    pub fn connections(&self) -> u8 {
        u8::try_from(self.0.len()).unwrap_or(u8::MAX).max(1)
    }

    /// Whether no egress is named.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Iterates over the named egresses, in order.
    pub fn iter(&self) -> impl Iterator<Item = &Egress> {
        self.0.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn egress(text: &str) -> Egress {
        text.parse().expect(text)
    }

    #[test]
    fn a_text_is_an_address_or_a_name_that_the_kernel_takes() {
        assert_eq!(egress("192.0.2.1"), Egress::Address("192.0.2.1".parse().expect("address")));
        assert_eq!(egress("2001:db8::1").family(), Family::V6);
        assert_eq!(egress("::ffff:192.0.2.1"), egress("192.0.2.1"));
        for name in ["eth0", "enp1s0f0.100", "fifteen-letters"] {
            assert_eq!((egress(name).to_string().as_str(), egress(name).family()), (name, Family::Any));
        }
        for text in ["", ".", "..", "a b", "a/b", "eth0:1", "sixteen-letters-", "[::1]", "fe80::1%eth0"] {
            assert_eq!(text.parse::<Egress>(), Err(EgressSyntaxError::Neither), "{text}");
        }
        assert_eq!("fe80::1".parse::<Egress>(), Err(EgressSyntaxError::LinkLocal));
    }

    #[test]
    fn connections_take_them_in_turn() {
        let three: Egresses = ["a", "b", "192.0.2.1"].map(egress).into_iter().collect();
        let taken: Vec<_> = (0..5).map(|number| three.of(number).expect("named").to_string()).collect();
        assert_eq!(taken, ["a", "b", "192.0.2.1", "a", "b"]);
        assert_eq!((three.connections(), three.turn(255)), (3, 0));
        let none = Egresses::default();
        assert_eq!((none.of(7), none.turn(7), none.connections()), (None, 0, 1));
    }

    #[test]
    fn what_this_host_lacks_is_told_with_what_it_has() {
        let error = egress("none-such").check().expect_err("no such device");
        assert!(matches!(error, EgressError::NoDevice { .. }), "{error}");
        assert!(error.to_string().contains("it has ") && error.to_string().contains("lo"), "{error}");
        // TEST-NET-1, which no host has.
        let error = egress("192.0.2.1").check().expect_err("no such address");
        assert!(matches!(error, EgressError::NoAddress { .. }), "{error}");
        egress("127.0.0.1").check().expect("loopback");
        let refused = Refused { call: BIND_TO_DEVICE, cause: Errno::PERM.into() };
        let text = egress("lo").refused(refused).to_string();
        assert!(text.contains("5.7") && text.contains("CAP_NET_RAW") && text.contains("ip rule"), "{text}");
    }
}
