//! `icdc relay`: routes by other relays, with keys, with alternatives, and without loops.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpListener};

use crate::support;
use crate::support::daemon::Nobody;
use crate::support::process::eventually;
use crate::support::relay::{
    Relay, accept, connect, echo, exchange, listener, read_error, refused, request, request_name, reset, server, socks,
};

use crate::support::{HERE, Noise, Site, is_root, skip, succeed};

/// An identity of its own: its file, and its public key.
fn identity(site: &Site, name: &str) -> (String, String) {
    let file = site.path(name);
    succeed(site.icdc(&["keygen", "--identity"]).arg(&file));
    let public = std::fs::read_to_string(site.path(format!("{name}.pub"))).unwrap();
    let key = public.split_whitespace().take(2).collect::<Vec<_>>().join(" ");
    (file.to_str().unwrap().to_owned(), key)
}

#[test]
fn relays_with_keys_admit_only_each_other() {
    let site = Site::new();
    let [(near_file, near_key), (far_file, far_key), (other_file, _)] =
        ["near", "far", "other"].map(|name| identity(&site, name));
    let far = Relay::start(&site, &["--peer", "127.0.0.1:0", "--identity", &far_file, "--peer-key", &near_key]);
    let route = format!("default={}", far.address("peer"));
    let server = listener();
    let to = server.local_addr().unwrap();
    let forward = format!("127.0.0.1:0={to}");
    let near = |identity: &str, key: &str| {
        Relay::start(&site, &["--forward", &forward, "--route", &route, "--identity", identity, "--peer-key", key])
    };

    let right = near(&near_file, &far_key);
    let bytes = Noise::logged("tls").bytes(3 << 20);
    let expected = bytes.clone();
    let serving = std::thread::spawn(move || {
        let mut served = accept(&server);
        let mut got = Vec::new();
        served.read_to_end(&mut got).unwrap();
        served.write_all(&got).unwrap();
        drop(served);
        let mut cut = accept(&server);
        cut.read_exact(&mut [0; 1]).unwrap();
        reset(cut);
    });
    let mut client = connect(right.address("forward"));
    client.write_all(&bytes).unwrap();
    let far_leg = || right.status()["connections"][0]["far"].clone();
    assert!(eventually(|| far_leg()["tls"] == true), "{}", right.status());
    assert!(far_leg()["key"].is_string(), "{}", right.status());
    client.shutdown(Shutdown::Write).unwrap();
    let mut back = Vec::new();
    client.read_to_end(&mut back).unwrap();
    assert!(back == expected, "half-closed by TLS, and answered");
    let mut client = connect(right.address("forward"));
    client.write_all(b"x").unwrap();
    assert_eq!(read_error(&mut client), ErrorKind::ConnectionReset, "a reset is no end");
    serving.join().unwrap();

    for (identity, key) in [(&other_file, &far_key), (&near_file, &near_key)] {
        let wrong = near(identity, key);
        assert_eq!(refused(wrong.address("forward")), ErrorKind::ConnectionReset);
        assert!(eventually(|| wrong.total("unreachable") == 1), "{}", wrong.run().stderr());
    }
    let clear = Relay::start(&site, &["--forward", &forward, "--route", &route]);
    assert_eq!(refused(clear.address("forward")), ErrorKind::ConnectionReset);
    assert!(eventually(|| far.total("open") == 0), "{}", far.status());
}

#[test]
fn a_relay_does_not_connect_to_itself() {
    let site = Site::new();
    let port = support::daemon::free_port();
    let own = format!("{HERE}:{port}");
    let relay = Relay::start(&site, &["--forward", &format!("{own}={own}")]);
    assert_eq!(refused(own.parse().unwrap()), ErrorKind::ConnectionReset);
    assert!(relay.run().wait_for_words("this relay itself"));
    assert!(eventually(|| relay.total("open") == 0));
    assert_eq!(relay.total("accepted"), 1, "{}", relay.status());
}

#[test]
fn loops_of_relays_are_found() {
    let site = Site::new();
    let (one, other) = (support::daemon::free_port(), support::daemon::free_port());
    let peers = [one, other].map(|port| format!("{HERE}:{port}"));
    let routes = [other, one].map(|port| format!("default={HERE}:{port}"));
    let first = Relay::start(&site, &["--socks5", "127.0.0.1:0", "--peer", &peers[0], "--route", &routes[0]]);
    let _second = Relay::start(&site, &["--peer", &peers[1], "--route", &routes[1]]);
    let (_, code) = socks(first.address("socks5"), &request_name("somewhere.example", 80));
    assert_eq!(code, 6, "{}", first.run().stderr());
    assert!(eventually(|| first.total("open") == 0));
    assert_eq!(first.total("accepted"), 2, "the client, and itself again by the other one");
}

#[test]
fn the_next_hop_is_tried_when_one_fails() {
    let site = Site::new();
    let echo = echo();
    let nobody = Nobody::new();
    let gone = nobody.address;
    let far = Relay::start(&site, &["--peer", "127.0.0.1:0"]);
    let forward = format!("127.0.0.1:0={echo}");
    for route in [format!("default={gone},direct"), format!("default={gone},{}", far.address("peer"))] {
        let relay = Relay::start(&site, &["--forward", &forward, "--route", &route]);
        let back = exchange(connect(relay.address("forward")), b"by another hop".to_vec()).unwrap();
        assert_eq!(back, b"by another hop");
        assert!(relay.run().wait_for_words("trying the next route"));
    }
    assert!(eventually(|| far.total("finished") == 1));
}

#[test]
fn the_longest_prefix_decides_the_route() {
    let site = Site::new();
    let echo = echo();
    let nobody = Nobody::new();
    let gone = format!("default={}", nobody.address);
    let words = ["--socks5", "127.0.0.1:0", "--allow", "to=127.0.0.0/8", "--route", "127.0.0.1/32=direct", "--route"];
    let relay = Relay::start(&site, &[&words[..], &[&gone]].concat());
    assert_eq!(socks(relay.address("socks5"), &request(echo)).1, 0);
    let elsewhere = (std::net::Ipv4Addr::new(127, 0, 0, 2), echo.port()).into();
    assert_eq!(socks(relay.address("socks5"), &request(elsewhere)).1, 5, "the relay that is not there refuses");
}

#[test]
fn warm_connections_wait_for_clients() {
    let site = Site::new();
    let (near_file, near_key) = identity(&site, "near");
    let (far_file, far_key) = identity(&site, "far");
    let far = Relay::start(&site, &["--peer", "127.0.0.1:0", "--identity", &far_file, "--peer-key", &near_key]);
    let (forward, route) = (format!("127.0.0.1:0={}", echo()), format!("default={}", far.address("peer")));
    let near = Relay::start(
        &site,
        &[
            "--forward",
            &forward,
            "--route",
            &route,
            "--warm",
            "3",
            "--threads",
            "1",
            "--identity",
            &near_file,
            "--peer-key",
            &far_key,
        ],
    );
    assert!(eventually(|| far.total("open") == 3), "{}", far.status());
    for _ in 0..10 {
        assert_eq!(exchange(connect(near.address("forward")), b"warm".to_vec()).unwrap(), b"warm");
    }
    assert!(eventually(|| far.total("finished") == 10 && far.total("open") == 3), "{}", far.status());
    // They keep nobody from stopping, and what is gone is made anew for the next client.
    let peer = far.address("peer");
    let ended = far.stop();
    assert_eq!(ended.code, Some(0), "{ended}");
    let address = peer.to_string();
    let again = Relay::start(&site, &["--peer", &address, "--identity", &far_file, "--peer-key", &near_key]);
    assert_eq!(exchange(connect(near.address("forward")), b"again".to_vec()).unwrap(), b"again");
    assert!(eventually(|| again.total("finished") == 1));
}

#[test]
fn destinations_learn_who_their_client_is() {
    let site = Site::new();
    let server = listener();
    let far = Relay::start(&site, &["--peer", "127.0.0.1:0", "--proxy-protocol"]);
    let route = format!("default={}", far.address("peer"));
    let forward = format!("127.0.0.1:0={}", server.local_addr().unwrap());
    let near = Relay::start(&site, &["--forward", &forward, "--route", &route]);
    let mut client = connect(near.address("forward"));
    client.write_all(b"data").unwrap();
    let mut served = accept(&server);
    let mut header = [0; 28];
    served.read_exact(&mut header).unwrap();
    assert_eq!(header[..16], *b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c");
    assert_eq!(header[16..24], [127, 0, 0, 1, 127, 0, 0, 1]);
    assert_eq!(header[24..26], client.local_addr().unwrap().port().to_be_bytes());
    let mut data = [0; 4];
    served.read_exact(&mut data).unwrap();
    assert_eq!(&data, b"data");
}

#[test]
fn destinations_see_the_client_where_that_is_allowed() {
    if !is_root() {
        skip("another's address as the source needs root");
        return;
    }
    let site = Site::new();
    let server = listener();
    let forward = format!("127.0.0.1:0={}", server.local_addr().unwrap());
    let relay = Relay::start(&site, &["--forward", &forward, "--keep-source"]);
    // Another address of the loopback network, which needs no rules to find its way back.
    let socket = socket_from("127.0.0.77:0".parse().unwrap(), relay.address("forward"));
    let (served, from) = server.accept().unwrap();
    assert_eq!(from.ip().to_string(), "127.0.0.77");
    drop((served, socket));
}

fn socket_from(from: std::net::SocketAddr, to: std::net::SocketAddr) -> std::net::TcpStream {
    use rustix::net::{AddressFamily, SocketType, bind, connect, socket};
    let socket = socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
    bind(&socket, &from).unwrap();
    connect(&socket, &to).unwrap();
    socket.into()
}

#[test]
fn three_relays_make_a_chain() {
    let site = Site::new();
    let last = Relay::start(&site, &["--peer", "127.0.0.1:0"]);
    let middle_route = format!("default={}", last.address("peer"));
    let middle = Relay::start(&site, &["--peer", "127.0.0.1:0", "--route", &middle_route]);
    let first_route = format!("default={}", middle.address("peer"));
    let echo = echo();
    let words = ["--socks5", "127.0.0.1:0", "--allow", "to=127.0.0.0/8", "--route", &first_route];
    let first = Relay::start(&site, &words);
    let bytes = Noise::logged("three").bytes(1 << 20);
    let (stream, code) = socks(first.address("socks5"), &request(echo));
    assert_eq!(code, 0);
    assert!(exchange(stream, bytes.clone()).unwrap() == bytes);
    let nobody = Nobody::new();
    assert_eq!(socks(first.address("socks5"), &request(nobody.address)).1, 5, "the answer comes from the last one");
}

#[test]
fn a_next_hop_that_is_no_relay_is_noticed() {
    let site = Site::new();
    let web = server(|mut stream| {
        let mut buffer = [0; 100];
        let _ = stream.read(&mut buffer);
        let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n");
    });
    let silent = TcpListener::bind((HERE, 0)).unwrap();
    for (to, more) in [(web, &[][..]), (silent.local_addr().unwrap(), &["--connect", "600ms"][..])] {
        let route = format!("default={to}");
        let words = ["--socks5", "127.0.0.1:0", "--route", &route];
        let relay = Relay::start(&site, &[&words[..], more].concat());
        let (_, code) = socks(relay.address("socks5"), &request_name("somewhere.example", 80));
        assert!(code != 0, "{}", relay.run().stderr());
        assert!(eventually(|| relay.total("unreachable") == 1 && relay.total("open") == 0));
    }
}
