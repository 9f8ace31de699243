//! Connecting and listening over the loopback device.

use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, TcpListener, TcpStream};

use icdc_tcp::{ConnectError, Egress, EgressError, Family, ListenError, SocketSettings, connect, connect_with, listen};
use icdc_units::{ByteCount, Span};

const TIMEOUT: Span = Span::from_secs(20);
const V4: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

fn port(listener: &TcpListener) -> u16 {
    listener.local_addr().expect("bound").port()
}

fn has_ipv6() -> bool {
    TcpListener::bind((Ipv6Addr::LOCALHOST, 0)).is_ok()
}

/// Bytes arrive, the stream blocks and does not wait for full segments.
fn talks(client: &mut TcpStream, listener: &TcpListener) {
    assert!(client.nodelay().expect("nodelay"));
    let (mut server, _) = listener.accept().expect("accept");
    client.write_all(b"data").expect("write");
    let mut received = [0; 4];
    server.read_exact(&mut received).expect("read");
    assert_eq!(&received, b"data");
}

#[test]
fn any_family_listens_for_both() {
    let listener = listen(None, None, Family::Any, ByteCount::ZERO).expect("listen");
    let mut four = connect("127.0.0.1", port(&listener), Family::Any, TIMEOUT).expect("IPv4");
    talks(&mut four, &listener);
    if has_ipv6() {
        let mut six = connect("::1", port(&listener), Family::V6, TIMEOUT).expect("IPv6");
        talks(&mut six, &listener);
    }
}

#[test]
fn one_family_listens_for_itself() {
    let four = listen(None, None, Family::V4, ByteCount::ZERO).expect("listen");
    assert!(four.local_addr().expect("bound").is_ipv4());
    if has_ipv6() {
        let six = listen(None, None, Family::V6, ByteCount::ZERO).expect("listen");
        let error = connect("127.0.0.1", port(&six), Family::Any, TIMEOUT).expect_err("IPv6 only");
        assert!(matches!(error, ConnectError::Refused { .. }), "{error}");
    }
    let error = listen(Some(V4), None, Family::V6, ByteCount::ZERO).expect_err("contradiction");
    assert!(matches!(error, ListenError::OtherFamily { .. }), "{error}");
}

#[test]
fn names_are_resolved() {
    let listener = listen(Some(V4), None, Family::Any, ByteCount::ZERO).expect("listen");
    let mut client = connect("localhost", port(&listener), Family::Any, TIMEOUT).expect("resolved");
    talks(&mut client, &listener);

    // RFC 6761: no name under .invalid ever exists. Without a name server the resolver may be slow.
    let error = connect("no-such-host.invalid", 1, Family::Any, Span::from_secs(60)).expect_err("no such name");
    assert!(matches!(error, ConnectError::Resolve { .. } | ConnectError::ResolveTimedOut { .. }), "{error}");
    assert!(error.to_string().contains("no-such-host.invalid"), "{error}");
}

#[test]
fn refusal_and_family_are_told_apart() {
    let free = port(&listen(Some(V4), None, Family::Any, ByteCount::ZERO).expect("listen"));
    let error = connect("127.0.0.1", free, Family::Any, TIMEOUT).expect_err("nobody listens");
    assert!(matches!(&error, ConnectError::Refused { address, .. } if address.port() == free), "{error}");

    let error = connect("127.0.0.1", free, Family::V6, TIMEOUT).expect_err("no IPv6 address");
    assert!(matches!(&error, ConnectError::NoAddress { addresses, .. } if addresses == &[V4]), "{error}");
}

#[test]
fn silence_ends_at_the_deadline() {
    // The queue of a listener that accepts nothing takes one connection; then SYNs are dropped.
    let full = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).expect("socket");
    full.bind(&std::net::SocketAddr::from((V4, 0)).into()).expect("bind");
    full.listen(0).expect("listen");
    let port = full.local_addr().expect("bound").as_socket().expect("IPv4").port();
    let mut queued = Vec::new();
    let error = loop {
        match connect("127.0.0.1", port, Family::Any, Span::from_millis(300)) {
            Ok(stream) => queued.push(stream),
            Err(error) => break error,
        }
        assert!(queued.len() < 8, "the queue has room for one");
    };
    assert!(matches!(error, ConnectError::TimedOut { .. }), "{error}");
    assert!(error.to_string().contains("300ms"), "{error}");
}

#[test]
fn a_range_is_used_up_and_then_named() {
    // Three free ports below those that the kernel gives out by itself (from 32768), so that no
    // other socket takes one meanwhile; another place for every process.
    let first = 10_000 + (std::process::id() % 5_000) as u16 * 3;
    let free = |port: u16| TcpListener::bind((V4, port)).is_ok();
    let low = (first..32_000).step_by(3).find(|&low| (low..=low + 2).all(free)).expect("free ports");
    let high = low + 2;
    let held: Vec<TcpListener> = (low..=high)
        .map(|_| listen(Some(V4), Some(low..=high), Family::Any, ByteCount::ZERO).expect("a port is left"))
        .collect();
    assert_eq!(held.iter().map(port).collect::<Vec<_>>(), [low, low + 1, low + 2]);
    let error = listen(Some(V4), Some(low..=high), Family::Any, ByteCount::ZERO).expect_err("none is left");
    assert!(matches!(error, ListenError::PortsInUse { .. }), "{error}");
    let text = error.to_string();
    assert!(text.contains(&format!("all ports from {low} to {high}")) && text.contains("--port"), "{text}");

    let error = listen(None, Some(high..=low), Family::Any, ByteCount::ZERO).expect_err("reversed");
    assert!(matches!(error, ListenError::EmptyRange { .. }), "{error}");
}

#[test]
fn a_foreign_address_is_named() {
    // 192.0.2.0/24 is for documentation (RFC 5737).
    let foreign = IpAddr::from([192, 0, 2, 1]);
    let error = listen(Some(foreign), None, Family::Any, ByteCount::ZERO).expect_err("not ours");
    assert!(matches!(error, ListenError::NotLocal { .. }), "{error}");
}

#[test]
fn the_receive_buffer_precedes_the_handshake() {
    let size = ByteCount::from_kib(128);
    let listener = listen(Some(V4), None, Family::Any, size).expect("listen");
    let settings = SocketSettings { receive_buffer: size * 2, congestion: Some("reno"), ..SocketSettings::default() };
    let client = connect_with("127.0.0.1", port(&listener), Family::Any, TIMEOUT, &settings).expect("connect");
    assert_eq!(icdc_tcp::congestion(&client).expect("congestion"), "reno");
    let (server, _) = listener.accept().expect("accept");
    let none = ByteCount::ZERO;
    assert_eq!(icdc_tcp::set_buffers(&server, none, none).expect("sizes").receive, size);
    // rmem_max is 208 KiB where nobody raised it and the test has no privilege.
    let granted = icdc_tcp::set_buffers(&client, none, none).expect("sizes").receive;
    assert!(granted > size && granted <= size * 2, "{granted}");
}

#[test]
fn a_connection_leaves_from_the_address_or_by_the_device_that_is_named() {
    let listener = listen(Some(V4), None, Family::Any, ByteCount::ZERO).expect("listen");
    let to = |host, egress: &Egress| {
        let settings = SocketSettings { egress: Some(egress), ..SocketSettings::default() };
        connect_with(host, port(&listener), Family::Any, TIMEOUT, &settings)
    };
    let egress = |text: &str| text.parse::<Egress>().expect(text);
    let client = to("127.0.0.1", &egress("127.0.0.2")).expect("any address of 127/8 is this host's");
    assert_eq!(client.local_addr().expect("bound").ip(), IpAddr::from([127, 0, 0, 2]));
    to("127.0.0.1", &egress("lo")).expect("by loopback");

    let error = to("127.0.0.1", &egress("none-such")).expect_err("no such device");
    assert!(matches!(error, ConnectError::Egress { cause: EgressError::NoDevice { .. }, .. }), "{error}");
    let error = to("127.0.0.1", &egress("192.0.2.1")).expect_err("not ours");
    assert!(matches!(error, ConnectError::Egress { cause: EgressError::NoAddress { .. }, .. }), "{error}");
    let error = to("::1", &egress("127.0.0.1")).expect_err("another family");
    assert!(matches!(error, ConnectError::NoAddress { family: Family::V4, .. }), "{error}");
    assert!(error.to_string().contains("another address of this host than 127.0.0.1"), "{error}");
}
