/* SPDX-License-Identifier: MIT OR GPL-2.0 */
/*
 * gHSTCP, gentle HighSpeed TCP: HighSpeed's growth and decrease while round-trip times are flat, Reno's while they rise.
 *
 *   Reno's mode, the trend of the last N samples rises     per packet acknowledged   w += 1/w      on loss   w -= w/2
 *   HighSpeed's mode                                       per acknowledgement       w += a(w)/w   on loss   w -= b(w) w
 *
 * w window, packets; a(w), b(w) as in highspeed.c; the test of the trend in trend.h.
 *
 * Sources: Z. Zhang, G. Hasegawa, M. Murata, Performance analysis of HighSpeed TCP and its improvement for high throughput
 * and fairness against TCP Reno connections (the proposal); the paper on TCP proxies with gHSTCP, section 2.2.2 (both speeds
 * follow the mode, and Reno's mode updates the window as TCP Reno); Experimental results of implementing high-speed and
 * parallel TCP variants for long fat networks, IEICE Transactions on Communications, 2006 (a refinement).
 *
 * This is a reconstruction from abstracts and from what others report. Known: two modes in congestion avoidance, Reno's
 * and HighSpeed's, chosen by whether the round-trip time shows an increasing trend, which the proposal finds by a test of
 * correlation between departure times and round-trip times; what a mode decides. (The refinement compares two thresholds of
 * the round-trip time; it is not followed here.) Chosen here: N = 128 samples, 32 per round trip; 1 % significance; blocks
 * that do not overlap, because the kernel's 104 bytes hold sums, not samples; that a loss, slow start or idle time ends in
 * HighSpeed's mode with a new block, once the loss has taken off what its mode says.
 */
#define ALGORITHM ghstcp
#include "kernel.h"
#include "growth.h"
#include "response.h"
#include "rfc3649_table.h"
#include "trend.h"

PARAMETER(u32, samples, 128, 8, TREND_MOST_SAMPLES, "round-trip times in a test of the trend")
PARAMETER(u32, samples_per_rtt, 32, 1, 256, "round-trip times taken per round trip")
/* One-sided test at 1 %, 126 degrees of freedom; 1.66 for 5 %, 3.16 for 0.1 %. */
PARAMETER(u32, critical, 236, 0, 2000, "value of Student's t above which the trend counts as rising, in hundredths")
PARAMETER(u32, decrease, 2, 0, 2, "what a loss takes off: 0 always HighSpeed's share, 1 always half, 2 as the mode says")
/* As in highspeed.c. */
PARAMETER(u32, per_ack, 1, 0, 1, "HighSpeed's mode: 1 as Linux, by a table and per acknowledgement; 0 RFC 3649's formula")
PARAMETER(u32, low_window, 38, 4, 10000, "window up to which it is Reno, packets")
PARAMETER(u32, high_window, 83000, 20000, 100000000, "window at which HighSpeed's decrease is 0.1, packets")
PARAMETERS(samples, samples_per_rtt, critical, decrease, per_ack, low_window, high_window)

struct ghstcp {
	struct response response;
	struct trend trend;
	u64 carried;
	/* Of the table. */
	u32 row;
	/* Low 32 bits of the time of the last sample, microseconds. */
	u32 sampled_us;
	bool rising;
};
CHECK_PRIVATE(struct ghstcp);

static inline void ghstcp_restart(struct ghstcp *ca)
{
	trend_restart(&ca->trend);
	ca->rising = false;
}

OPERATION_1(void, init, struct sock *, sk)
{
	struct ghstcp *ca = inet_csk_ca(sk);
	const struct tcp_sock *tp = tcp_sk(sk);

	if (per_ack)
		table_init(&ca->response);
	else
		response_init(&ca->response, low_window, high_window, RFC3649_LOSS_INTERVAL, RFC3649_HIGH_DECREASE);
	ca->row = 0;
	ca->carried = 0;
	ca->sampled_us = tp->tcp_mstamp;
	ghstcp_restart(ca);
}

OPERATION_2(void, pkts_acked, struct sock *, sk, const struct ack_sample *, sample)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	struct ghstcp *ca = inet_csk_ca(sk);
	s32 rtt = sample->rtt_us;
	u64 now = tp->tcp_mstamp;

	if (rtt <= 0)
		return;
	/* Slow start and recovery make queues rise and fall by themselves. */
	if (tcp_in_slow_start(tp) || icsk_ca_state(sk) > TCP_CA_Disorder) {
		ghstcp_restart(ca);
		return;
	}
	if ((u32)now - ca->sampled_us < (tp->srtt_us >> 3) / samples_per_rtt)
		return;
	ca->sampled_us = now;
	trend_add(&ca->trend, now - rtt, rtt);
	if (ca->trend.samples >= samples) {
		ca->rising = trend_rising(&ca->trend, critical);
		trend_restart(&ca->trend);
	}
}

OPERATION_3(void, cong_avoid, struct sock *, sk, u32, ack, u32, acked)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct ghstcp *ca = inet_csk_ca(sk);
	u64 increase = Q16_ONE;

	(void)ack;
	if (!beyond_slow_start(sk, &acked))
		return;
	if (per_ack) {
		ca->row = table_row(tp->snd_cwnd);
		if (ca->rising)
			tcp_cong_avoid_ai(tp, tp->snd_cwnd, acked);
		else
			table_grow(tp, ca->row);
		return;
	}
	if (!ca->rising)
		increase = response_increase(&ca->response, response_log(&ca->response, tp->snd_cwnd));
	grow(tp, &ca->carried, part_per_packet(increase, tp->snd_cwnd), acked);
}

OPERATION_1(u32, ssthresh, struct sock *, sk)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	struct ghstcp *ca = inet_csk_ca(sk);
	bool halves = decrease == 2 ? ca->rising : decrease;
	u32 taken = Q16_ONE / 2;

	ghstcp_restart(ca);
	if (!halves)
		taken = per_ack ? table_decrease(&ca->response, ca->row) :
			response_decrease(&ca->response, response_log(&ca->response, tp->snd_cwnd));
	return reduced(tp->snd_cwnd, taken);
}

OPERATION_2(void, cwnd_event, struct sock *, sk, enum tcp_ca_event, event)
{
	if (event == CA_EVENT_CWND_RESTART || event == CA_EVENT_TX_START)
		ghstcp_restart(inet_csk_ca(sk));
}

OPERATION_1(u32, undo_cwnd, struct sock *, sk)
{
	return tcp_reno_undo_cwnd(sk);
}

OPERATIONS(
	.init = init,
	.ssthresh = ssthresh,
	.cong_avoid = cong_avoid,
	.pkts_acked = pkts_acked,
	.cwnd_event = cwnd_event,
	.undo_cwnd = undo_cwnd
)
