//! The hosts of a lab: devices, addresses, and TCP settings that the path needs.

use std::fs;
use std::path::Path;

use icdc_packet::clock;
use icdc_packet::offloads::{self, Feature};
use icdc_units::{ByteCount, Span};

use crate::error::LabError;
use crate::namespaces::{Host, Namespaces};
use crate::settings::{Acknowledge, LEAST_BUFFER, Mode, Settings};
use crate::{placement, program};

/// Name of the network device on each host of a lab.
pub(crate) const DEVICE: &str = "eth0";
/// Name of the wire's end of the cable to host a.
pub(crate) const PORT_A: &str = "port-a";
/// Name of the wire's end of the cable to host b.
pub(crate) const PORT_B: &str = "port-b";

/// Largest TCP buffer (an `int` in the kernel).
const MAX_BUFFER: ByteCount = ByteCount::new(i32::MAX as u64);

/// Time after which the hosts have sent whatever their devices send by themselves when they come
/// up.
const SETTLING: Span = Span::from_millis(60);

/// Addresses of one host of a lab, and the name of the wire's device at its cable (`port`).
struct Address {
    host: Host,
    port: &'static str,
    hardware: &'static str,
    ipv4: &'static str,
    ipv6: &'static str,
}

/// Addresses of host a and host b: the same in every lab, as each lab has network namespaces of its
/// own.
const ADDRESSES: [Address; 2] = [
    Address { host: Host::A, port: PORT_A, hardware: "02:26:33:00:00:01", ipv4: "10.26.33.1", ipv6: "fd26:33::1" },
    Address { host: Host::B, port: PORT_B, hardware: "02:26:33:00:00:02", ipv4: "10.26.33.2", ipv6: "fd26:33::2" },
];

/// Makes the cables and sets up the hosts; `wire_processors` are kept free of the hosts' work.
///
/// # Errors
/// See [`LabError`].
pub(crate) fn configure(
    namespaces: &Namespaces,
    settings: &Settings,
    wire_processors: &[usize],
) -> Result<(), LabError> {
    namespaces.inside(Host::Wire, || plug(namespaces, settings))??;
    let [a, b] = &ADDRESSES;
    for (own, other) in [(a, b), (b, a)] {
        namespaces.inside(own.host, || configure_host(own, other, settings, wire_processors))??;
    }
    clock::sleep_until(clock::now() + SETTLING);
    Ok(())
}

/// Makes the two veth pairs from the wire's namespace, in which it has to run, to the hosts, with
/// the larger MTU of the path's directions.
fn plug(namespaces: &Namespaces, settings: &Settings) -> Result<(), LabError> {
    // The wire has no addresses and sends nothing itself.
    if has_ipv6() {
        write("/proc/sys/net/ipv6/conf/default/disable_ipv6", "1")?;
    }
    let mtu = settings.forward.mtu.max(settings.backward.mtu).as_u64();
    let commands: String = ADDRESSES
        .iter()
        .map(|Address { host, port, .. }| {
            let place = namespaces.path(*host);
            format!(
                "link add name {port} mtu {mtu} type veth peer name {DEVICE} mtu {mtu} netns {}\nlink set dev {port} up\n",
                place.display()
            )
        })
        .collect();
    program::ip(&["-batch", "-"], &commands)
}

/// Sets up the host in whose namespace it runs: addresses, a permanent neighbour entry for the
/// `other` host, offloads by the lab's mode, and TCP settings.
fn configure_host(
    own: &Address,
    other: &Address,
    settings: &Settings,
    wire_processors: &[usize],
) -> Result<(), LabError> {
    let ipv6 = has_ipv6();
    for name in ["all", "default", DEVICE].into_iter().filter(|_| ipv6) {
        // Addresses are usable at once, and the hosts send no router solicitations.
        write(&format!("/proc/sys/net/ipv6/conf/{name}/accept_dad"), "0")?;
        write(&format!("/proc/sys/net/ipv6/conf/{name}/router_solicitations"), "0")?;
    }
    // Without neighbour discovery, IPv6 joins none of its groups, and announces none.
    let link = format!(
        "link set lo up\n\
         link set {DEVICE} address {} multicast off arp off\n\
         link set {DEVICE} addrgenmode none\n\
         link set {DEVICE} up\n",
        own.hardware
    );
    // Each has a permanent neighbour entry for the other, so that only the measured traffic crosses
    // the path.
    let neighbour =
        |address: &str| format!("neighbour replace {address} lladdr {} dev {DEVICE} nud permanent\n", other.hardware);
    let mut commands = format!("{link}address add {}/24 dev {DEVICE}\n{}", own.ipv4, neighbour(other.ipv4));
    if ipv6 {
        commands += &format!("address add {}/64 dev {DEVICE} nodad\n{}", own.ipv6, neighbour(other.ipv6));
    }
    program::ip(&["-batch", "-"], &commands)?;
    let fast = settings.mode == Mode::Fast;
    for feature in [Feature::TcpSegmentation, Feature::GenericSegmentation] {
        offloads::set(DEVICE, feature, fast)?;
    }
    if !fast {
        offloads::disable_udp_segmentation(DEVICE)?;
    }
    offloads::set(DEVICE, Feature::GenericReceive, settings.acknowledgements() == Acknowledge::Batch)?;
    if settings.acknowledgements() == Acknowledge::EveryPacket {
        acknowledge_each(own, ipv6)?;
    }
    // What one run learned of the path is not passed on to the next.
    write("/proc/sys/net/ipv4/tcp_no_metrics_save", "1")?;
    if settings.ecn {
        write("/proc/sys/net/ipv4/tcp_ecn", "1")?;
    }
    tune(settings)?;
    if settings.stock {
        // Takes a privilege where not everybody may use it (`machine.rs`).
        write("/proc/sys/net/ipv4/tcp_congestion_control", "cubic")?;
    }
    steer(wire_processors);
    Ok(())
}

/// Sends acknowledgements at once along the routes to the other host.
fn acknowledge_each(own: &Address, ipv6: bool) -> Result<(), LabError> {
    let mut commands = format!("route change 10.26.33.0/24 dev {DEVICE} src {} quickack 1\n", own.ipv4);
    if ipv6 {
        commands += &format!("route replace fd26:33::/64 dev {DEVICE} proto kernel metric 256 quickack 1\n");
    }
    program::ip(&["-batch", "-"], &commands)
}

/// Whether a process is on a host of a lab, judged by the addresses there.
pub(crate) fn is_host(process: u32) -> bool {
    let routes = fs::read_to_string(format!("/proc/{process}/net/fib_trie")).unwrap_or_default();
    ADDRESSES.iter().any(|address| routes.lines().any(|line| line.ends_with(&format!("-- {}", address.ipv4))))
}

/// Whether the kernel has IPv6 (`ipv6.disable=1` removes it); without it, the hosts have IPv4 only.
fn has_ipv6() -> bool {
    Path::new("/proc/sys/net/ipv6").exists()
}

/// Sets the limits of the hosts' TCP buffers; nothing if they are to be those of the machine.
fn tune(settings: &Settings) -> Result<(), LabError> {
    let Some((receive, send)) = settings.largest_buffers() else { return Ok(()) };
    // Least, initial, largest; no size may exceed the one after it.
    let sizes = |initial: u64, largest: ByteCount| {
        let largest = largest.min(MAX_BUFFER).max(LEAST_BUFFER).as_u64();
        format!("{} {} {largest}", LEAST_BUFFER.as_u64(), initial.min(largest))
    };
    write("/proc/sys/net/ipv4/tcp_rmem", &sizes(131_072, receive))?;
    write("/proc/sys/net/ipv4/tcp_wmem", &sizes(16_384, send))
}

/// Assigns receive processing of the hosts to other processors than the wire's: otherwise the wire
/// would do it in the midst of sending. This also keeps each flow on one processor, and so in
/// order.
fn steer(wire_processors: &[usize]) {
    let others = placement::processors().into_iter().filter(|cpu| *cpu < 128 && !wire_processors.contains(cpu));
    let others = others.fold(0_u128, |mask, cpu| mask | 1 << cpu);
    if others == 0 {
        return;
    }
    let path = format!("/sys/class/net/{DEVICE}/queues/rx-0/rps_cpus");
    let script = format!("mount -t sysfs sysfs /sys && echo {} >{path}", in_words(others));
    // /sys shows the devices of the namespace in which it was mounted.
    if let Err(error) = program::run("unshare", "util-linux", &["--mount", "sh", "-c", &script], "") {
        tracing::warn!("the hosts' work is not kept off the wire's processor: {error}");
    }
}

/// A mask of processors in the format of /sys: groups of 32 bits, no more of them than the machine
/// has.
fn in_words(mask: u128) -> String {
    let words: Vec<String> = (0..4).rev().map(|word| format!("{:08x}", (mask >> (32 * word)) as u32)).collect();
    let leading = words.iter().take(3).take_while(|word| *word == "00000000").count();
    words[leading..].join(",")
}

/// Writes a value to a file below `/proc/sys`, of the namespace in which the calling thread is.
fn write(path: &str, value: &str) -> Result<(), LabError> {
    fs::write(path, value).map_err(|error| LabError::io(format!("write {value} to {path}"), error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masks_are_written_in_groups() {
        assert_eq!(in_words(0b11), "00000003");
        assert_eq!(in_words(1 << 40), "00000100,00000000");
    }
}
