//! Relays remember what a path carries, and the next connection begins there.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::thread;
use std::time::{Duration, Instant};

use crate::auto::is_loadable;
use crate::support;
use crate::support::Site;
use crate::support::calm::{holds, in_a_calm_moment, machine};
use crate::support::lab::Lab;
use crate::support::process::eventually;
use crate::support::relay::{Relay, accept, connect, listener};

/// So long after the first byte it shows how a connection has begun: four round trips.
const EARLY: Duration = Duration::from_millis(400);

/// Sends zeros for some seconds through the relay at `to`; gives what has arrived early.
fn early(lab: &Lab, server: &TcpListener, to: SocketAddr, seconds: u64) -> usize {
    let mut client = lab.inside("a", || connect(to));
    let mut served = accept(server);
    thread::scope(|scope| {
        scope.spawn(move || {
            let end = Instant::now() + Duration::from_secs(seconds);
            while Instant::now() < end && client.write_all(&[0; 64 << 10]).is_ok() {}
        });
        let (mut buffer, mut bytes, mut first) = (vec![0; 256 << 10], 0, None);
        loop {
            match served.read(&mut buffer) {
                Ok(0) => return bytes,
                Ok(count) => {
                    if first.get_or_insert_with(Instant::now).elapsed() < EARLY {
                        bytes += count;
                    }
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => panic!("{error}"),
            }
        }
    })
}

#[test]
fn the_next_connection_between_relays_begins_where_the_last_one_was() {
    let _machine = machine();
    let Some(lab) = Lab::up(&["--rate", "200mbit", "--rtt", "100ms", "--queue", "1MB"]) else { return };
    let site = Site::new();
    if !is_loadable(&site) {
        support::skip("icdc cannot be loaded here");
        return;
    }
    let server = lab.inside("b", listener);
    let to = server.local_addr().unwrap();
    for warm in ["0", "1"] {
        in_a_calm_moment(|| {
            let host_b = |command| lab.run_on("b", &command);
            let host_a = |command| lab.run_on("a", &command);
            let peer = ["--cc", "icdc", "--peer", "10.26.33.2:0", "--allow", "from=10.26.33.1"];
            let far = Relay::launch(&site, &peer, host_b);
            let (door, route) = (format!("127.0.0.1:0={to}"), format!("default={}", far.address("peer")));
            let words = ["--cc", "icdc", "--threads", "1", "--warm", warm, "--forward", &door, "--route", &route];
            let near = Relay::launch(&site, &words, host_a);
            let address = near.address("forward");
            let first = early(&lab, &server, address, 5);
            // One that is kept warm is opened in place of the first.
            assert!(warm == "0" || eventually(|| far.total("accepted") >= 2), "{}", far.status());
            let second = early(&lab, &server, address, 1);
            // Its first bytes come in pieces, so that their train does not show all that is known: half of it is sent for two
            // round trips.
            holds(second > 2 * first, format!("{warm} warm: {first} and {second} bytes"))
        });
    }
}
