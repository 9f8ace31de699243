//! A path without losses of its own: the tests say when a packet is lost and how long a round trip
//! takes.

use icdc_cc::find;
use icdc_cc::native::{AckSample, CongestionState, Connection};

pub(crate) const SECOND_US: u64 = 1_000_000;

pub(crate) struct Path {
    pub(crate) connection: Connection,
    pub(crate) rtt_us: u64,
    /// Packets that one acknowledgement covers.
    pub(crate) stretch: u32,
}

impl Path {
    /// A connection whose window limits it, in congestion avoidance with `window` packets.
    pub(crate) fn new(algorithm: &str, settings: &[(&str, i64)], window: u32) -> Self {
        let algorithm = find(algorithm).expect("an algorithm");
        let mut connection = Connection::new(algorithm, settings).expect("parameters in range");
        let socket = &mut connection.socket;
        socket.tcp_mstamp = 1000 * SECOND_US;
        connection.init();
        let socket = &mut connection.socket;
        (socket.snd_cwnd, socket.snd_ssthresh, socket.is_cwnd_limited) = (window, window, 1);
        Self { connection, rtt_us: 100_000, stretch: 1 }
    }

    pub(crate) fn window(&self) -> u32 {
        self.connection.socket.snd_cwnd
    }

    pub(crate) fn now_us(&self) -> u64 {
        self.connection.socket.tcp_mstamp
    }

    /// The packets that are in flight now are acknowledged, spread over a round trip.
    pub(crate) fn round_trip(&mut self) {
        let flight = self.window();
        let start = self.now_us();
        let mut acked = 0;
        self.connection.socket.snd_nxt = self.connection.socket.snd_una.wrapping_add(flight);
        while acked < flight {
            let packets = self.stretch.min(flight - acked);
            acked += packets;
            self.connection.socket.tcp_mstamp = start + self.rtt_us * u64::from(acked) / u64::from(flight);
            self.acknowledge(packets);
        }
    }

    pub(crate) fn acknowledge(&mut self, packets: u32) {
        let rtt_us = self.rtt_us;
        let socket = &mut self.connection.socket;
        socket.packets_out = socket.snd_cwnd;
        socket.max_packets_out = socket.snd_cwnd;
        socket.srtt_us = (rtt_us * 8) as u32;
        socket.snd_una = socket.snd_una.wrapping_add(packets);
        socket.delivered = socket.delivered.wrapping_add(packets);
        let (una, in_flight) = (socket.snd_una, socket.packets_out.wrapping_mul(socket.mss_cache));
        self.connection.pkts_acked(&AckSample { pkts_acked: packets, rtt_us: rtt_us as i32, in_flight });
        self.connection.cong_avoid(una, packets);
    }

    /// A loss and its repair within a round trip; returns the window afterwards.
    pub(crate) fn lose(&mut self) -> u32 {
        self.connection.socket.prior_cwnd = self.window();
        let threshold = self.connection.ssthresh();
        self.connection.set_state(CongestionState::Recovery);
        let controls = self.connection.controls();
        let socket = &mut self.connection.socket;
        (socket.snd_ssthresh, socket.snd_cwnd_cnt) = (threshold, 0);
        if !controls {
            socket.snd_cwnd = threshold;
        }
        socket.tcp_mstamp += self.rtt_us;
        self.connection.set_state(CongestionState::Open);
        threshold
    }
}

/// Asserts that two numbers of packets agree within 2 % or one packet.
#[track_caller]
pub(crate) fn assert_close(found: f64, expected: f64, what: &str) {
    let allowed = (0.02 * expected).max(1.0);
    assert!((found - expected).abs() <= allowed, "{what}: {found}, expected {expected:.3}");
}
