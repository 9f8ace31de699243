//! `icdc measure` with a daemon: who is let in, and what strangers and liars get from the data
//! port.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;

use icdc_protocol::measure::{ControlMessage, DATA_MAGIC, MeasureRequest, Received, Token, proof};
use icdc_protocol::message::{Job, Request};
use icdc_protocol::{Message, Ports};
use icdc_units::ByteCount;

use crate::peer::{Peer, transfer};
use crate::support;
use crate::support::daemon::Daemon;
use crate::support::{Ended, HERE, Site, Start, succeed};

fn measure(site: &Site, daemon: &Daemon, words: &[&str]) -> Ended {
    let target = daemon.location("");
    site.icdc(&[&["measure", "--json", "--bytes", "3MB"], words, &[&target]].concat()).run()
}

/// Asks a daemon for a measurement and answers where it listens and for which tokens.
fn ask(site: &Site, daemon: &Daemon, order: MeasureRequest) -> (Peer, u16, Vec<Token>) {
    let mut peer = Peer::connect(site, daemon);
    peer.say(Message::Request(Request::new(transfer(), Job::Measure(order))));
    let (port, tokens) = peer.hear_of(|message| match message {
        Message::Measure(ControlMessage::Ready { port, tokens }) => Some((*port, tokens.clone())),
        _ => None,
    });
    (peer, port, tokens)
}

fn order(streams: u8) -> MeasureRequest {
    MeasureRequest { nanos: 3_000_000_000, streams, ports: Some(Ports::Any), ..MeasureRequest::default() }
}

fn connect(port: u16, bytes: &[u8]) -> TcpStream {
    let mut stream = TcpStream::connect((HERE, port)).unwrap();
    stream.write_all(bytes).unwrap();
    stream
}

fn received(peer: &mut Peer) -> Received {
    peer.hear_of(|message| match message {
        Message::Measure(ControlMessage::Received(received)) => Some(received.clone()),
        _ => None,
    })
}

#[test]
fn any_authorized_key_may_measure_and_no_other() {
    let site = Site::new();
    let daemon = Daemon::start(&site, &site.directory("root"), "r");
    for words in [&[][..], &["--reverse"], &["--streams", "2"]] {
        let ended = measure(&site, &daemon, words).expect_code(0);
        assert_eq!(ended.number("bytes"), 3_000_000);
    }
    let other = site.path("other/identity");
    succeed(site.icdc(&["keygen", "--identity"]).arg(&other));
    let ended = measure(&site, &daemon, &["--identity", other.to_str().unwrap()]).expect_code(3);
    assert!(ended.stderr.contains("does not know this key"), "{ended}");
    assert_eq!(ended.number("bytes"), 0);
    fs::remove_file(site.path("home/.config/icdc/identity")).unwrap();
    let ended = measure(&site, &daemon, &[]).expect_code(3);
    assert!(ended.stderr.contains("icdc keygen"), "{ended}");
}

#[test]
fn a_daemon_that_stops_ends_the_measurement() {
    let site = Site::new();
    let daemon = Daemon::start(&site, &site.directory("root"), "r");
    let target = daemon.location("");
    let run = site.icdc(&["measure", "--json", "--rate", "80mbit", "--seconds", "1000", &target]).start();
    assert!(run.wait_for(|event| event["type"] == "sample"), "{}", run.stderr());
    daemon.stop();
    let ended = run.finish().expect_code(1);
    assert!(ended.stderr.contains("stopped"), "{ended}");
}

#[test]
fn strangers_at_the_data_port_count_for_nothing() {
    let site = Site::new();
    let daemon = Daemon::start(&site, &site.directory("root"), "r");
    let (mut peer, port, tokens) = ask(&site, &daemon, order(2));
    let mut strangers =
        vec![connect(port, &[7; 32]), connect(port, b"GET / HTTP/1.1\r\nHost: measure.example.org\r\n\r\n")];
    let _silent: Vec<TcpStream> = (0..300).map(|_| connect(port, b"")).collect();
    // No run-up.
    let begin = |token: &Token| connect(port, &[&proof(token)[..], &[0, 0]].concat());
    let mut first = begin(&tokens[0]);
    strangers.push(begin(&tokens[0]));
    let mut second = begin(&tokens[1]);
    peer.hear_of(|message| matches!(message, Message::Measure(ControlMessage::Go)).then_some(()));
    for stream in &mut strangers {
        assert!(matches!(stream.read(&mut [0; 1]), Ok(0) | Err(_)), "closed without a word");
    }
    assert!(TcpStream::connect((HERE, port)).is_err(), "the port is closed once all are there");
    first.write_all(&[0; 1000]).unwrap();
    second.write_all(&[0; 234]).unwrap();
    drop((first, second));
    assert_eq!(received(&mut peer).bytes, 1234);
}

#[test]
fn strangers_at_the_daemons_port_count_for_nothing() {
    let site = Site::new();
    let daemon = Daemon::start(&site, &site.directory("root"), "r");
    let (mut peer, port, tokens) = ask(&site, &daemon, MeasureRequest { ports: None, ..order(2) });
    assert_eq!(port, 0, "no other port is opened");
    let begin = |proof: &[u8]| connect(daemon.port(), &[&DATA_MAGIC[..], proof, &[0, 0]].concat());
    let mut wrong = begin(&tokens[0]);
    let _silent: Vec<TcpStream> = (0..50).map(|_| begin(&[7; 3])).collect();
    let mut first = begin(&proof(&tokens[0]));
    let mut again = begin(&proof(&tokens[0]));
    let mut second = begin(&proof(&tokens[1]));
    peer.hear_of(|message| matches!(message, Message::Measure(ControlMessage::Go)).then_some(()));
    for stream in [&mut wrong, &mut again] {
        assert!(matches!(stream.read(&mut [0; 1]), Ok(0) | Err(_)), "closed without a word");
    }
    first.write_all(&[0; 1000]).unwrap();
    second.write_all(&[0; 234]).unwrap();
    drop((first, second));
    assert_eq!(received(&mut peer).bytes, 1234);
}

#[test]
fn a_client_that_goes_away_or_talks_nonsense_leaves_a_daemon_that_serves() {
    let site = Site::new();
    let daemon = Daemon::start(&site, &site.directory("root"), "r");
    let (peer, port, _) = ask(&site, &daemon, order(1));
    drop(peer);
    let (mut peer, _, tokens) = ask(&site, &daemon, MeasureRequest { reverse: true, ..order(1) });
    peer.say(Message::End);
    drop(tokens);
    for broken in [
        MeasureRequest { streams: 0, ..order(1) },
        MeasureRequest { streams: 200, ..order(1) },
        MeasureRequest { nanos: u64::MAX, ..order(1) },
        MeasureRequest { window: Some(ByteCount::new(u64::MAX)), ..order(1) },
        MeasureRequest { congestion: Some("../x".into()), ..order(1) },
    ] {
        let mut peer = Peer::connect(&site, &daemon);
        peer.say(Message::Request(Request::new(transfer(), Job::Measure(broken))));
        peer.hear_end();
    }
    assert!(
        support::process::eventually(|| TcpStream::connect((HERE, port)).is_err()),
        "the port of a client that is gone closes"
    );
    measure(&site, &daemon, &[]).expect_code(0);
}
