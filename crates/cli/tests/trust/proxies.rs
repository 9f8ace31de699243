//! Data by way of a SOCKS proxy or a relay: to a far end that ssh starts, and to a daemon.

use std::io::{Read, Write};
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::{fs, thread};

use crate::support::daemon::{Daemon, Nobody, free_port};
use crate::support::relay::{Relay, accept, listener};
use crate::support::{Ended, MIB, Shape, Site, Start, assert_no_leftovers, assert_same, data};

const LOOPBACK: [&str; 2] = ["--allow", "to=127.0.0.0/8"];

fn shape() -> Shape {
    Shape { large: vec![20 * MIB, 9 * MIB], small: 40, ..Shape::default() }
}

fn relay(site: &Site, words: &[&str]) -> Relay {
    Relay::start(site, &[words, &LOOPBACK].concat())
}

/// Asserts that the whole run went by way of `proxy`, over `connections` in all.
#[track_caller]
fn by_way_of(ended: &Ended, proxy: SocketAddr, route: &str, connections: usize) {
    let peers: Vec<&str> = ended.all("connected").map(|event| event["peer"].as_str().unwrap()).collect();
    assert_eq!(peers, vec![proxy.to_string(); connections], "{ended}");
    for told in ended.all("route") {
        assert_eq!(told["via"], route, "{ended}");
    }
}

#[test]
fn data_goes_by_way_of_a_proxy_to_a_far_end_that_ssh_starts() {
    let site = Site::new();
    let relay = relay(&site, &["--socks5", "127.0.0.1:0", "--peer", "127.0.0.1:0"]);
    let tree = data::tree(&site.path("tree"), 5, &shape());
    let ways = [
        ("socks5", format!("socks5://{}", relay.address("socks5"))),
        ("relay", format!("relay:{}", relay.address("peer"))),
    ];
    for (route, via) in &ways {
        let proxy = relay.address(if *route == "relay" { "peer" } else { route });
        let pushed = format!("pushed-{route}");
        let pulled = format!("pulled-{route}");
        for (source, destination, arrived) in
            [("tree".into(), site.by_ssh(&pushed), &pushed), (site.by_ssh("tree"), (&pulled).into(), &pulled)]
        {
            let mut copy = site.copy(&["--ssh", &site.ssh(), "--via", via, "--streams", "3", "--rate", "200mbit"]);
            let ended = copy.arg(source).arg(destination).run().expect_code(0);
            by_way_of(&ended, proxy, route, 3);
            assert_eq!(ended.all("route").count(), 1, "{ended}");
            assert_same(&tree, &site.path(arrived));
        }
    }
    assert_no_leftovers(site.root());
}

#[test]
fn data_goes_by_way_of_a_proxy_to_a_daemon() {
    let site = Site::new();
    let daemon = Daemon::start(&site, site.root(), "rw");
    let relay = relay(&site, &["--socks5", "127.0.0.1:0", "--peer", "127.0.0.1:0"]);
    let tree = data::tree(&site.path("tree"), 5, &shape());
    for (kind, via) in [("socks5", "socks5://"), ("peer", "relay:")] {
        let via = format!("{via}{}", relay.address(kind));
        let mut copy = site.copy(&["--via", &via, "--streams", "2", "--rate", "200mbit", "tree"]);
        let ended = copy.arg(daemon.location(kind)).run().expect_code(0);
        by_way_of(&ended, relay.address(kind), kind, 2);
        assert_same(&tree, &site.path(kind));
    }
}

#[test]
fn a_run_whose_proxy_has_gone_goes_on_by_way_of_the_next_one_there() {
    let site = Site::new();
    let file = site.path("file");
    data::file(&file, 32 * MIB, 3);
    let place = format!("127.0.0.1:{}", free_port());
    let first = relay(&site, &["--socks5", &place]);
    let via = format!("socks5://{place}");
    let options =
        ["--ssh", &site.ssh(), "--via", &via, "--streams", "2", "--rate", "80mbit", "--retry-for", "60s", "file"];
    let run = site.copy(&options).arg(site.by_ssh("copy")).start();
    assert!(run.wait_for_bytes(8 * MIB), "{}", run.finish());
    let address = first.address("socks5");
    first.kill();
    assert!(run.wait_for(|event| event["type"] == "reconnecting"), "{}", run.finish());
    let _second = relay(&site, &["--socks5", &place]);
    let ended = run.finish().expect_code(0);
    by_way_of(&ended, address, "socks5", ended.all("connected").count());
    assert!(ended.all("connected").count() >= 3, "{ended}");
    assert_same(&file, &site.path("copy"));
}

#[test]
fn a_proxy_gets_the_login_from_a_file_or_from_the_environment() {
    let site = Site::new();
    let users = site.path("users");
    fs::write(&users, "anna:se:cret\n").unwrap();
    fs::set_permissions(&users, fs::Permissions::from_mode(0o600)).unwrap();
    let relay = relay(&site, &["--socks5", "127.0.0.1:0", "--socks5-users", users.to_str().unwrap()]);
    data::file(&site.path("file"), MIB, 3);
    let via = format!("socks5://{}", relay.address("socks5"));
    let copy = |options: &[&str], login: Option<&str>| {
        let mut command = site.copy(&[&["--ssh", &site.ssh(), "--via", &via], options, &["file"]].concat());
        command.arg(site.by_ssh("copy")).envs(login.map(|login| ("ICDC_PROXY_LOGIN", login)));
        command.run()
    };
    let file = users.to_str().unwrap();
    let ended = copy(&["--proxy-login", file], Some("anna:wrong")).expect_code(0);
    assert!(!ended.to_string().contains("se:cret"), "{ended}");
    copy(&[], Some("anna:se:cret")).expect_code(0);
    let refused = copy(&[], Some("anna:wrong")).expect_code(3);
    assert!(refused.stderr.contains("does not accept the user and the password"), "{refused}");
    let missing = copy(&[], None).expect_code(3);
    assert!(missing.stderr.contains("--proxy-login"), "{missing}");
    fs::set_permissions(&users, fs::Permissions::from_mode(0o644)).unwrap();
    let readable = copy(&["--proxy-login", file], None).expect_code(2);
    assert!(readable.stderr.contains("chmod 600"), "{readable}");
}

/// A proxy that sends `answer` to whoever connects, and then `holds` the connection or not.
fn strange_proxy(answer: &'static [u8], holds: bool) -> SocketAddr {
    let listener = listener();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        let mut stream = accept(&listener);
        // It may be gone already.
        let _ = stream.write_all(answer);
        while holds && stream.read(&mut [0; 512]).is_ok_and(|count| count > 0) {}
    });
    address
}

#[test]
fn a_proxy_that_does_not_lead_on_is_told_with_what_it_said() {
    let site = Site::new();
    data::file(&site.path("file"), MIB, 3);
    let nobody = Nobody::new();
    let strict = Relay::start(&site, &["--socks5", "127.0.0.1:0", "--peer", "127.0.0.1:0", "--deny", "to=127.0.0.0/8"]);
    for (via, words) in [
        (format!("socks5://{}", nobody.address), "refused the connection"),
        (format!("relay:{}", nobody.address), "refused the connection"),
        (format!("socks5://{}", strict.address("socks5")), "its rules do not allow this connection"),
        (format!("relay:{}", strict.address("peer")), "a rule is against it"),
        (format!("socks5://{}", strange_proxy(b"HTTP/1.1 400 Bad Request\r\n\r\n", true)), "does not speak SOCKS 5"),
        (format!("socks5://{}", strange_proxy(&[5, 0, 5, 0, 0, 9, 9, 9, 9, 9], true)), "its address cannot be read"),
        (format!("socks5://{}", strange_proxy(&[5, 0, 5, 1], true)), "general failure"),
        (format!("relay:{}", strange_proxy(b"SSH-2.0-OpenSSH\r\n", true)), "no `icdc relay --peer`"),
        (format!("socks5://{}", strange_proxy(&[5], false)), "closed the connection"),
        (format!("relay:{}", strange_proxy(b"", false)), "closed the connection"),
        (format!("socks5://{}", strange_proxy(&[5], true)), "did not answer within 20s"),
    ] {
        let mut copy = site.copy(&["--ssh", &site.ssh(), "--via", &via, "file"]);
        let ended = copy.arg(site.by_ssh("copy")).run().expect_code(3);
        let place = via.rsplit(['/', ':']).next().unwrap();
        assert!(ended.stderr.contains(words) && ended.stderr.contains(place), "{via}: {ended}");
    }
    assert_no_leftovers(site.root());
}
