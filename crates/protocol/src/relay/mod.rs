//! Headers and handshakes between relays, SOCKS clients and destinations, before the first byte of
//! data.
//!
//! | module | what |
//! |---|---|
//! | [`peer`] | the header from relay to relay, and its answer |
//! | [`socks5`] | the server's side of SOCKS 5 (RFC 1928, RFC 1929) |
//! | [`socks5_client`] | the client's side of it |
//! | [`proxy_v2`] | the PROXY protocol, version 2, which tells a destination who its client is |
//!
//! Parsers take the bytes that have arrived so far and return how many they have used; their memory
//! is bounded.

mod destination;
pub mod peer;
pub mod proxy_v2;
pub mod socks5;
pub mod socks5_client;

pub use destination::{Destination, DestinationError, Host, HostName};

/// Reader at the front of bytes that have arrived, and that may lack the rest of a message.
struct Front<'a> {
    bytes: &'a [u8],
    used: usize,
}

impl<'a> Front<'a> {
    fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, used: 0 }
    }

    /// Consumes the next `count` bytes; `None` if they have not arrived.
    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let taken = self.bytes.get(self.used..self.used.checked_add(count)?)?;
        self.used += count;
        Some(taken)
    }

    /// Consumes the next `N` bytes; `None` if they have not arrived.
    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.take(N)?.try_into().ok()
    }

    /// Consumes the next byte; `None` if it has not arrived.
    fn byte(&mut self) -> Option<u8> {
        self.array::<1>().map(|[byte]| byte)
    }

    /// Consumes the next two bytes, a big-endian port; `None` if they have not arrived.
    fn port(&mut self) -> Option<u16> {
        self.array().map(u16::from_be_bytes)
    }
}
