//! What the path of a lab does to packets, seen by sockets on its hosts.

use std::io::{Read, Write};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::support;
use crate::support::calm::{holds, in_a_calm_moment};
use crate::support::lab::{B, Lab, datagram, numbers};

fn count(status: &serde_json::Value, name: &str) -> u64 {
    status["a_to_b"][name].as_u64().unwrap()
}

#[test]
fn nothing_arrives_before_the_delay_is_over() {
    let Some(lab) = Lab::up(&["--rate", "1gbit", "--delay", "40ms,60ms"]) else { return };
    let (a, b) = lab.udp();
    b.connect(a.local_addr().unwrap()).unwrap();
    let mut buffer = [0; 64];
    for _ in 0..5 {
        let sent = Instant::now();
        a.send(b"there").unwrap();
        b.recv(&mut buffer).unwrap();
        assert!(sent.elapsed() >= Duration::from_millis(40));
        b.send(b"back").unwrap();
        a.recv(&mut buffer).unwrap();
        assert!(sent.elapsed() >= Duration::from_millis(100));
    }
}

#[test]
fn nothing_crosses_a_path_that_nobody_uses() {
    let Some(lab) = Lab::up(&[]) else { return };
    for host in ["a", "b"] {
        let counted = lab.icdc("exec", &[host, "--", "cat", "/proc/net/snmp6"]).stdout;
        let counted = String::from_utf8(counted).unwrap();
        let sent: Vec<&str> = counted.lines().filter(|line| line.starts_with("Icmp6Out")).collect();
        assert!(sent.iter().all(|line| line.ends_with("\t0")), "host {host} has sent {sent:?}");
    }
    assert_eq!(count(&lab.settled_status(), "offered_packets"), 0);
}

#[test]
fn exactly_the_listed_packets_are_lost() {
    let Some(lab) = Lab::up(&["--drop-list", "2,5,6"]) else { return };
    let (a, b) = lab.udp();
    for number in 1..=8 {
        a.send(&datagram(number, 100)).unwrap();
    }
    assert_eq!(numbers(&b), [1, 3, 4, 7, 8]);
    assert_eq!(count(&lab.settled_status(), "random_drops_packets"), 3);
}

#[test]
fn a_seed_loses_the_same_packets_again() {
    let run = |seed: &str| {
        let lab = Lab::up(&["--loss", "0.05", "--seed", seed, "--rtt", "10ms"])?;
        let (a, b) = lab.udp();
        let receiver = thread::spawn(move || numbers(&b));
        for number in 0..2000 {
            a.send(&datagram(number, 200)).unwrap();
            if number % 50 == 0 {
                thread::sleep(Duration::from_millis(1));
            }
        }
        let arrived = receiver.join().unwrap();
        let status = lab.settled_status();
        assert_eq!(arrived.len() as u64, count(&status, "delivered_packets"));
        assert!(arrived.len() < 2000 && arrived.is_sorted());
        Some(arrived)
    };
    let Some(first) = run("7") else { return };
    assert_eq!(run("7").unwrap(), first);
    assert_ne!(run("8").unwrap(), first);
}

#[test]
fn a_full_queue_drops_and_every_packet_is_accounted_for() {
    // 20 packets of 1000 bytes and their 66 bytes of headers and wire overhead fit into the queue.
    let Some(lab) = Lab::up(&["--rate", "5mbit", "--queue", "21320"]) else { return };
    let (a, b) = lab.udp();
    let receiver = thread::spawn(move || numbers(&b));
    for number in 0..500 {
        a.send(&datagram(number, 1000)).unwrap();
    }
    let arrived = receiver.join().unwrap();
    let status = lab.settled_status();
    assert_eq!(count(&status, "offered_packets"), 500);
    assert_eq!(count(&status, "delivered_packets") + count(&status, "queue_drops_packets"), 500);
    assert_eq!(arrived.len() as u64, count(&status, "delivered_packets"));
    assert!(count(&status, "queue_drops_packets") > 0);
    assert!(count(&status, "queue_max_bytes") <= 21_320);
    assert_eq!(arrived[..20], (0..20).collect::<Vec<u32>>(), "the first ones find room");
}

#[test]
fn codel_marks_in_place_of_dropping_where_ecn_is_wanted() {
    let site = support::Site::new();
    let run = |more: &[&str]| {
        let path = ["--rate", "20mbit", "--rtt", "10ms", "--queue", "1MB", "--aqm", "codel:5ms:50ms"];
        let lab = Lab::up(&[&path[..], more].concat())?;
        let output = lab.on_a(&site, "measure").args(["--cc", "reno", "--seconds", "3", B]).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let heard = lab.icdc("exec", &["a", "--", "cat", "/proc/net/netstat"]).stdout;
        let status = lab.settled_status();
        let counts = ["marked_packets", "queue_drops_packets"].map(|name| count(&status, name));
        Some((counts, delivered_with_marks(&String::from_utf8_lossy(&heard)), status))
    };
    let Some(([marked, dropped], heard, status)) = run(&["--ecn"]) else { return };
    assert!(marked > 0 && heard > 0, "{marked} marked, heard of with {heard}");
    assert_eq!((dropped, &status["a_to_b"]["codel"]["marks"]), (0, &true.into()));
    let ([marked, dropped], heard, _) = run(&[]).unwrap();
    assert!((marked, heard) == (0, 0) && dropped > 0, "{marked} marked, {dropped} dropped");
    let refused = site.icdc(&["lab", "up", "--ecn"]).output().unwrap();
    assert_eq!(refused.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("--aqm codel"));
}

/// `TcpExtTCPDeliveredCE` of /proc/net/netstat: names in one line, values in the next.
fn delivered_with_marks(text: &str) -> u64 {
    let lines: Vec<Vec<&str>> = text.lines().map(|line| line.split(' ').collect()).collect();
    let column = lines[0].iter().position(|name| *name == "TCPDeliveredCE").unwrap();
    lines[1][column].parse().unwrap()
}

#[test]
fn a_wire_that_stalls_drops_nothing() {
    let Some(lab) = Lab::up(&["--rate", "100mbit", "--rtt", "300ms", "--queue", "125kB"]) else { return };
    let (a, b) = lab.udp();
    let wire = Pid::from_raw(lab.wire()).unwrap();
    let receiver = thread::spawn(move || numbers(&b));
    let packets = 1500;
    let sender = thread::spawn(move || {
        for number in 0..packets {
            a.send(&datagram(number, 1200)).unwrap();
            // Two packets a millisecond: a fifth of the bottleneck.
            if number % 2 == 0 {
                thread::sleep(Duration::from_millis(1));
            }
        }
    });
    while !sender.is_finished() {
        kill_process(wire, Signal::STOP).unwrap();
        thread::sleep(Duration::from_millis(50));
        kill_process(wire, Signal::CONT).unwrap();
        thread::sleep(Duration::from_millis(50));
    }
    sender.join().unwrap();
    assert_eq!(receiver.join().unwrap(), (0..packets).collect::<Vec<u32>>());
    let status = lab.settled_status();
    assert_eq!(count(&status, "queue_drops_packets") + count(&status, "ring_overflow_packets"), 0);
}

#[test]
fn superpackets_lose_exactly_the_listed_frames() {
    let Some(lab) = Lab::up(&["--mode", "fast", "--rtt", "4ms", "--drop-list", "40,41,47,90"]) else { return };
    let site = support::Site::new();
    let source = support::data::file(&site.path("source"), 3 * support::MIB, 5);
    let output = copy(&site, &lab, &source);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(support::compare::same_contents(&source, &site.path("there/source")));
    let status = lab.settled_status();
    assert_eq!(count(&status, "random_drops_packets"), 4);
    assert!(count(&status, "superpackets") > 0, "segmentation was left to the path");
}

#[test]
fn hosts_acknowledge_as_they_are_told() {
    let answered = |acks: &str| {
        // Slower than the receiver, with a window that soon has grown as far as it may.
        let lab = Lab::up(&["--rate", "50mbit", "--rtt", "10ms", "--buffer", "400kB", "--acks", acks])?;
        let (mut sender, mut receiver) = lab.tcp();
        let reader = thread::spawn(move || receiver.read_exact(&mut vec![0; 6_000_000]));
        sender.write_all(&vec![1; 6_000_000]).unwrap();
        reader.join().unwrap().unwrap();
        let status = lab.settled_status();
        let packets = |way: &str| status[way]["offered_packets"].as_u64().unwrap() as f64;
        Some(packets("a_to_b") / packets("b_to_a"))
    };
    for (acks, expected) in [("every", 0.9..1.1), ("second", 1.6..3.0)] {
        // A receiver that gets no processor answers several packets at once.
        in_a_calm_moment(|| {
            let share = answered(acks);
            holds(share.is_none_or(|share| expected.contains(&share)), share)
        });
    }
}

#[test]
fn a_copy_crosses_two_labs_side_by_side() {
    let Some(one) = Lab::up(&["--rtt", "10ms"]) else { return };
    let Some(other) = Lab::up(&["--rtt", "20ms", "--loss", "1e-3", "--mtu", "9000"]) else { return };
    for lab in [&one, &other] {
        let site = support::Site::new();
        let source = support::data::file(&site.path("source"), support::MIB, 6);
        let output = copy(&site, lab, &source);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        assert!(support::compare::same_contents(&source, &site.path("there/source")));
        let status = lab.settled_status();
        assert!(count(&status, "delivered_bytes") > support::MIB);
        assert_eq!(count(&status, "superpackets"), 0, "the hosts' devices leave nothing to be cut");
    }
}

/// `icdc copy SOURCE there/` from host a to host b.
fn copy(site: &support::Site, lab: &Lab, source: &std::path::Path) -> std::process::Output {
    site.directory("there");
    lab.on_a(site, "copy").arg(source).arg(site.on_host("10.26.33.2", "there/")).output().unwrap()
}
