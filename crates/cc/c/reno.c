/* SPDX-License-Identifier: MIT OR GPL-2.0 */
/*
 * Reno: the kernel's own, native for the simulator.
 *
 *   per packet acknowledged   w += 1        while w < ssthresh (slow start)
 *                             w += 1/w      afterwards
 *   on loss                   ssthresh = max(w/2, 2)
 *
 * Source: RFC 5681 section 3.1. Growth only while the window limits (RFC 7661 in the manner of Linux).
 */
#define ALGORITHM reno
#include "kernel.h"

PARAMETERS()

OPERATIONS(
	.ssthresh = tcp_reno_ssthresh,
	.cong_avoid = tcp_reno_cong_avoid,
	.undo_cwnd = tcp_reno_undo_cwnd
)
