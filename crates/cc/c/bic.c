/* SPDX-License-Identifier: MIT OR GPL-2.0 */
/*
 * BIC: binary increase to the window of the last loss, then probing beyond it.
 *
 *   packets per round trip, a(w):
 *     w <= Wl                 1                                         Reno
 *     w < Wmax                (Wmax - w)/B  within [s, Smax]            binary search, additive when far away
 *     w < Wmax + B            s                                         around Wmax: slow
 *     beyond                  (w - Wmax)/(B - 1)  up to Smax            probing for a new maximum
 *     no loss yet             at least w/20
 *   per packet acknowledged   w += D a(w)/w,  D packets per acknowledgement, estimated
 *   on loss                   Wmax <- w, or w (1 + beta)/2 if w < Wmax  (fast convergence: leave room for newcomers)
 *                             w <- beta w; w/2 up to Wl
 *
 * w, Wmax, Smax, s in packets; Wl = 14, B = 4, Smax = 16, s = B/20 = 0.2, beta = 819/1024.
 *
 * Source: L. Xu, K. Harfoush, I. Rhee, Binary Increase Congestion Control (BIC) for Fast Long-Distance Networks, INFOCOM
 * 2004, as Linux's tcp_bic has it. Deviations of Linux from the paper: it searches by quarters (B) where the paper halves;
 * packets and steps are whole numbers, so that the step falls from 2 to 0.2; since kernel 5.7 packets are counted and D
 * multiplies them, so that the growth is D times the paper's: twice with delayed acknowledgements, more where a receiver
 * answers in batches. D is a moving average in sixteenths that stands still where it is correct to a whole packet.
 *
 * With ack_ratio = 0 D is 1, and steps are exact.
 */
#define ALGORITHM bic
#include "kernel.h"
#include "growth.h"

/* B: Linux's BICTCP_B. */
#define SEARCH 4U

PARAMETER(u32, ack_ratio, 1, 0, 1, "1: as Linux, growth times the packets that an acknowledgement answers; 0: the paper's growth")
/* Wl */
PARAMETER(u32, low_window, 14, 2, 10000, "window up to which it is Reno, packets")
/* Smax; the paper's default is 32. */
PARAMETER(u32, max_increment, 16, 1, 10000, "largest growth per round trip, packets")
/* s = B/smooth_part */
PARAMETER(u32, smooth_part, 20, 4, 1000, "round trips for four packets of growth close to the last maximum")
/* beta; the paper's is 0.875 = 896/1024. */
PARAMETER(u32, beta, 819, 512, 1023, "share of the window kept on loss, in 1024ths")
PARAMETER(u32, fast_convergence, 1, 0, 1, "1: give way below the last maximum")
PARAMETERS(ack_ratio, low_window, max_increment, smooth_part, beta, fast_convergence)

/* D, in sixteenths. */
#define RATIO_SHIFT 4
/* How long the count of a window that does not change is kept, at most: Linux's HZ/32. */
#define STALE_US 31250U

struct bic {
	u64 carried;
	/* Wmax, 0 before the first loss. */
	u32 max;
	/* Packets to be acknowledged for one of growth; the window that it is for, and when it was found (low 32 bits). */
	u32 count;
	u32 counted_window;
	u32 counted_us;
	/* D */
	u32 ratio;
};
CHECK_PRIVATE(struct bic);

static inline void bic_restart(struct bic *ca)
{
	ca->max = 0;
	ca->count = 0;
	ca->counted_window = 0;
	ca->counted_us = 0;
	ca->ratio = 2 << RATIO_SHIFT;
}

OPERATION_1(void, init, struct sock *, sk)
{
	struct bic *ca = inet_csk_ca(sk);

	bic_restart(ca);
	ca->carried = 0;
}

/* a(w) in q16, exact. */
static inline u64 bic_increase(u32 max, u32 window)
{
	u64 most = (u64)max_increment << 16;
	u64 least = SEARCH * Q16_ONE / smooth_part;
	u64 step;

	if (window <= low_window)
		return Q16_ONE;
	if (window < max)
		step = ((u64)(max - window) << 16) / SEARCH;
	else if (window - max < SEARCH)
		step = least;
	else
		step = ((u64)(window - max) << 16) / (SEARCH - 1);
	if (step > most)
		step = most;
	if (step < least)
		step = least;
	if (!max && step < ((u64)window << 16) / 20)
		step = ((u64)window << 16) / 20;
	return step;
}

/* w/a(w) beyond Wl in whole packets: Linux's count, before D. */
static inline u32 bic_count(u32 max, u32 window)
{
	u64 slow = (u64)window * smooth_part / SEARCH;
	u32 count;

	if (window < max) {
		u32 step = (max - window) / SEARCH;

		count = step > max_increment ? window / max_increment : step <= 1 ? slow : window / step;
	} else if (window - max < SEARCH) {
		count = slow;
	} else if (window - max < max_increment * (SEARCH - 1)) {
		count = (u64)window * (SEARCH - 1) / (window - max);
	} else {
		count = window / max_increment;
	}
	return !max && count > 20 ? 20 : count;
}

static inline void bic_recount(struct bic *ca, u32 window, u32 now)
{
	/* Up to Wl it is Reno, without D. */
	u64 count = window;

	if (ca->counted_window == window && now - ca->counted_us <= STALE_US)
		return;
	ca->counted_window = window;
	ca->counted_us = now;
	if (window > low_window) {
		count = bic_count(ca->max, window);
		if (ca->ratio)
			count = (count << RATIO_SHIFT) / ca->ratio;
	}
	ca->count = count ? count : 1;
}

OPERATION_3(void, cong_avoid, struct sock *, sk, u32, ack, u32, acked)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct bic *ca = inet_csk_ca(sk);

	(void)ack;
	if (!beyond_slow_start(sk, &acked))
		return;
	if (ack_ratio) {
		bic_recount(ca, tp->snd_cwnd, tp->tcp_mstamp);
		tcp_cong_avoid_ai(tp, ca->count, acked);
		return;
	}
	grow(tp, &ca->carried, part_per_packet(bic_increase(ca->max, tp->snd_cwnd), tp->snd_cwnd), acked);
}

OPERATION_2(void, pkts_acked, struct sock *, sk, const struct ack_sample *, sample)
{
	struct bic *ca = inet_csk_ca(sk);

	if (icsk_ca_state(sk) == TCP_CA_Open)
		ca->ratio += sample->pkts_acked - (ca->ratio >> RATIO_SHIFT);
}

OPERATION_1(u32, ssthresh, struct sock *, sk)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	struct bic *ca = inet_csk_ca(sk);
	u32 window = tp->snd_cwnd;

	ca->max = window < ca->max && fast_convergence ? (u64)window * (1024 + beta) / 2048 : window;
	return reduced(window, window <= low_window ? Q16_ONE / 2 : (1024 - beta) * 64);
}

OPERATION_2(void, set_state, struct sock *, sk, u8, new_state)
{
	struct bic *ca = inet_csk_ca(sk);

	/* After a timeout the path is taken as unknown. */
	if (new_state == TCP_CA_Loss)
		bic_restart(ca);
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
	.set_state = set_state,
	.undo_cwnd = undo_cwnd
)
