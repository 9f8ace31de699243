/* SPDX-License-Identifier: MIT OR GPL-2.0 */
/*
 * BIC: binary increase to the window of the last loss, then probing beyond it.
 *
 *   packets per round trip, a(w):
 *     w < Wl                  1                                         Reno
 *     w < Wmax                (Wmax - w)/B  within [s, Smax]            binary search, additive when far away
 *     w < Wmax + B            s                                         around Wmax: slow
 *     beyond                  (w - Wmax)/(B - 1)  up to Smax            probing for a new maximum
 *     no loss yet             at least w/20
 *   on loss                   Wmax <- w, or w (1 + beta)/2 if w < Wmax  (fast convergence: leave room for newcomers)
 *                             w <- beta w; w/2 below Wl
 *
 * w, Wmax, Smax, s in packets; Wl = 14, B = 4, Smax = 16, s = B/20 = 0.2, beta = 819/1024.
 *
 * Source: L. Xu, K. Harfoush, I. Rhee, Binary Increase Congestion Control (BIC) for Fast Long-Distance Networks, INFOCOM
 * 2004; the constants are Linux's, which searches by quarters (B) where the paper halves.
 * Deviations from Linux: the step falls continuously to s where Linux's jumps from 1 to 0.2; acknowledgements are counted
 * exactly, so that no estimate of the delayed-acknowledgement ratio is needed.
 */
#define ALGORITHM bic
#include "kernel.h"
#include "growth.h"

/* B: Linux's BICTCP_B. */
#define SEARCH 4U

/* Wl */
PARAMETER(u32, low_window, 14, 2, 10000, "window below which it is Reno, packets")
/* Smax; the paper's default is 32. */
PARAMETER(u32, max_increment, 16, 1, 10000, "largest growth per round trip, packets")
/* s = B/smooth_part */
PARAMETER(u32, smooth_part, 20, 4, 1000, "round trips for four packets of growth close to the last maximum")
/* beta; the paper's is 0.875 = 896/1024. */
PARAMETER(u32, beta, 819, 512, 1023, "share of the window kept on loss, in 1024ths")
PARAMETER(u32, fast_convergence, 1, 0, 1, "1: give way below the last maximum")
PARAMETERS(low_window, max_increment, smooth_part, beta, fast_convergence)

struct bic {
	u64 carried;
	/* Wmax, 0 before the first loss. */
	u32 max;
	/* Wmax before the last loss, in case that is undone. */
	u32 previous_max;
};
CHECK_PRIVATE(struct bic);

OPERATION_1(void, init, struct sock *, sk)
{
	struct bic *ca = inet_csk_ca(sk);

	ca->carried = 0;
	ca->max = 0;
	ca->previous_max = 0;
}

/* a(w) in q16. */
static inline u64 bic_increase(u32 max, u32 window)
{
	u64 most = (u64)max_increment << 16;
	u64 least = SEARCH * Q16_ONE / smooth_part;
	u64 step;

	if (window < low_window)
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

OPERATION_3(void, cong_avoid, struct sock *, sk, u32, ack, u32, acked)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct bic *ca = inet_csk_ca(sk);

	(void)ack;
	if (!beyond_slow_start(sk, &acked))
		return;
	grow(tp, &ca->carried, part_per_packet(bic_increase(ca->max, tp->snd_cwnd), tp->snd_cwnd), acked);
}

OPERATION_1(u32, ssthresh, struct sock *, sk)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	struct bic *ca = inet_csk_ca(sk);
	u32 window = tp->snd_cwnd;

	ca->previous_max = ca->max;
	ca->max = window < ca->max && fast_convergence ? (u64)window * (1024 + beta) / 2048 : window;
	return reduced(window, window < low_window ? Q16_ONE / 2 : (1024 - beta) * 64);
}

OPERATION_2(void, set_state, struct sock *, sk, u8, new_state)
{
	struct bic *ca = inet_csk_ca(sk);

	/* After a timeout the path is taken as unknown. */
	if (new_state == TCP_CA_Loss)
		ca->max = 0;
}

OPERATION_1(u32, undo_cwnd, struct sock *, sk)
{
	struct bic *ca = inet_csk_ca(sk);

	ca->max = ca->previous_max;
	return tcp_reno_undo_cwnd(sk);
}

OPERATIONS(
	.init = init,
	.ssthresh = ssthresh,
	.cong_avoid = cong_avoid,
	.set_state = set_state,
	.undo_cwnd = undo_cwnd
)
