//! Network devices.

use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::link::{LinkAttribute, LinkFlags, LinkInfo, LinkMessage};

use crate::request::{NetlinkError, Wanted, ask};

/// A network device and its properties.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Link {
    /// Index of the device.
    pub index: u32,
    /// Name of the device.
    pub name: String,
    /// Hardware address: six bytes of an Ethernet device.
    pub address: Vec<u8>,
    /// MTU: the largest packet in bytes.
    pub mtu: u32,
    /// Whether the device is up.
    pub is_up: bool,
    /// Whether it is the loopback device.
    pub is_loopback: bool,
    /// Whether the device's frames are Ethernet frames.
    pub is_ethernet: bool,
    /// Kind of a virtual device, `veth`, `bridge` and so on; `None` for a device that has none.
    pub kind: Option<String>,
    /// Most segments that TCP hands over at once (`gso_max_segs`); `None` if the kernel does
    /// not tell.
    pub batch_segments: Option<u32>,
}

/// Properties of a network device that are to be changed; `None` leaves one as it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LinkChange {
    /// Whether to set the device up; otherwise it keeps its state.
    pub up: bool,
    /// Hardware address to set; `None` keeps the present one.
    pub address: Option<Vec<u8>>,
    /// MTU to set, in bytes; `None` keeps the present one.
    pub mtu: Option<u32>,
    /// Length of the device's transmit queue in packets (`txqueuelen`).
    pub queue_length: Option<u32>,
    /// Most segments that TCP hands over at once (`gso_max_segs`).
    pub batch_segments: Option<u32>,
}

/// Lists all network devices.
///
/// # Errors
/// The request to the kernel fails.
pub fn links() -> Result<Vec<Link>, NetlinkError> {
    let answers = ask("devices", Wanted::All, RouteNetlinkMessage::GetLink(LinkMessage::default()))?;
    Ok(answers.into_iter().filter_map(link_of).collect())
}

/// The device of this name; `None` if there is none.
///
/// # Errors
/// The request to the kernel fails.
pub fn link(name: &str) -> Result<Option<Link>, NetlinkError> {
    // The kernel refuses names that are none with other errors.
    Ok(links()?.into_iter().find(|link| link.name == name))
}

/// Sets properties of a device in the kernel, by one request.
///
/// # Errors
/// The kernel refuses it.
pub fn change_link(link: &Link, change: &LinkChange) -> Result<(), NetlinkError> {
    let mut message = LinkMessage::default();
    message.header.index = link.index;
    if change.up {
        message.header.flags = LinkFlags::Up;
        message.header.change_mask = LinkFlags::Up;
    }
    let LinkChange { address, mtu, queue_length, batch_segments, .. } = change.clone();
    message.attributes.extend(address.map(LinkAttribute::Address));
    message.attributes.extend(mtu.map(LinkAttribute::Mtu));
    message.attributes.extend(queue_length.map(LinkAttribute::TxQueueLen));
    message.attributes.extend(batch_segments.map(LinkAttribute::GsoMaxSegs));
    let what = format!("change device {}", link.name);
    ask(&what, Wanted::Change(0), RouteNetlinkMessage::SetLink(message)).map(drop)
}

/// Device that an answer of the kernel describes; `None` if the message is of another kind.
fn link_of(message: RouteNetlinkMessage) -> Option<Link> {
    let RouteNetlinkMessage::NewLink(message) = message else { return None };
    let header = &message.header;
    let mut link = Link {
        index: header.index,
        is_up: header.flags.contains(LinkFlags::Up),
        is_loopback: header.flags.contains(LinkFlags::Loopback),
        is_ethernet: header.link_layer_type == netlink_packet_route::link::LinkLayerType::Ether,
        ..Link::default()
    };
    for attribute in message.attributes {
        match attribute {
            LinkAttribute::IfName(name) => link.name = name,
            LinkAttribute::Address(address) => link.address = address,
            LinkAttribute::Mtu(mtu) => link.mtu = mtu,
            LinkAttribute::GsoMaxSegs(segments) => link.batch_segments = Some(segments),
            LinkAttribute::LinkInfo(infos) => {
                link.kind = infos.into_iter().find_map(|info| match info {
                    LinkInfo::Kind(kind) => Some(kind.to_string()),
                    _ => None,
                });
            }
            _ => {}
        }
    }
    Some(link)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_tells_of_the_loopback_device() {
        let loopback = link("lo").unwrap().unwrap();
        assert!(loopback.is_loopback && !loopback.is_ethernet);
        assert_eq!((loopback.name.as_str(), loopback.address.len()), ("lo", 6));
        assert!(loopback.mtu > 1500);
        assert_eq!(link("no-such-device").unwrap(), None);
    }

    #[test]
    fn what_this_user_may_not_change_is_told_so() {
        if rustix::process::geteuid().is_root() {
            return;
        }
        let loopback = link("lo").unwrap().unwrap();
        let change = LinkChange { mtu: Some(loopback.mtu), ..LinkChange::default() };
        assert!(change_link(&loopback, &change).unwrap_err().lacks_privilege());
    }
}
