//! `icdc relay`: bytes, ends and resets as they pass through one relay and through two.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use crate::support;
use crate::support::daemon::Nobody;
use crate::support::process::eventually;
use crate::support::relay::{Relay, accept, connect, echo, exchange, listener, patient, read_error, refused, reset};
use crate::support::{Noise, Site};

/// One relay to a destination.
fn forward(site: &Site, to: SocketAddr, more: &[&str]) -> Relay {
    Relay::start(site, &[&["--forward", &format!("127.0.0.1:0={to}")], more].concat())
}

/// Two relays to a destination: the one near the clients, and the other.
fn chain(site: &Site, to: SocketAddr, more: &[&str]) -> (Relay, Relay) {
    let far = Relay::start(site, &["--peer", "127.0.0.1:0"]);
    let route = format!("default={}", far.address("peer"));
    let near = forward(site, to, &[&["--route", &route], more].concat());
    (near, far)
}

#[test]
fn bytes_come_back_as_they_were() {
    let site = Site::new();
    let relay = forward(&site, echo(), &[]);
    let mut noise = Noise::logged("bytes");
    for size in [0, 1, 1000, 64 << 10, 20 << 20] {
        let bytes = noise.bytes(size);
        assert!(exchange(connect(relay.address("forward")), bytes.clone()).unwrap() == bytes, "{size} bytes");
    }
    assert!(eventually(|| relay.total("open") == 0));
    assert_eq!(relay.total("finished"), 5, "{}", relay.status());
    assert_eq!(relay.total("bytes_up"), relay.total("bytes_down"));
}

#[test]
fn two_relays_carry_the_same() {
    let site = Site::new();
    let (near, far) = chain(&site, echo(), &[]);
    let mut noise = Noise::logged("chain");
    for size in [0, 1, 5 << 20] {
        let bytes = noise.bytes(size);
        assert!(exchange(connect(near.address("forward")), bytes.clone()).unwrap() == bytes, "{size} bytes");
    }
    assert!(eventually(|| near.total("finished") == 3 && far.total("finished") == 3), "{}", far.status());
}

#[test]
fn urgent_data_is_left_out_and_what_comes_after_it_is_carried() {
    let site = Site::new();
    let server = listener();
    let relay = forward(&site, server.local_addr().unwrap(), &[]);
    let mut client = connect(relay.address("forward"));
    let mut served = accept(&server);
    let mut before = [0; 6];
    client.write_all(b"before").unwrap();
    served.read_exact(&mut before).unwrap();
    rustix::net::send(&client, b"!", rustix::net::SendFlags::OOB).unwrap();
    client.write_all(b"after").unwrap();
    let mut after = [0; 5];
    served.read_exact(&mut after).unwrap();
    assert_eq!((&before, &after), (b"before", b"after"));
    client.shutdown(Shutdown::Write).unwrap();
    assert_eq!(served.read(&mut after).unwrap(), 0);
}

#[test]
fn either_side_may_end_first_and_the_other_go_on() {
    let site = Site::new();
    let server = listener();
    let (near, _far) = chain(&site, server.local_addr().unwrap(), &[]);
    let mut text = String::new();

    let mut client = connect(near.address("forward"));
    client.write_all(b"question").unwrap();
    client.shutdown(Shutdown::Write).unwrap();
    let mut served = accept(&server);
    served.read_to_string(&mut text).unwrap();
    assert_eq!(text, "question");
    served.write_all(b"answer").unwrap();
    drop(served);
    text.clear();
    client.read_to_string(&mut text).unwrap();
    assert_eq!(text, "answer");

    let mut client = connect(near.address("forward"));
    let mut served = accept(&server);
    served.shutdown(Shutdown::Write).unwrap();
    assert_eq!(client.read(&mut [0; 1]).unwrap(), 0);
    client.write_all(b"after the end").unwrap();
    drop(client);
    text.clear();
    served.read_to_string(&mut text).unwrap();
    assert_eq!(text, "after the end");
}

#[test]
fn a_reset_goes_through_in_both_directions() {
    let site = Site::new();
    let server = listener();
    let (near, far) = chain(&site, server.local_addr().unwrap(), &[]);
    for from_client in [true, false] {
        let mut client = connect(near.address("forward"));
        client.write_all(b"x").unwrap();
        let mut served = accept(&server);
        served.read_exact(&mut [0; 1]).unwrap();
        let (broken, mut told) = if from_client { (client, served) } else { (served, client) };
        reset(broken);
        assert_eq!(read_error(&mut told), ErrorKind::ConnectionReset, "from the client: {from_client}");
    }
    assert!(eventually(|| near.total("aborted") == 2 && far.total("aborted") == 2), "{}", near.status());
    assert_eq!(near.total("open"), 0);
}

#[test]
fn a_destination_that_refuses_resets_the_client() {
    let site = Site::new();
    let nobody = Nobody::new();
    let one = forward(&site, nobody.address, &[]);
    let (two, _far) = chain(&site, nobody.address, &[]);
    for relay in [&one, &two] {
        assert_eq!(refused(relay.address("forward")), ErrorKind::ConnectionReset);
        assert!(eventually(|| relay.total("unreachable") == 1 && relay.total("open") == 0));
    }
}

#[test]
fn a_wait_counts_while_it_lasts() {
    let site = Site::new();
    let server = listener();
    let relay = forward(&site, server.local_addr().unwrap(), &["--memory-per-connection", "1MiB"]);
    let mut client = connect(relay.address("forward"));
    let mut served = accept(&server);
    client.write_all(b"x").unwrap();
    served.read_exact(&mut [0]).unwrap();
    let up = |field: &str| relay.status()["connections"][0]["up"][field].clone();
    // The client says nothing for a while, ...
    let for_source = || up("waited_for_source").as_u64().unwrap();
    assert!(eventually(|| for_source() > 300_000_000), "{}", relay.status());
    assert_eq!(up("limited_by"), "near");
    // ... and then says more than the server takes.
    client.set_write_timeout(Some(Duration::from_secs(1))).unwrap();
    let piece = [7; 256 << 10];
    while client.write(&piece).is_ok() {}
    assert!(eventually(|| up("limited_by") == "far"), "{}", relay.status());
}

#[test]
fn who_does_not_read_stops_who_writes() {
    let site = Site::new();
    let server = listener();
    let small = ["--memory-per-connection", "1MiB"];
    let far = Relay::start(&site, &[&["--peer", "127.0.0.1:0"], &small[..]].concat());
    let route = format!("default={}", far.address("peer"));
    let near = forward(&site, server.local_addr().unwrap(), &[&["--route", &route], &small[..]].concat());
    let mut client = connect(near.address("forward"));
    let mut served = accept(&server);
    client.set_write_timeout(Some(Duration::from_secs(1))).unwrap();
    let piece = Noise::new(1).bytes(256 << 10);
    let mut sent: u64 = 0;
    let stopped = loop {
        // Over and over, wherever the last write has ended.
        match client.write(&piece[sent as usize % piece.len()..]) {
            Ok(count) => sent += count as u64,
            Err(error) => break error,
        }
        assert!(sent < 1 << 30, "nothing holds the writer back");
    };
    assert_eq!(stopped.kind(), ErrorKind::WouldBlock);
    let limited_by = || near.status()["connections"][0]["up"]["limited_by"].clone();
    assert!(eventually(|| limited_by() == "far"), "{}", near.status());
    // What was taken arrives all the same.
    client.shutdown(Shutdown::Write).unwrap();
    let mut received = Vec::new();
    served.read_to_end(&mut received).unwrap();
    assert_eq!(received.len() as u64, sent);
    assert!(received.chunks(piece.len()).all(|chunk| piece.starts_with(chunk)));
    drop((served, client));
    assert!(eventually(|| far.total("buffered") == 0 && near.total("buffered") == 0));
}

#[test]
fn one_direction_that_stands_does_not_stop_the_other() {
    let site = Site::new();
    let server = listener();
    let relay = forward(&site, server.local_addr().unwrap(), &["--memory-per-connection", "1MiB"]);
    let mut client = connect(relay.address("forward"));
    let mut served = accept(&server);
    // It answers each piece before it reads the next, by far more.
    let serve = std::thread::spawn(move || {
        let (mut request, answer) = ([0; 16 << 10], vec![7; 1 << 20]);
        while served.read_exact(&mut request).is_ok() {
            served.write_all(&answer).unwrap();
        }
    });
    let mut writer = client.try_clone().unwrap();
    let write = std::thread::spawn(move || {
        writer.write_all(&vec![1; 4 << 20]).unwrap();
        writer.shutdown(Shutdown::Write).unwrap();
    });
    assert!(eventually(|| relay.status()["connections"][0]["paused"] == true), "{}", relay.status());
    let (mut read, mut buffer) = (0, vec![0; 1 << 20]);
    loop {
        match client.read(&mut buffer) {
            Ok(0) => break,
            Ok(count) => read += count,
            Err(error) => panic!("{error} after {read} bytes: {}", relay.status()),
        }
    }
    assert_eq!(read, 256 << 20);
    write.join().unwrap();
    serve.join().unwrap();
}

#[test]
fn a_relay_that_is_killed_resets_both_ends() {
    let site = Site::new();
    let server = listener();
    let (near, far) = chain(&site, server.local_addr().unwrap(), &[]);
    let mut client = connect(near.address("forward"));
    client.write_all(b"half of it").unwrap();
    let mut served = accept(&server);
    served.read_exact(&mut [0; 10]).unwrap();
    served.write_all(b"half of the answer").unwrap();
    client.read_exact(&mut [0; 18]).unwrap();
    far.kill();
    assert_eq!(read_error(&mut client), ErrorKind::ConnectionReset);
    assert_eq!(read_error(&mut served), ErrorKind::ConnectionReset);
    assert!(eventually(|| near.total("open") == 0));
}

#[test]
fn stopping_lets_those_who_are_there_finish() {
    let site = Site::new();
    let server = listener();
    let relay = forward(&site, server.local_addr().unwrap(), &[]);
    let address = relay.address("forward");
    let mut client = connect(address);
    client.write_all(b"x").unwrap();
    let mut served = accept(&server);
    relay.run().signal(support::Signal::TERM);
    assert!(relay.run().wait_for_words("stopping"));
    assert!(
        eventually(|| match TcpStream::connect(address) {
            Err(_) => true,
            Ok(stream) => {
                reset(stream);
                false
            }
        }),
        "nobody new comes in"
    );
    client.write_all(b"y").unwrap();
    drop(client);
    let mut rest = Vec::new();
    served.read_to_end(&mut rest).unwrap();
    assert_eq!(rest, b"xy");
    drop(served);
    let ended = relay.finish();
    assert_eq!(ended.code, Some(0), "{ended}");
    assert!(!ended.stderr.contains("were reset"), "{ended}");
}

#[test]
fn stopping_does_not_wait_for_ever() {
    let site = Site::new();
    let server = listener();
    let relay = forward(&site, server.local_addr().unwrap(), &["--drain", "200ms"]);
    let mut client = connect(relay.address("forward"));
    let mut served = accept(&server);
    let ended = relay.stop();
    assert_eq!(ended.code, Some(0), "{ended}");
    assert!(ended.stderr.contains("1 connections did not end in time"), "{ended}");
    assert_eq!(read_error(&mut client), ErrorKind::ConnectionReset);
    assert_eq!(read_error(&mut served), ErrorKind::ConnectionReset);
}

#[test]
fn silence_ends_after_its_time() {
    let site = Site::new();
    let server = listener();
    let relay = forward(&site, server.local_addr().unwrap(), &["--idle", "500ms"]);
    let mut client = connect(relay.address("forward"));
    let mut served = accept(&server);
    let began = Instant::now();
    assert_eq!(read_error(&mut client), ErrorKind::ConnectionReset);
    assert_eq!(read_error(&mut served), ErrorKind::ConnectionReset);
    assert!(began.elapsed() >= Duration::from_millis(400));
    assert!(eventually(|| relay.total("timed_out") == 1));
}

#[test]
fn no_descriptor_stays_behind() {
    let site = Site::new();
    let (near, far) = chain(&site, echo(), &[]);
    let round = |count: usize| {
        for number in 0..count {
            let mut stream = connect(near.address("forward"));
            let _ = stream.write_all(b"some bytes");
            match number % 3 {
                0 => reset(stream),
                1 => drop(stream),
                _ => drop(exchange(stream, vec![1; 100])),
            }
        }
        assert!(eventually(|| near.total("open") == 0 && far.total("open") == 0));
    };
    // The first round leaves empty pipes for the next.
    round(100);
    let before = (near.descriptors(), far.descriptors());
    round(300);
    let after = (near.descriptors(), far.descriptors());
    assert!(after.0 <= before.0 + 64 && after.1 <= before.1 + 64, "{before:?} became {after:?}");
}

#[test]
fn plain_hosts_meet_across_a_long_path() {
    let Some(lab) = support::lab::Lab::up(&["--rtt", "60ms", "--rate", "200mbit"]) else { return };
    let site = Site::new();
    let host_b = |command: std::process::Command| lab.run_on("b", &command);
    let host_a = |command: std::process::Command| lab.run_on("a", &command);
    // On host b itself, as a destination beside its relay.
    let server = lab.inside("b", listener);
    let to = server.local_addr().unwrap();
    let far = Relay::launch(&site, &["--peer", "10.26.33.2:0", "--allow", "from=10.26.33.1"], host_b);
    let route = format!("default={}", far.address("peer"));
    let near = Relay::launch(&site, &["--forward", &format!("127.0.0.1:0={to}"), "--route", &route], host_a);
    let address = near.address("forward");
    let client = lab.inside("a", || connect(address));
    // The untuned end: a window of 64 KB.
    rustix::net::sockopt::set_socket_recv_buffer_size(&client, 32 << 10).unwrap();
    let bytes = Noise::logged("lab").bytes(8 << 20);
    let expected = bytes.clone();
    let sender = std::thread::spawn(move || {
        let mut served = patient(server.accept().unwrap().0);
        served.write_all(&bytes).unwrap();
    });
    let received = exchange(client, Vec::new()).unwrap();
    sender.join().unwrap();
    assert!(received == expected);
    assert!(eventually(|| near.total("finished") == 1), "{}", near.status());
}
