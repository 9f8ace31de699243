//! Many sessions at a time, and what the metrics tell of them. `ICDC_SESSIONS` sets how many.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use icdc_protocol::Message;
use icdc_protocol::message::{ReceiveOptions, SourceKind, Transfer};
use icdc_trust::Identity;

use crate::Scene;
use crate::peer::{Peer, begin};
use crate::support::process::eventually;

/// The value of a metric with these labels.
fn value(text: &str, metric: &str) -> u64 {
    let line = text.lines().find_map(|line| line.strip_prefix(metric)).unwrap_or_else(|| panic!("{metric}: {text}"));
    line.trim().parse().unwrap()
}

fn scrape(address: SocketAddr) -> (String, Duration) {
    let since = Instant::now();
    let mut stream = TcpStream::connect(address).unwrap();
    write!(stream, "GET /metrics HTTP/1.0\r\nHost: {address}\r\nAccept: text/plain\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    (answer, since.elapsed())
}

#[test]
fn sessions_are_counted_while_they_run_and_when_they_have_ended() {
    let count: u8 = std::env::var("ICDC_SESSIONS").map_or(5, |text| text.parse::<u32>().unwrap().div_ceil(10) as u8);
    let scene = Scene::with(",max-sessions=5000", |_, command| {
        command.args(["--metrics", "127.0.0.1:0"]);
    });
    let log = scene.log();
    let (_, address) = log.lines().find_map(|line| line.split_once("at /metrics address=")).unwrap();
    let address = address.trim().parse().unwrap();
    let identity = Identity::load(&scene.site.path("home/.config/icdc/identity")).unwrap();
    // Sessions that have begun and say nothing more.
    let begin_one = &|tens: u8, ones: u8| {
        let mut peer = Peer::connect_as(&identity, &scene.daemon);
        let options = ReceiveOptions { resume: true, ..ReceiveOptions::default() };
        let destination = format!("{tens}-{ones}").into_bytes();
        let mut transfer = [7; 16];
        (transfer[0], transfer[1]) = (tens, ones);
        peer.ask(transfer, Transfer::Receive { destination, options });
        peer.say(begin(b"top", SourceKind::Directory));
        peer.hear_of(|message| matches!(message, Message::Ready(_)).then_some(()));
        peer
    };
    // Side by side: a session whose client says nothing is given up in time.
    let mut peers: Vec<Peer> = std::thread::scope(|scope| {
        let tens = (0..4).map(|part| {
            let begin_some = move || -> Vec<Peer> {
                let own = (0..count).filter(|tens| tens % 4 == part);
                own.flat_map(|tens| (0..10).map(move |ones| (tens, ones)))
                    .map(|(tens, ones)| begin_one(tens, ones))
                    .collect()
            };
            scope.spawn(begin_some)
        });
        let begun: Vec<_> = tens.collect();
        begun.into_iter().flat_map(|begun| begun.join().unwrap()).collect()
    });
    let sessions = peers.len() as u64;
    let running = "icdc_serve_sessions_running{kind=\"receive\"}";
    let (text, took) = scrape(address);
    assert_eq!(value(&text, running), sessions);
    let more: Vec<Duration> = (0..9).map(|_| scrape(address).1).collect();
    println!("{sessions} sessions: the metrics took {took:?}, then {more:?}");
    // Those that have begun first may have been given up for silence where there are many.
    let as_many = || scene.daemon.run().sessions().len() as u64 == value(&scrape(address).0, running);
    assert!(eventually(as_many), "each is a process");
    peers.drain(..).for_each(|peer| peer.cut());
    assert!(eventually(|| value(&scrape(address).0, running) == 0));
    let lost = "icdc_serve_sessions_ended_total{kind=\"receive\",result=\"lost\"}";
    assert_eq!(value(&scrape(address).0, lost), sessions, "{}", scene.log());
    assert!(eventually(|| scene.daemon.run().sessions().is_empty()));
}
