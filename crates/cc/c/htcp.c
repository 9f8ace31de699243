/* SPDX-License-Identifier: MIT OR GPL-2.0 */
/*
 * H-TCP: the longer since the last loss, the faster.
 *
 *   alpha(D) = 1                                        D <= DL
 *            = 1 + 10 (D - DL) + ((D - DL)/2)^2         D > DL
 *   with RTT scaling   alpha <- alpha x,  x = RTTmin/100 ms within [0.1, 2]; at least 1
 *                      alpha <- 2 (1 - beta) alpha
 *   per packet acknowledged   w += alpha/w   after slow start
 *   on loss   beta = RTTmin/RTTmax within [0.5, 0.8];  0.5 if B is not within a fifth of B'
 *             w <- beta w
 *
 * D time since the last recovery ended, s; DL = 1 s; alpha packets per round trip; RTTmin, RTTmax least and greatest
 * round-trip time; B, B' greatest delivery rate before this loss and the one before, packets per second. beta is as much as
 * empties a queue that drops at its tail; a changed rate means that others came or went.
 *
 * Source: D. Leith, R. Shorten, H-TCP: TCP for high-speed and long-distance networks, PFLDnet 2004, and
 * draft-leith-tcp-htcp-06, as Linux's tcp_htcp has it. Deviations of Linux from the draft:
 * - Growth: alpha and x are whole numbers and eighths, and stand still until the window has grown by a packet; the
 *   acknowledgement that completes a packet does not count towards the next.
 * - RTTmax forgets: after each loss 95 % of what is above RTTmin stays. It follows steps of at most 20 ms.
 * - B is a moving average, 3/4 of the old value, once four round trips have passed; the greatest counts.
 * - beta = RTTmin/RTTmax not at the first loss at an unchanged rate, nor when RTTmin is 10 ms or less: 0.5.
 *
 * Linux measures round trips in ticks of 1/hz s, rounded up: on a kernel of 100 Hz a path of 100.1 ms has RTTmin = 110 ms.
 * Other times are microseconds here. With draft = 1 it is the draft's: D since the loss, RTTmax since the
 * loss before, B of the last full round trip, growth exact. Of idle time the draft says nothing: there it does not count into
 * D, and D starts anew when the kernel resets the window after idling.
 */
#define ALGORITHM htcp
#include "kernel.h"
#include "growth.h"

PARAMETER(u32, draft, 0, 0, 1, "0: as Linux; 1: as the draft has it, growth and measurements exact")
PARAMETER(u32, hz, 1000, 100, 1000, "ticks per second of the kernel that is copied (CONFIG_HZ): round trips are whole ticks")
/* DL */
PARAMETER(u32, low_speed_ms, 1000, 0, 60000, "time after a loss during which it is Reno, milliseconds")
PARAMETER(u32, rtt_scaling, 1, 0, 1, "1: connections of different round-trip times get equal shares")
PARAMETER(u32, bandwidth_switch, 1, 0, 1, "1: halve the window when the delivery rate changed by more than a fifth")
PARAMETER(u32, beta_lowest, 500, 100, 900, "least share of the window kept on loss, in thousandths")
PARAMETER(u32, beta_highest, 800, 500, 950, "greatest share of the window kept on loss, in thousandths")
PARAMETERS(draft, hz, low_speed_ms, rtt_scaling, bandwidth_switch, beta_lowest, beta_highest)

/* Beyond, alpha does not grow: 1000 s make 260000 packets per round trip. */
#define LONGEST_US 1000000000ULL
#define SECOND_US 1000000ULL
#define RTT_REFERENCE_US 100000U

/* RTTmax follows by steps of at most this. */
#define RTT_STEP_US 20000U
/* beta is not adapted to a queue on paths of this round-trip time or less. */
#define RTT_SHORT_US 10000U
/* Linux's fixed point of alpha, beta and counts. */
#define Q7_ONE 128U

struct htcp {
	u64 carried;
	/* When D began, and before that in case a loss is undone. */
	u64 since_us;
	u64 previous_since_us;
	/* Last acknowledgement. */
	u64 acked_us;
	/* Start of the round trip that is being measured, packets delivered since. */
	u64 round_us;
	u32 round_packets;
	/* Packets per second: as of now, the greatest since the loss before, and that of the last loss. */
	u32 rate;
	u32 greatest_rate;
	u32 loss_rate;
	u32 previous_loss_rate;
	u32 rtt_min_us;
	u32 rtt_max_us;
	u32 previous_rtt_max_us;
	/* Share of the window kept at the last loss, q16; and before. */
	u32 beta;
	u32 previous_beta;
	/* Linux: alpha in q7 since the window last grew; packets that the last acknowledgement answered. */
	u32 alpha;
	u32 answered;
	/* Linux: a loss at an unchanged rate came before; a loss is being repaired. */
	bool is_adaptive;
	bool is_congested;
};
CHECK_PRIVATE(struct htcp);

OPERATION_1(void, init, struct sock *, sk)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	struct htcp *ca = inet_csk_ca(sk);
	u64 now = tp->tcp_mstamp;

	ca->carried = 0;
	ca->since_us = now;
	ca->previous_since_us = now;
	ca->acked_us = now;
	ca->round_us = now;
	ca->round_packets = 0;
	ca->rate = 0;
	ca->greatest_rate = 0;
	ca->loss_rate = 0;
	ca->previous_loss_rate = 0;
	ca->rtt_min_us = 0;
	ca->rtt_max_us = 0;
	ca->previous_rtt_max_us = 0;
	ca->beta = Q16_ONE / 2;
	ca->previous_beta = Q16_ONE / 2;
	ca->alpha = Q7_ONE;
	ca->answered = 1;
	ca->is_adaptive = false;
	ca->is_congested = false;
}

/* D, at most the time after which alpha does not grow. */
static inline u64 htcp_since(const struct htcp *ca, u64 now)
{
	u64 since = now - ca->since_us;

	/* A clock that stands before the loss: an acknowledgement handled late. */
	if (now < ca->since_us)
		return 0;
	return since < LONGEST_US ? since : LONGEST_US;
}

/* The draft's alpha in q16. */
static inline u64 htcp_increase(const struct htcp *ca, u64 now)
{
	u64 since = htcp_since(ca, now), alpha = Q16_ONE;
	u64 low_speed_us = (u64)low_speed_ms * 1000;

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

/* Linux's, in whole numbers: q7. */
static inline u32 htcp_whole_increase(const struct htcp *ca, u64 now)
{
	u64 since = htcp_since(ca, now), factor = 1;
	u64 low_speed_us = (u64)low_speed_ms * 1000;

	if (since > low_speed_us) {
		u64 beyond = since - low_speed_us;

		factor += (10 * beyond + (beyond / 2) * (beyond / 2) / SECOND_US) / SECOND_US;
	}
	if (rtt_scaling && ca->rtt_min_us) {
		/* 1/x in eighths, x within [0.1, 2]. */
		u32 scale = 8 * RTT_REFERENCE_US / ca->rtt_min_us;

		if (scale < 4)
			scale = 4;
		if (scale > 80)
			scale = 80;
		factor = (factor << 3) / scale;
		if (!factor)
			factor = 1;
	}
	return 2 * factor * (Q7_ONE - (ca->beta >> 9));
}

static inline void htcp_grow_whole(struct tcp_sock *tp, struct htcp *ca)
{
	if ((u64)tp->snd_cwnd_cnt * ca->alpha >> 7 >= tp->snd_cwnd) {
		if (tp->snd_cwnd < tp->snd_cwnd_clamp)
			tp->snd_cwnd++;
		tp->snd_cwnd_cnt = 0;
		ca->alpha = htcp_whole_increase(ca, tp->tcp_mstamp);
	} else {
		tp->snd_cwnd_cnt += ca->answered;
	}
	ca->answered = 1;
}

OPERATION_3(void, cong_avoid, struct sock *, sk, u32, ack, u32, acked)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct htcp *ca = inet_csk_ca(sk);

	(void)ack;
	if (!beyond_slow_start(sk, &acked))
		return;
	if (draft)
		grow(tp, &ca->carried, part_per_packet(htcp_increase(ca, tp->tcp_mstamp), tp->snd_cwnd), acked);
	else
		htcp_grow_whole(tp, ca);
}

static inline void htcp_measure_rtt(struct htcp *ca, u32 rtt, u8 state)
{
	u32 tick = SECOND_US / hz;

	if (!draft)
		rtt = (rtt + tick - 1) / tick * tick;
	if (!ca->rtt_min_us || rtt < ca->rtt_min_us)
		ca->rtt_min_us = rtt;
	if (draft) {
		if (rtt > ca->rtt_max_us)
			ca->rtt_max_us = rtt;
		return;
	}
	if (state != TCP_CA_Open)
		return;
	if (ca->rtt_max_us < ca->rtt_min_us)
		ca->rtt_max_us = ca->rtt_min_us;
	if (rtt > ca->rtt_max_us && rtt <= ca->rtt_max_us + RTT_STEP_US)
		ca->rtt_max_us = rtt;
}

/* A round trip's rate is known. */
static inline void htcp_note_rate(struct htcp *ca, u32 rate, u64 now)
{
	if (draft || htcp_since(ca, now) / ca->rtt_min_us <= 3) {
		ca->rate = rate;
		ca->greatest_rate = rate;
		return;
	}
	ca->rate = (3 * (u64)ca->rate + rate) / 4;
	if (ca->rate > ca->greatest_rate)
		ca->greatest_rate = ca->rate;
}

OPERATION_2(void, pkts_acked, struct sock *, sk, const struct ack_sample *, sample)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	struct htcp *ca = inet_csk_ca(sk);
	u64 now = tp->tcp_mstamp, round_trip = draft ? tp->srtt_us >> 3 : ca->rtt_min_us;
	u32 least = draft ? 0 : tp->snd_cwnd - (ca->alpha >> 7 ? ca->alpha >> 7 : 1);
	s32 rtt = sample->rtt_us;
	u8 state = icsk_ca_state(sk);
	bool is_sending = state == TCP_CA_Open || state == TCP_CA_Disorder;

	ca->acked_us = now;
	if (state == TCP_CA_Open)
		ca->answered = sample->pkts_acked;
	if (rtt > 0 && (is_sending || !draft))
		htcp_measure_rtt(ca, rtt, state);
	if (!is_sending) {
		ca->round_us = now;
		ca->round_packets = 0;
		return;
	}
	ca->round_packets += sample->pkts_acked;
	if (ca->rtt_min_us && now > ca->round_us && now - ca->round_us >= round_trip && ca->round_packets >= least) {
		htcp_note_rate(ca, ca->round_packets * SECOND_US / (now - ca->round_us), now);
		ca->round_us = now;
		ca->round_packets = 0;
	}
}

/* The share that a loss leaves, in q16; whole 128ths as Linux counts. */
static inline u32 htcp_beta(struct htcp *ca)
{
	u32 lowest = beta_lowest * Q16_ONE / 1000, highest = beta_highest * Q16_ONE / 1000;
	u64 before = ca->loss_rate, now = ca->greatest_rate;
	u32 beta;

	if (bandwidth_switch && (5 * now < 4 * before || 5 * now > 6 * before)) {
		ca->is_adaptive = false;
		return Q16_ONE / 2;
	}
	if (!draft && (!ca->is_adaptive || ca->rtt_min_us <= RTT_SHORT_US)) {
		ca->is_adaptive = true;
		return Q16_ONE / 2;
	}
	if (!ca->rtt_min_us || !ca->rtt_max_us)
		return Q16_ONE / 2;
	beta = ((u64)ca->rtt_min_us << 16) / ca->rtt_max_us;
	if (beta > highest)
		beta = highest;
	if (beta < lowest)
		beta = lowest;
	return draft ? beta : beta >> 9 << 9;
}

OPERATION_1(u32, ssthresh, struct sock *, sk)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	struct htcp *ca = inet_csk_ca(sk);

	ca->previous_since_us = ca->since_us;
	ca->previous_loss_rate = ca->loss_rate;
	ca->previous_beta = ca->beta;
	ca->previous_rtt_max_us = ca->rtt_max_us;
	ca->beta = htcp_beta(ca);
	ca->loss_rate = ca->greatest_rate;
	if (draft) {
		ca->rtt_max_us = 0;
	} else {
		ca->alpha = htcp_whole_increase(ca, tp->tcp_mstamp);
		if (ca->rtt_min_us && ca->rtt_max_us > ca->rtt_min_us)
			ca->rtt_max_us = ca->rtt_min_us + (u64)(ca->rtt_max_us - ca->rtt_min_us) * 95 / 100;
	}
	/* Linux notes what to undo once the loss has changed these two. */
	if (!draft) {
		ca->previous_loss_rate = ca->loss_rate;
		ca->previous_rtt_max_us = ca->rtt_max_us;
	}
	ca->since_us = tp->tcp_mstamp;
	ca->is_congested = true;
	return reduced(tp->snd_cwnd, Q16_ONE - ca->beta);
}

OPERATION_2(void, set_state, struct sock *, sk, u8, new_state)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	struct htcp *ca = inet_csk_ca(sk);

	if (new_state != TCP_CA_Open || !ca->is_congested)
		return;
	ca->is_congested = false;
	/* Linux: D begins when the loss is repaired. */
	if (!draft)
		ca->since_us = tp->tcp_mstamp;
}

OPERATION_2(void, cwnd_event, struct sock *, sk, enum tcp_ca_event, event)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	struct htcp *ca = inet_csk_ca(sk);
	u64 now = tp->tcp_mstamp;

	if (!draft)
		return;
	if (event == CA_EVENT_CWND_RESTART)
		ca->since_us = now;
	if (event == CA_EVENT_TX_START && now > ca->acked_us) {
		u64 shifted = ca->since_us + (now - ca->acked_us);

		ca->since_us = shifted < now ? shifted : now;
		ca->round_us = now;
		ca->round_packets = 0;
	}
}

OPERATION_1(u32, undo_cwnd, struct sock *, sk)
{
	struct htcp *ca = inet_csk_ca(sk);

	/* Linux leaves beta as the loss made it. */
	if (draft)
		ca->beta = ca->previous_beta;
	if (draft || ca->is_congested) {
		ca->since_us = ca->previous_since_us;
		ca->loss_rate = ca->previous_loss_rate;
		if (ca->rtt_max_us < ca->previous_rtt_max_us)
			ca->rtt_max_us = ca->previous_rtt_max_us;
		ca->is_congested = false;
	}
	return tcp_reno_undo_cwnd(sk);
}

OPERATIONS(
	.init = init,
	.ssthresh = ssthresh,
	.cong_avoid = cong_avoid,
	.pkts_acked = pkts_acked,
	.set_state = set_state,
	.cwnd_event = cwnd_event,
	.undo_cwnd = undo_cwnd
)
