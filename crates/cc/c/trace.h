/* SPDX-License-Identifier: MIT OR GPL-2.0 */
/* The record that the tracing build emits of each operation; mirrored in src/trace.rs. */
#ifndef ICDC_TRACE_H
#define ICDC_TRACE_H

#define ICDC_TRACE_PRIVATE 13

enum icdc_traced {
	ICDC_TRACED_init,
	ICDC_TRACED_ssthresh,
	ICDC_TRACED_cong_avoid,
	ICDC_TRACED_set_state,
	ICDC_TRACED_cwnd_event,
	ICDC_TRACED_pkts_acked,
	ICDC_TRACED_undo_cwnd,
	ICDC_TRACED_cong_control,
	ICDC_TRACED_release,
	ICDC_TRACED_min_tso_segs,
};

/* What an operation may change. */
struct icdc_trace_state {
	u64 private[ICDC_TRACE_PRIVATE];
	u32 snd_cwnd;
	u32 snd_cwnd_cnt;
	u32 snd_ssthresh;
	u32 snd_cwnd_stamp;
};

struct icdc_trace_record {
	/* Which connection: the address of its socket. */
	u64 socket;
	u32 operation;
	/* The operation's result, 0 if it has none. */
	u32 result;
	/*
	 * Second and third argument. For pkts_acked pkts_acked and rtt_us of the sample, in_flight below; for cong_control
	 * rtt_us and losses of the sample, prior_in_flight as in_flight, and what stands last here.
	 */
	u32 second;
	u32 third;
	u32 in_flight;
	/* What an operation reads. */
	u32 is_cwnd_limited;
	u32 ca_state;
	u32 snd_cwnd_clamp;
	u32 prior_cwnd;
	u32 packets_out;
	u32 max_packets_out;
	u32 srtt_us;
	u32 mdev_us;
	u32 mss_cache;
	u32 delivered;
	u32 snd_nxt;
	u32 snd_una;
	u32 lsndtime;
	u32 lost_out;
	u32 sacked_out;
	u32 retrans_out;
	u32 acked_sacked;
	u32 is_app_limited;
	u32 reserved;
	u64 tcp_mstamp;
	struct icdc_trace_state before;
	struct icdc_trace_state after;
};
_Static_assert(sizeof(struct icdc_trace_record) == 352, "src/trace.rs has the same");

#endif
