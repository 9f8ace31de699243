/* SPDX-License-Identifier: MIT OR GPL-2.0 */
/*
 * HighSpeed TCP.
 *
 *   per packet acknowledged   w += a(w)/w    after slow start
 *   on loss                   w -= b(w) w
 *
 * w window, packets; a(w), b(w) in response.h. Up to 38 packets a = 1 and b = 1/2: Reno. At 83000 packets a = 72.5 and
 * b = 0.1. Source: RFC 3649.
 *
 * Deviations: a and b by logarithms, not by the table of the RFC's appendix B, whose line begins at a loss rate of 1e-3 at 38
 * packets; from 1.5/38^2, Reno's own, a is 2 to 5 % more, b the same to a hundredth. The RFC ends at
 * 83000 packets, 10 Gbit/s over 100 ms; above, b stays and a goes on along the same line: 1680 packets per round trip at
 * 4.3 million packets (100 Gbit/s over 500 ms), where a = 72.5 would need 50 minutes to come back from one loss. No limited
 * slow start (RFC 3742).
 */
#define ALGORITHM highspeed
#include "kernel.h"
#include "growth.h"
#include "response.h"

/* Wl: where HighSpeed begins and Reno ends. RFC 3649 section 5: Low_Window. */
PARAMETER(u32, low_window, 38, 4, 10000, "window up to which it is Reno, packets")
/* Wh: RFC 3649 section 5, High_Window. */
PARAMETER(u32, high_window, 83000, 20000, 100000000, "window at which the decrease is high_decrease, packets")
/* I = 1/High_P. */
PARAMETER(u32, high_loss_interval, 10000000, 100000, 1000000000, "packets between losses at which high_window is the mean window")
/* bh: RFC 3649 section 5, High_Decrease. */
PARAMETER(u32, high_decrease, 100, 10, 500, "share of the window taken off on loss at high_window, in thousandths")
PARAMETERS(low_window, high_window, high_loss_interval, high_decrease)

struct highspeed {
	struct response response;
	/* What each packet acknowledged adds (growth.h) while the window is `window`. */
	u64 part;
	u64 carried;
	u32 window;
};
CHECK_PRIVATE(struct highspeed);

OPERATION_1(void, init, struct sock *, sk)
{
	struct highspeed *ca = inet_csk_ca(sk);

	response_init(&ca->response, low_window, high_window, high_loss_interval, high_decrease);
	ca->part = 0;
	ca->carried = 0;
	ca->window = 0;
}

OPERATION_3(void, cong_avoid, struct sock *, sk, u32, ack, u32, acked)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct highspeed *ca = inet_csk_ca(sk);

	(void)ack;
	if (!beyond_slow_start(sk, &acked))
		return;
	if (ca->window != tp->snd_cwnd) {
		u64 increase = response_increase(&ca->response, response_log(&ca->response, tp->snd_cwnd));

		ca->part = part_per_packet(increase, tp->snd_cwnd);
		ca->window = tp->snd_cwnd;
	}
	grow(tp, &ca->carried, ca->part, acked);
}

OPERATION_1(u32, ssthresh, struct sock *, sk)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	struct highspeed *ca = inet_csk_ca(sk);
	u32 decrease = response_decrease(&ca->response, response_log(&ca->response, tp->snd_cwnd));

	return reduced(tp->snd_cwnd, decrease);
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
