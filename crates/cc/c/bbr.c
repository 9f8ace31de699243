/* SPDX-License-Identifier: MIT OR GPL-2.0 */
/*
 * BBR version 1, native for the simulator: paces at the rate that the path delivers.
 *
 *   rate  = greatest delivery rate of the last 10 round trips        BDP = rate x rtt
 *   rtt   = least round-trip time of the last 10 s
 *   pacing rate = gain x rate x 0.99                                 window = window gain x BDP + room for aggregates
 *
 *   mode        gain                         window gain   until
 *   startup     2/ln 2                       2/ln 2        rate grew by less than 1/4 in 3 round trips
 *   drain       ln 2/2                       2/ln 2        in flight <= BDP
 *   probe rate  5/4, 3/4, 1, 1, 1, 1, 1, 1   2             each a round trip; 5/4 until in flight = 5/4 BDP or loss,
 *                                                          3/4 until in flight <= BDP
 *   probe rtt   1                            4 packets     200 ms and a round trip, when rtt is 10 s old
 *
 * Loss does not change the rate. In the first round trip of recovery the window sends what is delivered, afterwards it
 * is as before.
 *
 * Source: N. Cardwell et al., BBR: congestion-based congestion control, 2016, and draft-cardwell-iccrg-bbr-congestion-control-00.
 * Deviations from Linux: no estimate of policers, none of aggregated acknowledgements; no restart after a pause of the
 * application, which the simulator does not have; the cycle starts at its third phase instead of a random one, so that a
 * simulation is repeated exactly.
 */
#define ALGORITHM bbr
#include "kernel.h"

/* Rates in packets per microsecond, gains as numbers. */
#define RATE_BITS 24
#define GAIN_BITS 8
#define GAIN_ONE (1U << GAIN_BITS)
#define HIGH_GAIN (GAIN_ONE * 2885 / 1000 + 1)
#define DRAIN_GAIN (GAIN_ONE * 1000 / 2885)
#define WINDOW_GAIN (GAIN_ONE * 2)
#define PHASES 8
#define RATE_ROUNDS 10
#define MICROSECONDS 1000000ULL
#define INITIAL_WINDOW 10
/* Bytes of an aggregate (GSO_LEGACY_MAX_SIZE less headers), and the rate from which one has two packets, bytes per second. */
#define LARGEST_AGGREGATE (65535 - 320)
#define LEAST_PACING_OF_TWO 150000

PARAMETER(u32, rtt_window_ms, 10000, 1000, 60000, "age at which the least round-trip time is measured anew, milliseconds")
PARAMETER(u32, probe_rtt_ms, 200, 0, 2000, "how long the window is small for that, milliseconds")
PARAMETER(u32, least_window, 4, 2, 100, "window while the round-trip time is measured, packets")
PARAMETERS(rtt_window_ms, probe_rtt_ms, least_window)

enum bbr_mode { STARTUP, DRAIN, PROBE_RATE, PROBE_RTT };

struct rate_at {
	u32 rate;
	u32 round;
};

struct bbr {
	/* The greatest rate of the last rounds, and the greatest since each. */
	struct rate_at best[3];
	u64 phase_us;
	u64 rtt_us_at;
	u64 probe_rtt_until_us;
	u32 rtt_us;
	u32 round;
	/* `delivered` at which the round trip ends. */
	u32 round_end;
	/* Rate at which the last growth was seen, and rounds without since. */
	u32 full_rate;
	u32 prior_window;
	/* `delivered` at which the last packet of a small window is; samples before it tell nothing of the path. */
	u32 probe_end;
	u8 full_rounds;
	u8 mode;
	u8 phase;
	u8 previous_state;
	bool round_start;
	bool full;
	bool conserve;
	bool probe_rtt_round_done;
};
CHECK_PRIVATE(struct bbr);

static const u32 phase_gains[PHASES] = {
	GAIN_ONE * 5 / 4, GAIN_ONE * 3 / 4, GAIN_ONE, GAIN_ONE, GAIN_ONE, GAIN_ONE, GAIN_ONE, GAIN_ONE,
};

static u32 bbr_pacing_gain(const struct bbr *ca)
{
	switch (ca->mode) {
	case STARTUP: return HIGH_GAIN;
	case DRAIN: return DRAIN_GAIN;
	case PROBE_RATE: return phase_gains[ca->phase];
	default: return GAIN_ONE;
	}
}

static u32 bbr_window_gain(const struct bbr *ca)
{
	switch (ca->mode) {
	case STARTUP:
	case DRAIN: return HIGH_GAIN;
	case PROBE_RATE: return WINDOW_GAIN;
	default: return GAIN_ONE;
	}
}

static u32 bbr_rate(const struct bbr *ca)
{
	return ca->best[0].rate;
}

/* Windowed maximum by three candidates, each the best since the one before (K. Nichols). */
static void bbr_take_rate(struct bbr *ca, u32 rate)
{
	struct rate_at now = {rate, ca->round};
	struct rate_at *best = ca->best;

	if (rate >= best[0].rate || now.round - best[2].round > RATE_ROUNDS) {
		best[0] = best[1] = best[2] = now;
		return;
	}
	if (rate >= best[1].rate)
		best[1] = best[2] = now;
	else if (rate >= best[2].rate)
		best[2] = now;
	if (now.round - best[0].round > RATE_ROUNDS) {
		best[0] = best[1];
		best[1] = best[2];
		best[2] = now;
		if (now.round - best[0].round > RATE_ROUNDS) {
			best[0] = best[1];
			best[1] = best[2];
		}
	} else if (best[1].round == best[0].round && now.round - best[0].round > RATE_ROUNDS / 4) {
		best[1] = best[2] = now;
	} else if (best[2].round == best[1].round && now.round - best[0].round > RATE_ROUNDS / 2) {
		best[2] = now;
	}
}

static u32 in_flight(const struct tcp_sock *tp)
{
	return tp->packets_out - tp->sacked_out - tp->lost_out + tp->retrans_out;
}

static u64 bytes_per_second(const struct tcp_sock *tp, u32 rate, u32 gain)
{
	/* Half of the fraction is shifted out before the last product, which would not fit otherwise. */
	return ((u64)rate * tp->mss_cache * gain >> GAIN_BITS >> RATE_BITS / 2) * (MICROSECONDS / 100 * 99) >> RATE_BITS / 2;
}

static void bbr_set_pacing(struct bbr *ca, struct tcp_sock *tp, u32 rate, u32 gain)
{
	struct sock *sk = &tp->inet_conn.icsk_inet.sk;
	u64 pacing = bytes_per_second(tp, rate, gain);

	if (pacing > sk->sk_max_pacing_rate)
		pacing = sk->sk_max_pacing_rate;
	/* Startup does not slow down for a low first sample. */
	if (ca->full || pacing > sk->sk_pacing_rate)
		sk->sk_pacing_rate = pacing;
}

/* Packets in flight for a gain, with what sender, path and receiver hold back to make aggregates. */
static u32 bbr_in_flight(const struct bbr *ca, const struct tcp_sock *tp, u32 gain)
{
	u64 pacing = tp->inet_conn.icsk_inet.sk.sk_pacing_rate;
	u64 aggregate = pacing / 1024 < LARGEST_AGGREGATE ? pacing / 1024 : LARGEST_AGGREGATE;
	u64 window, least = pacing < LEAST_PACING_OF_TWO ? 1 : 2;

	if (!ca->rtt_us)
		return INITIAL_WINDOW;
	window = ((u64)bbr_rate(ca) * ca->rtt_us >> GAIN_BITS) * gain;
	window = (window + (1ULL << RATE_BITS) - 1) >> RATE_BITS;
	aggregate /= tp->mss_cache ? tp->mss_cache : 1;
	if (aggregate < least)
		aggregate = least;
	window += 3 * (aggregate < 127 ? aggregate : 127);
	window = (window + 1) & ~1ULL;
	/* Otherwise a gain of 5/4 of a small window would be nothing. */
	if (ca->mode == PROBE_RATE && ca->phase == 0)
		window += 2;
	return window < ~0U ? window : ~0U;
}

static void bbr_take_sample(struct bbr *ca, const struct tcp_sock *tp, const struct rate_sample *rs)
{
	u64 rate;
	bool limited;

	ca->round_start = false;
	if (rs->delivered < 0 || rs->interval_us <= 0)
		return;
	if ((s32)(rs->prior_delivered - ca->round_end) >= 0) {
		ca->round_end = tp->delivered;
		ca->round++;
		ca->round_start = true;
		ca->conserve = false;
	}
	rate = ((u64)rs->delivered << RATE_BITS) / rs->interval_us;
	if (rate > ~0U)
		rate = ~0U;
	limited = rs->is_app_limited || (s32)(rs->prior_delivered - ca->probe_end) < 0;
	/* Less than the path's, if there was little to send. */
	if (!limited || rate >= bbr_rate(ca))
		bbr_take_rate(ca, rate);
}

static void bbr_enter_probe_rate(struct bbr *ca, const struct tcp_sock *tp)
{
	ca->mode = PROBE_RATE;
	ca->phase = 2;
	ca->phase_us = tp->tcp_mstamp;
}

static void bbr_advance_phase(struct bbr *ca, const struct tcp_sock *tp, const struct rate_sample *rs)
{
	bool round_trip = tp->tcp_mstamp - ca->phase_us > ca->rtt_us;
	u32 gain = phase_gains[ca->phase];
	bool done = round_trip;

	if (gain > GAIN_ONE)
		done = round_trip && (rs->losses > 0 || rs->prior_in_flight >= bbr_in_flight(ca, tp, gain));
	if (gain < GAIN_ONE)
		done = round_trip || rs->prior_in_flight <= bbr_in_flight(ca, tp, GAIN_ONE);
	if (done) {
		ca->phase = (ca->phase + 1) % PHASES;
		ca->phase_us = tp->tcp_mstamp;
	}
}

static void bbr_look_for_full_pipe(struct bbr *ca, const struct rate_sample *rs)
{
	if (ca->full || !ca->round_start || rs->is_app_limited)
		return;
	if (bbr_rate(ca) >= (u64)ca->full_rate * 5 / 4) {
		ca->full_rate = bbr_rate(ca);
		ca->full_rounds = 0;
		return;
	}
	ca->full = ++ca->full_rounds >= 3;
}

static void bbr_save_window(struct bbr *ca, const struct tcp_sock *tp)
{
	/* Within recovery or a probe the window is not the one to come back to. */
	if (ca->previous_state < TCP_CA_Recovery && ca->mode != PROBE_RTT)
		ca->prior_window = tp->snd_cwnd;
	else if (tp->snd_cwnd > ca->prior_window)
		ca->prior_window = tp->snd_cwnd;
}

static void bbr_restore_window(const struct bbr *ca, struct tcp_sock *tp)
{
	if (ca->prior_window > tp->snd_cwnd)
		tp->snd_cwnd = ca->prior_window < tp->snd_cwnd_clamp ? ca->prior_window : tp->snd_cwnd_clamp;
}

static void bbr_update_rtt(struct bbr *ca, struct tcp_sock *tp, const struct rate_sample *rs)
{
	u64 now = tp->tcp_mstamp;
	bool old = now > ca->rtt_us_at + (u64)rtt_window_ms * 1000;

	if (rs->rtt_us > 0 && (!ca->rtt_us || rs->rtt_us < ca->rtt_us || (old && !rs->is_ack_delayed))) {
		ca->rtt_us = rs->rtt_us;
		ca->rtt_us_at = now;
	}
	if (old && probe_rtt_ms && ca->mode != PROBE_RTT) {
		ca->mode = PROBE_RTT;
		bbr_save_window(ca, tp);
		ca->probe_rtt_until_us = 0;
	}
	if (ca->mode == PROBE_RTT) {
		ca->probe_end = tp->delivered + in_flight(tp);
		if (!ca->probe_rtt_until_us && in_flight(tp) <= least_window) {
			ca->probe_rtt_until_us = now + (u64)probe_rtt_ms * 1000;
			ca->probe_rtt_round_done = false;
			ca->round_end = tp->delivered;
		} else if (ca->probe_rtt_until_us) {
			ca->probe_rtt_round_done |= ca->round_start;
			if (ca->probe_rtt_round_done && now > ca->probe_rtt_until_us) {
				ca->rtt_us_at = now;
				bbr_restore_window(ca, tp);
				ca->mode = STARTUP;
				if (ca->full)
					bbr_enter_probe_rate(ca, tp);
			}
		}
	}
}

static void bbr_change_mode(struct bbr *ca, struct tcp_sock *tp, const struct rate_sample *rs)
{
	if (ca->mode == PROBE_RATE)
		bbr_advance_phase(ca, tp, rs);
	bbr_look_for_full_pipe(ca, rs);
	if (ca->mode == STARTUP && ca->full) {
		ca->mode = DRAIN;
		tp->snd_ssthresh = bbr_in_flight(ca, tp, GAIN_ONE);
	}
	if (ca->mode == DRAIN && in_flight(tp) <= bbr_in_flight(ca, tp, GAIN_ONE))
		bbr_enter_probe_rate(ca, tp);
	bbr_update_rtt(ca, tp, rs);
}

/* What recovery makes of the window; true if it alone decides. */
static bool bbr_recover(struct bbr *ca, struct tcp_sock *tp, const struct rate_sample *rs, u64 *window)
{
	u8 state = icsk_ca_state((struct sock *)tp), previous = ca->previous_state;

	if (rs->losses > 0)
		*window = *window > (u32)rs->losses ? *window - rs->losses : 1;
	if (state == TCP_CA_Recovery && previous != TCP_CA_Recovery) {
		ca->conserve = true;
		ca->round_end = tp->delivered;
		*window = (u64)in_flight(tp) + rs->acked_sacked;
	} else if (previous >= TCP_CA_Recovery && state < TCP_CA_Recovery) {
		if (ca->prior_window > *window)
			*window = ca->prior_window;
		ca->conserve = false;
	}
	ca->previous_state = state;
	if (ca->conserve && *window < (u64)in_flight(tp) + rs->acked_sacked)
		*window = (u64)in_flight(tp) + rs->acked_sacked;
	return ca->conserve;
}

static void bbr_set_window(struct bbr *ca, struct tcp_sock *tp, const struct rate_sample *rs)
{
	u64 window = tp->snd_cwnd, target = bbr_in_flight(ca, tp, bbr_window_gain(ca));

	if (rs->acked_sacked && !bbr_recover(ca, tp, rs, &window)) {
		if (ca->full)
			window = window + rs->acked_sacked < target ? window + rs->acked_sacked : target;
		else if (window < target || tp->delivered < INITIAL_WINDOW)
			window += rs->acked_sacked;
		if (window < least_window)
			window = least_window;
	}
	if (window > tp->snd_cwnd_clamp)
		window = tp->snd_cwnd_clamp;
	if (ca->mode == PROBE_RTT && window > least_window)
		window = least_window;
	tp->snd_cwnd = window ? window : 1;
}

OPERATION_2(void, cong_control, struct sock *, sk, const struct rate_sample *, rs)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct bbr *ca = inet_csk_ca(sk);

	bbr_take_sample(ca, tp, rs);
	bbr_change_mode(ca, tp, rs);
	bbr_set_pacing(ca, tp, bbr_rate(ca), bbr_pacing_gain(ca));
	bbr_set_window(ca, tp, rs);
}

OPERATION_1(void, init, struct sock *, sk)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct bbr *ca = inet_csk_ca(sk);
	/* Until the path is known: the window over the round trip of the handshake, or over a millisecond. */
	u32 rtt_us = tp->srtt_us >> 3 ? tp->srtt_us >> 3 : 1000;

	__builtin_memset(ca, 0, sizeof(*ca));
	ca->rtt_us = tp->srtt_us >> 3;
	ca->rtt_us_at = tp->tcp_mstamp;
	tp->snd_ssthresh = TCP_INFINITE_SSTHRESH;
	sk->sk_pacing_rate = 0;
	bbr_set_pacing(ca, tp, ((u64)tp->snd_cwnd << RATE_BITS) / rtt_us, HIGH_GAIN);
	sk->sk_pacing_status = sk->sk_pacing_status ? sk->sk_pacing_status : 1;
}

OPERATION_1(u32, ssthresh, struct sock *, sk)
{
	bbr_save_window(inet_csk_ca(sk), tcp_sk(sk));
	return tcp_sk(sk)->snd_ssthresh;
}

OPERATION_2(void, set_state, struct sock *, sk, u8, new_state)
{
	struct bbr *ca = inet_csk_ca(sk);

	if (new_state != TCP_CA_Loss)
		return;
	ca->previous_state = TCP_CA_Loss;
	ca->full_rate = 0;
	ca->round_start = true;
}

/* A loss that was none: the search for a full pipe starts again. */
OPERATION_1(u32, undo_cwnd, struct sock *, sk)
{
	struct bbr *ca = inet_csk_ca(sk);

	ca->full_rate = 0;
	ca->full_rounds = 0;
	return tcp_sk(sk)->snd_cwnd;
}

OPERATIONS(
	.init = init,
	.ssthresh = ssthresh,
	.set_state = set_state,
	.cong_control = cong_control,
	.undo_cwnd = undo_cwnd
)
