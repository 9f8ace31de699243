use std::collections::VecDeque;
use std::ops::Range;

use icdc_cc::find;
use icdc_cc::native::{Connection, RateSample};

/// A packet on its way: when its acknowledgement comes, when it left, and whether the sender had no more then.
struct Packet {
    acknowledged_us: f64,
    sent_us: f64,
    was_last: bool,
}

/// A path, and an application that begins slowly: packets per second.
struct Path {
    capacity: f64,
    rtt_us: f64,
    /// Of the device by which packets leave.
    device: f64,
    /// What the application makes in the first half second.
    at_first: f64,
    /// Share of the capacity that others take, evenly, and from when to when: seconds.
    others: (f64, Range<f64>),
}

const NOBODY: (f64, Range<f64>) = (0.0, 0.0..0.0);

impl Path {
    /// Runs for some seconds; gives the share of the capacity that was used in the last half second, and the connection.
    fn run(&self, seconds: f64) -> (f64, Connection) {
        let mut connection = Connection::new(find("icdc").expect("icdc"), &[]).expect("no settings");
        connection.socket.srtt_us = (self.rtt_us * 8.0) as u32;
        connection.socket.tcp_mstamp = 1_000_000;
        connection.init();
        let (begin, end) = (1e6, 1e6 + seconds * 1e6);
        let (mut next_send, mut free, mut made_us): (f64, f64, f64) = (begin, begin, begin);
        let (mut delivered, mut counted) = (0_u32, 0);
        let mut way: VecDeque<Packet> = VecDeque::new();
        let (mut came, others) = (begin, &self.others);
        loop {
            let acknowledged = way.front().map_or(f64::INFINITY, |packet| packet.acknowledged_us);
            let now = next_send.max(made_us);
            if way.len() < connection.socket.snd_cwnd as usize && now <= acknowledged {
                let wait = if now - begin < 5e5 { 1e6 / self.at_first } else { 0.0 };
                made_us += wait;
                if others.1.contains(&((now - begin) / 1e6)) {
                    free += others.0 * (now - came);
                }
                came = now;
                free = free.max(now) + 1e6 / self.capacity;
                let was_last = made_us > now;
                way.push_back(Packet { acknowledged_us: free + self.rtt_us, sent_us: now, was_last });
                let socket = &connection.socket;
                let paced = f64::from(socket.mss_cache) * 1e6 / socket.sk_pacing_rate as f64;
                next_send = now + paced.max(1e6 / self.device);
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
            counted += u32::from(now > end - 5e5);
            let socket = &mut connection.socket;
            (socket.tcp_mstamp, socket.delivered, socket.packets_out) = (now as u64, delivered, way.len() as u32);
            connection.cong_control(&RateSample {
                rtt_us: (now - packet.sent_us) as i64,
                acked_sacked: 1,
                prior_in_flight: before,
                is_app_limited: packet.was_last,
                ..RateSample::default()
            });
        }
        (f64::from(counted) / 0.5 / self.capacity, connection)
    }
}

#[test]
fn an_application_that_begins_slowly_does_not_tell_what_the_path_carries() {
    for (capacity, rtt_us) in [(80_000.0, 300_000.0), (80_000.0, 50_000.0), (8_000.0, 300_000.0)] {
        let (share, _) = Path { capacity, rtt_us, device: 1e7, at_first: capacity / 20.0, others: NOBODY }.run(3.2);
        assert!(share > 0.9, "{capacity} packets/s, {rtt_us} us: used {share:.3}");
    }
}

#[test]
fn a_device_that_is_the_bottleneck_is_found() {
    let path = Path { capacity: 80_000.0, rtt_us: 100_000.0, device: 80_000.0, at_first: 1e7, others: NOBODY };
    let (share, connection) = path.run(2.0);
    let rate = connection.socket.sk_pacing_rate as f64 / f64::from(connection.socket.mss_cache);
    assert!((60_000.0..90_000.0).contains(&rate), "paced at {rate} packets/s");
    assert!(share > 0.9, "used {share:.3}");
}

#[test]
fn a_window_that_is_not_used_does_not_grow() {
    let path = Path { capacity: 80_000.0, rtt_us: 100_000.0, device: 1e7, at_first: 40.0, others: NOBODY };
    let (_, connection) = path.run(0.5);
    assert!(connection.socket.snd_cwnd <= 20, "{} packets", connection.socket.snd_cwnd);
}

#[test]
fn what_others_leave_is_taken_whenever_they_leave() {
    for share in [0.5, 0.6, 0.7, 0.8] {
        let used: Vec<f64> = (3..24)
            .map(|quarters| {
                let end = 2.0 + 0.25 * f64::from(quarters);
                let path = Path {
                    capacity: 80_000.0,
                    rtt_us: 100_000.0,
                    device: 1e7,
                    at_first: 1e7,
                    others: (share, 2.0..end),
                };
                // From seven to twelve round trips after they have left.
                path.run(end + 1.2).0
            })
            .collect();
        let mean = used.iter().sum::<f64>() / used.len() as f64;
        assert!(mean > 0.8 && used.iter().all(|used| *used > 0.45), "others had {share}: mean {mean:.3}, {used:.2?}");
    }
}
