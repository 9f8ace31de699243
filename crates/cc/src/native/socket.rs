//! The simulated socket: the fields of `c/kernel.h`.

/// A connection as an algorithm sees it; units as in `c/kernel.h`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
#[expect(missing_docs, reason = "the fields are the kernel's, described in c/kernel.h")]
pub struct Socket {
    pub sk_pacing_rate: u64,
    pub sk_max_pacing_rate: u64,
    pub sk_pacing_status: u32,
    pub icsk_ca_priv: [u64; 13],
    pub tcp_mstamp: u64,
    pub snd_cwnd: u32,
    pub snd_cwnd_cnt: u32,
    pub snd_cwnd_clamp: u32,
    pub snd_cwnd_stamp: u32,
    pub snd_ssthresh: u32,
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
    pub is_cwnd_limited: u32,
    pub ca_state: u32,
    pub bundle: u32,
}

#[cfg(test)]
mod tests {
    use std::mem::{offset_of, size_of};

    use super::*;
    use crate::native::sys;

    #[test]
    fn the_fields_lie_where_the_algorithms_look_for_them() {
        let ours = [
            offset_of!(Socket, sk_pacing_rate),
            offset_of!(Socket, sk_max_pacing_rate),
            offset_of!(Socket, sk_pacing_status),
            offset_of!(Socket, icsk_ca_priv),
            offset_of!(Socket, tcp_mstamp),
            offset_of!(Socket, snd_cwnd),
            offset_of!(Socket, snd_cwnd_cnt),
            offset_of!(Socket, snd_cwnd_clamp),
            offset_of!(Socket, snd_cwnd_stamp),
            offset_of!(Socket, snd_ssthresh),
            offset_of!(Socket, prior_cwnd),
            offset_of!(Socket, packets_out),
            offset_of!(Socket, max_packets_out),
            offset_of!(Socket, srtt_us),
            offset_of!(Socket, mdev_us),
            offset_of!(Socket, mss_cache),
            offset_of!(Socket, delivered),
            offset_of!(Socket, snd_nxt),
            offset_of!(Socket, snd_una),
            offset_of!(Socket, lsndtime),
            offset_of!(Socket, lost_out),
            offset_of!(Socket, sacked_out),
            offset_of!(Socket, retrans_out),
            offset_of!(Socket, is_cwnd_limited),
            offset_of!(Socket, ca_state),
            offset_of!(Socket, bundle),
            size_of::<Socket>(),
            usize::MAX,
        ];
        for (index, offset) in ours.into_iter().enumerate() {
            // SAFETY: a pure function of its argument.
            assert_eq!(unsafe { sys::icdc_socket_layout(index) }, offset, "field {index}");
        }
    }
}
