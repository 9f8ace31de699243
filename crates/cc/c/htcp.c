/* SPDX-License-Identifier: MIT OR GPL-2.0 */
/*
 * H-TCP: the longer since the last loss, the faster.
 *
 *   alpha(D) = 1                                        D <= DL
 *            = 1 + 10 (D - DL) + ((D - DL)/2)^2         D > DL
 *   with RTT scaling   alpha <- alpha x,  x = RTTmin/100 ms within [0.1, 2]; at least 1
 *                      alpha <- 2 (1 - beta) alpha
 *   per packet acknowledged   w += alpha/w   after slow start
 *   on loss   beta = RTTmin/RTTmax within [0.5, 0.8];  0.5 if |B - B'| > B'/5
 *             w <- beta w
 *
 * D time since the last loss, s; DL = 1 s; alpha packets per round trip; RTTmin least round-trip time of the connection,
 * RTTmax greatest one since the loss before; B, B' delivery rate just before this loss and the one before, packets per
 * second. beta is as much as empties a queue that drops at its tail; a changed rate means that others came or went.
 *
 * Source: D. Leith, R. Shorten, H-TCP: TCP for high-speed and long-distance networks, PFLDnet 2004, and
 * draft-leith-tcp-htcp-06.
 * Deviations: time without anything to send does not count into D, and D starts anew when the kernel resets the window
 * after idling; the draft says nothing of it. B is measured over the last full round trip outside recovery.
 */
#define ALGORITHM htcp
#include "kernel.h"
#include "growth.h"

/* DL */
PARAMETER(u32, low_speed_ms, 1000, 0, 60000, "time after a loss during which it is Reno, milliseconds")
PARAMETER(u32, rtt_scaling, 1, 0, 1, "1: connections of different round-trip times get equal shares")
PARAMETER(u32, bandwidth_switch, 1, 0, 1, "1: halve the window when the delivery rate changed by more than a fifth")
PARAMETER(u32, beta_lowest, 500, 100, 900, "least share of the window kept on loss, in thousandths")
PARAMETER(u32, beta_highest, 800, 500, 950, "greatest share of the window kept on loss, in thousandths")
PARAMETERS(low_speed_ms, rtt_scaling, bandwidth_switch, beta_lowest, beta_highest)

/* Beyond, alpha does not grow: 1000 s make 260000 packets per round trip. */
#define LONGEST_US 1000000000ULL
#define SECOND_US 1000000ULL
#define RTT_REFERENCE_US 100000U

struct htcp {
	u64 carried;
	/* Time of the last loss, and the one before in case the last is undone. */
	u64 loss_us;
	u64 previous_loss_us;
	/* Last acknowledgement. */
	u64 acked_us;
	/* Start of the round trip that is being measured, packets delivered since. */
	u64 round_us;
	u32 round_packets;
	/* Packets per second, over the last full round trip and at the last loss. */
	u32 rate;
	u32 loss_rate;
	u32 previous_loss_rate;
	u32 rtt_min_us;
	u32 rtt_max_us;
	u32 previous_rtt_max_us;
	/* Share of the window kept at the last loss, q16; and before. */
	u32 beta;
	u32 previous_beta;
};
CHECK_PRIVATE(struct htcp);

OPERATION_1(void, init, struct sock *, sk)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	struct htcp *ca = inet_csk_ca(sk);
	u64 now = tp->tcp_mstamp;

	ca->carried = 0;
	ca->loss_us = now;
	ca->previous_loss_us = now;
	ca->acked_us = now;
	ca->round_us = now;
	ca->round_packets = 0;
	ca->rate = 0;
	ca->loss_rate = 0;
	ca->previous_loss_rate = 0;
	ca->rtt_min_us = 0;
	ca->rtt_max_us = 0;
	ca->previous_rtt_max_us = 0;
	ca->beta = Q16_ONE / 2;
	ca->previous_beta = Q16_ONE / 2;
}

/* alpha in q16. */
static inline u64 htcp_increase(const struct htcp *ca, u64 now)
{
	u64 since = now - ca->loss_us, alpha = Q16_ONE;
	u64 low_speed_us = (u64)low_speed_ms * 1000;

	/* A clock that stands before the loss: an acknowledgement handled late. */
	if (now < ca->loss_us)
		since = 0;
	if (since > LONGEST_US)
		since = LONGEST_US;
	if (since > low_speed_us) {
		u64 seconds = ((since - low_speed_us) << 16) / SECOND_US;

		alpha += 10 * seconds + (seconds * seconds >> 18);
	}
	if (rtt_scaling && ca->rtt_min_us) {
		u32 rtt = ca->rtt_min_us;

		if (rtt < RTT_REFERENCE_US / 10)
			rtt = RTT_REFERENCE_US / 10;
		if (rtt > RTT_REFERENCE_US * 2)
			rtt = RTT_REFERENCE_US * 2;
		alpha = alpha * rtt / RTT_REFERENCE_US;
		if (alpha < Q16_ONE)
			alpha = Q16_ONE;
	}
	return alpha * 2 * (Q16_ONE - ca->beta) >> 16;
}

OPERATION_3(void, cong_avoid, struct sock *, sk, u32, ack, u32, acked)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct htcp *ca = inet_csk_ca(sk);

	(void)ack;
	if (!beyond_slow_start(sk, &acked))
		return;
	grow(tp, &ca->carried, part_per_packet(htcp_increase(ca, tp->tcp_mstamp), tp->snd_cwnd), acked);
}

OPERATION_2(void, pkts_acked, struct sock *, sk, const struct ack_sample *, sample)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	struct htcp *ca = inet_csk_ca(sk);
	u64 now = tp->tcp_mstamp;
	s32 rtt = sample->rtt_us;
	u8 state = icsk_ca_state(sk);

	ca->acked_us = now;
	if (state != TCP_CA_Open && state != TCP_CA_Disorder) {
		ca->round_us = now;
		ca->round_packets = 0;
		return;
	}
	if (rtt > 0) {
		if (!ca->rtt_min_us || (u32)rtt < ca->rtt_min_us)
			ca->rtt_min_us = rtt;
		if ((u32)rtt > ca->rtt_max_us)
			ca->rtt_max_us = rtt;
	}
	ca->round_packets += sample->pkts_acked;
	if (now > ca->round_us && now - ca->round_us >= tp->srtt_us >> 3) {
		ca->rate = ca->round_packets * SECOND_US / (now - ca->round_us);
		ca->round_us = now;
		ca->round_packets = 0;
	}
}

static inline u32 htcp_beta(const struct htcp *ca)
{
	u32 lowest = beta_lowest * Q16_ONE / 1000, highest = beta_highest * Q16_ONE / 1000, before = ca->loss_rate;
	u32 change = ca->rate > before ? ca->rate - before : before - ca->rate;
	u32 beta;

	if (bandwidth_switch && change > before / 5)
		return Q16_ONE / 2;
	if (!ca->rtt_min_us || !ca->rtt_max_us)
		return Q16_ONE / 2;
	beta = ((u64)ca->rtt_min_us << 16) / ca->rtt_max_us;
	if (beta > highest)
		beta = highest;
	return beta > lowest ? beta : lowest;
}

OPERATION_1(u32, ssthresh, struct sock *, sk)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	struct htcp *ca = inet_csk_ca(sk);

	ca->previous_loss_us = ca->loss_us;
	ca->previous_loss_rate = ca->loss_rate;
	ca->previous_beta = ca->beta;
	ca->beta = htcp_beta(ca);
	ca->loss_us = tp->tcp_mstamp;
	ca->loss_rate = ca->rate;
	ca->previous_rtt_max_us = ca->rtt_max_us;
	ca->rtt_max_us = 0;
	return reduced(tp->snd_cwnd, Q16_ONE - ca->beta);
}

OPERATION_2(void, cwnd_event, struct sock *, sk, enum tcp_ca_event, event)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	struct htcp *ca = inet_csk_ca(sk);
	u64 now = tp->tcp_mstamp;

	if (event == CA_EVENT_CWND_RESTART)
		ca->loss_us = now;
	if (event == CA_EVENT_TX_START && now > ca->acked_us) {
		u64 shifted = ca->loss_us + (now - ca->acked_us);

		ca->loss_us = shifted < now ? shifted : now;
		ca->round_us = now;
		ca->round_packets = 0;
	}
}

OPERATION_1(u32, undo_cwnd, struct sock *, sk)
{
	struct htcp *ca = inet_csk_ca(sk);

	ca->loss_us = ca->previous_loss_us;
	ca->loss_rate = ca->previous_loss_rate;
	ca->beta = ca->previous_beta;
	if (ca->rtt_max_us < ca->previous_rtt_max_us)
		ca->rtt_max_us = ca->previous_rtt_max_us;
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
