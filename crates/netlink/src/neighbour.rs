//! Neighbours' hardware addresses.

use netlink_packet_core::{NLM_F_CREATE, NLM_F_REPLACE};
use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::neighbour::{NeighbourAttribute, NeighbourMessage, NeighbourState};

use crate::Link;
use crate::request::{NetlinkError, Wanted, ask};

/// A permanent entry of the kernel's neighbour table (ARP or NDP): the IP and hardware address of a
/// neighbour, configured and not learnt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Neighbour(NeighbourMessage);

/// Lists the permanent entries that the neighbour table has for a device.
///
/// # Errors
/// The request to the kernel fails.
pub fn permanent_neighbours(device: &Link) -> Result<Vec<Neighbour>, NetlinkError> {
    let what = format!("neighbours of {}", device.name);
    let answers = ask(&what, Wanted::All, RouteNetlinkMessage::GetNeighbour(NeighbourMessage::default()))?;
    let of_device = |message| match message {
        RouteNetlinkMessage::NewNeighbour(message) => {
            let header = &message.header;
            let is_meant = header.ifindex == device.index && header.state == NeighbourState::Permanent;
            is_meant.then_some(Neighbour(message))
        }
        _ => None,
    };
    Ok(answers.into_iter().filter_map(of_device).collect())
}

impl Neighbour {
    /// Adds this entry to the neighbour table for another device, in place of one for the same
    /// address.
    ///
    /// # Errors
    /// The kernel refuses it.
    pub fn set_at(&self, device: &Link) -> Result<(), NetlinkError> {
        let mut message = self.0.clone();
        message.header.ifindex = device.index;
        message.attributes.retain(|attribute| {
            matches!(attribute, NeighbourAttribute::Destination(_) | NeighbourAttribute::LinkLayerAddress(_))
        });
        let what = format!("set a neighbour of {}", device.name);
        let flags = Wanted::Change(NLM_F_CREATE | NLM_F_REPLACE);
        ask(&what, flags, RouteNetlinkMessage::NewNeighbour(message)).map(drop)
    }
}
