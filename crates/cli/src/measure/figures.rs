//! Figures derived from a measurement.

use std::collections::BTreeMap;

use icdc_measure::{MeasureOptions, Measurement};
use icdc_protocol::measure::Sent;
use icdc_report::reduce::moving_sums;
use icdc_units::{ByteCount, Span};

use crate::measure::record::Record;

/// Length of the moving mean, in bins of a millisecond.
const SECOND: usize = 1000;

/// Result of a measurement of TCP, as it is shown: what was measured, and what follows from it.
pub(crate) struct Figures {
    pub(crate) seconds: f64,
    /// Bytes of payload that arrived.
    pub(crate) bytes: u64,
    pub(crate) goodput_bps: u64,
    pub(crate) retransmitted_segments: u64,
    pub(crate) congestion: String,
    pub(crate) streams: u8,
    pub(crate) mss_bytes: u64,
    /// The smaller of the two buffers that were granted; 0 if the kernel tunes them.
    pub(crate) window_bytes: u64,
    pub(crate) min_rtt_seconds: Option<f64>,
    pub(crate) median_rtt_seconds: Option<f64>,
    /// Whether `arrivals` counts packets on the wire; otherwise it counts reads from the socket.
    pub(crate) packets: bool,
    pub(crate) start_up_seconds: Option<f64>,
    /// Part of the time for which each cause limited the sender, by its name.
    pub(crate) limited_by: BTreeMap<&'static str, f64>,
    pub(crate) arrivals: Vec<u32>,
    pub(crate) record: Record,
    pub(crate) interrupted: bool,
    pub(crate) errors: Vec<String>,
    pub(crate) notices: Vec<String>,
}

impl Figures {
    /// Figures of a measurement, and of the samples that were recorded of it.
    pub(crate) fn new(measurement: Measurement, options: &MeasureOptions, record: Record) -> Self {
        let Measurement { received, arrivals, sent, interrupted } = measurement;
        let goodput = match received.nanos {
            0 => 0,
            nanos => (ByteCount::new(received.bytes) / Span::from_nanos(nanos)).as_bits_per_second(),
        };
        let window = sent.window.min(received.window);
        let least = (sent.min_rtt_nanos > 0).then_some(sent.min_rtt_nanos as f64 / 1e9);
        // Through ssh, the kernel's samples are of the local connection to ssh; the minimum is
        // measured end to end.
        let median = record.median_rtt().filter(|median| least.is_none_or(|least| *median >= least));
        let mut notices: Vec<String> = received.notices.into_iter().chain(sent.notices.iter().cloned()).collect();
        if let Some(wanted) = options.window
            && window < wanted.as_u64()
        {
            notices.push(format!(
                "--window {}: the send buffer is {}, the receive buffer {}; as root, or with larger net.core.wmem_max and net.core.rmem_max, it is granted",
                wanted,
                ByteCount::new(sent.window),
                ByteCount::new(received.window),
            ));
        }
        Self {
            seconds: received.nanos as f64 / 1e9,
            bytes: received.bytes,
            goodput_bps: goodput,
            retransmitted_segments: sent.retransmitted_segments,
            streams: options.streams,
            mss_bytes: sent.mss,
            window_bytes: window,
            min_rtt_seconds: least,
            median_rtt_seconds: median,
            packets: received.packets,
            start_up_seconds: start_up(&arrivals),
            limited_by: shares(&sent),
            arrivals,
            record,
            interrupted,
            errors: received.errors.into_iter().chain(sent.errors).collect(),
            notices,
            congestion: sent.congestion,
        }
    }

    /// The figures of a run that failed, all zero, with its reason.
    pub(crate) fn failed(reason: String, options: &MeasureOptions, record: Record) -> Self {
        Self {
            seconds: 0.0,
            bytes: 0,
            goodput_bps: 0,
            retransmitted_segments: 0,
            congestion: options.congestion.clone().unwrap_or_default(),
            streams: options.streams,
            mss_bytes: 0,
            window_bytes: 0,
            min_rtt_seconds: None,
            median_rtt_seconds: record.median_rtt(),
            packets: false,
            start_up_seconds: None,
            limited_by: BTreeMap::new(),
            arrivals: Vec::new(),
            record,
            interrupted: false,
            errors: vec![reason],
            notices: Vec::new(),
        }
    }

    /// Source of the arrivals: `packets` or `socket`.
    pub(crate) fn arrivals_source(&self) -> &'static str {
        if self.packets { "packets" } else { "socket" }
    }
}

/// Seconds from the first byte until the moving mean of 1 s first reaches 90 % of its maximum;
/// `bins` are bytes per millisecond. `None` if nothing arrived.
fn start_up(bins: &[u32]) -> Option<f64> {
    let greatest = moving_sums(bins, SECOND).max().filter(|sum| *sum > 0)?;
    moving_sums(bins, SECOND).position(|sum| sum * 10 >= greatest * 9).map(|index| (index + 1) as f64 / SECOND as f64)
}

/// Shares of the time (0 to 1) for which each cause limited the sending connections, by its name.
fn shares(sent: &Sent) -> BTreeMap<&'static str, f64> {
    let open = sent.open_nanos as f64;
    if open == 0.0 {
        return BTreeMap::new();
    }
    let share = |nanos: u64| (nanos as f64 / open).min(1.0);
    let (window, buffer) = (share(sent.receive_window_nanos), share(sent.send_buffer_nanos));
    let busy = share(sent.busy_nanos);
    BTreeMap::from([
        ("network", (busy - window - buffer).max(0.0)),
        ("receive_window", window),
        ("send_buffer", buffer),
        ("idle", 1.0 - busy),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn start_up_is_when_nine_tenths_of_the_best_second_are_reached() {
        assert_eq!(start_up(&[]), None);
        assert_eq!(start_up(&[0; 10]), None);
        assert_eq!(start_up(&[100; 5000]), Some(0.9));
        // Two seconds at a tenth, then full rate: 0.1 + 0.9 x of the full sum is 0.9 of it at x =
        // 8/9.
        let bins: Vec<u32> = (0..5000).map(|at| if at < 2000 { 90 } else { 900 }).collect();
        assert_eq!(start_up(&bins), Some(2.889));
    }

    #[test]
    fn shares_add_up() {
        let sent = Sent {
            open_nanos: 100,
            busy_nanos: 80,
            receive_window_nanos: 30,
            send_buffer_nanos: 10,
            ..Sent::default()
        };
        let shares = shares(&sent);
        assert_eq!((shares["network"] * 100.0).round(), 40.0);
        assert!((shares.values().sum::<f64>() - 1.0).abs() < 1e-9);
    }
}
