/* SPDX-License-Identifier: MIT OR GPL-2.0 */
/*
 * HighSpeed TCP's response function (RFC 3649 sections 5 and 6), by logarithms instead of the RFC's table:
 *
 *   L    = log2(w / Wl)            Wl low window, Wh high window, packets
 *   R    = log2(Wh / Wl)
 *   b(w) = 1/2 - (1/2 - bh) L/R    share of the window taken off on loss; bh at Wh and above
 *   p(w)                           loss rate at which w is the mean window: the line in log-log scale through
 *                                  (Wl, 1.5/Wl^2), where Reno is, and (Wh, 1/I), I packets between losses
 *   a(w) = w^2 p(w) 2b/(2-b)       packets per round trip
 *        = 3/2 (w/Wl)^e 2b/(2-b),  e = 2 - (log2 I - 2 log2 Wl + log2 1.5)/R
 */
#ifndef ICDC_RESPONSE_H
#define ICDC_RESPONSE_H

#include "fixed.h"

/* What does not change with the window: computed once per connection. All in q16. */
struct response {
	u32 low_log;
	u32 range_log;
	u32 exponent;
	u32 high_decrease;
};

static inline void response_init(struct response *r, u32 low, u32 high, u32 loss_interval, u32 decrease_permille)
{
	u32 low_log = log2_q16(low), high_log = log2_q16(high), interval_log = log2_q16(loss_interval) + Q16(0.584963);
	u64 slope = 0;

	r->low_log = low_log;
	r->range_log = high_log > low_log ? high_log - low_log : 1;
	if (interval_log > 2 * low_log)
		slope = ((u64)(interval_log - 2 * low_log) << 16) / r->range_log;
	r->exponent = slope < 2 * Q16_ONE ? 2 * Q16_ONE - slope : 0;
	r->high_decrease = decrease_permille * Q16_ONE / 1000;
}

/* log2(w / Wl) in q16; zero below Wl. */
static inline u32 response_log(const struct response *r, u32 window)
{
	u32 log = log2_q16(window ? window : 1);

	return log > r->low_log ? log - r->low_log : 0;
}

/* b(w) in q16, for L = response_log(). */
static inline u32 response_decrease(const struct response *r, u32 log)
{
	u32 half = Q16_ONE / 2;

	if (log >= r->range_log)
		return r->high_decrease;
	return half - (u64)(half - r->high_decrease) * log / r->range_log;
}

/* a(w) in q16, for L = response_log(). */
static inline u64 response_increase(const struct response *r, u32 log)
{
	u64 decrease = response_decrease(r, log);
	u64 power = Q16(0.584963) + ((u64)log * r->exponent >> 16);

	/* 2^30 packets: more than any window grows in a round trip, and the product below stays in 64 bits. */
	if (power > 30 * Q16_ONE)
		power = 30 * Q16_ONE;
	return exp2_q16(power) * 2 * decrease / (2 * Q16_ONE - decrease);
}

#endif
