//! Blocks of addresses as routing tables have them.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use thiserror::Error;

/// A block of IP addresses whose first bits are the same: `192.0.2.0/24`, `2001:db8:7::/48`. An
/// IPv4-mapped IPv6 address counts as IPv4.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Prefix {
    /// First address of the prefix.
    address: IpAddr,
    /// Number of bits that all addresses have in common.
    length: u8,
}

/// Error: a text is no prefix of addresses.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("\"{0}\" is no prefix: write an address and a number of bits, for example 192.0.2.0/24 or 2001:db8:7::/48")]
pub struct ParsePrefixError(String);

impl Prefix {
    /// The block of all addresses that share the first `length` bits with `address`; a `length`
    /// beyond the address means all its bits. For an IPv4-mapped IPv6 address, `length` includes
    /// the 96 bits before the IPv4 address.
    #[must_use]
    pub fn around(address: IpAddr, length: u8) -> Self {
        let (of_ipv4, address) = (bits_before_ipv4(address), address.to_canonical());
        let length = length.saturating_sub(of_ipv4).min(width(address));
        let kept = bits(address) & mask(length);
        let address = match address {
            IpAddr::V4(_) => Ipv4Addr::from_bits((kept >> 96) as u32).into(),
            IpAddr::V6(_) => Ipv6Addr::from_bits(kept).into(),
        };
        Self { address, length }
    }

    /// Parses a prefix as [`FromStr`] does, or an address alone, which stands for just itself.
    ///
    /// # Errors
    /// The text is neither a prefix nor an address.
    pub fn of_text(text: &str) -> Result<Self, ParsePrefixError> {
        text.parse::<IpAddr>().map(Self::from).or_else(|_| text.parse())
    }

    /// First address of the prefix.
    #[must_use]
    pub fn address(self) -> IpAddr {
        self.address
    }

    /// Number of bits that all addresses of the prefix have in common.
    #[must_use]
    pub fn length(self) -> u8 {
        self.length
    }

    /// Whether `address` is in the prefix; one of IPv4 mapped to IPv6 counts as IPv4.
    #[must_use]
    pub fn contains(self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        width(self.address) == width(address) && bits(address) & mask(self.length) == bits(self.address)
    }

    /// Whether two prefixes have an address in common; then one contains all of the other.
    #[must_use]
    pub fn overlaps(&self, other: &Self) -> bool {
        let common = mask(self.length.min(other.length));
        width(self.address) == width(other.address) && bits(self.address) & common == bits(other.address) & common
    }
}

impl From<IpAddr> for Prefix {
    /// The prefix of just this address.
    fn from(address: IpAddr) -> Self {
        Self::around(address, u8::MAX)
    }
}

impl FromStr for Prefix {
    type Err = ParsePrefixError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let parsed = || -> Option<Self> {
            let (address, length) = text.split_once('/')?;
            let address: IpAddr = address.parse().ok()?;
            let lengths = bits_before_ipv4(address)..=width(address);
            let length = length.parse::<u8>().ok().filter(|length| lengths.contains(length))?;
            Some(Self::around(address, length))
        };
        parsed().ok_or_else(|| ParsePrefixError(text.to_owned()))
    }
}

impl TryFrom<String> for Prefix {
    type Error = ParsePrefixError;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl From<Prefix> for String {
    fn from(prefix: Prefix) -> Self {
        prefix.to_string()
    }
}

impl fmt::Display for Prefix {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.pad(&format!("{}/{}", self.address, self.length))
    }
}

/// Number of bits before the IPv4 address in an IPv4-mapped IPv6 address; 0 for any other.
fn bits_before_ipv4(address: IpAddr) -> u8 {
    if width(address) == width(address.to_canonical()) { 0 } else { 96 }
}

/// Number of bits of an address: 32 or 128.
fn width(address: IpAddr) -> u8 {
    if address.is_ipv4() { 32 } else { 128 }
}

/// The bits of an address, left-aligned in 128.
fn bits(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => u128::from(address.to_bits()) << 96,
        IpAddr::V6(address) => address.to_bits(),
    }
}

/// Mask of the first `length` of 128 bits.
fn mask(length: u8) -> u128 {
    u128::MAX.checked_shl(128 - u32::from(length)).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prefix(text: &str) -> Prefix {
        text.parse().unwrap()
    }

    #[test]
    fn what_is_written_is_read_again_without_the_bits_that_do_not_count() {
        for (text, expected) in [
            ("192.0.2.7/24", "192.0.2.0/24"),
            ("192.0.2.7/32", "192.0.2.7/32"),
            ("192.0.2.7/0", "0.0.0.0/0"),
            ("2001:db8:7:1::1/48", "2001:db8:7::/48"),
            ("fd26:33:0::/48", "fd26:33::/48"),
            ("::/0", "::/0"),
            ("::ffff:192.0.2.7/120", "192.0.2.0/24"),
            ("::ffff:192.0.2.7/96", "0.0.0.0/0"),
        ] {
            assert_eq!(prefix(text).to_string(), expected);
            assert_eq!(prefix(expected), prefix(text));
        }
        let of_ipv4 = "::ffff:192.0.2.0/24";
        for text in
            ["", "/", "192.0.2.0", "192.0.2.0/", "192.0.2.0/33", "2001:db8::/129", "far/24", "1.2.3.4/-1", of_ipv4]
        {
            assert_eq!(text.parse::<Prefix>(), Err(ParsePrefixError(text.to_owned())));
        }
    }

    #[test]
    fn a_block_has_its_addresses_and_no_others() {
        for (block, address, expected) in [
            ("192.0.2.0/25", "192.0.2.127", true),
            ("192.0.2.0/25", "192.0.2.128", false),
            ("0.0.0.0/0", "255.255.255.255", true),
            ("0.0.0.0/0", "::", false),
            ("::/0", "ffff::", true),
            ("2001:db8::/32", "2001:db9::", false),
            ("2001:db8::1/128", "2001:db8::1", true),
        ] {
            assert_eq!(prefix(block).contains(address.parse().unwrap()), expected, "{block} {address}");
        }
    }

    #[test]
    fn blocks_overlap_if_one_is_within_the_other() {
        for (one, other, expected) in [
            ("192.0.2.0/24", "192.0.2.9/32", true),
            ("192.0.2.0/24", "192.0.3.9/32", false),
            ("192.0.2.0/24", "192.0.0.0/16", true),
            ("0.0.0.0/0", "192.0.2.0/24", true),
            ("0.0.0.0/0", "::/0", false),
            ("2001:db8:7::/48", "2001:db8:7:9::/64", true),
            ("2001:db8:7::/48", "2001:db8:8::/48", false),
        ] {
            assert_eq!(prefix(one).overlaps(&prefix(other)), expected, "{one} {other}");
            assert_eq!(prefix(other).overlaps(&prefix(one)), expected, "{other} {one}");
        }
        assert_eq!(Prefix::of_text("192.0.2.9"), Ok(prefix("192.0.2.9/32")));
        assert!(Prefix::of_text("far").is_err());
        assert_eq!(Prefix::from("::ffff:192.0.2.9".parse::<IpAddr>().unwrap()), prefix("192.0.2.9/32"));
    }
}
