//! The way by which a host's traffic comes to the pump: a tap with the device's hardware address,
//! MTU, routes and permanent neighbours.
//!
//! Routes of the tap go just before those of the device, and behind those of other devices that
//! went before it: by a metric that is smaller by one, or for IPv4 without a metric as the first of
//! its prefix. They are copied once: addresses and routes that the device gets later are not paced
//! before the pacer is started again.

use std::fs;

use icdc_netlink::{Family, Link, LinkChange, RoutePosition, change_link, link, permanent_neighbours, routes};
use icdc_packet::Tap;

use super::error::WireError;

/// Length of the tap's queue in packets, each of one frame up to 64 KiB: the kernel does not hold
/// TCP back at a tap, so a whole window may come at once.
const QUEUE: u32 = 4000;
/// Metric that the kernel gives an IPv6 route that was made without one.
const USUAL_METRIC: u32 = 1024;

/// A tap that stands in for a paced device, and into which the device's traffic can be led.
pub(super) struct Detour {
    device: Link,
    tap: Link,
    hardware: [u8; 6],
}

impl Detour {
    /// Makes and configures the tap that stands in for `device`; no traffic is led into it yet.
    pub(super) fn prepare(device: &str) -> Result<(Self, Tap), WireError> {
        let found = link(device)?.ok_or_else(|| WireError::NoDevice { device: device.to_owned() })?;
        let hardware = hardware(&found).ok_or_else(|| WireError::NotEthernet { device: device.to_owned() })?;
        if reverse_path(device) == 1 {
            return Err(WireError::ReversePath { device: device.to_owned() });
        }
        // One name for one device: the kernel does not give it twice.
        let name = format!("pace{}", found.index);
        let tap = Tap::create(&name).map_err(|error| match error.cause.raw_os_error() {
            Some(code) if code == rustix::io::Errno::BUSY.raw_os_error() => {
                WireError::Busy { device: device.to_owned() }
            }
            _ => error.into(),
        })?;
        let made = link(&name)?.ok_or(WireError::NoDevice { device: name })?;
        let detour = Self { device: found, tap: made, hardware };
        detour.configure()?;
        Ok((detour, tap))
    }

    /// Largest packet of the device, in bytes.
    pub(super) fn mtu(&self) -> usize {
        self.device.mtu as usize
    }

    /// Hardware address of the device.
    pub(super) fn hardware(&self) -> [u8; 6] {
        self.hardware
    }

    /// Leads the host's traffic for the device into the tap, by copies of the device's routes and
    /// permanent neighbours.
    pub(super) fn divert(&self) -> Result<(), WireError> {
        let Self { device, tap, .. } = self;
        change_link(tap, &LinkChange { up: true, ..LinkChange::default() })?;
        for neighbour in permanent_neighbours(device)? {
            neighbour.set_at(tap)?;
        }
        for route in routes(device, Family::V4)? {
            match preferred_metric(route.metric()) {
                // Behind whoever has that metric already, as before.
                Some(metric) => route.by(tap, metric).add(RoutePosition::Last)?,
                None => route.by(tap, route.metric()).add(RoutePosition::First)?,
            }
        }
        // A kernel may be without IPv6.
        let routes = routes(device, Family::V6).unwrap_or_default();
        for route in routes.into_iter().filter(|route| !route.is_link_local()) {
            let metric = if route.metric() == 0 { USUAL_METRIC } else { route.metric() };
            route.by(tap, preferred_metric(metric).unwrap_or(1)).add(RoutePosition::Only)?;
        }
        Ok(())
    }

    /// Gives the tap the device's hardware address and MTU, and switches off what the kernel would
    /// do at it by itself.
    fn configure(&self) -> Result<(), WireError> {
        let Self { device, tap, .. } = self;
        let change = LinkChange {
            address: Some(device.address.clone()),
            mtu: Some(device.mtu),
            queue_length: Some(QUEUE),
            ..LinkChange::default()
        };
        change_link(tap, &change)?;
        for (setting, value) in [
            // The device's own link-local address is also the tap's: no duplicate address detection
            // is needed.
            ("ipv6/conf/{}/accept_dad", "0"),
            ("ipv6/conf/{}/accept_ra", "0"),
            ("ipv6/conf/{}/router_solicitations", "0"),
            ("ipv4/conf/{}/rp_filter", "0"),
        ] {
            // Without them it works on all but rare hosts; a kernel without IPv6 has none of the
            // first three.
            let _ = fs::write(format!("/proc/sys/net/{}", setting.replace("{}", &tap.name)), value);
        }
        Ok(())
    }
}

/// Strictness of the kernel's check of source addresses at the device (rp_filter, ip-sysctl.txt):
/// the greater of two settings; 0 if they cannot be read.
fn reverse_path(device: &str) -> u8 {
    let read = |name: &str| {
        let text = fs::read_to_string(format!("/proc/sys/net/ipv4/conf/{name}/rp_filter")).unwrap_or_default();
        text.trim().parse().unwrap_or(0)
    };
    read("all").max(read(device))
}

/// Hardware address of an Ethernet device; `None` for any other device.
fn hardware(device: &Link) -> Option<[u8; 6]> {
    device.address.as_slice().try_into().ok().filter(|_| device.is_ethernet)
}

/// The metric of a route that goes just before one of this metric; `None` if none goes before it.
fn preferred_metric(metric: u32) -> Option<u32> {
    metric.checked_sub(1).filter(|before| *before > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_ethernet_devices_have_a_hardware_address() {
        let address = vec![2, 0x26, 0x33, 0, 0, 1];
        let device = |is_ethernet, address| Link { is_ethernet, address, ..Link::default() };
        assert_eq!(hardware(&device(true, address.clone())), Some([2, 0x26, 0x33, 0, 0, 1]));
        assert_eq!((hardware(&device(false, address)), hardware(&device(true, vec![2]))), (None, None));
    }

    #[test]
    fn a_copied_route_goes_just_before_its_own() {
        assert_eq!([1024, 256, 2].map(preferred_metric), [Some(1023), Some(255), Some(1)]);
        assert_eq!([0, 1].map(preferred_metric), [None, None]);
    }
}
