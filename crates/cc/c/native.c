/* SPDX-License-Identifier: MIT OR GPL-2.0 */
/*
 * The kernel's functions that algorithms call, for the native build: slow start, additive increase and Reno, as
 * RFC 5681 and Linux have them, in packets.
 */
#define ALGORITHM kernel
#include "kernel.h"

static u32 clamped(const struct tcp_sock *tp, u64 window)
{
	return window < tp->snd_cwnd_clamp ? window : tp->snd_cwnd_clamp;
}

/* Grows by one packet per packet acknowledged, up to ssthresh; returns the packets that are left over. */
u32 tcp_slow_start(struct tcp_sock *tp, u32 acked)
{
	u64 wanted = (u64)tp->snd_cwnd + acked;
	u32 window = wanted < tp->snd_ssthresh ? wanted : tp->snd_ssthresh;

	acked -= window - tp->snd_cwnd;
	tp->snd_cwnd = clamped(tp, window);
	return acked;
}

/* Grows by one packet for each w acknowledged; credits from a time with a larger w are worth one packet at most. */
void tcp_cong_avoid_ai(struct tcp_sock *tp, u32 w, u32 acked)
{
	u64 window = tp->snd_cwnd;

	if (tp->snd_cwnd_cnt >= w) {
		tp->snd_cwnd_cnt = 0;
		window++;
	}
	tp->snd_cwnd_cnt += acked;
	if (tp->snd_cwnd_cnt >= w) {
		u32 steps = tp->snd_cwnd_cnt / w;

		tp->snd_cwnd_cnt -= steps * w;
		window += steps;
	}
	tp->snd_cwnd = clamped(tp, window);
}

u32 tcp_reno_ssthresh(struct sock *sk)
{
	u32 half = tcp_sk(sk)->snd_cwnd / 2;

	return half > 2 ? half : 2;
}

void tcp_reno_cong_avoid(struct sock *sk, u32 ack, u32 acked)
{
	struct tcp_sock *tp = tcp_sk(sk);

	(void)ack;
	if (!beyond_slow_start(sk, &acked))
		return;
	tcp_cong_avoid_ai(tp, tp->snd_cwnd, acked);
}

u32 tcp_reno_undo_cwnd(struct sock *sk)
{
	const struct tcp_sock *tp = tcp_sk(sk);

	return tp->snd_cwnd > tp->prior_cwnd ? tp->snd_cwnd : tp->prior_cwnd;
}

/* Where the fields lie, in the order of Socket in src/native/socket.rs, whose test compares them. */
unsigned long icdc_socket_layout(unsigned long index)
{
#define AT(field) __builtin_offsetof(struct tcp_sock, field)
	const unsigned long layout[] = {
		AT(inet_conn.icsk_inet.sk.sk_pacing_rate), AT(inet_conn.icsk_inet.sk.sk_max_pacing_rate),
		AT(inet_conn.icsk_inet.sk.sk_pacing_status), AT(inet_conn.icsk_ca_priv),
		AT(tcp_mstamp), AT(snd_cwnd), AT(snd_cwnd_cnt), AT(snd_cwnd_clamp), AT(snd_cwnd_stamp), AT(snd_ssthresh),
		AT(prior_cwnd), AT(packets_out), AT(max_packets_out), AT(srtt_us), AT(mdev_us), AT(mss_cache), AT(delivered),
		AT(snd_nxt), AT(snd_una), AT(lsndtime), AT(lost_out), AT(sacked_out), AT(retrans_out),
		AT(is_cwnd_limited), AT(ca_state), AT(bundle), sizeof(struct tcp_sock),
	};

	return index < sizeof(layout) / sizeof(layout[0]) ? layout[index] : ~0UL;
}
