//! IP addresses of network devices.

use std::net::IpAddr;

use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::address::{AddressAttribute, AddressMessage};

use crate::request::{NetlinkError, Wanted, ask};

/// An IP address that a network device has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Address {
    /// Index of the device.
    pub device: u32,
    /// The IP address.
    pub address: IpAddr,
}

/// Lists the IP addresses of all devices.
///
/// # Errors
/// The request to the kernel fails.
pub fn addresses() -> Result<Vec<Address>, NetlinkError> {
    let answers = ask("addresses", Wanted::All, RouteNetlinkMessage::GetAddress(AddressMessage::default()))?;
    Ok(answers.into_iter().filter_map(address_of).collect())
}

/// Address in an answer of the kernel, at a point-to-point link that of this end; `None` if the
/// message is of another kind or has no address.
fn address_of(message: RouteNetlinkMessage) -> Option<Address> {
    let RouteNetlinkMessage::NewAddress(message) = message else { return None };
    // On a point-to-point link, the first of these is this end's address, the other one the
    // peer's.
    let local = message.attributes.iter().find_map(|attribute| match attribute {
        AddressAttribute::Local(address) => Some(*address),
        _ => None,
    });
    let peer = message.attributes.iter().find_map(|attribute| match attribute {
        AddressAttribute::Address(address) => Some(*address),
        _ => None,
    });
    Some(Address { device: message.header.index, address: local.or(peer)? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_this_end_s() {
        let mut message = AddressMessage::default();
        message.header.index = 7;
        let (near, far) = ([192, 0, 2, 1].into(), [192, 0, 2, 9].into());
        message.attributes.push(AddressAttribute::Address(far));
        let found = |message: &AddressMessage| address_of(RouteNetlinkMessage::NewAddress(message.clone()));
        assert_eq!(found(&message), Some(Address { device: 7, address: far }));
        message.attributes.push(AddressAttribute::Local(near));
        assert_eq!(found(&message), Some(Address { device: 7, address: near }));
        assert_eq!(found(&AddressMessage::default()), None);
    }

    #[test]
    fn the_kernel_tells_of_the_loopback_address() {
        let loopback = crate::link("lo").unwrap().unwrap();
        if loopback.is_up {
            let here = Address { device: loopback.index, address: [127, 0, 0, 1].into() };
            assert!(addresses().unwrap().contains(&here));
        }
    }
}
