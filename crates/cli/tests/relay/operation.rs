//! `icdc relay`: configuration, rules, limits, reloading, status, metrics.

use std::io::{ErrorKind, Read, Write};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use crate::support;
use crate::support::network::Pair;
use crate::support::process::eventually;
use crate::support::relay::{Relay, accept, connect, echo, exchange, listener, refused, request, socks};
use crate::support::{Ended, Noise, Signal, Site, Start};

fn check(site: &Site, words: &[&str]) -> Ended {
    site.icdc(&[&["relay", "--check"], words].concat()).run()
}

fn check_file(site: &Site, text: &str) -> Ended {
    let file = site.path("relay.toml");
    std::fs::write(&file, text).unwrap();
    check(site, &["--config", file.to_str().unwrap()])
}

#[test]
fn a_file_says_everything_that_options_say() {
    let site = Site::new();
    let text = r#"
        threads = 2
        metrics = "127.0.0.1:0"

        [[listen]]
        forward = "127.0.0.1:0"
        to = "db.example.org:5432"

        [[listen]]
        socks5 = "127.0.0.1:0"

        [[listen]]
        peer = "127.0.0.1:0"

        [[route]]
        to = "192.0.2.0/24"
        via = ["relay.example.org:2634", "direct"]
        warm = 2

        [[rule]]
        action = "deny"
        listener = "socks5"
        to = "10.0.0.0/8"
        ports = "1-1023"

        [leg]
        congestion = "cubic"
        rate = "900mbit"
        buffer = "64MiB"

        [exit]
        proxy-protocol = true

        [limits]
        connections = 100
        per-client = 10
        memory = "1GiB"
        memory-per-connection = "64MiB"
        greeting = "5s"
        connect = "10s"
        idle = "10min"
        drain = "1min"
    "#;
    let ended = check_file(&site, text);
    assert_eq!(ended.code, Some(0), "{ended}");
    assert!(ended.text.contains("can be used"), "{ended}");
}

#[test]
fn what_is_wrong_is_named() {
    let site = Site::new();
    let one = "[[listen]]\nsocks5 = \"127.0.0.1:0\"\n";
    for (text, expected) in [
        ("", "no listener"),
        ("[[listen]]\n", "exactly one of"),
        ("[[listen]]\nsocks5 = \"localhost:1\"\n", "listen 1: \"localhost:1\" is not ADDR:PORT"),
        ("[[listen]]\nforward = \"127.0.0.1:1\"\n", "needs its destination"),
        ("[[listen]]\nforward = \"127.0.0.1:1\"\nto = \"x\"\n", "listen 1: \"x\" is not HOST:PORT"),
        ("[[listen]]\nsocks5 = \"127.0.0.1:1\"\nkeys = [\"k\"]\n", "keys is not for a listener of this kind"),
        ("[[listen]]\npeer = \"127.0.0.1:1\"\nkeys = [\"ssh-ed25519 A\"]\n", "not a public key"),
        ("[[listen]]\nsocks5 = \"127.0.0.1:1\"\nusers = \"/nowhere\"\n", "/nowhere"),
        (
            &format!("{one}[[route]]\nto = \"10.0.0.0/40\"\nvia = [\"direct\"]\n"),
            "route 1: \"10.0.0.0/40\" is no prefix",
        ),
        (&format!("{one}[[route]]\nvia = []\n"), "via names no next hop"),
        (&format!("{one}[[rule]]\naction = \"perhaps\"\n"), "rule 1: action is allow or deny"),
        (&format!("{one}[[rule]]\naction = \"deny\"\nports = \"9-1\"\n"), "\"9-1\" is not a port"),
        (&format!("{one}[limits]\nidle = \"soon\"\n"), "idle"),
        (&format!("{one}[limits]\nconnections = 0\n"), "1 at least"),
        (&format!("{one}[leg]\nrate = \"fast\"\n"), "leg rate"),
        (&format!("{one}colour = \"red\"\n"), "colour"),
    ] {
        let ended = check_file(&site, text);
        assert_eq!(ended.code, Some(2), "{text}: {ended}");
        assert!(ended.stderr.contains(expected), "{text}: {ended}");
    }
    let key = format!("icdc-ed25519 {}=", "A".repeat(43));
    let ended = check_file(&site, &format!("{one}[[route]]\nvia = [\"direct\"]\nkey = \"{key}\"\n"));
    assert_eq!(ended.code, Some(2), "{ended}");
    assert!(ended.stderr.contains("key has no use"), "{ended}");
    let ended = check(&site, &["--socks5", "127.0.0.1:0", "--allow", "near=here"]);
    assert_eq!(ended.code, Some(2), "{ended}");
    assert!(ended.stderr.contains("none of listener, from, to and port"), "{ended}");
}

#[test]
fn a_key_is_read_and_protects_something_or_the_relay_does_not_start() {
    let site = Site::new();
    let key = format!("icdc-ed25519 {}=", "A".repeat(43));
    let forward = ["--forward", "127.0.0.1:0=127.0.0.1:9"];
    let direct = [&forward[..], &["--route", "default=direct"]].concat();
    let file = site.path("relay.toml");
    std::fs::write(&file, "[[listen]]\npeer = \"127.0.0.1:0\"\n").unwrap();
    let by_file = ["--config", file.to_str().unwrap()];
    for words in [&["--socks5", "127.0.0.1:0"][..], &forward, &direct, &by_file] {
        let ended = check(&site, &[words, &["--peer-key", &key]].concat());
        assert_eq!(ended.code, Some(2), "{words:?}: {ended}");
        for part in ["--peer-key has no use", "--peer ADDR:PORT", "--route"] {
            assert!(ended.stderr.contains(part), "{words:?}, {part}: {ended}");
        }
    }
    let routed = [&forward[..], &["--route", "default=127.0.0.1:9"]].concat();
    for words in [&["--socks5", "127.0.0.1:0"][..], &forward, &routed, &["--peer", "127.0.0.1:0"]] {
        let ended = check(&site, &[words, &["--peer-key", "x"]].concat());
        assert_eq!(ended.code, Some(2), "{words:?}: {ended}");
        assert!(ended.stderr.contains("--peer-key") && ended.stderr.contains("not a public key"), "{words:?}: {ended}");
    }
}

#[test]
fn the_totals_are_those_of_the_connections() {
    let site = Site::new();
    let server = listener();
    let forward = format!("127.0.0.1:0={}", server.local_addr().unwrap());
    let relay = Relay::start(&site, &["--forward", &forward]);
    let mut client = connect(relay.address("forward"));
    let mut served = accept(&server);
    let mut sent = 0;
    for round in 1..=20 {
        client.write_all(&[7; 1000]).unwrap();
        served.read_exact(&mut [0; 1000]).unwrap();
        served.write_all(&[7; 10]).unwrap();
        client.read_exact(&mut [0; 10]).unwrap();
        sent += 1000;
        let status = relay.status();
        let (totals, connection) = (&status["totals"], &status["connections"][0]);
        assert_eq!(totals["open"], 1, "{status}");
        assert_eq!(
            (&totals["bytes_up"], &connection["up"]["bytes"]),
            (&sent.into(), &sent.into()),
            "{round}: {status}"
        );
        assert_eq!(totals["bytes_down"], connection["down"]["bytes"], "{round}: {status}");
    }
    // Buffered, because nobody reads it.
    client.set_nonblocking(true).unwrap();
    assert!(eventually(|| {
        while matches!(client.write(&[0; 64 << 10]), Ok(1..)) {}
        let status = relay.status();
        assert_eq!(status["totals"]["buffered"], status["connections"][0]["buffered"], "{status}");
        status["totals"]["buffered"].as_u64() > Some(0)
    }));
}

#[test]
fn what_cannot_be_opened_is_named() {
    let site = Site::new();
    let taken = listener();
    let address = taken.local_addr().unwrap().to_string();
    let socket = site.path("s");
    let base = ["relay", "--status-socket", socket.to_str().unwrap()];
    let ended = site.icdc(&[&base[..], &["--socks5", &address]].concat()).run();
    assert_eq!(ended.code, Some(1), "{ended}");
    assert!(ended.stderr.contains("in use"), "{ended}");
    let ended = site.icdc(&[&base[..], &["--socks5", "127.0.0.1:0", "--cc", "unheard_of"]].concat()).run();
    assert_eq!(ended.code, Some(2), "{ended}");
    assert!(ended.stderr.contains("unheard_of"), "{ended}");
    let ended = site.icdc(&["relay", "status", "--status-socket", site.path("none").to_str().unwrap()]).run();
    assert_eq!(ended.code, Some(1), "{ended}");
    assert!(ended.stderr.contains("no relay answers"), "{ended}");

    let relay = Relay::start(&site, &["--socks5", "127.0.0.1:0"]);
    let second = site.icdc(&["relay", "--socks5", "127.0.0.1:0", "--status-socket", relay.socket()]).run();
    assert_eq!(second.code, Some(1), "{second}");
    assert!(second.stderr.contains("is in use by a running relay"), "{second}");
    let path = relay.socket().to_owned();
    relay.kill();
    assert!(Path::new(&path).exists());
    let run = site.icdc(&["relay", "--socks5", "127.0.0.1:0", "--status-socket", &path]).start();
    assert!(run.wait_for_words("ready"), "the socket of a killed relay is replaced: {}", run.stderr());
    run.signal(Signal::INT);
    assert_eq!(run.finish().code, Some(0));
    assert!(!Path::new(&path).exists());

    let precious = site.path("identity");
    std::fs::write(&precious, "precious").unwrap();
    let base = ["relay", "--socks5", "127.0.0.1:0", "--status-socket", precious.to_str().unwrap()];
    let refused = site.icdc(&base).run();
    assert_eq!(refused.code, Some(1), "{refused}");
    assert!(refused.stderr.contains("is not a socket"), "{refused}");
    assert_eq!(std::fs::read_to_string(&precious).unwrap(), "precious");
}

#[test]
fn rules_deny_clients_and_destinations() {
    let site = Site::new();
    let echo = echo();
    let forward = format!("127.0.0.1:0={echo}");
    let closed = Relay::start(&site, &["--forward", &forward, "--deny", "from=127.0.0.0/8"]);
    let mut client = connect(closed.address("forward"));
    assert!(!matches!(client.read(&mut [0; 1]), Ok(1..)), "nothing is sent");
    assert!(eventually(|| closed.total("rejected") == 1));

    let port = format!("to=127.0.0.0/8,port={}", echo.port());
    let relay = Relay::start(&site, &["--socks5", "127.0.0.1:0", "--allow", &port]);
    assert_eq!(socks(relay.address("socks5"), &request(echo)).1, 0);
    let other = listener();
    assert_eq!(socks(relay.address("socks5"), &request(other.local_addr().unwrap())).1, 2);
    let denied = Relay::start(&site, &["--forward", &forward, "--deny", &port]);
    assert_eq!(refused(denied.address("forward")), ErrorKind::ConnectionReset);
}

#[test]
fn a_forwarded_port_with_a_list_of_clients_is_for_these() {
    let Some(pair) = Pair::new() else { return };
    let site = Site::new();
    let there = |command: Command| pair.far.run(&command);
    for (allow, is_admitted) in [("from=203.0.113.0/24", false), ("from=10.77.0.1", true), ("to=203.0.113.1", true)] {
        let server = pair.far.inside(listener);
        let forward = format!("10.77.0.2:0={}", server.local_addr().unwrap());
        let relay = Relay::launch(&site, &["--forward", &forward, "--allow", allow], there);
        let mut client = pair.near.inside(|| connect(relay.address("forward")));
        if is_admitted {
            accept(&server).write_all(b"!").unwrap();
            client.read_exact(&mut [0; 1]).unwrap();
        } else {
            assert!(!matches!(client.read(&mut [0; 1]), Ok(1..)), "{allow}");
            assert!(eventually(|| relay.total("rejected") == 1), "{}", relay.status());
        }
    }
}

#[test]
fn one_client_does_not_take_everything() {
    let site = Site::new();
    let server = listener();
    let forward = format!("127.0.0.1:0={}", server.local_addr().unwrap());
    for limit in ["--per-client", "--connections"] {
        let relay = Relay::start(&site, &["--forward", &forward, limit, "2"]);
        let held: Vec<_> = (0..2)
            .map(|_| {
                let client = connect(relay.address("forward"));
                (client, accept(&server))
            })
            .collect();
        let mut third = connect(relay.address("forward"));
        assert!(!matches!(third.read(&mut [0; 1]), Ok(1..)), "{limit}");
        assert!(eventually(|| relay.total("rejected") == 1));
        drop(held);
        assert!(eventually(|| relay.total("open") == 0));
        let mut again = connect(relay.address("forward"));
        let mut served = accept(&server);
        served.write_all(b"!").unwrap();
        again.read_exact(&mut [0; 1]).unwrap();
    }
}

#[test]
fn a_reload_applies_to_new_connections_and_leaves_open_ones() {
    let site = Site::new();
    let (one, two) = (listener(), listener());
    let port = support::daemon::free_port();
    let file = site.path("relay.toml");
    let write = |to: &std::net::TcpListener, more: &str| {
        let to = to.local_addr().unwrap();
        std::fs::write(&file, format!("[[listen]]\nforward = \"127.0.0.1:{port}\"\nto = \"{to}\"\n{more}")).unwrap();
    };
    write(&one, "");
    let relay = Relay::start(&site, &["--config", file.to_str().unwrap()]);
    let address = relay.address("forward");
    let mut before = connect(address);
    let mut served = accept(&one);

    write(&two, "[[listen]]\nsocks5 = \"127.0.0.1:0\"\n");
    relay.run().signal(Signal::HUP);
    assert!(relay.run().wait_for_words("kind=\"socks5\""));
    let mut after = connect(address);
    accept(&two).write_all(b"2").unwrap();
    let mut byte = [0; 1];
    after.read_exact(&mut byte).unwrap();
    assert_eq!(&byte, b"2");
    let socks5 = relay.address("socks5");
    connect(socks5);

    before.write_all(b"still").unwrap();
    let mut still = [0; 5];
    served.read_exact(&mut still).unwrap();
    assert_eq!(&still, b"still");

    write(&one, "nonsense\n");
    relay.run().signal(Signal::HUP);
    assert!(relay.run().wait_for_words("stays as it was"));
    connect(address);
    accept(&two);

    write(&one, "");
    relay.run().signal(Signal::HUP);
    assert!(eventually(|| std::net::TcpStream::connect(socks5).is_err()), "a listener that is gone is closed");
    connect(address);
    accept(&one);
}

#[test]
fn a_reload_reaches_what_other_relays_open() {
    let site = Site::new();
    let server = listener();
    let file = site.path("relay.toml");
    let port = support::daemon::free_port();
    let write = |leg: &str| {
        std::fs::write(&file, format!("[[listen]]\npeer = \"127.0.0.1:{port}\"\n[leg]\n{leg}")).unwrap();
    };
    write("rate = \"80mbit\"");
    let far = Relay::start(&site, &["--config", file.to_str().unwrap()]);
    let route = format!("default=127.0.0.1:{port}");
    let near = Relay::start(
        &site,
        &["--forward", &format!("127.0.0.1:0={}", server.local_addr().unwrap()), "--route", &route],
    );
    let ceiling = || {
        let _client = connect(near.address("forward"));
        let _served = accept(&server);
        let sockets = support::succeed(Command::new("ss").args(["-tinOH", "sport", "=", &format!(":{port}")]));
        let mut words = sockets.split_whitespace().skip_while(|word| *word != "pacing_rate");
        // Some tell 80Mbps, others 80000000bps.
        words.nth(1).and_then(|rates| Some(rates.split_once('/')?.1.replace("Mbps", "000000bps")))
    };
    assert_eq!(ceiling().as_deref(), Some("80000000bps"));
    for (leg, expected) in [("rate = \"40mbit\"", Some("40000000bps")), ("", None)] {
        write(leg);
        let ready = || far.run().stderr().matches("ready").count();
        let before = ready();
        far.run().signal(Signal::HUP);
        assert!(eventually(|| ready() > before), "{}", far.run().stderr());
        assert_eq!(ceiling().as_deref(), expected, "{leg}");
    }
}

#[test]
fn the_status_shows_both_legs() {
    let site = Site::new();
    let forward = format!("127.0.0.1:0={}", echo());
    let relay = Relay::start(&site, &["--forward", &forward, "--metrics", "127.0.0.1:0"]);
    let mut client = connect(relay.address("forward"));
    client.write_all(&[7; 1000]).unwrap();
    client.read_exact(&mut [0; 1000]).unwrap();
    let status = relay.status();
    let connection = &status["connections"][0];
    assert_eq!(connection["listener"], "forward");
    assert_eq!(connection["stage"], "relaying");
    assert_eq!(connection["via"], "direct");
    assert_eq!((&connection["up"]["bytes"], &connection["down"]["bytes"]), (&1000.into(), &1000.into()));
    for leg in ["near", "far"] {
        for number in ["rate", "rtt", "cwnd", "queue", "unread", "retransmissions"] {
            assert!(connection[leg][number].is_u64(), "{leg} {number}: {connection}");
        }
        assert!(connection[leg]["congestion"].is_string());
    }
    let shown = site.icdc(&["relay", "status", "--status-socket", relay.socket()]).run();
    assert_eq!(shown.code, Some(0), "{shown}");
    for words in ["forward", "1 open", "near", "far", "RTT"] {
        assert!(shown.text.contains(words), "{words}: {shown}");
    }
    drop(client);
    assert!(eventually(|| relay.total("finished") == 1));

    let log = relay.run().stderr();
    let metrics = log.lines().find_map(|line| line.split_once("metrics address=")).unwrap().1;
    let ask = |request: &str| {
        let mut stream = connect(metrics.trim().parse().unwrap());
        stream.write_all(request.as_bytes()).unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        text
    };
    let text = ask("GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
    assert!(text.starts_with("HTTP/1.1 200 OK\r\n"), "{text}");
    assert!(text.contains("\nicdc_relay_connections_ended_total{outcome=\"finished\"} 1\n"), "{text}");
    assert!(text.contains("\nicdc_relay_relayed_bytes_total{direction=\"up\"} 1000\n"), "{text}");
    assert!(ask("GET / HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 404"));
    assert!(ask("POST /metrics HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 405"));

    // A second relay that is to serve its metrics there says why it cannot, and what to do.
    let other = site.icdc(&["relay", "--forward", &forward, "--metrics", metrics.trim(), "--status-socket", "other"]);
    let ended = { other }.run().expect_code(1);
    assert!(ended.stderr.contains("the port is taken by another program; stop that, or name another"), "{ended}");
}

#[test]
fn memory_is_a_budget_of_all() {
    let site = Site::new();
    let server = listener();
    let forward = format!("127.0.0.1:0={}", server.local_addr().unwrap());
    let relay = Relay::start(&site, &["--forward", &forward, "--memory", "1MiB"]);
    let mut ends = Vec::new();
    for _ in 0..4 {
        let mut client = connect(relay.address("forward"));
        let served = accept(&server);
        client.set_nonblocking(true).unwrap();
        while matches!(client.write(&[0; 64 << 10]), Ok(1..)) {}
        ends.push((client, served));
    }
    assert!(eventually(|| relay.status()["connections"].as_array().unwrap().iter().any(|one| one["paused"] == true)));
    // A connection whose server reads goes on.
    let (client, mut served) = ends.pop().unwrap();
    drop(ends);
    client.set_nonblocking(false).unwrap();
    let writer = std::thread::spawn(move || exchange(client, vec![1; 4 << 20]));
    let mut got = Vec::new();
    served.read_to_end(&mut got).unwrap();
    assert!(got.len() >= 4 << 20);
    drop(served);
    assert_eq!(writer.join().unwrap().unwrap(), b"");
}

#[test]
fn a_socket_that_was_passed_is_taken() {
    let site = Site::new();
    let passed = listener();
    let address = passed.local_addr().unwrap();
    // Before there is a relay.
    let early = connect(address);
    let wrapped = |relay: Command| {
        let script = "export LISTEN_PID=$$ LISTEN_FDS=1; exec \"$@\" 3<&0 </dev/null";
        let mut shell = Command::new("sh");
        shell.args(["-c", script, "sh"]).arg(relay.get_program()).args(relay.get_args());
        let mut shell = site.settle(shell);
        shell.stdin(OwnedFd::from(passed.try_clone().unwrap()));
        shell
    };
    let relay = Relay::launch(&site, &["--forward", &format!("{address}={}", echo())], wrapped);
    assert_eq!(relay.address("forward"), address);
    assert_eq!(exchange(early, b"waited".to_vec()).unwrap(), b"waited");
    assert_eq!(exchange(connect(address), b"came later".to_vec()).unwrap(), b"came later");
    let ended = relay.stop();
    assert!(!ended.stderr.contains("has no listener"), "{ended}");
    drop(passed);

    let other = Relay::launch(&site, &["--forward", "127.0.0.1:0=127.0.0.1:9"], |relay| {
        let mut shell = Command::new("sh");
        // For another process.
        shell
            .args(["-c", "export LISTEN_PID=1 LISTEN_FDS=1; exec \"$@\"", "sh"])
            .arg(relay.get_program())
            .args(relay.get_args());
        site.settle(shell)
    });
    assert_eq!(other.stop().code, Some(0));
}

#[test]
fn what_is_buffered_between_relays_is_within_the_budget() {
    const CLIENTS: usize = 16;
    const EACH: usize = 48 << 20;
    const BUDGET: u64 = 64 << 20;
    let site = Site::new();
    let server = listener();
    let far = Relay::start(&site, &["--peer", "127.0.0.1:0", "--memory", "64MiB"]);
    let route = format!("default={}", far.address("peer"));
    let forward = format!("127.0.0.1:0={}", server.local_addr().unwrap());
    // The one that sends has no bound of its own.
    let near = Relay::start(&site, &["--forward", &forward, "--route", &route]);
    let piece = Noise::new(1).bytes(1 << 20);
    let mut clients = Vec::new();
    let mut served = Vec::new();
    for _ in 0..CLIENTS {
        let (mut client, piece) = (connect(near.address("forward")), piece.clone());
        served.push(accept(&server));
        clients.push(std::thread::spawn(move || {
            for _ in 0..EACH / piece.len() {
                client.write_all(&piece).unwrap();
            }
        }));
    }
    let mut most = 0;
    let mut last = 0;
    // Until all that can pile up has.
    assert!(eventually(|| {
        // It is measured four times a second.
        std::thread::sleep(Duration::from_millis(600));
        let buffered = far.total("buffered");
        most = most.max(buffered);
        let is_still = buffered > BUDGET / 2 && buffered == last;
        last = buffered;
        is_still
    }));
    assert!(most <= BUDGET * 2, "{most} bytes buffered: {}", far.status());
    // Nothing of it is lost, and those who read get all of it in time.
    let readers = served.into_iter().map(|mut served| {
        let piece = piece.clone();
        std::thread::spawn(move || {
            let mut got = Vec::new();
            served.read_to_end(&mut got).unwrap();
            assert_eq!(got.len(), EACH);
            assert!(got.chunks(piece.len()).all(|chunk| chunk == piece));
        })
    });
    for reader in readers.collect::<Vec<_>>() {
        reader.join().unwrap();
    }
    for client in clients {
        client.join().unwrap();
    }
    assert!(eventually(|| far.total("buffered") == 0), "{}", far.status());
}
