/* SPDX-License-Identifier: MIT OR GPL-2.0 */
/*
 * HighSpeed TCP as Linux's tcp_highspeed has it: the table of RFC 3649's appendix B instead of its formula.
 *
 *   row i holds the largest window at which the increase is i + 1 packets; the last row has no end
 *   each acknowledgement, however many packets it answers, counts i + 1; w of that are one packet
 *   on loss   w -= floor(256 b) w/256, b that of the row's window
 *
 * The row is found as the window grows, and not where a loss ends slow start: after that the first row's half is taken off.
 */
#ifndef ICDC_RFC3649_TABLE_H
#define ICDC_RFC3649_TABLE_H

#include "response.h"

/* The line that the table lies on, section 5: Low_Window, High_Window, 1/High_P, High_Decrease in thousandths. */
#define RFC3649_LOW_WINDOW 38
#define RFC3649_HIGH_WINDOW 83000
#define RFC3649_LOSS_INTERVAL 10000000
#define RFC3649_HIGH_DECREASE 100

#define TABLE_ROWS 72U
static const u32 table_windows[TABLE_ROWS] = {
	38, 118, 221, 347, 495, 663, 851, 1058, 1284, 1529, 1793, 2076,
	2378, 2699, 3039, 3399, 3778, 4177, 4596, 5036, 5497, 5979, 6483, 7009,
	7558, 8130, 8726, 9346, 9991, 10661, 11358, 12082, 12834, 13614, 14424, 15265,
	16137, 17042, 17981, 18955, 19965, 21013, 22101, 23230, 24402, 25618, 26881, 28193,
	29557, 30975, 32450, 33986, 35586, 37253, 38992, 40808, 42707, 44694, 46776, 48961,
	51258, 53677, 56230, 58932, 61799, 64851, 68113, 71617, 75401, 79517, 84035, 89053,
};

static inline void table_init(struct response *r)
{
	response_init(r, RFC3649_LOW_WINDOW, RFC3649_HIGH_WINDOW, RFC3649_LOSS_INTERVAL, RFC3649_HIGH_DECREASE);
}

/* The row of a window: how many of the others' windows are smaller. Seven steps, whose places the verifier knows. */
static inline u32 table_row(u32 window)
{
	u32 row = 0;

	for (u32 step = 64; step; step >>= 1)
		if (row + step < TABLE_ROWS && window > table_windows[row + step - 1])
			row += step;
	return row;
}

/* One acknowledgement; what is less than a packet stays in snd_cwnd_cnt. */
static inline void table_grow(struct tcp_sock *tp, u32 row)
{
	if (tp->snd_cwnd >= tp->snd_cwnd_clamp)
		return;
	tp->snd_cwnd_cnt += row + 1;
	if (tp->snd_cwnd_cnt >= tp->snd_cwnd) {
		tp->snd_cwnd_cnt -= tp->snd_cwnd;
		tp->snd_cwnd++;
	}
}

/* Share taken off on loss, q16. */
static inline u32 table_decrease(const struct response *r, u32 row)
{
	/* Beyond 83000 packets, where response_decrease() stays. */
	if (row >= TABLE_ROWS - 1)
		return 24 << 8;
	return response_decrease(r, response_log(r, table_windows[row])) >> 8 << 8;
}

#endif
