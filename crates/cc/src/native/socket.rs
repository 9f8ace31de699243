//! The simulated socket: the fields of `c/kernel.h`.

use icdc_units::Rate;

/// Kernel constant `SK_PACING_NONE`, a value of `sk_pacing_status`: TCP does not pace.
const PACING_NONE: u32 = 0;
/// Kernel constant `SK_PACING_NEEDED`: TCP paces the socket's packets itself.
pub const PACING_NEEDED: u32 = 1;

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

impl Socket {
    /// The pacing rate in force; `None` if packets are not paced.
    #[must_use]
    pub fn pacing_rate(&self) -> Option<Rate> {
        let bytes = self.sk_pacing_rate.min(self.sk_max_pacing_rate);
        (self.sk_pacing_status != PACING_NONE && bytes != u64::MAX && bytes > 0)
            .then(|| Rate::from_bytes_per_second(bytes))
    }

    /// Sets the pacing rate after an acknowledgement, for an algorithm that sets a window only (`tcp_update_pacing_rate`).
    pub fn update_pacing_rate(&mut self) {
        let percent = if self.snd_cwnd < self.snd_ssthresh / 2 { 200 } else { 120 };
        let packets = u64::from(self.snd_cwnd.max(self.packets_out));
        let bytes = u128::from(packets * u64::from(self.mss_cache)) * percent * 80_000;
        let rate = bytes / u128::from(self.srtt_us.max(1));
        self.sk_pacing_rate = u64::try_from(rate).unwrap_or(u64::MAX).min(self.sk_max_pacing_rate);
    }
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
