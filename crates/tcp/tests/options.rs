//! Options and `TCP_INFO` of real connections over the loopback device.

use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use icdc_tcp::{CongestionError, ConnectionState, Family};
use icdc_units::{ByteCount, Rate, Span};

fn pair() -> (TcpStream, TcpStream) {
    let local = IpAddr::V4(Ipv4Addr::LOCALHOST);
    let listener = icdc_tcp::listen(Some(local), None, Family::Any, ByteCount::ZERO).expect("listen");
    let port = listener.local_addr().expect("bound").port();
    let client = icdc_tcp::connect("127.0.0.1", port, Family::Any, Span::from_secs(20)).expect("connect");
    (client, listener.accept().expect("accept").0)
}

/// Waits until the peer's kernel has acknowledged everything.
fn drain(stream: &TcpStream) {
    while !icdc_tcp::send_queue(stream).expect("SIOCOUTQ").is_zero() {
        thread::yield_now();
    }
}

#[test]
fn a_pacing_rate_is_kept() {
    let (mut sender, mut receiver) = pair();
    assert_eq!(icdc_tcp::pacing_rate(&sender).expect("unset"), None);
    let rate = Rate::from_bits_per_second(80_000_000);
    icdc_tcp::set_pacing_rate(&sender, Some(rate)).expect("set");
    assert_eq!(icdc_tcp::pacing_rate(&sender).expect("set"), Some(rate));

    let amount = ByteCount::new(4_000_000);
    let reader = thread::spawn(move || std::io::copy(&mut receiver, &mut std::io::sink()).expect("read"));
    #[expect(clippy::disallowed_methods, reason = "the test measures what the kernel does in real time")]
    let start = Instant::now();
    sender.write_all(&vec![0; amount.as_usize()]).expect("write");
    drain(&sender);
    let took = Span::from(start.elapsed());
    let info = icdc_tcp::info(&sender).expect("TCP_INFO");
    drop(sender);
    assert_eq!(reader.join().expect("reader"), amount.as_u64());
    // The first ten segments of a connection are not paced (tcp_update_skb_after_send).
    assert!(took >= (amount / rate).scaled(3, 4), "{took}");
    assert_eq!(info.max_pacing_rate, Some(rate));
    assert!(info.pacing_rate.is_some_and(|paced| paced <= rate), "{:?}", info.pacing_rate);
    // Busy all the time, give or take a few ticks of the kernel.
    assert!(info.busy >= took / 2 && info.busy <= took * 2, "{} of {took}", info.busy);

    let (sender, _receiver) = pair();
    icdc_tcp::set_pacing_rate(&sender, Some(rate)).expect("set");
    icdc_tcp::set_pacing_rate(&sender, None).expect("taken away");
    assert_eq!(icdc_tcp::pacing_rate(&sender).expect("unset"), None);
    assert_eq!(icdc_tcp::info(&sender).expect("TCP_INFO").max_pacing_rate, None);
    // Beyond 32 bits of bytes per second.
    let fast = Rate::from_bits_per_second(100_000_000_000);
    icdc_tcp::set_pacing_rate(&sender, Some(fast)).expect("set");
    assert_eq!(icdc_tcp::pacing_rate(&sender).expect("set"), Some(fast));
    let error = icdc_tcp::set_pacing_rate(&sender, Some(Rate::ZERO)).expect_err("no pacing by accident").to_string();
    assert!(error.contains("SO_MAX_PACING_RATE") && error.contains("127.0.0.1"), "{error}");
}

#[test]
fn congestion_control_is_chosen_by_name() {
    let (socket, _peer) = pair();
    let available = icdc_tcp::available_congestion();
    // Reno cannot be left out of a kernel, and anyone may use it.
    assert!(available.iter().any(|name| name == "reno"), "{available:?}");
    icdc_tcp::set_congestion(&socket, "reno").expect("reno");
    assert_eq!(icdc_tcp::congestion(&socket).expect("name"), "reno");

    for name in ["no-such", "", "reno\0x", "name-of-more-than-15-bytes"] {
        let error = icdc_tcp::set_congestion(&socket, name).expect_err(name);
        assert!(
            matches!(&error, CongestionError::Unknown { available: listed, .. } if listed == &available),
            "{error}"
        );
        assert!(error.to_string().contains("reno"), "{error}");
    }
    assert_eq!(icdc_tcp::congestion(&socket).expect("unchanged"), "reno");
}

#[test]
fn granted_buffers_are_told() {
    let (socket, _peer) = pair();
    let (send, receive) = (ByteCount::from_kib(100), ByteCount::from_kib(150));
    let before = icdc_tcp::set_buffers(&socket, ByteCount::ZERO, ByteCount::ZERO).expect("sizes");
    let granted = icdc_tcp::set_buffers(&socket, ByteCount::ZERO, receive).expect("receive");
    assert_eq!((granted.send, granted.receive), (before.send, receive));
    let granted = icdc_tcp::set_buffers(&socket, send, ByteCount::ZERO).expect("send");
    assert_eq!((granted.send, granted.receive), (send, receive));
    // More than an int holds is asked for as much as one holds, and no error.
    let granted = icdc_tcp::set_buffers(&socket, ByteCount::MAX, ByteCount::ZERO).expect("all there is");
    assert!(granted.send >= send && granted.send <= ByteCount::from_mib(1024), "{}", granted.send);
}

#[test]
fn shutdown_wakes_a_blocked_reader() {
    let (socket, _peer) = pair();
    let mut reading = socket.try_clone().expect("clone");
    let reader = thread::spawn(move || reading.read(&mut [0; 1]));
    icdc_tcp::shutdown(&socket).expect("once");
    assert_eq!(reader.join().expect("reader").expect("end of stream"), 0);
    icdc_tcp::shutdown(&socket).expect("twice");
}

#[test]
fn what_is_not_read_is_not_drained() {
    let (mut sender, mut receiver) = pair();
    assert_eq!(icdc_tcp::send_queue(&sender).expect("idle"), ByteCount::ZERO);
    sender.set_nonblocking(true).expect("nonblocking");
    // Fills both buffers.
    let chunk = [1; 65536];
    let mut written = 0;
    loop {
        match sender.write(&chunk) {
            Ok(bytes) => written += bytes as u64,
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => break,
            Err(error) => panic!("{error}"),
        }
    }
    let queued = icdc_tcp::send_queue(&sender).expect("full");
    assert!(!queued.is_zero() && queued < ByteCount::new(written), "{queued} of {written}");
    let reader = thread::spawn(move || {
        let mut rest = Vec::new();
        receiver.read_to_end(&mut rest).map(|_| rest.len() as u64)
    });
    drain(&sender);
    drop(sender);
    assert_eq!(reader.join().expect("reader").expect("read"), written);
}

#[test]
fn info_counts_what_was_sent() {
    let (mut sender, mut receiver) = pair();
    let amount = ByteCount::new(3_000_000);
    let reader = thread::spawn(move || {
        let mut received = vec![0; amount.as_usize()];
        receiver.read_exact(&mut received).expect("read");
        receiver
    });
    sender.write_all(&vec![7; amount.as_usize()]).expect("write");
    let receiver = reader.join().expect("reader");
    drain(&sender);

    let sent = icdc_tcp::info(&sender).expect("TCP_INFO");
    assert_eq!(sent.state, ConnectionState::Established);
    // The SYN counts for one byte.
    assert!(sent.bytes_acked >= amount && sent.bytes_acked <= amount + ByteCount::new(1), "{sent:?}");
    assert_eq!(sent.bytes_sent - sent.bytes_retransmitted, amount, "{sent:?}");
    assert_eq!((sent.unacked, sent.lost, sent.not_sent), (0, 0, ByteCount::ZERO));
    assert!(!sent.rtt.is_zero() && sent.rtt < Span::from_secs(2), "{}", sent.rtt);
    assert!(!sent.min_rtt.is_zero() && sent.min_rtt <= sent.rtt * 100, "{}", sent.min_rtt);
    assert!(sent.mss >= ByteCount::new(500) && sent.mss <= ByteCount::from_kib(64), "{}", sent.mss);
    assert!(sent.cwnd >= 2 && sent.window() == sent.mss * u64::from(sent.cwnd));
    assert!(!sent.delivery_rate.is_zero() && !sent.send_window.is_zero(), "{sent:?}");
    assert!(sent.retransmission_timeout >= Span::from_millis(100), "{}", sent.retransmission_timeout);
    let received = icdc_tcp::info(&receiver).expect("TCP_INFO");
    assert_eq!(received.bytes_received, amount);
    assert_eq!(received.bytes_sent, ByteCount::ZERO);

    drop(sender);
    assert_eq!(receiver.peek(&mut [0]).expect("end of stream"), 0);
    assert_eq!(icdc_tcp::info(&receiver).expect("TCP_INFO").state, ConnectionState::CloseWait);
}

#[test]
fn info_is_json_of_plain_numbers() {
    let (socket, _peer) = pair();
    let json = serde_json::to_value(icdc_tcp::info(&socket).expect("TCP_INFO")).expect("serialises");
    assert_eq!(json["state"], "established");
    assert!(json["rtt"].is_u64() && json["max_pacing_rate"].is_null() && json["ssthresh"].is_null(), "{json}");
}

#[test]
fn info_of_no_tcp_socket_is_an_error() {
    let socket = std::net::UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("bind");
    icdc_tcp::info(&socket).expect_err("UDP has no TCP_INFO");
}

/// How much a sender gets rid of that nobody reads; until nothing goes for a while.
fn pile_up(sender: &TcpStream, receiver: &TcpStream) -> ByteCount {
    sender.set_write_timeout(Some(Duration::from_millis(500))).expect("timeout");
    let piece = vec![0; 64 << 10];
    while (&mut &*sender).write(&piece).is_ok() {}
    ByteCount::new(rustix::io::ioctl_fionread(receiver).expect("FIONREAD"))
}

#[test]
fn the_room_for_what_is_not_read_changes_while_it_is_connected() {
    if !icdc_tcp::may_exceed_buffer_limits() {
        eprintln!("SKIPPED: large buffers need CAP_NET_ADMIN");
        return;
    }
    let (small, large) = (ByteCount::from_kib(128), ByteCount::from_mib(16));
    let local = IpAddr::V4(Ipv4Addr::LOCALHOST);
    // The size before the handshake decides on the window's scale.
    let listener = icdc_tcp::listen(Some(local), None, Family::Any, large).expect("listen");
    let port = listener.local_addr().expect("bound").port();
    let mut client = icdc_tcp::connect("127.0.0.1", port, Family::Any, Span::from_secs(20)).expect("connect");
    let (mut server, _) = listener.accept().expect("accept");
    icdc_tcp::set_receive_room(&server, small).expect("narrow");
    icdc_tcp::set_buffers(&client, small, ByteCount::ZERO).expect("set");
    let piled = pile_up(&client, &server);
    assert!(piled <= small * 2, "{piled}");
    icdc_tcp::set_receive_room(&server, large).expect("widen");
    // The window opens when something is read.
    server.read_exact(&mut vec![0; 64 << 10]).expect("read");
    let piled = pile_up(&client, &server);
    assert!(piled > large / 2 && piled <= large * 2, "{piled}");
    assert!(icdc_tcp::receive_memory(&server).expect("SO_MEMINFO") >= piled);
    // What comes beyond a smaller one comes again later.
    icdc_tcp::set_receive_room(&server, small).expect("narrow");
    let written = u64::from(client.write(&[1; 1000]).is_ok());
    client.shutdown(std::net::Shutdown::Write).expect("end");
    let mut all = Vec::new();
    server.read_to_end(&mut all).expect("read");
    assert!(all.len() as u64 >= piled.as_u64());
    assert_eq!(all.iter().filter(|byte| **byte == 1).count() as u64 > 0, written > 0);
}
