//! Relays' headers, SOCKS handshakes, destinations: what is written can be read, in any pieces, and
//! nothing else can.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::net::{IpAddr, SocketAddr};

use icdc_protocol::relay::peer::{Header, HeaderError, MAX_HEADER, MAX_HOPS, RelayId, Verdict};
use icdc_protocol::relay::socks5::{Handshake, Step, reply};
use icdc_protocol::relay::{Destination, Host, HostName};
use proptest::collection::vec;
use proptest::prelude::*;

fn host() -> impl Strategy<Value = Host> {
    prop_oneof![
        any::<IpAddr>().prop_map(|address| Host::Address(address.to_canonical())),
        "[a-z0-9_][a-z0-9._-]{0,252}".prop_map(|name| Host::parse(&name).unwrap()),
    ]
}

fn destination() -> impl Strategy<Value = Destination> {
    (host(), 1..=u16::MAX).prop_map(|(host, port)| Destination::new(host, port).unwrap())
}

fn header() -> impl Strategy<Value = Header> {
    let client = (any::<IpAddr>(), 1..=u16::MAX).prop_map(|(ip, port)| SocketAddr::new(ip.to_canonical(), port));
    let hops = vec(any::<u64>().prop_map(RelayId), 0..=MAX_HOPS);
    (destination(), client, any::<bool>(), hops).prop_map(|(destination, client, public_only, hops)| Header {
        destination,
        client,
        public_only,
        hops,
    })
}

proptest! {
    #[test]
    fn a_header_is_read_as_it_was_written_once_it_is_whole(header in header(), rest in vec(any::<u8>(), 0..20)) {
        let mut bytes = header.encode();
        let length = bytes.len();
        prop_assert!(length <= MAX_HEADER);
        for cut in 0..length {
            prop_assert_eq!(Header::decode(&bytes[..cut]), Ok(None));
        }
        bytes.extend(rest);
        prop_assert_eq!(Header::decode(&bytes), Ok(Some((header, length))));
    }

    #[test]
    fn a_damaged_header_is_refused_or_another_one(header in header(), at in any::<prop::sample::Index>(), value: u8) {
        let mut bytes = header.encode();
        let at = at.index(bytes.len());
        bytes[at] = value;
        if let Ok(Some((other, used))) = Header::decode(&bytes) {
            prop_assert!(used <= bytes.len() && other.hops.len() <= MAX_HOPS && other.destination.port > 0);
        }
    }

    #[test]
    fn no_bytes_make_a_parser_panic(bytes in vec(any::<u8>(), 0..600), needs_login: bool) {
        let _ = Header::decode(&bytes);
        let mut handshake = Handshake::new(needs_login);
        let mut rest = &bytes[..];
        for _ in 0..4 {
            match handshake.advance(rest) {
                Ok(Step::Answer(used, _) | Step::Login(used, _) | Step::Request(used, _)) => rest = &rest[used..],
                Ok(Step::More) | Err(_) => break,
            }
        }
    }

    #[test]
    fn destinations_are_read_as_they_are_shown(destination in destination()) {
        prop_assert_eq!(destination.to_string().parse::<Destination>(), Ok(destination));
    }

    #[test]
    fn socks_clients_are_understood_in_any_pieces(destination in destination(), login: bool) {
        let mut said: Vec<u8> = if login { b"\x05\x02\x00\x02\x01\x04anna\x02pw".to_vec() } else { b"\x05\x01\x00".to_vec() };
        said.extend([5, 1, 0]);
        match &destination.host {
            Host::Address(IpAddr::V4(address)) => {
                said.push(1);
                said.extend(address.octets());
            }
            Host::Address(IpAddr::V6(address)) => {
                said.push(4);
                said.extend(address.octets());
            }
            Host::Name(name) => {
                said.extend([3, name.as_str().len() as u8]);
                said.extend(name.as_str().bytes());
            }
        }
        said.extend(destination.port.to_be_bytes());
        said.extend(b"data");
        let (mut handshake, mut pending, mut answers) = (Handshake::new(login), Vec::new(), Vec::new());
        let mut wish = None;
        for byte in &said {
            if wish.is_none() {
                pending.push(*byte);
                match handshake.advance(&pending).unwrap() {
                    Step::More => {}
                    Step::Answer(used, answer) => {
                        pending.drain(..used);
                        answers.extend(answer);
                    }
                    Step::Login(used, shown) => {
                        prop_assert_eq!((shown.user.as_slice(), shown.password.as_slice()), (&b"anna"[..], &b"pw"[..]));
                        pending.drain(..used);
                        answers.extend(handshake.login(true));
                    }
                    Step::Request(used, destination) => {
                        prop_assert_eq!(used, pending.len());
                        wish = Some(destination);
                    }
                }
            }
        }
        prop_assert_eq!(wish, Some(destination));
        prop_assert_eq!(answers, if login { vec![5, 2, 1, 0] } else { vec![5, 0] });
    }
}

#[test]
fn verdicts_have_their_numbers() {
    for (number, verdict) in (0..).zip([Verdict::Connected, Verdict::Denied, Verdict::Loop, Verdict::Unreachable]) {
        assert_eq!(verdict.encode(), [b'i', b'r', 1, number]);
        assert_eq!(Verdict::decode(verdict.encode()), Some(verdict));
    }
    assert_eq!(Verdict::decode([b'i', b'r', 1, 8]), None);
    assert_eq!(Verdict::decode(*b"HTTP"), None);
}

#[test]
fn other_programs_are_told_apart_at_the_first_byte() {
    assert_eq!(Header::decode(b"G"), Err(HeaderError::Magic));
    assert_eq!(Header::decode(b"\x16\x03\x01"), Err(HeaderError::Magic));
    assert_eq!(Header::decode(b"icdcrly1\xff\xff"), Err(HeaderError::TooLong(10 + 0xffff)));
}

#[test]
fn socks_clients_that_ask_for_more_are_refused_in_their_language() {
    let refused = |login, said: &[&[u8]]| {
        let mut handshake = Handshake::new(login);
        said.iter().find_map(|part| handshake.advance(part).err()).unwrap().answer
    };
    assert_eq!(refused(false, &[b"\x04\x01"]), b"");
    assert_eq!(refused(false, &[b"\x05\x01\x02"]), [5, 0xff]);
    assert_eq!(refused(true, &[b"\x05\x01\x00"]), [5, 0xff]);
    assert_eq!(refused(false, &[b"\x05\x01\x00", b"\x05\x02\x00\x01\x7f\0\0\x01\0\x50"])[..2], [5, 7], "BIND");
    assert_eq!(refused(false, &[b"\x05\x01\x00", b"\x05\x01\x00\x09"])[..2], [5, 8]);
    assert_eq!(refused(false, &[b"\x05\x01\x00", b"\x05\x01\x00\x03\x03a b\0\x50"])[..2], [5, 8]);
    assert_eq!(reply(Verdict::Refused, None), [5, 5, 0, 1, 0, 0, 0, 0, 0, 0]);
    let bound = Some("[2001:db8::1]:80".parse().unwrap());
    assert_eq!(reply(Verdict::Connected, bound).len(), 22);
}

#[test]
fn what_is_no_destination_is_refused() {
    for text in
        ["", "host", "host:0", "host:", ":80", "a b:80", "::1:80", "[::1]", "[::1:80", "host:80:80", "-x:1", "h:65536"]
    {
        assert!(text.parse::<Destination>().is_err(), "{text:?}");
    }
    assert!(HostName::new(&"a".repeat(254)).is_err());
    assert_eq!("[::ffff:10.0.0.1]:5".parse::<Destination>().unwrap().to_string(), "10.0.0.1:5");
}
