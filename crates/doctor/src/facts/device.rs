//! The devices that the traffic takes.

use std::net::IpAddr;

use icdc_netlink::{Link, Parent, Qdisc};
use icdc_packet::ethtool::{self, Pause, Rings};
use icdc_packet::offloads::{self, Feature};
use icdc_units::{ByteCount, Rate};

use super::processors::listed;
use super::route;
use crate::System;

/// Greatest number of devices that are examined where no route to a target says which.
const MOST: usize = 8;

/// A network device. What was not seen, or what it does not have, is `None` or empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Device {
    /// Name of the network device.
    pub name: String,
    /// Name of the device's driver, or the kind of a virtual device.
    pub driver: Option<String>,
    /// Largest packet that the device sends, in bytes.
    pub mtu: Option<ByteCount>,
    /// Rate of the device's link.
    pub speed: Option<Rate>,
    /// Kinds of the device's queueing disciplines, the first one first, each once.
    pub qdiscs: Vec<String>,
    /// Segmentation and receive offloads of the device.
    pub offloads: Option<Offloads>,
    /// Flow control of the link by PAUSE frames.
    pub pause: Option<Pause>,
    /// Sizes of the rings for packets between device and kernel.
    pub rings: Option<Rings>,
    /// Most segments that TCP hands to the device at once (`gso_max_segs`).
    pub batch_segments: Option<u32>,
    /// Number of queues for packets that arrive.
    pub receive_queues: Option<usize>,
    /// Arriving packets are spread over processors by software (`rps_cpus`).
    pub is_spread: bool,
    /// Interrupts of the device.
    pub interrupts: Vec<Interrupt>,
    /// The NUMA node where it is plugged in, of a host with several.
    pub node: Option<Node>,
}

/// The NUMA node to which a device is attached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// Number of the node.
    pub number: u32,
    /// Number of NUMA nodes of the host.
    pub of: usize,
}

/// Segmentation and receive offloads: device or stack cuts what is sent into segments, and merges
/// segments that arrive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offloads {
    /// Whether TCP segmentation offload (TSO) is on.
    pub tcp_segmentation: bool,
    /// Whether generic segmentation offload (GSO) is on.
    pub generic_segmentation: bool,
    /// Whether generic receive offload (GRO) is on.
    pub generic_receive: bool,
}

/// An interrupt of a device, and the processors that handle it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interrupt {
    /// Number of the interrupt.
    pub number: u32,
    /// Processors that handle the interrupt.
    pub processors: Vec<usize>,
}

/// Links and queueing disciplines of all devices in this network namespace, as the kernel lists
/// them by netlink.
struct Kernel {
    links: Vec<Link>,
    qdiscs: Vec<Qdisc>,
}

/// Reads the facts of the devices that the traffic takes, see [`names`]: from `/sys`, and of the
/// running system also by netlink and ethtool.
pub(super) fn gather(system: &System, target: Option<IpAddr>) -> Vec<Device> {
    let kernel = system.is_running().then(Kernel::ask).flatten();
    let names = names(system, kernel.as_ref(), target);
    names.into_iter().map(|name| Device::read(system, kernel.as_ref(), name)).collect()
}

/// Names of the devices to examine: the one of the route to `target`, else those of the default
/// routes, else those that are up.
fn names(system: &System, kernel: Option<&Kernel>, target: Option<IpAddr>) -> Vec<String> {
    let way = target.zip(kernel).and_then(|(target, kernel)| {
        let outgoing = icdc_netlink::device_towards(target).ok().flatten()?;
        kernel.links.iter().find(|link| link.index == outgoing.device)
    });
    if let Some(link) = way {
        return vec![link.name.clone()];
    }
    let mut names = route::default_devices(system);
    if names.is_empty() {
        names = match kernel {
            Some(kernel) => {
                let up = kernel.links.iter().filter(|link| link.is_up && !link.is_loopback);
                up.map(|link| link.name.clone()).collect()
            }
            None => {
                let is_up = |name: &String| {
                    let state = system.text(&format!("/sys/class/net/{name}/operstate"));
                    name != "lo" && state.is_some_and(|state| state == "up")
                };
                system.names("/sys/class/net").into_iter().filter(is_up).collect()
            }
        };
    }
    names.truncate(MOST);
    names
}

impl Kernel {
    /// Queries the running kernel; `None` if it does not list its links.
    fn ask() -> Option<Self> {
        Some(Self { links: icdc_netlink::links().ok()?, qdiscs: icdc_netlink::qdiscs().unwrap_or_default() })
    }
}

impl Device {
    /// Reads the facts of the device `name`; without `kernel` those in `/sys` only.
    fn read(system: &System, kernel: Option<&Kernel>, name: String) -> Self {
        let link = kernel.and_then(|kernel| kernel.links.iter().find(|link| link.name == name));
        let sysfs = SysfsDevice { system, directory: format!("/sys/class/net/{name}") };
        let mut device = match link {
            Some(link) if !sysfs.is(link) => Self::default(),
            _ => sysfs.device(),
        };
        if let (Some(link), Some(kernel)) = (link, kernel) {
            device.mtu = Some(ByteCount::new(link.mtu.into()));
            device.driver = device.driver.or_else(|| link.kind.clone());
            device.batch_segments = link.batch_segments;
            device.qdiscs = kinds(kernel, link.index);
            device.offloads = offloads(&name);
            device.pause = ethtool::pause(&name).ok().flatten();
            device.rings = ethtool::rings(&name).ok().flatten();
        }
        device.name = name;
        device
    }
}

/// Kinds of the queueing disciplines of the device with this index, the root's first, each once.
fn kinds(kernel: &Kernel, device: u32) -> Vec<String> {
    let own = || kernel.qdiscs.iter().filter(|qdisc| qdisc.device == device);
    let first = own().filter(|qdisc| qdisc.parent == Parent::Root);
    let mut kinds: Vec<String> = Vec::new();
    for qdisc in first.chain(own().filter(|qdisc| qdisc.parent != Parent::Root)) {
        if !kinds.contains(&qdisc.kind) {
            kinds.push(qdisc.kind.clone());
        }
    }
    kinds
}

/// Offloads of a device, by ethtool; `None` if one of them cannot be read.
fn offloads(device: &str) -> Option<Offloads> {
    let is_on = |feature| offloads::get(device, feature).ok();
    Some(Offloads {
        tcp_segmentation: is_on(Feature::TcpSegmentation)?,
        generic_segmentation: is_on(Feature::GenericSegmentation)?,
        generic_receive: is_on(Feature::GenericReceive)?,
    })
}

/// Directory of a device name in `/sys`: that of the network namespace in which it was mounted,
/// which may be another device.
struct SysfsDevice<'a> {
    system: &'a System,
    directory: String,
}

impl SysfsDevice<'_> {
    /// Text of a file in the device's directory; `None` if it cannot be read.
    fn text(&self, name: &str) -> Option<String> {
        self.system.text(&format!("{}/{name}", self.directory))
    }

    /// Whether the directory in `/sys` belongs to this device, by number and hardware address.
    fn is(&self, link: &Link) -> bool {
        let hex: Vec<String> = link.address.iter().map(|byte| format!("{byte:02x}")).collect();
        self.text("ifindex").is_some_and(|index| index == link.index.to_string())
            && self.text("address").is_some_and(|address| address == hex.join(":"))
    }

    /// Facts of the device that its directory in `/sys` shows.
    fn device(&self) -> Device {
        let queues = self.system.names(&format!("{}/queues", self.directory));
        let receiving: Vec<&String> = queues.iter().filter(|name| name.starts_with("rx-")).collect();
        let is_spread = |queue: &str| {
            let mask = self.text(&format!("queues/{queue}/rps_cpus")).unwrap_or_default();
            mask.chars().any(|digit| digit.is_ascii_hexdigit() && digit != '0')
        };
        Device {
            driver: self.driver(),
            mtu: self.text("mtu").and_then(|text| text.parse().ok()).map(ByteCount::new),
            // Of a link that is down, and of most virtual devices, it cannot be read, or is -1.
            speed: self.text("speed").and_then(|text| text.parse::<u64>().ok()).map(megabits),
            receive_queues: Some(receiving.len()).filter(|count| *count > 0),
            is_spread: receiving.iter().any(|queue| is_spread(queue)),
            interrupts: self.interrupts(),
            node: self.node(),
            ..Device::default()
        }
    }

    /// Name of the device's driver; `None` if it has none, as a virtual device.
    fn driver(&self) -> Option<String> {
        let link = std::fs::read_link(self.system.path(&format!("{}/device/driver", self.directory))).ok()?;
        Some(link.file_name()?.to_str()?.to_owned())
    }

    /// NUMA node of the device; `None` if it is unknown, or the host has one node only.
    fn node(&self) -> Option<Node> {
        let is_node = |name: &String| name.strip_prefix("node").is_some_and(|number| number.parse::<u32>().is_ok());
        let of = self.system.names("/sys/devices/system/node").iter().filter(|name| is_node(name)).count();
        // -1 where it is not known.
        let number = self.text("device/numa_node")?.parse().ok()?;
        (of > 1).then_some(Node { number, of })
    }

    /// Interrupts of the device; of a virtio device, those of its parent.
    fn interrupts(&self) -> Vec<Interrupt> {
        let places = ["device/msi_irqs", "device/../msi_irqs"].map(|place| format!("{}/{place}", self.directory));
        let numbers = places.iter().map(|place| self.system.names(place)).find(|names| !names.is_empty());
        let interrupt = |name: String| {
            let served = ["effective_affinity_list", "smp_affinity_list"]
                .iter()
                .find_map(|file| self.system.text(&format!("/proc/irq/{name}/{file}")).filter(|text| !text.is_empty()));
            Some(Interrupt { number: name.parse().ok()?, processors: listed(&served?) })
        };
        numbers.unwrap_or_default().into_iter().filter_map(interrupt).collect()
    }
}

/// Rate of `count` Mbit/s, the unit of `/sys`.
fn megabits(count: u64) -> Rate {
    Rate::from_bits_per_second(count.saturating_mul(1_000_000))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_is_read_from_sys() {
        let root = tempfile::tempdir().unwrap();
        let system = System::at(root.path().to_owned());
        let write = |path: &str, text: &str| {
            let path = system.path(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        for (name, text) in [
            ("mtu", "9000"),
            ("speed", "10000"),
            ("operstate", "up"),
            ("queues/rx-0/rps_cpus", "00000000"),
            ("queues/rx-1/rps_cpus", "00000000,00000002"),
            ("queues/tx-0/tx_timeout", "0"),
            ("device/msi_irqs/24", "msix"),
            ("device/msi_irqs/25", "msix"),
        ] {
            write(&format!("/sys/class/net/wan0/{name}"), &format!("{text}\n"));
        }
        write("/proc/irq/24/smp_affinity_list", "0-1\n");
        write("/proc/irq/25/smp_affinity_list", "0-1\n");
        write("/proc/irq/25/effective_affinity_list", "1\n");
        write("/sys/class/net/lo/operstate", "up\n");
        write("/sys/class/net/down0/operstate", "down\n");
        let devices = gather(&system, Some("192.0.2.1".parse().unwrap()));
        let expected = Device {
            name: "wan0".to_owned(),
            mtu: Some(ByteCount::new(9000)),
            speed: Some(Rate::from_bits_per_second(10_000_000_000)),
            receive_queues: Some(2),
            is_spread: true,
            interrupts: vec![
                Interrupt { number: 24, processors: vec![0, 1] },
                Interrupt { number: 25, processors: vec![1] },
            ],
            ..Device::default()
        };
        assert_eq!(devices, [expected]);
        for (node, known) in [("0", None), ("1", Some(Node { number: 1, of: 2 }))] {
            write(&format!("/sys/devices/system/node/node{node}/cpulist"), "0-1\n");
            write("/sys/devices/system/node/possible", "0-1\n");
            write("/sys/class/net/wan0/device/numa_node", "1\n");
            assert_eq!(gather(&system, None)[0].node, known, "there is nothing to choose from on one node");
        }
        write("/sys/class/net/wan0/device/numa_node", "-1\n");
        assert_eq!(gather(&system, None)[0].node, None);
        write("/sys/class/net/wan0/speed", "-1\n");
        write("/sys/class/net/wan0/mtu", "many\n");
        let strange = &gather(&system, None)[0];
        assert_eq!((strange.mtu, strange.speed), (None, None));
    }

    #[test]
    fn disciplines_are_told_once_the_first_one_first() {
        let qdisc = |device, parent, kind: &str| Qdisc { device, parent, kind: kind.to_owned() };
        let (root, other) = (Parent::Root, Parent::Other);
        let qdiscs = vec![qdisc(2, other, "fq"), qdisc(2, other, "fq"), qdisc(2, root, "mq"), qdisc(3, root, "tbf")];
        assert_eq!(kinds(&Kernel { links: Vec::new(), qdiscs }, 2), ["mq", "fq"]);
    }

    #[test]
    fn what_sys_shows_of_another_namespace_is_not_believed() {
        let root = tempfile::tempdir().unwrap();
        let system = System::at(root.path().to_owned());
        let directory = system.path("/sys/class/net/eth0");
        std::fs::create_dir_all(&directory).unwrap();
        std::fs::write(directory.join("ifindex"), "2\n").unwrap();
        std::fs::write(directory.join("address"), "02:00:00:00:00:0a\n").unwrap();
        let sysfs = SysfsDevice { system: &system, directory: "/sys/class/net/eth0".to_owned() };
        let link = |index, last| Link { index, address: vec![2, 0, 0, 0, 0, last], ..Link::default() };
        assert!(sysfs.is(&link(2, 10)));
        assert!(!sysfs.is(&link(3, 10)) && !sysfs.is(&link(2, 11)));
    }
}
