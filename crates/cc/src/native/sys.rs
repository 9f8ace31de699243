//! The structures of `c/kernel.h` and `c/build_native.h`.

use std::ffi::{c_char, c_int, c_long, c_ulong};

use super::Socket;

/// Sample of one acknowledgement, the kernel's `struct ack_sample`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AckSample {
    /// Number of packets that were acknowledged cumulatively.
    pub pkts_acked: u32,
    /// Round-trip time in microseconds; negative without a valid one (Karn's rule).
    pub rtt_us: i32,
    /// Bytes delivered since the last of them was sent (packets × MSS).
    pub in_flight: u32,
}

/// Rate of delivery over one acknowledgement (draft-cheng-iccrg-delivery-rate-estimation).
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RateSample {
    /// Start of the interval in microseconds.
    pub prior_mstamp: u64,
    /// `delivered` of the socket at that time.
    pub prior_delivered: u32,
    /// Packets delivered over the interval; negative if unknown.
    pub delivered: i32,
    /// Length of the interval, microseconds; not positive if unknown.
    pub interval_us: c_long,
    /// Round-trip time, microseconds; negative if unknown.
    pub rtt_us: c_long,
    /// Number of packets newly marked lost.
    pub losses: c_int,
    /// Packets newly acknowledged or selectively acknowledged.
    pub acked_sacked: u32,
    /// Packets in flight before this acknowledgement.
    pub prior_in_flight: u32,
    /// Whether the sample began while the application had nothing to send.
    pub is_app_limited: bool,
    /// Whether the sample is of a packet that was retransmitted.
    pub is_retrans: bool,
    /// Whether the acknowledgement was likely delayed.
    pub is_ack_delayed: bool,
}

/// Table of an algorithm's C functions, laid out as `tcp_congestion_ops`; `None` for one that it
/// lacks.
#[repr(C)]
pub(crate) struct Operations {
    pub(crate) init: Option<unsafe extern "C" fn(*mut Socket)>,
    pub(crate) release: Option<unsafe extern "C" fn(*mut Socket)>,
    pub(crate) ssthresh: Option<unsafe extern "C" fn(*mut Socket) -> u32>,
    pub(crate) cong_avoid: Option<unsafe extern "C" fn(*mut Socket, u32, u32)>,
    pub(crate) set_state: Option<unsafe extern "C" fn(*mut Socket, u8)>,
    pub(crate) cwnd_event: Option<unsafe extern "C" fn(*mut Socket, u32)>,
    pub(crate) pkts_acked: Option<unsafe extern "C" fn(*mut Socket, *const AckSample)>,
    pub(crate) min_tso_segs: Option<unsafe extern "C" fn(*mut Socket) -> u32>,
    pub(crate) cong_control: Option<unsafe extern "C" fn(*mut Socket, *const RateSample)>,
    pub(crate) undo_cwnd: Option<unsafe extern "C" fn(*mut Socket) -> u32>,
    pub(crate) sndbuf_expand: Option<unsafe extern "C" fn(*mut Socket) -> u32>,
    name: [c_char; 16],
}

/// A parameter of an algorithm as its C file declares it: name, help, initial value and bounds, and
/// the function that sets it for the calling thread.
#[repr(C)]
pub(crate) struct Parameter {
    pub(crate) name: *const c_char,
    pub(crate) help: *const c_char,
    pub(crate) initial: i64,
    pub(crate) lowest: i64,
    pub(crate) highest: i64,
    pub(crate) set: unsafe extern "C" fn(i64),
}

// SAFETY: constants of the C file; what `set` writes belongs to the calling thread.
unsafe impl Sync for Parameter {}

/// Functions and parameters of an algorithm, as its C file declares them.
#[repr(C)]
pub(crate) struct Algorithm {
    operations: *const Operations,
    parameters: *const *const Parameter,
}

// SAFETY: constants; what is written through `set` belongs to the calling thread.
unsafe impl Sync for Algorithm {}

impl Algorithm {
    /// Functions of the algorithm.
    pub(crate) fn operations(&self) -> &'static Operations {
        // SAFETY: points to a constant of the same C file.
        unsafe { &*self.operations }
    }

    /// Parameters of the algorithm.
    pub(crate) fn parameters(&self) -> &'static [&'static Parameter] {
        // SAFETY: a constant array of pointers to constants, which ends with a null pointer.
        unsafe {
            let count = (0..).take_while(|&index| !(*self.parameters.add(index)).is_null()).count();
            std::slice::from_raw_parts(self.parameters.cast(), count)
        }
    }
}

unsafe extern "C" {
    pub(crate) static icdc_algorithm_reno: Algorithm;
    pub(crate) static icdc_algorithm_cubic: Algorithm;
    pub(crate) static icdc_algorithm_bbr: Algorithm;
    pub(crate) static icdc_algorithm_icdc: Algorithm;
    pub(crate) static icdc_algorithm_bic: Algorithm;
    pub(crate) static icdc_algorithm_htcp: Algorithm;
    pub(crate) static icdc_algorithm_highspeed: Algorithm;
    pub(crate) static icdc_algorithm_scalable: Algorithm;
    pub(crate) static icdc_algorithm_ghstcp: Algorithm;
    #[cfg(test)]
    pub(crate) fn icdc_socket_layout(index: usize) -> usize;
}

const _: () = assert!(size_of::<c_ulong>() == size_of::<u64>(), "the kernel's pacing rates are 64 bits wide here");
