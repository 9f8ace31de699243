//! `icdc relay --socks5`: who is let in, where to, and what others do to it.

use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use crate::support;
use crate::support::daemon::Nobody;
use crate::support::process::eventually;
use crate::support::relay::{Relay, connect, echo, exchange, request, request_name, socks, socks_reply};
use crate::support::{Noise, Site};

const LOOPBACK: &str = "to=127.0.0.0/8";

#[test]
fn clients_reach_addresses_and_names() {
    let site = Site::new();
    let relay = Relay::start(&site, &["--socks5", "127.0.0.1:0", "--allow", LOOPBACK, "--allow", "to=::1"]);
    let echo = echo();
    let bytes = Noise::logged("socks").bytes(100_000);
    for request in [request(echo), request_name("127.0.0.1", echo.port()), request_name("localhost", echo.port())] {
        let (stream, code) = socks(relay.address("socks5"), &request);
        assert_eq!(code, 0, "{:?}", relay.run().stderr());
        assert!(exchange(stream, bytes.clone()).unwrap() == bytes);
    }
}

#[test]
fn data_may_come_with_the_request() {
    let site = Site::new();
    let relay = Relay::start(&site, &["--socks5", "127.0.0.1:0", "--allow", LOOPBACK]);
    let early = [request(echo()), b"early".to_vec()].concat();
    let (mut stream, code) = socks(relay.address("socks5"), &early);
    assert_eq!(code, 0);
    let mut back = [0; 5];
    stream.read_exact(&mut back).unwrap();
    assert_eq!(&back, b"early");
}

#[test]
fn private_destinations_need_a_rule_also_behind_another_relay() {
    let site = Site::new();
    let echo = echo();
    let exit = Relay::start(&site, &["--peer", "127.0.0.1:0"]);
    let route = format!("default={}", exit.address("peer"));
    let direct = Relay::start(&site, &["--socks5", "127.0.0.1:0"]);
    let chained = Relay::start(&site, &["--socks5", "127.0.0.1:0", "--route", &route]);
    for relay in [&direct, &chained] {
        for request in [request(echo), request_name("localhost", echo.port())] {
            let (mut stream, code) = socks(relay.address("socks5"), &request);
            assert_eq!(code, 2, "{:?}", relay.run().stderr());
            assert_eq!(stream.read(&mut [0; 1]).unwrap(), 0, "the refusal is followed by the end");
        }
    }
    let allowed = Relay::start(&site, &["--socks5", "127.0.0.1:0", "--route", &route, "--allow", LOOPBACK]);
    assert_eq!(socks(allowed.address("socks5"), &request(echo)).1, 0, "the rule of the first relay holds for both");
}

#[test]
fn the_reply_says_what_was_in_the_way() {
    let site = Site::new();
    let relay = Relay::start(&site, &["--socks5", "127.0.0.1:0", "--allow", LOOPBACK]);
    let nobody = Nobody::new();
    assert_eq!(socks(relay.address("socks5"), &request(nobody.address)).1, 5);
    // A host without name servers may find that out late.
    assert!(matches!(socks(relay.address("socks5"), &request_name("no-such-host.invalid", 80)).1, 4 | 6));
    assert_eq!(socks(relay.address("socks5"), &[5, 2, 0, 1, 127, 0, 0, 1, 0, 80]).1, 7, "BIND");
    assert!(eventually(|| relay.total("open") == 0), "{}", relay.status());
}

#[test]
fn users_show_their_password() {
    let site = Site::new();
    let users = site.path("users");
    std::fs::write(&users, "anna:right\n").unwrap();
    let name = users.to_str().unwrap();
    let words = ["--socks5", "127.0.0.1:0", "--socks5-users", name, "--allow", LOOPBACK];
    std::fs::set_permissions(&users, std::fs::Permissions::from_mode(0o644)).unwrap();
    let exposed = support::Start::run(&mut site.icdc(&[&["relay", "--check"], &words[..]].concat()));
    assert_eq!(exposed.code, Some(2), "{exposed}");
    assert!(exposed.stderr.contains("chmod 600"), "{exposed}");

    std::fs::set_permissions(&users, std::fs::Permissions::from_mode(0o600)).unwrap();
    let relay = Relay::start(&site, &words);
    for (password, right) in [("right", true), ("wrong", false), ("", false)] {
        let mut stream = connect(relay.address("socks5"));
        stream.write_all(&[5, 2, 0, 2]).unwrap();
        let mut answer = [0; 2];
        stream.read_exact(&mut answer).unwrap();
        assert_eq!(answer, [5, 2]);
        stream.write_all(&[&[1, 4][..], b"anna", &[password.len() as u8], password.as_bytes()].concat()).unwrap();
        stream.read_exact(&mut answer).unwrap();
        assert_eq!(answer, [1, u8::from(!right)]);
        if right {
            stream.write_all(&request(echo())).unwrap();
            assert_eq!(socks_reply(&mut stream), 0);
        } else {
            assert_eq!(stream.read(&mut answer).unwrap(), 0);
        }
    }
    let mut without = connect(relay.address("socks5"));
    without.write_all(&[5, 1, 0]).unwrap();
    let mut answer = Vec::new();
    without.read_to_end(&mut answer).unwrap();
    assert_eq!(answer, [5, 0xff]);
    assert!(!relay.run().stderr().contains("wrong\""), "no password stands in the log");
}

#[test]
fn garbage_harms_nobody() {
    let site = Site::new();
    let relay = Relay::start(&site, &["--socks5", "127.0.0.1:0", "--peer", "127.0.0.1:0", "--allow", LOOPBACK]);
    let echo = echo();
    let mut noise = Noise::logged("garbage");
    for number in 0..200 {
        let kind = if number % 2 == 0 { "socks5" } else { "peer" };
        let mut stream = connect(relay.address(kind));
        let length = noise.below(2000) as usize;
        // Some of it begins well, and asks for nothing that would be done.
        let mut bytes = noise.bytes(length);
        match number % 4 {
            0 => bytes.splice(0..0, [5, 1, 0, 5, 9]).for_each(drop),
            1 => bytes.splice(0..0, *b"icdcrly1\0\x40").for_each(drop),
            _ => {}
        }
        let _ = stream.write_all(&bytes);
        if number % 3 == 0 {
            let _ = stream.shutdown(std::net::Shutdown::Write);
            let _ = stream.read_to_end(&mut Vec::new());
        }
    }
    let (stream, code) = socks(relay.address("socks5"), &request(echo));
    assert_eq!(code, 0);
    assert_eq!(exchange(stream, b"still here".to_vec()).unwrap(), b"still here");
    assert!(eventually(|| relay.total("open") == 0), "{}", relay.status());
}

#[test]
fn who_is_slow_at_any_stage_has_to_go() {
    let site = Site::new();
    let users = site.path("users");
    std::fs::write(&users, "anna:right\n").unwrap();
    std::fs::set_permissions(&users, std::fs::Permissions::from_mode(0o600)).unwrap();
    let relay = Relay::start(
        &site,
        &[
            "--socks5",
            "127.0.0.1:0",
            "--peer",
            "127.0.0.1:0",
            "--socks5-users",
            users.to_str().unwrap(),
            "--greeting",
            "600ms",
            "--allow",
            LOOPBACK,
        ],
    );
    let stages: [(&str, &[u8]); 5] = [
        ("socks5", b""),
        ("socks5", b"\x05"),
        ("socks5", b"\x05\x01\x02\x01\x04an"),
        ("peer", b"icdc"),
        ("peer", b"icdcrly1\0\x10"),
    ];
    let mut slow: Vec<_> = stages
        .iter()
        .map(|(kind, said)| {
            let mut stream = connect(relay.address(kind));
            stream.write_all(said).unwrap();
            stream
        })
        .collect();
    // One byte now and then gains no time.
    let mut dripping = connect(relay.address("socks5"));
    for _ in 0..10 {
        if dripping.write_all(&[5]).is_err() {
            break;
        }
        std::thread::sleep(Duration::from_millis(200));
    }
    for stream in slow.iter_mut().chain([&mut dripping]) {
        while matches!(stream.read(&mut [0; 16]), Ok(1..)) {}
    }
    assert!(eventually(|| relay.total("open") == 0), "{}", relay.status());
    assert_eq!(relay.total("rejected"), 6, "{}", relay.run().stderr());
}
