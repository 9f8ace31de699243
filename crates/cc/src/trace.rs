//! Trace records of the tracing build of an algorithm, one for each operation in the kernel.

/// One operation of a traced algorithm in the kernel, with its arguments, result, and the socket's
/// fields: a record of the ring buffer `icdc_trace`, laid out as in `c/trace.h`, units as in
/// `c/kernel.h`.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the fields are the kernel's, described in c/kernel.h and c/trace.h")]
pub struct TraceRecord {
    pub socket: u64,
    pub operation: u32,
    pub result: u32,
    pub second: u32,
    pub third: u32,
    pub in_flight: u32,
    pub is_cwnd_limited: u32,
    pub ca_state: u32,
    pub snd_cwnd_clamp: u32,
    pub prior_cwnd: u32,
    pub packets_out: u32,
    pub max_packets_out: u32,
    pub srtt_us: u32,
    pub mdev_us: u32,
    pub mss_cache: u32,
    pub delivered: u32,
    pub snd_nxt: u32,
    pub snd_una: u32,
    pub lsndtime: u32,
    pub lost_out: u32,
    pub sacked_out: u32,
    pub retrans_out: u32,
    pub acked_sacked: u32,
    pub is_app_limited: u32,
    pub reserved: u32,
    pub tcp_mstamp: u64,
    pub before: TraceState,
    pub after: TraceState,
}

/// Fields of the socket that an operation may change, as a record has them before and after it.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "the fields are the kernel's, described in c/kernel.h")]
pub struct TraceState {
    pub private: [u64; 13],
    pub snd_cwnd: u32,
    pub snd_cwnd_cnt: u32,
    pub snd_ssthresh: u32,
    pub snd_cwnd_stamp: u32,
}

impl TraceRecord {
    /// Length of a record in bytes.
    pub const BYTES: usize = size_of::<Self>();

    /// The record in these bytes of the ring buffer; `None` if they are too few.
    #[must_use]
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let bytes = bytes.get(..Self::BYTES)?;
        // SAFETY: BYTES bytes, and every pattern of bits is a record.
        Some(unsafe { bytes.as_ptr().cast::<Self>().read_unaligned() })
    }
}

const _: () = assert!(TraceRecord::BYTES == 352, "c/trace.h has the same");
