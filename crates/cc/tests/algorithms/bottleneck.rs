//! A sender behind a bottleneck with a queue that never overflows, packet by packet.

use std::collections::VecDeque;
use std::ops::Range;

use icdc_cc::find;
use icdc_cc::native::{Connection, RateSample};

/// Packets per second that limit nothing.
const ANY: f64 = 1e7;
/// When it begins.
const BEGIN_US: f64 = 1e6;

pub(crate) struct Bottleneck {
    /// Packets per second.
    pub(crate) capacity: f64,
    pub(crate) rtt_us: f64,
    /// Packets per second of the device by which they leave.
    pub(crate) device: f64,
    /// Packets per second that the application makes in the first half second.
    pub(crate) at_first: f64,
    /// Share of the capacity that others take, evenly, and from when to when: seconds.
    pub(crate) others: (f64, Range<f64>),
}

/// A packet on its way: when its acknowledgement comes, when it left, what was delivered until then
/// and when, and whether the sender had no more then.
struct Packet {
    acknowledged_us: f64,
    sent_us: f64,
    delivered: u32,
    delivered_us: f64,
    was_last: bool,
}

impl Bottleneck {
    /// Of which one sender has everything.
    pub(crate) fn new(capacity: f64, rtt_us: f64) -> Self {
        Self { capacity, rtt_us, device: ANY, at_first: ANY, others: (0.0, 0.0..0.0) }
    }

    /// Sends by an algorithm that controls everything for some seconds. `acknowledged` is told of
    /// each packet of the last `counted` seconds that came back; gives how many those are, as a
    /// share of the capacity, and the connection.
    pub(crate) fn run(
        &self,
        algorithm: &str,
        seconds: f64,
        counted: f64,
        mut acknowledged: impl FnMut(&Connection),
    ) -> (f64, Connection) {
        let mut connection = Connection::new(find(algorithm).expect("an algorithm"), &[]).expect("no settings");
        connection.socket.srtt_us = (self.rtt_us * 8.0) as u32;
        connection.socket.tcp_mstamp = BEGIN_US as u64;
        connection.init();
        let end = BEGIN_US + seconds * 1e6;
        let (mut next_send, mut free, mut made_us, mut came) = (BEGIN_US, BEGIN_US, BEGIN_US, BEGIN_US);
        let (mut delivered, mut delivered_us, mut late) = (0_u32, BEGIN_US, 0);
        let mut way: VecDeque<Packet> = VecDeque::new();
        loop {
            let back = way.front().map_or(f64::INFINITY, |packet| packet.acknowledged_us);
            let now = next_send.max(made_us);
            if way.len() < connection.socket.snd_cwnd as usize && now <= back {
                if now - BEGIN_US < 5e5 {
                    made_us += 1e6 / self.at_first;
                }
                if self.others.1.contains(&((now - BEGIN_US) / 1e6)) {
                    free += self.others.0 * (now - came);
                }
                came = now;
                free = free.max(now) + 1e6 / self.capacity;
                if way.is_empty() {
                    delivered_us = now;
                }
                let acknowledged_us = free + self.rtt_us;
                let was_last = made_us > now;
                way.push_back(Packet { acknowledged_us, sent_us: now, delivered, delivered_us, was_last });
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
                is_app_limited: packet.was_last,
                ..RateSample::default()
            });
            if now > end - counted * 1e6 {
                late += 1;
                acknowledged(&connection);
            }
        }
        (f64::from(late) / counted / self.capacity, connection)
    }
}
