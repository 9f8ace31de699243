/* SPDX-License-Identifier: MIT OR GPL-2.0 */
/*
 * HighSpeed TCP.
 *
 *   per acknowledgement       w += a(w)/w    after slow start
 *   on loss                   w -= b(w) w
 *
 * w window, packets; a(w), b(w) the table of rfc3649_table.h. Up to 38 packets a = 1 and b = 1/2: Reno. At 84000 packets
 * a = 71 and b = 0.1. Source: RFC 3649, as Linux's tcp_highspeed has it.
 *
 * Deviations of Linux from the RFC: a acknowledgements, not packets, make a packet, so that a receiver that answers every
 * second packet halves the growth; no acknowledgement adds more than one packet; a loss in slow start halves the window;
 * beyond the table's last row a and b stay; no limited slow start (RFC 3742).
 *
 * With per_ack = 0 it is the RFC's formula: per packet acknowledged, a(w), b(w) in response.h. There the line of a and b
 * begins at a loss rate of 1.5/38^2, Reno's own, where the RFC has 1e-3: a is 2 to 5 % more, b the same to a hundredth.
 * Beyond 83000 packets, where the RFC ends, b stays and a goes on along the line: 1680 packets per round trip at 4.3 million
 * packets (100 Gbit/s over 500 ms), where a = 72.5 would need 50 minutes to come back from one loss.
 */
#define ALGORITHM highspeed
#include "kernel.h"
#include "growth.h"
#include "response.h"
#include "rfc3649_table.h"

PARAMETER(u32, per_ack, 1, 0, 1, "1: as Linux, by a table and per acknowledgement; 0: RFC 3649's formula, per packet acknowledged")
/* The rest is for the formula. Wl: where HighSpeed begins and Reno ends. RFC 3649 section 5: Low_Window. */
PARAMETER(u32, low_window, 38, 4, 10000, "window up to which it is Reno, packets")
/* Wh: RFC 3649 section 5, High_Window. */
PARAMETER(u32, high_window, 83000, 20000, 100000000, "window at which the decrease is high_decrease, packets")
/* I = 1/High_P. */
PARAMETER(u32, high_loss_interval, 10000000, 100000, 1000000000, "packets between losses at which high_window is the mean window")
/* bh: RFC 3649 section 5, High_Decrease. */
PARAMETER(u32, high_decrease, 100, 10, 500, "share of the window taken off on loss at high_window, in thousandths")
PARAMETERS(per_ack, low_window, high_window, high_loss_interval, high_decrease)

struct highspeed {
	struct response response;
	/* What each packet acknowledged adds (growth.h) while the window is `window`. */
	u64 part;
	u64 carried;
	u32 window;
	/* Of the table. */
	u32 row;
};
CHECK_PRIVATE(struct highspeed);

OPERATION_1(void, init, struct sock *, sk)
{
	struct highspeed *ca = inet_csk_ca(sk);

	if (per_ack)
		table_init(&ca->response);
	else
		response_init(&ca->response, low_window, high_window, high_loss_interval, high_decrease);
	ca->part = 0;
	ca->carried = 0;
	ca->window = 0;
	ca->row = 0;
}

OPERATION_3(void, cong_avoid, struct sock *, sk, u32, ack, u32, acked)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct highspeed *ca = inet_csk_ca(sk);

	(void)ack;
	if (!beyond_slow_start(sk, &acked))
		return;
	if (per_ack) {
		ca->row = table_row(tp->snd_cwnd);
		table_grow(tp, ca->row);
		return;
	}
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

	if (per_ack)
		return reduced(tp->snd_cwnd, table_decrease(&ca->response, ca->row));
	return reduced(tp->snd_cwnd, response_decrease(&ca->response, response_log(&ca->response, tp->snd_cwnd)));
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
