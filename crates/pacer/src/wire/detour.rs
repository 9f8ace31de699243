//! The way by which a host's traffic comes to the pump: a tap with the device's hardware address,
//! MTU, routes and permanent neighbours.
//!
//! Routes of the tap go just before those of the device, and behind those of other devices that
//! went before it: by a metric that is smaller by one, or for IPv4 without a metric as the first of
//! its prefix. They are copied once: addresses and routes that the device gets later are not paced
//! before the pacer is started again.

use std::fs;

use icdc_packet::Tap;

use super::error::WireError;
use crate::ip::{IpError, after, ip};

/// Packets that may wait for the pump, each of one frame up to 64 KiB: the kernel does not hold TCP
/// back at a tap, so a whole window may come at once.
const QUEUE: &str = "4000";

/// A tap that is set up and may be diverted into.
pub(super) struct Detour {
    device: String,
    tap: String,
    facts: Facts,
}

/// What `ip -o link` tells of a device.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Facts {
    index: u32,
    mtu: usize,
    hardware: [u8; 6],
}

impl Detour {
    /// Makes the tap. Nothing goes into it yet.
    pub(super) fn prepare(device: &str) -> Result<(Self, Tap), WireError> {
        let told = ip(&["-o", "link", "show", "dev", device])?;
        let facts = facts(&told).ok_or_else(|| IpError {
            command: format!("ip -o link show dev {device}"),
            reason: "it is no Ethernet device: only those can be paced".to_owned(),
        })?;
        if reverse_path(device) == 1 {
            return Err(WireError::ReversePath { device: device.to_owned() });
        }
        // One name for one device: the kernel lets nobody else have it.
        let name = format!("pace{}", facts.index);
        let tap = Tap::create(&name).map_err(|error| match error.cause.raw_os_error() {
            Some(code) if code == rustix::io::Errno::BUSY.raw_os_error() => {
                WireError::Busy { device: device.to_owned() }
            }
            _ => error.into(),
        })?;
        let detour = Self { device: device.to_owned(), tap: name, facts };
        detour.configure()?;
        Ok((detour, tap))
    }

    /// Largest packet of the device, in bytes.
    pub(super) fn mtu(&self) -> usize {
        self.facts.mtu
    }

    /// Hardware address of the device.
    pub(super) fn hardware(&self) -> [u8; 6] {
        self.facts.hardware
    }

    /// Lets the host send into the tap what it sent into the device.
    pub(super) fn divert(&self) -> Result<(), WireError> {
        let (device, tap) = (self.device.as_str(), self.tap.as_str());
        ip(&["link", "set", "dev", tap, "up"])?;
        for line in ip(&["neighbour", "show", "dev", device, "nud", "permanent"])?.lines() {
            let mut words = vec!["neighbour", "replace"];
            words.extend(line.split_whitespace().filter(|word| *word != "PERMANENT"));
            words.extend(["dev", tap, "nud", "permanent"]);
            ip(&words)?;
        }
        let routes = ip(&["-4", "route", "show", "dev", device])?;
        for words in in_order(&routes) {
            match preferred_metric(&words, 0) {
                Some(metric) => {
                    let words = without(&words, &["metric"]);
                    // Behind whoever has that metric already, as before.
                    ip(&[&["-4", "route", "append"], &words[..], &["dev", tap, "metric", &metric]].concat())?;
                }
                None => {
                    ip(&[&["-4", "route", "prepend"], &without(&words, &[])[..], &["dev", tap]].concat())?;
                }
            }
        }
        // A kernel may be without IPv6.
        let routes = ip(&["-6", "route", "show", "dev", device]).unwrap_or_default();
        for words in in_order(&routes).into_iter().filter(|words| !words[0].starts_with("fe80:")) {
            let metric = preferred_metric(&words, 1024).unwrap_or_else(|| "1".to_owned());
            let words = without(&words, &["metric", "expires"]);
            ip(&[&["-6", "route", "add"], &words[..], &["dev", tap, "metric", &metric]].concat())?;
        }
        Ok(())
    }

    fn configure(&self) -> Result<(), WireError> {
        let tap = self.tap.as_str();
        let Facts { mtu, hardware, .. } = &self.facts;
        let address = hardware.map(|byte| format!("{byte:02x}")).join(":");
        ip(&["link", "set", "dev", tap, "address", &address, "mtu", &mtu.to_string(), "txqueuelen", QUEUE])?;
        for (setting, value) in [
            // The device's own address of the link is also the tap's: nobody is to be asked whether
            // that is so.
            ("ipv6/conf/{}/accept_dad", "0"),
            ("ipv6/conf/{}/accept_ra", "0"),
            ("ipv6/conf/{}/router_solicitations", "0"),
            ("ipv4/conf/{}/rp_filter", "0"),
        ] {
            // Without them it works on all but rare hosts; a kernel without IPv6 has none of the
            // first three.
            let _ = fs::write(format!("/proc/sys/net/{}", setting.replace("{}", tap)), value);
        }
        Ok(())
    }
}

/// How strictly the kernel checks at the device from where packets come (ip-sysctl.txt): the
/// greater of two settings.
fn reverse_path(device: &str) -> u8 {
    let read = |name: &str| {
        let text = fs::read_to_string(format!("/proc/sys/net/ipv4/conf/{name}/rp_filter")).unwrap_or_default();
        text.trim().parse().unwrap_or(0)
    };
    read("all").max(read(device))
}

fn facts(told: &str) -> Option<Facts> {
    let mut hardware = [0; 6];
    let mut octets = after(told, "link/ether")?.split(':');
    for byte in &mut hardware {
        *byte = u8::from_str_radix(octets.next()?, 16).ok()?;
    }
    Some(Facts { index: told.split(':').next()?.parse().ok()?, mtu: after(told, "mtu")?.parse().ok()?, hardware })
}

/// Routes as words, those to neighbours first: the others lead by way of them.
fn in_order(routes: &str) -> Vec<Vec<&str>> {
    let mut all: Vec<Vec<&str>> = routes.lines().map(|line| line.split_whitespace().collect()).collect();
    all.retain(|words: &Vec<&str>| !words.is_empty());
    all.sort_by_key(|words| words.contains(&"via"));
    all
}

/// Words of a route but those on its state, and but these with the one that follows each.
fn without<'a>(words: &[&'a str], unwanted: &[&str]) -> Vec<&'a str> {
    let mut kept = Vec::new();
    let mut words = words.iter();
    while let Some(word) = words.next() {
        match *word {
            "linkdown" | "dead" => {}
            word if unwanted.contains(&word) => drop(words.next()),
            word => kept.push(word),
        }
    }
    kept
}

/// The metric just before that of a route, which has `usual` if it tells none; `None` if nothing
/// goes before it.
fn preferred_metric(words: &[&str], usual: u32) -> Option<String> {
    let at = words.iter().position(|word| *word == "metric");
    let metric: u32 = at.and_then(|at| words.get(at + 1)?.parse().ok()).unwrap_or(usual);
    metric.checked_sub(1).filter(|before| *before > 0).map(|before| before.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_ip_tells_of_a_device_is_read() {
        let told = "2: eth0@if3: <BROADCAST,UP> mtu 1500 qdisc noqueue state UP mode DEFAULT group default qlen 1000\\    \
            link/ether 02:26:33:00:00:01 brd ff:ff:ff:ff:ff:ff link-netnsid 0\n";
        assert_eq!(facts(told), Some(Facts { index: 2, mtu: 1500, hardware: [2, 0x26, 0x33, 0, 0, 1] }));
        let loopback = "1: lo: <LOOPBACK,UP> mtu 65536 qdisc noqueue\\    link/loopback 00:00:00:00:00:00 brd 00:00\n";
        assert_eq!(facts(loopback), None);
    }

    #[test]
    fn routes_are_copied_with_what_belongs_to_them() {
        let v4 = "default via 10.0.0.1 proto dhcp src 10.0.0.5 metric 100 \n10.0.0.0/24 proto kernel scope link src 10.0.0.5 linkdown\n";
        let ordered = in_order(v4);
        assert_eq!(without(&ordered[0], &[]).join(" "), "10.0.0.0/24 proto kernel scope link src 10.0.0.5");
        assert_eq!(without(&ordered[1], &[]).join(" "), "default via 10.0.0.1 proto dhcp src 10.0.0.5 metric 100");
        let v6 = "2001:db8::/64 proto kernel metric 256 pref medium\ndefault via fe80::1 proto ra metric 1024 expires 1789sec hoplimit 64 pref medium\n";
        let ordered = in_order(v6);
        assert_eq!(without(&ordered[0], &["metric", "expires"]).join(" "), "2001:db8::/64 proto kernel pref medium");
        assert_eq!(
            without(&ordered[1], &["metric", "expires"]).join(" "),
            "default via fe80::1 proto ra hoplimit 64 pref medium"
        );
        let before = |words: &[&str]| preferred_metric(words, 1024);
        assert_eq!((before(&ordered[0]), before(&ordered[1])), (Some("255".into()), Some("1023".into())));
        assert_eq!((before(&["default"]), preferred_metric(&["default"], 0)), (Some("1023".into()), None));
        assert_eq!(preferred_metric(&["default", "metric", "1"], 1024), None);
    }
}
