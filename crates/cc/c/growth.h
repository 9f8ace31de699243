/* SPDX-License-Identifier: MIT OR GPL-2.0 */
/*
 * Growth of the window by a packets per round trip: each packet acknowledged adds a/w. What is less than a packet is
 * carried over, so that the growth is exact however many packets an acknowledgement covers and however large a is.
 */
#ifndef ICDC_GROWTH_H
#define ICDC_GROWTH_H

#include "fixed.h"

/* Parts of a packet are counted in q40: a/w is still exact to 4e-6 for one packet in 4.3 million. */
#define PART_BITS 40
/* An acknowledgement of more packets, 1.5 GB, counts as this many: the sums stay below 2^64. */
#define MOST_ACKED (1U << 20)

/* What is added per packet acknowledged, in q40, for an increase of a packets (q16) per window; at most a packet. */
static inline u64 part_per_packet(u64 increase_q16, u32 window)
{
	u64 most = (u64)window << 16;

	if (increase_q16 > most)
		increase_q16 = most;
	/* From 2^24 packets per round trip on the shift would overflow. */
	if (increase_q16 >> 40)
		increase_q16 = (1ULL << 40) - 1;
	return window ? (increase_q16 << (PART_BITS - 16)) / window : 0;
}

/* Adds `part` for each packet acknowledged; *carried keeps what is less than a packet. */
static inline void grow(struct tcp_sock *tp, u64 *carried, u64 part, u32 acked)
{
	u64 sum, window;

	if (acked > MOST_ACKED)
		acked = MOST_ACKED;
	sum = *carried + part * acked;
	*carried = sum & ((1ULL << PART_BITS) - 1);
	window = tp->snd_cwnd + (sum >> PART_BITS);
	tp->snd_cwnd = window < tp->snd_cwnd_clamp ? window : tp->snd_cwnd_clamp;
}

/* The window less a share of it (q16), at least two packets. */
static inline u32 reduced(u32 window, u32 share_q16)
{
	u32 left = window - (u32)((u64)window * share_q16 >> 16);

	return left > 2 ? left : 2;
}

#endif
