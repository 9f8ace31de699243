//! Devices: queueing discipline, packets, offloads, flow control, rings, interrupts, NUMA node.

use icdc_units::{ByteCount, Rate};

use super::finding::{Finding, Severity};
use crate::facts::Device;
use crate::{Aim, HostFacts};

/// Rate of a link that counts as fast: from here on a processor has about a microsecond per packet
/// of 1500 bytes, and small things matter.
const FAST: Rate = Rate::from_bits_per_second(10_000_000_000);
/// Rate below which hardly anything about a device matters.
const SLOW: Rate = Rate::from_bits_per_second(1_000_000_000);
/// Usual MTU of Ethernet, in bytes.
const USUAL_MTU: ByteCount = ByteCount::new(1500);
/// MTU that most devices of data centres and research networks support.
const JUMBO_MTU: u64 = 9000;
/// Disciplines that shape or emulate: they hold back whatever comes.
const SHAPERS: [&str; 6] = ["tbf", "htb", "hfsc", "cake", "netem", "cbq"];

/// Findings on one network device, most of them by the rate of the aim.
pub(super) fn judge(device: &Device, host: &HostFacts, aim: Aim) -> Vec<Finding> {
    let findings = [
        speed(device, aim),
        mtu(device, aim),
        qdisc(device),
        offloads(device, aim),
        pause(device),
        rings(device, aim),
        interrupts(device, host, aim),
        node(device, aim),
    ];
    findings.into_iter().flatten().map(|finding| finding.about(device.name.as_str())).collect()
}

/// Severity of a finding that matters from a rate on: a warning if the aim's is at least
/// `threshold`, else a note.
fn severity_from_rate(threshold: Rate, aim: Aim) -> Severity {
    if aim.rate >= threshold { Severity::Warning } else { Severity::Note }
}

/// Finding on the rate of the device's link, compared with the aim's; `None` if it is unknown.
fn speed(device: &Device, aim: Aim) -> Option<Finding> {
    const ID: &str = "device.speed";
    const WHY: &str = "nothing leaves faster than the link carries";
    let (name, speed) = (&device.name, device.speed?);
    Some(if speed < aim.rate {
        let found = format!("{name} runs at {speed}, and {} is aimed at", aim.rate);
        Finding::host(ID, Severity::Warning, found, WHY)
    } else {
        Finding::host(ID, Severity::Ok, format!("{name} runs at {speed}"), WHY)
    })
}

/// Finding on the device's MTU; `None` if it is unknown.
fn mtu(device: &Device, aim: Aim) -> Option<Finding> {
    const ID: &str = "device.mtu";
    const WHY: &str = "each packet costs about the same, however much is in it";
    let (name, mtu) = (&device.name, device.mtu?);
    let found = format!("{name} has an MTU of {} bytes", mtu.as_u64());
    let fix = |size: u64| format!("ip link set dev {name} mtu {size}");
    Some(if mtu < USUAL_MTU {
        Finding::host(ID, Severity::Warning, found, WHY).with_fix(fix(USUAL_MTU.as_u64()))
    } else if mtu == USUAL_MTU && aim.rate >= FAST {
        let found = format!("{found}; larger ones help where every device on the way takes them");
        Finding::host(ID, Severity::Note, found, WHY).with_fix(fix(JUMBO_MTU))
    } else {
        Finding::host(ID, Severity::Ok, found, WHY)
    })
}

/// Finding on the device's queueing discipline: a warning for one that shapes, a note for one that
/// does not pace; `None` if unknown.
fn qdisc(device: &Device) -> Option<Finding> {
    const ID: &str = "device.qdisc";
    const WHY: &str =
        "fq keeps the gaps that TCP asks for; without it TCP has a timer per connection, which costs more";
    const WHY_SHAPED: &str = "it holds back what TCP sends, or drops it";
    let name = &device.name;
    let first = device.qdiscs.first()?;
    let found = format!("{name} has the queueing discipline {}", device.qdiscs.join(" with "));
    let has = |kind: &str| device.qdiscs.iter().any(|one| one == kind);
    Some(if device.qdiscs.iter().any(|kind| SHAPERS.contains(&kind.as_str())) {
        Finding::host(ID, Severity::Warning, found, WHY_SHAPED).with_fix(format!("tc qdisc del dev {name} root"))
    } else if has("fq") || first == "noqueue" {
        Finding::host(ID, Severity::Ok, found, WHY)
    } else if first == "mq" {
        // Its queues get the default of the moment when they are made.
        Finding::host(ID, Severity::Note, found, WHY)
            .with_fix("sysctl -w net.core.default_qdisc=fq")
            .with_fix(format!("tc qdisc replace dev {name} root mq"))
    } else {
        Finding::host(ID, Severity::Note, found, WHY).with_fix(format!("tc qdisc replace dev {name} root fq"))
    })
}

/// Finding on the device's segmentation and receive offloads, which should be on; `None` if
/// unknown.
fn offloads(device: &Device, aim: Aim) -> Option<Finding> {
    const ID: &str = "device.offloads";
    const WHY: &str = "without them the stack handles every packet alone: several times the work for the same data";
    let (name, offloads) = (&device.name, device.offloads?);
    let switches =
        [("tso", offloads.tcp_segmentation), ("gso", offloads.generic_segmentation), ("gro", offloads.generic_receive)];
    let off: Vec<&str> = switches.iter().filter(|(_, on)| !on).map(|(name, _)| *name).collect();
    if off.is_empty() {
        return Some(Finding::host(ID, Severity::Ok, format!("{name} has tso, gso and gro"), WHY));
    }
    let found = format!("{name} has {} switched off", off.join(", "));
    let words: Vec<String> = off.iter().map(|name| format!("{name} on")).collect();
    Some(
        Finding::host(ID, severity_from_rate(SLOW, aim), found, WHY)
            .with_fix(format!("ethtool -K {name} {}", words.join(" "))),
    )
}

/// Finding on flow control of the device's link by PAUSE frames; `None` if unknown.
fn pause(device: &Device) -> Option<Finding> {
    const ID: &str = "device.pause";
    const WHY: &str = "at both edges it keeps a switch or receiver that is slower for a moment from dropping packets";
    let (name, pause) = (&device.name, device.pause?);
    let side = |heeds: bool| if heeds { "on" } else { "off" };
    let found = format!("flow control of {name}: receiving {}, sending {}", side(pause.receive), side(pause.transmit));
    Some(if pause.receive && pause.transmit {
        Finding::host(ID, Severity::Ok, found, WHY)
    } else {
        Finding::host(ID, Severity::Note, found, WHY).with_fix(format!("ethtool -A {name} rx on tx on"))
    })
}

/// Finding on the device's rings, which should have their greatest size; `None` if unknown.
fn rings(device: &Device, aim: Aim) -> Option<Finding> {
    const ID: &str = "device.rings";
    const WHY: &str = "packets that come while the processor is busy elsewhere wait there, or are lost";
    let (name, rings) = (&device.name, device.rings?);
    let sizes = [("rx", rings.receive, rings.receive_most), ("tx", rings.transmit, rings.transmit_most)];
    let small: Vec<_> = sizes.into_iter().filter(|(_, size, most)| size < most).collect();
    if small.is_empty() {
        let found = format!("the rings of {name} are as large as they can be");
        return Some(Finding::host(ID, Severity::Ok, found, WHY));
    }
    let told: Vec<String> = small.iter().map(|(ring, size, most)| format!("{ring} {size} of {most}")).collect();
    let words: Vec<String> = small.iter().map(|(ring, _, most)| format!("{ring} {most}")).collect();
    let found = format!("the rings of {name} could be larger: {}", told.join(", "));
    Some(
        Finding::host(ID, severity_from_rate(FAST, aim), found, WHY)
            .with_fix(format!("ethtool -G {name} {}", words.join(" "))),
    )
}

/// Finding on the spread of the device's receive work over processors; `None` with one processor,
/// or if the number of queues is unknown.
fn interrupts(device: &Device, host: &HostFacts, aim: Aim) -> Option<Finding> {
    const ID: &str = "device.interrupts";
    const WHY: &str = "one processor then does all the work of the network, and often that of the program as well";
    let (name, processors) = (&device.name, &host.processors);
    if processors.len() < 2 {
        return None;
    }
    // One for configuration and one for data is what a single queue has.
    let all_on = device.interrupts.first().and_then(|first| match first.processors[..] {
        [only] => device.interrupts.iter().all(|one| one.processors == [only]).then_some(only),
        _ => None,
    });
    match (all_on, device.receive_queues) {
        (Some(only), Some(2..)) => {
            let found = format!("all {} interrupts of {name} go to processor {only}", device.interrupts.len());
            Some(
                Finding::host(ID, severity_from_rate(SLOW, aim), found, WHY)
                    .with_fix("systemctl enable --now irqbalance"),
            )
        }
        (_, Some(1)) if !device.is_spread => {
            let found = format!("{name} has one queue for what arrives, and {} processors are there", processors.len());
            // The first one has the interrupt, most of the time.
            let mask = mask(&processors[1..]);
            let fix = format!("sh -c 'echo {mask} >/sys/class/net/{name}/queues/rx-0/rps_cpus'");
            Some(Finding::host(ID, severity_from_rate(FAST, aim), found, WHY).with_fix(fix))
        }
        (_, Some(queues)) => {
            let found = match device.is_spread {
                true => format!("what arrives at {name} is spread over processors"),
                false => format!("{name} has {queues} queues for what arrives"),
            };
            Some(Finding::host(ID, Severity::Ok, found, WHY))
        }
        (_, None) => None,
    }
}

/// Finding on the NUMA node of the device; `None` if it is unknown, or the host has one node only.
fn node(device: &Device, aim: Aim) -> Option<Finding> {
    const ID: &str = "device.node";
    const WHY: &str = "from another node, every byte crosses the link between the nodes, several times";
    let (name, node) = (&device.name, device.node.as_ref()?);
    let found = format!("{name} is on NUMA node {} of {}", node.number, node.of);
    Some(if aim.rate >= FAST {
        let number = node.number;
        Finding::host(ID, Severity::Note, format!("{found}; keep what sends and receives there"), WHY)
            .with_fix(format!("numactl --cpunodebind={number} --membind={number} icdc …"))
    } else {
        Finding::host(ID, Severity::Ok, found, WHY)
    })
}

/// A set of processors as the kernel takes it: hexadecimal groups of 32, the highest first.
fn mask(processors: &[usize]) -> String {
    let groups = processors.iter().max().map_or(1, |highest| highest / 32 + 1);
    let group = |index: usize| {
        let own = processors.iter().filter(|processor| *processor / 32 == index);
        format!("{:08x}", own.fold(0_u32, |bits, processor| bits | 1 << (processor % 32)))
    };
    let words: Vec<String> = (0..groups).rev().map(group).collect();
    words.join(",")
}

#[cfg(test)]
mod tests {
    use icdc_packet::ethtool::{Pause, Rings};
    use icdc_units::Span;

    use super::*;
    use crate::facts::{Interrupt, Node, Offloads};

    fn aim(rate: &str) -> Aim {
        Aim { rate: rate.parse().unwrap(), round_trip: Span::from_millis(100) }
    }

    fn device() -> Device {
        Device { name: "eth0".to_owned(), ..Device::default() }
    }

    /// The only finding on a device of a host with `processors` processors: severity and fix.
    fn one(device: &Device, processors: usize, rate: &str) -> (Severity, String) {
        let host = HostFacts { processors: (0..processors).collect(), ..HostFacts::default() };
        let findings = judge(device, &host, aim(rate));
        assert_eq!(findings.len(), 1, "{findings:?}");
        assert_eq!(findings[0].subject.as_deref(), Some("eth0"));
        assert_eq!(findings[0].change, None);
        (findings[0].severity, findings[0].fix.join("; "))
    }

    #[test]
    fn nothing_seen_is_nothing_told() {
        let host = HostFacts { processors: vec![0, 1], ..HostFacts::default() };
        assert_eq!(judge(&device(), &host, aim("100gbit")), []);
    }

    #[test]
    fn links_and_packets_are_compared_with_the_aim() {
        let speed = |speed: &str, rate| one(&Device { speed: speed.parse().ok(), ..device() }, 1, rate).0;
        assert_eq!((speed("1gbit", "10gbit"), speed("10gbit", "10gbit")), (Severity::Warning, Severity::Ok));
        let mtu = |mtu, rate| one(&Device { mtu: Some(ByteCount::new(mtu)), ..device() }, 1, rate);
        assert_eq!(mtu(1400, "1gbit"), (Severity::Warning, "ip link set dev eth0 mtu 1500".into()));
        assert_eq!(mtu(1500, "1gbit"), (Severity::Ok, String::new()));
        assert_eq!(mtu(1500, "10gbit"), (Severity::Note, "ip link set dev eth0 mtu 9000".into()));
        assert_eq!(mtu(9000, "10gbit"), (Severity::Ok, String::new()));
    }

    #[test]
    fn disciplines_pace_or_not() {
        let cases: [(&[&str], Severity, &str); 7] = [
            (&["fq"], Severity::Ok, ""),
            (&["mq", "fq"], Severity::Ok, ""),
            (&["noqueue"], Severity::Ok, ""),
            (&["pfifo_fast"], Severity::Note, "tc qdisc replace dev eth0 root fq"),
            (&["fq_codel"], Severity::Note, "tc qdisc replace dev eth0 root fq"),
            (
                &["mq", "fq_codel"],
                Severity::Note,
                "sysctl -w net.core.default_qdisc=fq; tc qdisc replace dev eth0 root mq",
            ),
            (&["tbf", "fq"], Severity::Warning, "tc qdisc del dev eth0 root"),
        ];
        for (kinds, severity, fix) in cases {
            let qdiscs = kinds.iter().map(|kind| (*kind).to_owned()).collect();
            assert_eq!(one(&Device { qdiscs, ..device() }, 1, "1gbit"), (severity, fix.to_owned()), "{kinds:?}");
        }
    }

    #[test]
    fn hardware_is_used_to_the_full() {
        let offloads = |tcp_segmentation, generic_receive, rate| {
            let offloads = Some(Offloads { tcp_segmentation, generic_segmentation: true, generic_receive });
            one(&Device { offloads, ..device() }, 1, rate)
        };
        assert_eq!(offloads(true, true, "1gbit"), (Severity::Ok, String::new()));
        assert_eq!(offloads(false, false, "1gbit"), (Severity::Warning, "ethtool -K eth0 tso on gro on".into()));
        assert_eq!(offloads(true, false, "10mbit"), (Severity::Note, "ethtool -K eth0 gro on".into()));
        let pause = |receive, transmit| {
            one(&Device { pause: Some(Pause { negotiated: true, receive, transmit }), ..device() }, 1, "1gbit")
        };
        assert_eq!(pause(true, true).0, Severity::Ok);
        assert_eq!(pause(true, false), (Severity::Note, "ethtool -A eth0 rx on tx on".into()));
        let rings = |receive, rate| {
            let rings = Rings { receive, receive_most: 4096, transmit: 512, transmit_most: 512 };
            one(&Device { rings: Some(rings), ..device() }, 1, rate)
        };
        assert_eq!(rings(4096, "100gbit").0, Severity::Ok);
        assert_eq!(rings(512, "1gbit"), (Severity::Note, "ethtool -G eth0 rx 4096".into()));
        assert_eq!(rings(512, "10gbit").0, Severity::Warning);
    }

    #[test]
    fn work_is_spread_over_processors() {
        let on = |processors: &[&[usize]]| -> Vec<Interrupt> {
            let numbered = processors.iter().zip(24..);
            numbered.map(|(processors, number)| Interrupt { number, processors: processors.to_vec() }).collect()
        };
        let queues = |receive_queues, interrupts: Vec<Interrupt>| Device {
            receive_queues: Some(receive_queues),
            interrupts,
            ..device()
        };
        let balance = "systemctl enable --now irqbalance".to_owned();
        assert_eq!(one(&queues(4, on(&[&[0], &[0], &[0]])), 8, "1gbit"), (Severity::Warning, balance.clone()));
        assert_eq!(one(&queues(4, on(&[&[0], &[0]])), 8, "100mbit"), (Severity::Note, balance));
        assert_eq!(one(&queues(4, on(&[&[0], &[1]])), 8, "1gbit").0, Severity::Ok);
        assert_eq!(one(&queues(4, on(&[&[0, 1], &[0, 1]])), 8, "1gbit").0, Severity::Ok);
        assert_eq!(one(&queues(4, on(&[])), 8, "1gbit").0, Severity::Ok);
        let spread = "sh -c 'echo 0000000e >/sys/class/net/eth0/queues/rx-0/rps_cpus'".to_owned();
        assert_eq!(one(&queues(1, on(&[&[0]])), 4, "1gbit"), (Severity::Note, spread));
        let steered = Device { is_spread: true, ..queues(1, on(&[&[0]])) };
        assert_eq!(one(&steered, 4, "1gbit").0, Severity::Ok);
        let host = HostFacts { processors: vec![0], ..HostFacts::default() };
        assert_eq!(judge(&queues(1, on(&[&[0]])), &host, aim("1gbit")), []);
    }

    #[test]
    fn the_node_of_a_fast_card_is_told() {
        let on = Device { node: Some(Node { number: 1, of: 2 }), ..device() };
        assert_eq!(one(&on, 4, "1gbit"), (Severity::Ok, String::new()));
        assert_eq!(one(&on, 4, "100gbit"), (Severity::Note, "numactl --cpunodebind=1 --membind=1 icdc …".to_owned()));
    }

    #[test]
    fn sets_of_processors_are_written_in_groups() {
        assert_eq!(mask(&[0, 1]), "00000003");
        assert_eq!(mask(&[40]), "00000100,00000000");
        assert_eq!(mask(&[]), "00000000");
    }
}
