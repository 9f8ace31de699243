//! Routes.

use std::net::IpAddr;

use netlink_packet_core::{NLM_F_APPEND, NLM_F_CREATE, NLM_F_EXCL};
use netlink_packet_route::route::{RouteAddress, RouteAttribute, RouteFlags, RouteHeader, RouteMessage, RouteType};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};

use crate::Link;
use crate::request::{NetlinkError, Wanted, ask};

/// Address family: IPv4 or IPv6.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// IPv4.
    V4,
    /// IPv6.
    V6,
}

/// Outgoing device of packets to an address, and whether the address is this host's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutgoingDevice {
    /// Index of the outgoing device.
    pub device: u32,
    /// Whether the destination is an address of this host.
    pub is_local: bool,
}

/// A route of the kernel's main table that has one outgoing device, to be copied to another device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route(RouteMessage);

/// Position at which [`Route::add`] puts a route among those with the same prefix and
/// metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RoutePosition {
    /// The route comes before the others.
    First,
    /// The route comes behind the others.
    Last,
    /// The route must be the only one.
    Only,
}

/// Asks the kernel by which device packets to `address` leave; `None` if there is no route, or it
/// has no single device.
///
/// # Errors
/// The request to the kernel fails.
pub fn device_towards(address: IpAddr) -> Result<Option<OutgoingDevice>, NetlinkError> {
    let mut message = RouteMessage::default();
    (message.header.address_family, message.header.destination_prefix_length) = match address {
        IpAddr::V4(_) => (AddressFamily::Inet, 32),
        IpAddr::V6(_) => (AddressFamily::Inet6, 128),
    };
    message.attributes.push(RouteAttribute::Destination(address.into()));
    let what = format!("route to {address}");
    let answers = match ask(&what, Wanted::One, RouteNetlinkMessage::GetRoute(message)) {
        Err(error) if error.is_absent() => return Ok(None),
        answers => answers?,
    };
    let outgoing = |message: &RouteNetlinkMessage| match message {
        RouteNetlinkMessage::NewRoute(message) => {
            let is_local = message.header.kind == RouteType::Local;
            device_of(message).map(|device| OutgoingDevice { device, is_local })
        }
        _ => None,
    };
    Ok(answers.iter().find_map(outgoing))
}

/// The routes of the main table by `device`, those to neighbours first: others may lead by way of
/// them. Routes by several devices, and those that the kernel has cached, are left out.
///
/// # Errors
/// The request to the kernel fails.
pub fn routes(device: &Link, family: Family) -> Result<Vec<Route>, NetlinkError> {
    let mut message = RouteMessage::default();
    message.header.address_family = match family {
        Family::V4 => AddressFamily::Inet,
        Family::V6 => AddressFamily::Inet6,
    };
    let what = format!("routes of {}", device.name);
    let answers = ask(&what, Wanted::All, RouteNetlinkMessage::GetRoute(message))?;
    let route = |message| match message {
        RouteNetlinkMessage::NewRoute(message) => {
            let is_meant = device_of(&message) == Some(device.index)
                && table_of(&message) == u32::from(RouteHeader::RT_TABLE_MAIN)
                && !message.header.flags.contains(RouteFlags::Cloned);
            is_meant.then_some(Route(message))
        }
        _ => None,
    };
    let mut routes: Vec<Route> = answers.into_iter().filter_map(route).collect();
    routes.sort_by_key(Route::has_gateway);
    Ok(routes)
}

impl Route {
    /// Metric of the route; those of IPv4 without one have 0.
    #[must_use]
    pub fn metric(&self) -> u32 {
        let metric = |attribute: &RouteAttribute| match attribute {
            RouteAttribute::Priority(metric) => Some(*metric),
            _ => None,
        };
        self.0.attributes.iter().find_map(metric).unwrap_or(0)
    }

    /// Whether the route leads to addresses that are valid on one link only (fe80::/10).
    #[must_use]
    pub fn is_link_local(&self) -> bool {
        let is_local = |attribute: &RouteAttribute| match attribute {
            RouteAttribute::Destination(RouteAddress::Inet6(address)) => address.is_unicast_link_local(),
            _ => false,
        };
        self.0.attributes.iter().any(is_local)
    }

    /// Whether the route leads through a gateway, and not straight to neighbours on the link.
    fn has_gateway(&self) -> bool {
        let is_gateway =
            |attribute: &RouteAttribute| matches!(attribute, RouteAttribute::Gateway(_) | RouteAttribute::Via(_));
        self.0.attributes.iter().any(is_gateway)
    }

    /// Makes a copy of this route that leaves by another device, with another metric; 0 leaves the
    /// metric to the kernel. It is not in the table until [`add`](Self::add).
    #[must_use]
    pub fn by(&self, device: &Link, metric: u32) -> Self {
        let mut message = self.0.clone();
        // What the kernel found out belongs to the device that the route had.
        message.header.flags &= RouteFlags::Onlink | RouteFlags::Pervasive;
        message.attributes.retain(|attribute| {
            matches!(
                attribute,
                RouteAttribute::Destination(_)
                    | RouteAttribute::Source(_)
                    | RouteAttribute::Gateway(_)
                    | RouteAttribute::Via(_)
                    | RouteAttribute::PrefSource(_)
                    | RouteAttribute::Metrics(_)
                    | RouteAttribute::Preference(_)
                    | RouteAttribute::Realm(_)
                    | RouteAttribute::EncapType(_)
                    | RouteAttribute::Encap(_)
            )
        });
        message.attributes.push(RouteAttribute::Oif(device.index));
        if metric > 0 {
            message.attributes.push(RouteAttribute::Priority(metric));
        }
        Self(message)
    }

    /// Adds the route to the main table.
    ///
    /// # Errors
    /// The kernel refuses the route.
    pub fn add(&self, position: RoutePosition) -> Result<(), NetlinkError> {
        let flags = match position {
            RoutePosition::First => NLM_F_CREATE,
            RoutePosition::Last => NLM_F_CREATE | NLM_F_APPEND,
            RoutePosition::Only => NLM_F_CREATE | NLM_F_EXCL,
        };
        ask("add a route", Wanted::Change(flags), RouteNetlinkMessage::NewRoute(self.0.clone())).map(drop)
    }
}

/// Index of the route's outgoing device; `None` if it has none or several.
fn device_of(message: &RouteMessage) -> Option<u32> {
    message.attributes.iter().find_map(|attribute| match attribute {
        RouteAttribute::Oif(device) => Some(*device),
        _ => None,
    })
}

/// Number of the routing table that has the route.
fn table_of(message: &RouteMessage) -> u32 {
    let table = message.attributes.iter().find_map(|attribute| match attribute {
        RouteAttribute::Table(table) => Some(*table),
        _ => None,
    });
    table.unwrap_or(message.header.table.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_belongs_to_a_route_goes_with_it_and_what_belongs_to_its_device_does_not() {
        let mut message = RouteMessage::default();
        message.header.flags = RouteFlags::Onlink | RouteFlags::Linkdown | RouteFlags::Offload;
        let destination = RouteAttribute::Destination(IpAddr::from([192, 0, 2, 0]).into());
        let gateway = RouteAttribute::Gateway(IpAddr::from([192, 0, 2, 1]).into());
        message.attributes = vec![
            destination.clone(),
            gateway.clone(),
            RouteAttribute::Oif(2),
            RouteAttribute::Priority(100),
            RouteAttribute::Expires(9),
            RouteAttribute::NhId(5),
        ];
        let route = Route(message);
        assert_eq!((route.metric(), route.has_gateway()), (100, true));
        let device = Link { index: 7, ..Link::default() };
        let copy = route.by(&device, 99).0;
        assert_eq!(copy.header.flags, RouteFlags::Onlink);
        assert_eq!(copy.attributes, [destination, gateway, RouteAttribute::Oif(7), RouteAttribute::Priority(99)]);
        assert_eq!(Route(RouteMessage::default()).metric(), 0);
    }

    #[test]
    fn the_kernel_tells_the_way_to_this_host() {
        let loopback = crate::link("lo").unwrap().unwrap();
        if loopback.is_up {
            let outgoing = OutgoingDevice { device: loopback.index, is_local: true };
            assert_eq!(device_towards([127, 0, 0, 1].into()).unwrap(), Some(outgoing));
        }
        routes(&loopback, Family::V4).unwrap();
    }
}
