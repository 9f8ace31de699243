//! `TCP_INFO`: what the kernel knows about a connection, as typed quantities.
//!
//! `struct tcp_info` (linux/tcp.h) only ever grows at its end; a kernel gives as much of it as it
//! knows. It is decoded by offset, in the order of the kernel's file: a field beyond the end is
//! zero. Times are microseconds, rates bytes per second, windows segments unless said otherwise.

use std::io;
use std::os::fd::AsFd;

use icdc_rate::known_paths::PathCounters;
use icdc_units::{ByteCount, Rate, Span};
use serde::Serialize;

use crate::kernel;

/// Snapshot of the kernel's statistics of one TCP connection (`TCP_INFO`). The kernel version that
/// introduced a field is given; on older ones the field is zero.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TcpInfo {
    /// State of the connection (RFC 9293).
    pub state: ConnectionState,
    /// Whether the last `delivery_rate` was limited by the application, not by the path (4.9).
    pub application_limited: bool,
    /// Present retransmission timeout (RTO).
    pub retransmission_timeout: Span,
    /// Number of retransmission timeouts in a row.
    pub timeouts: u32,
    /// Maximum segment size for sending, in bytes of data.
    pub mss: ByteCount,
    /// Number of segments sent and not acknowledged.
    pub unacked: u32,
    /// Number of segments acknowledged selectively (SACK).
    pub sacked: u32,
    /// Number of segments considered lost and not yet recovered.
    pub lost: u32,
    /// Time since anything arrived from the other end.
    pub silence: Span,
    /// Path MTU in bytes.
    pub path_mtu: ByteCount,
    /// Smoothed round-trip time.
    pub rtt: Span,
    /// Mean deviation of the round-trip time.
    pub rtt_var: Span,
    /// Slow-start threshold in segments; `None` before the first congestion event.
    pub ssthresh: Option<u32>,
    /// Congestion window in segments.
    pub cwnd: u32,
    /// Degree of reordering, in segments, up to which nothing is considered lost.
    pub reordering: u32,
    /// Round-trip time estimated by the receiver; zero before the first estimate.
    pub receive_rtt: Span,
    /// Number of segments retransmitted since the start of the connection.
    pub segments_retransmitted: u64,
    /// Pacing rate at present; `None` if not paced (3.15).
    pub pacing_rate: Option<Rate>,
    /// Ceiling set by `SO_MAX_PACING_RATE`; `None` if there is none (3.15).
    pub max_pacing_rate: Option<Rate>,
    /// Bytes acknowledged by the peer (4.1).
    pub bytes_acked: ByteCount,
    /// Bytes received in order (4.1).
    pub bytes_received: ByteCount,
    /// Bytes written and not yet sent for the first time (4.6).
    pub not_sent: ByteCount,
    /// Smallest round-trip time of the last five minutes (`tcp_min_rtt_wlen`); zero before the
    /// first sample (4.6).
    pub min_rtt: Span,
    /// Rate at which data was last delivered to the peer (4.9).
    pub delivery_rate: Rate,
    /// Time in which there was data to send, counted in ticks of the kernel (1 ms to 10 ms) (4.10).
    pub busy: Span,
    /// The part of `busy` in which the receive window stopped the sender (4.10).
    pub receive_window_limited: Span,
    /// The part of `busy` in which the send buffer stopped the sender (4.10).
    pub send_buffer_limited: Span,
    /// Number of segments delivered to the peer (4.18).
    pub segments_delivered: u64,
    /// Number of delivered segments that the peer reported as marked by ECN (4.18).
    pub segments_marked: u64,
    /// Bytes sent, including retransmissions (4.19).
    pub bytes_sent: ByteCount,
    /// Bytes retransmitted (4.19).
    pub bytes_retransmitted: ByteCount,
    /// Number of duplicates that the peer reported (DSACK), that is, needless retransmissions
    /// (4.19).
    pub duplicates: u32,
    /// Number of times that reordering was seen (4.19).
    pub reorderings_seen: u32,
    /// Number of segments received out of order (5.4).
    pub out_of_order: u32,
    /// Receive window that the peer offers (5.4).
    pub send_window: ByteCount,
}

/// State of a TCP connection (`enum` in linux/tcp_states.h).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ConnectionState {
    /// Established: data flows both ways.
    Established,
    /// SYN sent; the peer has not answered yet.
    SynSent,
    /// SYN received; the handshake is nearly complete.
    SynReceived,
    /// This end has closed; the other end has not acknowledged that.
    FinWait1,
    /// This end has closed, and the other end has acknowledged that.
    FinWait2,
    /// Both have closed; the kernel still answers stray segments.
    TimeWait,
    /// Closed: no connection.
    Closed,
    /// The peer has closed.
    CloseWait,
    /// The peer has closed, then this end.
    LastAck,
    /// Listening: waiting for connections.
    Listen,
    /// Both have closed at once.
    Closing,
    /// A state unknown to this program.
    Other,
}

impl TcpInfo {
    /// Whether nothing has arrived for more than 500 ms and a round trip: that is longer than the
    /// silence of a peer that sends something every 100 ms and whose answers take a round trip.
    pub fn is_silent(&self) -> bool {
        self.silence > Span::from_millis(500) + self.rtt
    }

    /// Sending rate that a congestion control which measures the path's free rate has arrived at
    /// (its pacing rate); `None` while it does not pace, or while the ceiling on the rate limits
    /// it.
    pub fn found_rate(&self) -> Option<Rate> {
        self.pacing_rate.filter(|rate| self.max_pacing_rate.is_none_or(|most| *rate < most))
    }

    /// Whether the path seems to drop large packets silently (RFC 2923, section 2.1): the first
    /// segment has not been delivered in spite of its retransmissions, while shorter ones have,
    /// either a later segment, or the FIN of the other end after it received nothing. Valid only
    /// for connections that have just begun.
    pub fn loses_large_segments(&self) -> bool {
        let is_heard = self.sacked > 0 || self.state == ConnectionState::CloseWait;
        // The SYN counts as one.
        let sent_in_vain = self.timeouts >= 2 && self.bytes_acked <= ByteCount::new(1) && is_heard;
        let never_received = self.bytes_received == ByteCount::ZERO && self.out_of_order > 0;
        sent_in_vain || never_received
    }

    /// The counters from which the rate controller measures the rate of the path.
    pub fn path_counters(&self) -> PathCounters {
        PathCounters {
            acknowledged: self.bytes_acked,
            retransmitted: self.segments_retransmitted,
            round_trip: self.min_rtt,
            packet: self.mss,
        }
    }

    /// Congestion window in bytes.
    pub fn window(&self) -> ByteCount {
        self.mss * u64::from(self.cwnd)
    }
}

/// Size of the buffer for a `struct tcp_info` in bytes: the struct has 280 as of Linux 6.18.
const ROOM: usize = 512;

/// Reads the kernel's statistics (`TCP_INFO`) of a TCP socket.
///
/// # Errors
/// The kernel refuses a system call.
pub fn info(fd: &impl AsFd) -> io::Result<TcpInfo> {
    let mut bytes = [0; ROOM];
    kernel::socket_option(fd, libc::IPPROTO_TCP, libc::TCP_INFO, &mut bytes).map(|written| decode(&Fields(written)))
}

/// Value of `tcpi_snd_ssthresh` before the first congestion event (`TCP_INFINITE_SSTHRESH`).
const INFINITE_SSTHRESH: u32 = 0x7fff_ffff;

/// Decodes a `struct tcp_info`.
fn decode(fields: &Fields<'_>) -> TcpInfo {
    TcpInfo {
        state: ConnectionState::from_number(fields.byte(0)),
        // Bit fields: the window scales fill byte 6, `delivery_rate_app_limited` is the first bit
        // of byte 7.
        application_limited: fields.byte(7) & if cfg!(target_endian = "little") { 0x01 } else { 0x80 } != 0,
        timeouts: fields.byte(2).into(),
        retransmission_timeout: fields.micros32(8),
        mss: ByteCount::new(fields.u32(16).into()),
        unacked: fields.u32(24),
        sacked: fields.u32(28),
        lost: fields.u32(32),
        // Since data came, and since an acknowledgement did.
        silence: Span::from_millis(fields.u32(52).min(fields.u32(56)).into()),
        path_mtu: ByteCount::new(fields.u32(60).into()),
        rtt: fields.micros32(68),
        rtt_var: fields.micros32(72),
        ssthresh: Some(fields.u32(76)).filter(|&segments| segments < INFINITE_SSTHRESH),
        cwnd: fields.u32(80),
        reordering: fields.u32(88),
        receive_rtt: fields.micros32(92),
        segments_retransmitted: fields.u32(100).into(),
        pacing_rate: fields.limit(104),
        max_pacing_rate: fields.limit(112),
        bytes_acked: ByteCount::new(fields.u64(120)),
        bytes_received: ByteCount::new(fields.u64(128)),
        not_sent: ByteCount::new(fields.u32(144).into()),
        // Without a sample the kernel's minimum is all ones.
        min_rtt: if fields.u32(148) == u32::MAX { Span::ZERO } else { fields.micros32(148) },
        delivery_rate: Rate::from_bytes_per_second(fields.u64(160)),
        busy: Span::from_micros(fields.u64(168)),
        receive_window_limited: Span::from_micros(fields.u64(176)),
        send_buffer_limited: Span::from_micros(fields.u64(184)),
        segments_delivered: fields.u32(192).into(),
        segments_marked: fields.u32(196).into(),
        bytes_sent: ByteCount::new(fields.u64(200)),
        bytes_retransmitted: ByteCount::new(fields.u64(208)),
        duplicates: fields.u32(216),
        reorderings_seen: fields.u32(220),
        out_of_order: fields.u32(224),
        send_window: ByteCount::new(fields.u32(228).into()),
    }
}

/// Bytes of `struct tcp_info` that the kernel wrote, read field by field; fields beyond their end
/// are zero.
struct Fields<'a>(&'a [u8]);

impl Fields<'_> {
    fn byte(&self, offset: usize) -> u8 {
        self.array::<1>(offset)[0]
    }

    fn u32(&self, offset: usize) -> u32 {
        u32::from_ne_bytes(self.array(offset))
    }

    fn u64(&self, offset: usize) -> u64 {
        u64::from_ne_bytes(self.array(offset))
    }

    /// The rate limit at this offset, in bytes per second; `None` for all ones, by which the kernel
    /// says that there is none.
    fn limit(&self, offset: usize) -> Option<Rate> {
        let bytes = self.u64(offset);
        (bytes < u64::MAX).then_some(Rate::from_bytes_per_second(bytes))
    }

    /// The time at this offset, 32 bits of microseconds.
    fn micros32(&self, offset: usize) -> Span {
        Span::from_micros(self.u32(offset).into())
    }

    /// The `N` bytes at `offset`; zeros if the kernel's struct is shorter.
    fn array<const N: usize>(&self, offset: usize) -> [u8; N] {
        self.0.get(offset..).and_then(|rest| rest.first_chunk()).copied().unwrap_or([0; N])
    }
}

impl ConnectionState {
    /// The state that the kernel numbers so.
    fn from_number(number: u8) -> Self {
        match number {
            1 => Self::Established,
            2 => Self::SynSent,
            // 12 is a request socket (TCP_NEW_SYN_RECV).
            3 | 12 => Self::SynReceived,
            4 => Self::FinWait1,
            5 => Self::FinWait2,
            6 => Self::TimeWait,
            7 => Self::Closed,
            8 => Self::CloseWait,
            9 => Self::LastAck,
            10 => Self::Listen,
            11 => Self::Closing,
            _ => Self::Other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A buffer in which each 32-bit word holds its own offset, so that a swapped offset shows.
    fn words(length: usize) -> Vec<u8> {
        (0..length as u32).step_by(4).flat_map(u32::to_ne_bytes).collect()
    }

    #[test]
    fn a_shorter_struct_of_an_older_kernel_leaves_zeros() {
        // Linux 2.6: 104 bytes, up to and with total_retrans.
        let old = decode(&Fields(&words(104)));
        assert_eq!((old.rtt, old.cwnd, old.segments_retransmitted), (Span::from_micros(68), 80, 100));
        assert_eq!((old.pacing_rate, old.min_rtt, old.send_window), (Some(Rate::ZERO), Span::ZERO, ByteCount::ZERO));
        // A field cut in the middle is not half believed.
        assert_eq!(decode(&Fields(&words(104)[..83])).cwnd, 0);
        assert_eq!(decode(&Fields(&[])).state, ConnectionState::Other);
    }

    #[test]
    fn infinite_values_are_not_numbers() {
        let mut bytes = words(232);
        bytes[76..80].copy_from_slice(&INFINITE_SSTHRESH.to_ne_bytes());
        bytes[148..152].copy_from_slice(&u32::MAX.to_ne_bytes());
        bytes[112..120].copy_from_slice(&u64::MAX.to_ne_bytes());
        let info = decode(&Fields(&bytes));
        assert_eq!((info.ssthresh, info.min_rtt, info.max_pacing_rate), (None, Span::ZERO, None));
    }
}
