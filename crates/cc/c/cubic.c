/* SPDX-License-Identifier: MIT OR GPL-2.0 */
/*
 * CUBIC as Linux has it, native for the simulator.
 *
 *   W(t) = C (t - K)^3 + Wmax,   K = cbrt((Wmax - w0)/C)
 *   growth towards W(t + RTTmin), never slower than a Reno with the same decrease would be:
 *   3 (1 - beta)/(1 + beta) packets per round trip
 *   no loss yet               at least a packet per 20 acknowledged; always at most one per two
 *   on loss                   Wmax <- w, or w (1 + beta)/2 if w < Wmax (fast convergence); w <- beta w
 *
 * t time since growth began after the last loss, w0 the window then; windows in packets, C = 0.41 x 1000/1024 = 0.4
 * packets/s^3, beta = 717/1024. Time advances by jiffies, as in the kernel.
 *
 * HyStart leaves slow start (ssthresh <- w) when, from a window of 16 packets on, in one round
 *   - acknowledgements that follow each other within 2 ms have come for longer than RTTmin + an aggregate's time when
 *     pacing, half of RTTmin otherwise (train); or
 *   - the least of 8 round-trip times exceeds RTTmin by RTTmin/8 within [4, 16] ms (delay).
 *
 * Sources: RFC 9438; S. Ha, I. Rhee, Taming the elephants: new TCP slow start, 2011; the behaviour of Linux's tcp_cubic.
 * HyStart's rounds are those of Linux since January 2025, stable kernels included.
 * Deviation: cube roots are exact; Linux's are off by 0.2 % on average.
 */
#define ALGORITHM cubic
#include "kernel.h"

#define BETA_ONE 1024U
#define MICROSECONDS 1000000ULL
/* Time in the cubic is counted in 2^-10 s. */
#define TICK_BITS 10

PARAMETER(u32, hz, 250, 100, 1000, "jiffies per second (CONFIG_HZ of the kernel that is simulated)")
PARAMETER(u32, beta, 717, 512, 1023, "share of the window kept on loss, in 1024ths")
PARAMETER(u32, scale, 41, 10, 400, "C, in 1/102.4 packets/s^3")
PARAMETER(u32, fast_convergence, 1, 0, 1, "1: give way below the last maximum")
PARAMETER(u32, tcp_friendliness, 1, 0, 1, "1: never slower than Reno")
PARAMETER(u32, hystart, 1, 0, 1, "1: leave slow start before the queue overflows")
PARAMETER(u32, hystart_detect, 3, 1, 3, "1: by trains of acknowledgements, 2: by delay, 3: by either")
PARAMETER(u32, hystart_low_window, 16, 2, 100000, "window from which slow start may be left, packets")
PARAMETER(u32, hystart_ack_delta_us, 2000, 1, 100000, "largest gap between acknowledgements of a train, microseconds")
PARAMETERS(hz, beta, scale, fast_convergence,
	   tcp_friendliness, hystart, hystart_detect, hystart_low_window, hystart_ack_delta_us)

#define HYSTART_TRAIN 1U
#define HYSTART_DELAY 2U
#define HYSTART_SAMPLES 8
#define HYSTART_DELAY_LEAST_US 4000U
#define HYSTART_DELAY_MOST_US 16000U
/* Largest segment that is handed to a device at once. */
#define AGGREGATE_BYTES 65536ULL

struct cubic {
	/* Wmax before the last loss, 0 before the first. */
	u32 max;
	/* One packet is added per this many acknowledged. */
	u32 acked_per_packet;
	/* Window and time, in jiffies, of the last computation. */
	u32 computed_window;
	u32 computed;
	/* Of the current cubic: its start in jiffies (0: none), its centre in packets and in ticks after the start. */
	u32 epoch;
	u32 centre;
	u32 centre_ticks;
	/* Reno's window, and what was acknowledged since it last grew. */
	u32 reno_window;
	u32 reno_acked;
	u32 rtt_min_us;
	/* HyStart: this round's end, start, last acknowledgement of the train, least round-trip time and number of them. */
	u32 round_end;
	u32 round_us;
	u32 train_us;
	u32 round_rtt_us;
	u8 round_samples;
	bool left;
};
CHECK_PRIVATE(struct cubic);

static u32 jiffies(const struct tcp_sock *tp)
{
	return tp->tcp_mstamp * hz / MICROSECONDS;
}

static void cubic_forget(struct cubic *ca)
{
	__builtin_memset(ca, 0, sizeof(*ca));
}

static void hystart_begin_round(struct cubic *ca, const struct tcp_sock *tp)
{
	ca->round_us = tp->tcp_mstamp;
	ca->train_us = tp->tcp_mstamp;
	ca->round_end = tp->snd_nxt;
	ca->round_rtt_us = ~0U;
	ca->round_samples = 0;
}

OPERATION_1(void, init, struct sock *, sk)
{
	struct cubic *ca = inet_csk_ca(sk);

	cubic_forget(ca);
	if (hystart)
		hystart_begin_round(ca, tcp_sk(sk));
}

/* The largest root whose cube is at most x: one bit after the other. */
static u32 cube_root(u64 x)
{
	u64 root = 0;

	for (int bit = 20; bit >= 0; bit--) {
		u64 candidate = root | 1ULL << bit;

		if (candidate * candidate * candidate <= x)
			root = candidate;
	}
	return root;
}

static void cubic_begin(struct cubic *ca, u32 window, u32 acked, u32 now)
{
	ca->epoch = now;
	ca->reno_acked = acked;
	ca->reno_window = window;
	ca->centre = window;
	ca->centre_ticks = 0;
	if (ca->max > window) {
		/* (Wmax - w)/C in packets and ticks: C is scale * 10 / 2^10, a tick 2^-10 s. */
		u64 below = ca->max - window < 1U << 29 ? ca->max - window : 1U << 29;
		u64 cubed = (1ULL << (10 + 3 * TICK_BITS)) / (scale * 10) * below;

		ca->centre = ca->max;
		ca->centre_ticks = cube_root(cubed);
	}
}

/* Packets acknowledged per packet of growth, to be at the cubic's window a round trip from now. */
static u32 cubic_pace(const struct cubic *ca, u32 window, u32 now)
{
	u64 elapsed = (u64)(now - ca->epoch) + ((u64)ca->rtt_min_us * hz + MICROSECONDS - 1) / MICROSECONDS;
	u64 ticks = (elapsed << TICK_BITS) / hz;
	u64 away = ticks < ca->centre_ticks ? ca->centre_ticks - ticks : ticks - ca->centre_ticks;
	u64 change, target;

	/* 2000 s from the centre: 3 billion packets. */
	if (away > 1U << 21)
		away = 1U << 21;
	/* Below 2^21 ticks the cube fits; the scale is applied after some bits are gone. */
	change = (away * away * away >> 3 * TICK_BITS) * (scale * 10) >> 10;
	if (away < 1U << 17)
		change = away * away * away * (scale * 10) >> (10 + 3 * TICK_BITS);
	if (ticks >= ca->centre_ticks)
		target = ca->centre + change;
	else
		target = change < ca->centre ? ca->centre - change : 0;
	if (target <= window)
		return window < ~0U / 100 ? 100 * window : ~0U;
	return window / (target - window);
}

/* Reno with this decrease has the same mean window if it grows by 3 (1 - beta)/(1 + beta) packets per round trip. */
static u32 cubic_reno_pace(struct cubic *ca, u32 window)
{
	u64 per_packet = (u64)window * (8 * (BETA_ONE + beta) / 3 / (BETA_ONE - beta)) >> 3;

	if (per_packet && ca->reno_acked > per_packet) {
		u32 steps = (ca->reno_acked - 1) / per_packet;

		ca->reno_acked -= steps * per_packet;
		ca->reno_window += steps;
	}
	return ca->reno_window > window ? window / (ca->reno_window - window) : ~0U;
}

static void cubic_compute(struct cubic *ca, u32 window, u32 acked, u32 now)
{
	ca->reno_acked += acked;
	if (ca->computed_window == window && (s32)(now - ca->computed) <= (s32)(hz / 32))
		return;
	/* Within a jiffy the cubic stands still; Reno's window does not. */
	if (!ca->epoch || now != ca->computed) {
		ca->computed_window = window;
		ca->computed = now;
		if (!ca->epoch)
			cubic_begin(ca, window, acked, now);
		ca->acked_per_packet = cubic_pace(ca, window, now);
		if (!ca->max && ca->acked_per_packet > 20)
			ca->acked_per_packet = 20;
	}
	if (tcp_friendliness) {
		u32 pace = cubic_reno_pace(ca, window);

		if (pace < ca->acked_per_packet)
			ca->acked_per_packet = pace;
	}
	if (ca->acked_per_packet < 2)
		ca->acked_per_packet = 2;
}

OPERATION_3(void, cong_avoid, struct sock *, sk, u32, ack, u32, acked)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct cubic *ca = inet_csk_ca(sk);

	(void)ack;
	if (!beyond_slow_start(sk, &acked))
		return;
	cubic_compute(ca, tp->snd_cwnd, acked, jiffies(tp));
	tcp_cong_avoid_ai(tp, ca->acked_per_packet, acked);
}

OPERATION_1(u32, ssthresh, struct sock *, sk)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	struct cubic *ca = inet_csk_ca(sk);
	u32 window = tp->snd_cwnd;
	u32 kept = (u64)window * beta / BETA_ONE;

	ca->epoch = 0;
	ca->max = window < ca->max && fast_convergence ? (u64)window * (BETA_ONE + beta) / (2 * BETA_ONE) : window;
	return kept > 2 ? kept : 2;
}

OPERATION_2(void, set_state, struct sock *, sk, u8, new_state)
{
	if (new_state == TCP_CA_Loss) {
		cubic_forget(inet_csk_ca(sk));
		hystart_begin_round(inet_csk_ca(sk), tcp_sk(sk));
	}
}

OPERATION_2(void, cwnd_event, struct sock *, sk, enum tcp_ca_event, event)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	struct cubic *ca = inet_csk_ca(sk);
	u32 now = jiffies(tp);
	/* Time without anything to send does not move the cubic. */
	s32 idle_ms = (u32)(tp->tcp_mstamp / 1000) - tp->lsndtime;

	if (event != CA_EVENT_TX_START || !ca->epoch || idle_ms <= 0)
		return;
	ca->epoch += (u64)idle_ms * hz / 1000;
	if ((s32)(ca->epoch - now) > 0)
		ca->epoch = now;
}

/* Time of four of the largest aggregates at the pacing rate, at most a millisecond. */
static u32 hystart_aggregate_us(const struct tcp_sock *tp)
{
	u64 rate = tp->inet_conn.icsk_inet.sk.sk_pacing_rate;
	u64 time = rate ? AGGREGATE_BYTES * 4 * MICROSECONDS / rate : 0;

	return time < 1000 ? time : 1000;
}

static bool hystart_train_is_long(struct cubic *ca, const struct tcp_sock *tp)
{
	u32 now = tp->tcp_mstamp;
	u32 longest = ca->rtt_min_us + hystart_aggregate_us(tp);

	if ((s32)(now - ca->train_us) > (s32)hystart_ack_delta_us)
		return false;
	ca->train_us = now;
	/* Unpaced bursts are trains of themselves: the estimate is one of half the round trip. */
	if (!tp->inet_conn.icsk_inet.sk.sk_pacing_status)
		longest >>= 1;
	return (s32)(now - ca->round_us) > (s32)longest;
}

static bool hystart_delay_grew(struct cubic *ca, u32 rtt_us)
{
	u32 allowed = ca->rtt_min_us >> 3;

	if (rtt_us < ca->round_rtt_us)
		ca->round_rtt_us = rtt_us;
	if (ca->round_samples < HYSTART_SAMPLES) {
		ca->round_samples++;
		return false;
	}
	if (allowed < HYSTART_DELAY_LEAST_US)
		allowed = HYSTART_DELAY_LEAST_US;
	if (allowed > HYSTART_DELAY_MOST_US)
		allowed = HYSTART_DELAY_MOST_US;
	return ca->round_rtt_us > ca->rtt_min_us + allowed;
}

static void hystart_look(struct cubic *ca, struct tcp_sock *tp, u32 rtt_us)
{
	if ((s32)(tp->snd_una - ca->round_end) > 0)
		hystart_begin_round(ca, tp);
	/* Rounds are counted from the first: one that began within a flight would see that flight's own queue. */
	if (tp->snd_cwnd < hystart_low_window)
		return;
	if (hystart_detect & HYSTART_TRAIN && hystart_train_is_long(ca, tp))
		ca->left = true;
	if (hystart_detect & HYSTART_DELAY && hystart_delay_grew(ca, rtt_us))
		ca->left = true;
	if (ca->left)
		tp->snd_ssthresh = tp->snd_cwnd;
}

OPERATION_2(void, pkts_acked, struct sock *, sk, const struct ack_sample *, sample)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct cubic *ca = inet_csk_ca(sk);
	u32 rtt_us = sample->rtt_us > 0 ? sample->rtt_us : 1;

	if (sample->rtt_us < 0)
		return;
	/* The first second after a loss: times of packets that were sent before it. */
	if (ca->epoch && (s32)(jiffies(tp) - ca->epoch) < (s32)hz)
		return;
	if (!ca->rtt_min_us || rtt_us < ca->rtt_min_us)
		ca->rtt_min_us = rtt_us;
	if (hystart && !ca->left && tcp_in_slow_start(tp))
		hystart_look(ca, tp, rtt_us);
}

OPERATION_1(u32, undo_cwnd, struct sock *, sk)
{
	return tcp_reno_undo_cwnd(sk);
}

OPERATIONS(
	.init = init,
	.ssthresh = ssthresh,
	.cong_avoid = cong_avoid,
	.set_state = set_state,
	.cwnd_event = cwnd_event,
	.pkts_acked = pkts_acked,
	.undo_cwnd = undo_cwnd
)
