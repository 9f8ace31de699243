/* SPDX-License-Identifier: MIT OR GPL-2.0 */
/*
 * Whether round-trip times rise: correlation of departure time d and round-trip time t over a block of n samples,
 *
 *   C  = n sum(dt) - sum(d) sum(t)      Vd = n sum(dd) - sum(d)^2      Vt = n sum(tt) - sum(t)^2
 *   r  = C / sqrt(Vd Vt)
 *
 * and Student's test: rising if r > 0 and r^2 (n-2) > tc^2 (1 - r^2), that is C > 0 and C^2 (n-2 + tc^2) > tc^2 Vd Vt,
 * tc the critical value of t with n-2 degrees of freedom.
 *
 * Sums, not samples, are kept, so that the state is small; blocks follow each other without overlap. Both d and t are
 * counted from the block's first sample: d in units of 64 us up to 67 s, t in microseconds within a second around it. With
 * at most 256 samples every sum of products stays below 2^58.
 */
#ifndef ICDC_TREND_H
#define ICDC_TREND_H

#define TREND_MOST_SAMPLES 256
#define TREND_LARGEST ((1U << 20) - 1)
/* Added to t, so that it is not negative; variance and covariance do not notice. */
#define TREND_BIAS (1U << 20)

struct trend {
	u64 sum_dd;
	u64 sum_tt;
	u64 sum_dt;
	u64 first_departure_us;
	u32 first_rtt_us;
	u32 sum_d;
	u32 sum_t;
	u32 samples;
};

static inline void trend_restart(struct trend *trend)
{
	trend->sum_dd = 0;
	trend->sum_tt = 0;
	trend->sum_dt = 0;
	trend->sum_d = 0;
	trend->sum_t = 0;
	trend->samples = 0;
}

static inline void trend_add(struct trend *trend, u64 departure_us, u32 rtt_us)
{
	u64 d = 0, t = TREND_BIAS;

	if (!trend->samples) {
		trend->first_departure_us = departure_us;
		trend->first_rtt_us = rtt_us;
	}
	if (departure_us > trend->first_departure_us)
		d = (departure_us - trend->first_departure_us) >> 6;
	if (d > TREND_LARGEST)
		d = TREND_LARGEST;
	t += rtt_us;
	t = t > trend->first_rtt_us ? t - trend->first_rtt_us : 0;
	if (t > TREND_BIAS + TREND_LARGEST)
		t = TREND_BIAS + TREND_LARGEST;
	trend->sum_dd += d * d;
	trend->sum_tt += t * t;
	trend->sum_dt += d * t;
	trend->sum_d += d;
	trend->sum_t += t;
	trend->samples++;
}

/* Half the bits by which a value exceeds 24, rounded up. */
static inline u32 trend_excess(u64 value)
{
	u32 excess = 0;

	for (int i = 0; i < 20; i++)
		if (value >> (2 * excess + 24))
			excess++;
	return excess;
}

/* tc in hundredths. */
static inline bool trend_rising(const struct trend *trend, u32 critical)
{
	u64 n = trend->samples, d = trend->sum_d, t = trend->sum_t;
	u64 variance_d = n * trend->sum_dd - d * d, variance_t = n * trend->sum_tt - t * t;
	u64 plus = n * trend->sum_dt, minus = d * t;
	/* tc^2 in q4. */
	u64 critical_squared = (u64)critical * critical * 16 / 10000;
	u32 shift_d = trend_excess(variance_d), shift_t = trend_excess(variance_t);
	u64 covariance;

	if (n < 3 || plus <= minus)
		return false;
	/* 24 bits each, so that the products below fit; the two shifts keep the quotient. */
	covariance = (plus - minus) >> (shift_d + shift_t);
	variance_d >>= 2 * shift_d;
	variance_t >>= 2 * shift_t;
	return covariance * covariance * (16 * (n - 2) + critical_squared) > critical_squared * variance_d * variance_t;
}

#endif
