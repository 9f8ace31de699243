/* SPDX-License-Identifier: MIT OR GPL-2.0 */
/*
 * Scalable TCP.
 *
 *   per packet acknowledged   w += a, 1/w below 1/a packets    after slow start
 *   on loss                   w -= b w
 *
 * w window, packets; a = 0.01, b = 1/8, so that the time to come back from a loss, ln(1/(1-b))/a = 13.4 round trips, is
 * the same for every window.
 *
 * Source: T. Kelly, Scalable TCP: Improving Performance in Highspeed Wide Area Networks, CCR 33(2), 2003, as Linux's
 * tcp_scalable has it since kernel 5.7. Deviation of Linux from the paper: the paper's is Reno up to 16 packets (low_window = 16),
 * where both have the same mean window at the same loss rate, and adds a beyond; Linux adds a packet per round trip up to
 * 100 packets, and always takes off an eighth.
 */
#define ALGORITHM scalable
#include "kernel.h"
#include "growth.h"

/* Section 3.1 of the paper: lwnd. */
PARAMETER(u32, low_window, 0, 0, 10000, "window up to which it is Reno, packets: 16 in the paper; 0: as Linux")
/* a; the paper's choice after weighing stability against speed. */
PARAMETER(u32, increase, 10, 1, 500, "growth per packet acknowledged, in thousandths of a packet")
/* b; likewise. */
PARAMETER(u32, decrease, 125, 10, 500, "share of the window taken off on loss, in thousandths")
PARAMETERS(low_window, increase, decrease)

struct scalable {
	u64 carried;
};
CHECK_PRIVATE(struct scalable);

OPERATION_1(void, init, struct sock *, sk)
{
	struct scalable *ca = inet_csk_ca(sk);

	ca->carried = 0;
}

OPERATION_3(void, cong_avoid, struct sock *, sk, u32, ack, u32, acked)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct scalable *ca = inet_csk_ca(sk);
	u64 part = (1ULL << PART_BITS) / 1000 * increase;

	(void)ack;
	if (!beyond_slow_start(sk, &acked))
		return;
	if (tp->snd_cwnd <= low_window || (!low_window && tp->snd_cwnd < 1000 / increase))
		part = part_per_packet(Q16_ONE, tp->snd_cwnd);
	grow(tp, &ca->carried, part, acked);
}

OPERATION_1(u32, ssthresh, struct sock *, sk)
{
	const struct tcp_sock *tp = tcp_sk(sk);

	return reduced(tp->snd_cwnd, tp->snd_cwnd <= low_window ? Q16_ONE / 2 : decrease * Q16_ONE / 1000);
}

OPERATION_1(u32, undo_cwnd, struct sock *, sk)
{
	return tcp_reno_undo_cwnd(sk);
}

OPERATIONS(
	.init = init,
	.ssthresh = ssthresh,
	.cong_avoid = cong_avoid,
	.undo_cwnd = undo_cwnd
)
