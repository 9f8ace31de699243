//! The line behind a device: its rate, and whether frames that fill gaps are charged there.

use icdc_packet::ethtool;
use icdc_units::{Rate, Span};

use super::error::WireError;

/// Method of keeping frames at their distances on a device's line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Frames wait for the system's timer.
    Timer,
    /// Gap frames fill the line between the frames.
    Gap,
}

/// A network device that is to be paced, with the rate of its line and the method.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// Name of the device.
    pub device: String,
    /// Rate of the line, preambles and gaps between frames included.
    pub rate: Rate,
    /// Method of keeping frames apart there.
    pub mode: Mode,
    /// Time by which the line is filled ahead in gap mode: shorter stalls change nothing, and an
    /// arriving frame may wait this long.
    pub lead: Span,
}

/// Default lead of a line: more than the scheduling delay of a thread on a calm machine, less than
/// any round trip that is worth pacing.
pub const LEAD: Span = Span::from_millis(5);

/// Drivers of devices that hand frames on in memory, at whatever rate, so that gap frames would
/// pace nothing there.
const CHARGED_FOR_NOTHING: [&str; 14] = [
    "veth",
    "tun",
    "dummy",
    "bridge",
    "bonding",
    "team",
    "ifb",
    "macvlan",
    "ipvlan",
    "vxlan",
    "netkit",
    "virtio_net",
    "xen_netfront",
    "hv_netvsc",
];

impl Line {
    /// Finds out the line of `device`, in this thread's network namespace. `given`, the user's
    /// rate, takes precedence over the device's own; `lab` is the rate at which an emulated wire
    /// charges frames, `None` without one. Without a mode, gaps are filled where that works.
    ///
    /// # Errors
    /// No such device; an unknown rate; gap frames requested where they would pace nothing.
    pub fn of(device: &str, given: Option<Rate>, lab: Option<Rate>, mode: Option<Mode>) -> Result<Self, WireError> {
        let driver = ethtool::driver(device)?.unwrap_or_default();
        let is_wire = !driver.is_empty() && !CHARGED_FOR_NOTHING.contains(&driver.as_str());
        let own = if is_wire { ethtool::speed(device)? } else { None };
        let is_charged = is_wire || lab.is_some();
        let mode = mode.unwrap_or(if is_charged { Mode::Gap } else { Mode::Timer });
        if mode == Mode::Gap && !is_charged {
            let driver = if driver.is_empty() { "no driver".to_owned() } else { driver };
            return Err(WireError::NotCharged { device: device.to_owned(), driver });
        }
        let rate = given.or(lab).or(own).filter(|rate| !rate.is_zero());
        let rate = rate.ok_or_else(|| WireError::LineRate { device: device.to_owned() })?;
        Ok(Self { device: device.to_owned(), rate, mode, lead: LEAD })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_without_a_wire_is_told_from_one_with() {
        let rate = Some(Rate::from_bits_per_second(1_000_000_000));
        let timer = Line::of("lo", rate, None, None).unwrap();
        assert_eq!((timer.mode, Some(timer.rate)), (Mode::Timer, rate));
        assert!(matches!(Line::of("lo", rate, None, Some(Mode::Gap)), Err(WireError::NotCharged { .. })));
        assert!(matches!(Line::of("lo", None, None, None), Err(WireError::LineRate { .. })));
        assert_eq!(Line::of("lo", None, rate, None).unwrap().mode, Mode::Gap);
        assert!(matches!(Line::of("no-such-device", rate, None, None), Err(WireError::Packet(_))));
    }
}
