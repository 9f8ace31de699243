//! Links that another program carries, as ssh does: here a pair of local sockets.

use std::os::unix::net::UnixStream;
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;

use icdc_disk::pool::BlockPool;
use icdc_tcp::clock;
use icdc_units::{ByteCount, Rate, Span};

use super::{pair_over, pause, settings};
use crate::secure::{Forwarded, ForwardingProgram};
use crate::tests::{length, receive_all, send_all, spawn, whole_block};
use crate::{Link, LinkError};

/// Tells when what carries a link is asked to end, and when it is ended.
struct Program(Sender<&'static str>);

impl ForwardingProgram for Program {
    fn end(&self) {
        let _ = self.0.send("asked");
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.0.send("ended");
    }
}

fn pair() -> (Link, Link) {
    let (near, far) = UnixStream::pair().unwrap();
    let end = |socket, name: &str| Forwarded::new(socket, name.to_owned(), None, Program(channel().0));
    pair_over((end(near, "far by ssh"), end(far, "near by ssh")), settings())
}

#[test]
fn everything_arrives_in_both_directions_at_once() {
    let (client, server) = pair();
    let there = spawn(move || send_all(client.outlet, 40, whole_block));
    let back = spawn(move || send_all(server.outlet, 200, length));
    let answer = spawn(move || receive_all(client.inlet, length));
    assert!(matches!(receive_all(server.inlet, whole_block), (40, LinkError::Closed)));
    assert!(matches!(answer.join().unwrap(), (200, LinkError::Closed)));
    there.join().unwrap().unwrap();
    back.join().unwrap().unwrap();
    assert!(client.control.delivered() >= ByteCount::new(40 * whole_block(0) as u64));
    assert!(client.control.tcp_info().is_none() && client.control.socket().is_none());
    assert_eq!(client.control.peer(), "far by ssh");
}

#[test]
fn a_shutdown_wakes_whoever_waits_and_the_peer_sees_a_cut() {
    let (mut client, mut server) = pair();
    let pool = BlockPool::new(1).unwrap();
    let waiting = spawn(move || client.inlet.receive(&BlockPool::new(1).unwrap()).unwrap_err());
    pause(50);
    client.control.shutdown();
    assert!(matches!(waiting.join().unwrap(), LinkError::Stopped));
    assert!(matches!(server.inlet.receive(&pool).unwrap_err(), LinkError::Cut { .. }));
}

#[test]
fn a_capped_rate_holds_where_no_kernel_paces() {
    let (client, server) = pair();
    let rate = Rate::from_bytes_per_second(40_000_000);
    client.control.set_rate(Some(rate));
    let begin = clock::now();
    let sending = spawn(move || send_all(client.outlet, 5, whole_block));
    assert!(matches!(receive_all(server.inlet, whole_block), (5, LinkError::Closed)));
    sending.join().unwrap().unwrap();
    let least = ByteCount::new(5 * whole_block(0) as u64) / rate;
    assert!(clock::now() - begin >= least - Span::from_millis(60), "faster than {rate}");
}

#[test]
fn what_carries_a_link_ends_with_it() {
    let (near, far) = UnixStream::pair().unwrap();
    let (tell, ended) = channel();
    let near = Forwarded::new(near, "far".to_owned(), None, Program(tell.clone()));
    let (client, server) = pair_over((near, Forwarded::new(far, "near".to_owned(), None, Program(tell))), settings());
    assert!(ended.try_recv().is_err(), "it ends while the link stands");
    let next = || ended.recv_timeout(Duration::from_secs(10));
    drop(client);
    assert_eq!(next(), Ok("ended"), "the near end's");
    server.control.shutdown();
    assert_eq!(next(), Ok("asked"), "at once, while the link is still held");
    drop(server);
    assert_eq!(ended.iter().last(), Some("ended"), "the far end's");
}
