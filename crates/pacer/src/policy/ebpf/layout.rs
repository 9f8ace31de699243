//! The structures of `c/policy.c`, byte by byte. Numbers are in the byte order of the host.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use icdc_units::{ByteCount, Prefix, Rate, Span};

use crate::policy::{Governed, Policy};

/// Length of the eBPF program's `struct policy` in bytes.
pub(super) const POLICY: usize = 64;
/// Length of the eBPF program's `struct governed` in bytes.
pub(super) const GOVERNED: usize = 120;
/// Length in bytes of a `struct governed` and the `struct progress` behind it, which the report
/// writes for each socket.
pub(super) const RECORD: usize = GOVERNED + 56;

/// Length of the field for an algorithm's name in bytes (`TCP_CA_NAME_MAX`, with the NUL).
const NAME: usize = 16;

/// Names of the parts of a policy that the kernel may have refused to a socket, by bit.
const PARTS: [&str; 4] = ["rate", "cc", "init-window", "max-window"];

/// Encodes a prefix as key of the eBPF map: `struct key_v4` or `struct key_v6`.
pub(super) fn key(to: Prefix) -> Vec<u8> {
    let mut key = u32::from(to.length()).to_ne_bytes().to_vec();
    match to.address() {
        IpAddr::V4(address) => key.extend(address.octets()),
        IpAddr::V6(address) => key.extend(address.octets()),
    }
    key
}

/// Encodes a policy as value of the eBPF map, `struct policy`, with no connections so far.
pub(super) fn policy_bytes(policy: &Policy) -> [u8; POLICY] {
    let mut bytes = [0; POLICY];
    let mut put = |offset: usize, part: &[u8]| bytes[offset..offset + part.len()].copy_from_slice(part);
    let rate = policy.rate.map_or(0, |rate| u32::try_from(rate.as_bytes_per_second()).unwrap_or(u32::MAX - 1));
    put(8, &rate.to_ne_bytes());
    put(12, &policy.initial_window.unwrap_or(0).to_ne_bytes());
    put(16, &policy.largest_window.unwrap_or(0).to_ne_bytes());
    put(20, &u32::from(policy.to.length()).to_ne_bytes());
    match policy.to.address() {
        IpAddr::V4(address) => put(24, &address.octets()),
        IpAddr::V6(address) => put(24, &address.octets()),
    }
    let name = policy.congestion.as_deref().unwrap_or_default().as_bytes();
    put(40, &name[..name.len().min(NAME - 1)]);
    put(56, &u32::from(policy.to.address().is_ipv6()).to_ne_bytes());
    bytes
}

/// Decodes a `struct policy`: the policy, and the number of connections that have got it; `None` if
/// the bytes are too few, or the prefix is impossible.
pub(super) fn policy(bytes: &[u8]) -> Option<(Policy, u64)> {
    let fields = Fields(bytes);
    let length = u8::try_from(fields.u32(20)?).ok()?;
    let policy = Policy {
        to: Prefix::around(fields.address(24, fields.u32(56)? == 1)?, length),
        rate: Some(fields.u32(8)?).filter(|rate| *rate > 0).map(|rate| Rate::from_bytes_per_second(rate.into())),
        congestion: Some(fields.text(40)?).filter(|name| !name.is_empty()),
        initial_window: Some(fields.u32(12)?).filter(|segments| *segments > 0),
        largest_window: Some(fields.u32(16)?).filter(|segments| *segments > 0),
        // That is a matter of the device.
        burst: None,
    };
    Some((policy, fields.u64(0)?))
}

/// Decodes the record of a socket ([`RECORD`] bytes): the socket, without the path of its cgroup,
/// and the cgroup's number; `None` if the bytes are no such record.
pub(super) fn record(bytes: &[u8]) -> Option<(Governed, u64)> {
    let (note, progress) = (Fields(bytes.get(..GOVERNED)?), Fields(bytes.get(GOVERNED..)?));
    let (policy, _) = policy(note.0.get(16..)?)?;
    let ipv6 = policy.to.address().is_ipv6();
    let end = |address, port| Some(SocketAddr::new(note.address(address, ipv6)?, note.u16(port)?));
    let refused = note.u32(116)?;
    let governed = Governed {
        cookie: note.u64(0)?,
        local: end(80, 112)?,
        remote: end(96, 114)?,
        policy,
        cgroup: None,
        refused: PARTS.iter().enumerate().filter(|(bit, _)| refused & (1 << bit) != 0).map(|(_, part)| *part).collect(),
        acknowledged: ByteCount::new(progress.u64(0)?),
        pacing_rate: limit(progress.u64(8)?),
        ceiling: limit(progress.u64(16)?),
        rtt: Span::from_nanos(u64::from(progress.u32(24)?) * 125),
        window: progress.u32(28)?,
        retransmitted: progress.u32(32)?,
        congestion: progress.text(40)?,
    };
    Some((governed, note.u64(8)?))
}

/// A rate in bytes per second as the kernel has it, where all ones mean that there is none.
fn limit(bytes: u64) -> Option<Rate> {
    (bytes < u64::MAX).then_some(Rate::from_bytes_per_second(bytes))
}

/// Bytes of a C structure, read field by field at their offsets; `None` for a field beyond the end.
struct Fields<'a>(&'a [u8]);

impl Fields<'_> {
    /// Bytes of the field at this offset.
    fn array<const N: usize>(&self, offset: usize) -> Option<[u8; N]> {
        self.0.get(offset..)?.first_chunk().copied()
    }

    fn u16(&self, offset: usize) -> Option<u16> {
        self.array(offset).map(u16::from_ne_bytes)
    }

    fn u32(&self, offset: usize) -> Option<u32> {
        self.array(offset).map(u32::from_ne_bytes)
    }

    fn u64(&self, offset: usize) -> Option<u64> {
        self.array(offset).map(u64::from_ne_bytes)
    }

    /// The address in sixteen bytes at this offset, of which IPv4 takes the first four; `None` if
    /// the record is too short.
    fn address(&self, offset: usize, ipv6: bool) -> Option<IpAddr> {
        let octets = self.array::<16>(offset)?;
        let [a, b, c, d, ..] = octets;
        Some(if ipv6 { Ipv6Addr::from(octets).into() } else { [a, b, c, d].into() })
    }

    /// Name in the field at this offset, up to its NUL.
    fn text(&self, offset: usize) -> Option<String> {
        let bytes = self.array::<NAME>(offset)?;
        let text = bytes.split(|byte| *byte == 0).next()?;
        Some(String::from_utf8_lossy(text).into_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_goes_into_the_kernel_comes_out_again() {
        let full = Policy {
            to: "2001:db8::/32".parse().unwrap(),
            rate: Some("34gbit".parse().unwrap()),
            congestion: Some("icdc_highspeed".to_owned()),
            initial_window: Some(32),
            largest_window: Some(1000),
            burst: None,
        };
        let least = Policy { rate: None, congestion: None, to: "192.0.2.0/24".parse().unwrap(), ..full.clone() };
        for mut policy in [full, least] {
            assert_eq!(super::policy(&policy_bytes(&policy)), Some((policy.clone(), 0)));
            policy.initial_window = None;
            policy.largest_window = None;
            assert_eq!(super::policy(&policy_bytes(&policy)), Some((policy, 0)));
        }
        assert_eq!(key("192.0.2.0/24".parse().unwrap()).len(), 8);
        assert_eq!(key("::/0".parse().unwrap()).len(), 20);
    }

    #[test]
    fn a_record_that_is_cut_says_nothing() {
        for length in 0..RECORD {
            assert_eq!(record(&vec![0; length]), None, "{length}");
        }
    }
}
