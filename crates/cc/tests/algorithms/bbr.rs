use std::collections::VecDeque;

use icdc_cc::find;
use icdc_cc::native::{Connection, RateSample};

/// A packet on its way: when its acknowledgement comes, when it left, and what was delivered until then and when.
struct Packet {
    acknowledged_us: f64,
    sent_us: f64,
    delivered: u32,
    delivered_us: f64,
}

struct Seen {
    /// Share of the bottleneck used over the last seconds.
    share: f64,
    /// Greatest window over that time, as a multiple of what the path holds.
    most: f64,
    least_window: u32,
    connection: Connection,
}

/// A sender that always has data, behind a bottleneck without loss. Returns what the last `seconds` of 30 showed.
fn run(packets_per_second: f64, rtt_us: f64, seconds: f64) -> Seen {
    let mut connection = Connection::new(find("bbr").expect("bbr"), &[]).expect("no settings");
    connection.init();
    let per_packet = 1e6 / packets_per_second;
    let (mut next_send, mut free, mut delivered, mut delivered_us) = (0.0_f64, 0.0_f64, 0_u32, 0.0);
    let mut way: VecDeque<Packet> = VecDeque::new();
    let (end, from) = (30e6, (30.0 - seconds) * 1e6);
    let (mut counted, mut most, mut least_window) = (0, 0_u32, u32::MAX);
    loop {
        let window = connection.socket.snd_cwnd as usize;
        let acknowledged = way.front().map_or(f64::INFINITY, |packet| packet.acknowledged_us);
        if way.len() < window && next_send <= acknowledged {
            let now = next_send;
            free = free.max(now) + per_packet;
            if way.is_empty() {
                delivered_us = now;
            }
            way.push_back(Packet { acknowledged_us: free + rtt_us, sent_us: now, delivered, delivered_us });
            let socket = &connection.socket;
            next_send = now + f64::from(socket.mss_cache) * 1e6 / socket.sk_pacing_rate as f64;
            continue;
        }
        let before = way.len() as u32;
        let packet = way.pop_front().expect("the window is never empty");
        let now = packet.acknowledged_us;
        if now > end {
            break;
        }
        next_send = next_send.max(now);
        delivered += 1;
        delivered_us = now;
        let socket = &mut connection.socket;
        (socket.tcp_mstamp, socket.delivered, socket.packets_out) = (now as u64, delivered, way.len() as u32);
        connection.cong_control(&RateSample {
            prior_delivered: packet.delivered,
            delivered: (delivered - packet.delivered) as i32,
            interval_us: (now - packet.delivered_us) as i64,
            rtt_us: (now - packet.sent_us) as i64,
            acked_sacked: 1,
            prior_in_flight: before,
            ..RateSample::default()
        });
        if now > from {
            counted += 1;
            most = most.max(connection.socket.snd_cwnd);
            least_window = least_window.min(connection.socket.snd_cwnd);
        }
    }
    let share = f64::from(counted) / seconds / packets_per_second;
    Seen { share, most: f64::from(most) / (packets_per_second * rtt_us / 1e6), least_window, connection }
}

#[test]
fn finds_the_rate_and_keeps_the_queue_short() {
    for (rate, rtt_ms) in [(1000.0, 20.0), (10_000.0, 100.0), (80_000.0, 10.0)] {
        let seen = run(rate, rtt_ms * 1000.0, 8.0);
        assert!(seen.share > 0.93, "{rate} packets/s, {rtt_ms} ms: used {:.3}", seen.share);
        assert!(seen.most < 2.6, "{rate} packets/s, {rtt_ms} ms: {:.2} times the path", seen.most);
        let paced = seen.connection.socket.sk_pacing_rate as f64 / 1448.0 / rate;
        assert!((0.7..1.3).contains(&paced), "{rate} packets/s, {rtt_ms} ms: paced at {paced:.3} of it");
    }
}

#[test]
fn measures_the_round_trip_anew_every_ten_seconds() {
    assert_eq!(run(10_000.0, 50_000.0, 12.0).least_window, 4);
}
