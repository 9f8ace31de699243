//! A sender behind a bottleneck with a queue that never overflows, packet by packet or burst by burst.

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
    /// Whether packets leave in bursts of a millisecond, as where the device segments, and each burst is acknowledged as a
    /// whole, as where the receiving device joins what it was.
    pub(crate) segmented: bool,
}

/// Most packets of a burst: 64 KiB.
const LARGEST_BURST: f64 = 45.0;

/// A burst on its way, of one packet or several: when its acknowledgement comes, when it left, what was delivered until then
/// and when, and whether the sender had no more then.
struct Burst {
    packets: u32,
    acknowledged_us: f64,
    sent_us: f64,
    delivered: u32,
    delivered_us: f64,
    was_last: bool,
}

impl Bottleneck {
    /// Of which one sender has everything.
    pub(crate) fn new(capacity: f64, rtt_us: f64) -> Self {
        Self { capacity, rtt_us, device: ANY, at_first: ANY, others: (0.0, 0.0..0.0), segmented: false }
    }

    /// Sends by an algorithm that controls everything for some seconds. `acknowledged` is told of
    /// each burst of the last `counted` seconds that came back; gives how many packets those are, as a
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
        let (mut way, mut under_way): (VecDeque<Burst>, u32) = (VecDeque::new(), 0);
        loop {
            let back = way.front().map_or(f64::INFINITY, |burst| burst.acknowledged_us);
            let now = next_send.max(made_us);
            let socket = &connection.socket;
            if under_way < socket.snd_cwnd && now <= back {
                let paced = f64::from(socket.mss_cache) * 1e6 / socket.sk_pacing_rate as f64;
                let burst = if self.segmented { (1000.0 / paced).clamp(2.0, LARGEST_BURST) as u32 } else { 1 };
                let packets = burst.min(socket.snd_cwnd - under_way);
                if now - BEGIN_US < 5e5 {
                    made_us += 1e6 / self.at_first;
                }
                if self.others.1.contains(&((now - BEGIN_US) / 1e6)) {
                    free += self.others.0 * (now - came);
                }
                came = now;
                free = free.max(now) + f64::from(packets) * 1e6 / self.capacity;
                if way.is_empty() {
                    delivered_us = now;
                }
                let acknowledged_us = free + self.rtt_us;
                let was_last = made_us > now;
                way.push_back(Burst { packets, acknowledged_us, sent_us: now, delivered, delivered_us, was_last });
                under_way += packets;
                next_send = now + f64::from(packets) * paced.max(1e6 / self.device);
                continue;
            }
            let before = under_way;
            let burst = way.pop_front().expect("the window is never empty");
            let now = burst.acknowledged_us;
            if now > end {
                break;
            }
            next_send = next_send.max(now);
            delivered += burst.packets;
            under_way -= burst.packets;
            delivered_us = now;
            let socket = &mut connection.socket;
            (socket.tcp_mstamp, socket.delivered, socket.packets_out) = (now as u64, delivered, under_way);
            connection.cong_control(&RateSample {
                prior_delivered: burst.delivered,
                delivered: (delivered - burst.delivered) as i32,
                interval_us: (now - burst.delivered_us) as i64,
                rtt_us: (now - burst.sent_us) as i64,
                acked_sacked: burst.packets,
                prior_in_flight: before,
                is_app_limited: burst.was_last,
                ..RateSample::default()
            });
            if now > end - counted * 1e6 {
                late += burst.packets;
                acknowledged(&connection);
            }
        }
        (f64::from(late) / counted / self.capacity, connection)
    }
}
