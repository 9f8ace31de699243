/* SPDX-License-Identifier: MIT OR GPL-2.0 */
/*
 * What the algorithms see of Linux, for both builds.
 *
 * Built by clang for BPF, the structures below are relocated by name (CO-RE): they list only the fields that an
 * algorithm reads or writes, and the loader finds each of them in the running kernel. Built natively, they are the
 * simulator's socket, and native.c stands for the kernel's own functions.
 *
 * Units: windows in packets of mss_cache bytes; *_us in microseconds; srtt_us in eighths of a microsecond;
 * tcp_mstamp in microseconds, the time of the packet that is being processed; pacing rates in bytes per second;
 * snd_cwnd_stamp and lsndtime in jiffies, in the native build in milliseconds.
 * Kernel 5.15 has every field and function named here.
 */
#ifndef ICDC_KERNEL_H
#define ICDC_KERNEL_H

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef signed int s32;
typedef signed long long s64;
typedef _Bool bool;
enum { false, true };

#ifdef __bpf__
#define RELOCATED __attribute__((preserve_access_index))
#else
#define RELOCATED
#endif

struct sock {
	unsigned long sk_pacing_rate;
	unsigned long sk_max_pacing_rate;
	u32 sk_pacing_status;
} RELOCATED;

struct inet_sock {
	struct sock sk;
} RELOCATED;

/* Room that the kernel gives an algorithm in each socket. */
#define CA_PRIV_BYTES 104

struct inet_connection_sock {
	struct inet_sock icsk_inet;
#ifdef __bpf__
	u8 icsk_ca_state : 5;
#endif
	u64 icsk_ca_priv[CA_PRIV_BYTES / sizeof(u64)];
} RELOCATED;

struct tcp_sock {
	struct inet_connection_sock inet_conn;
	u64 tcp_mstamp;
	u32 snd_cwnd;
	u32 snd_cwnd_cnt;
	u32 snd_cwnd_clamp;
	u32 snd_cwnd_stamp;
	u32 snd_ssthresh;
	u32 prior_cwnd;
	u32 packets_out;
	u32 max_packets_out;
	u32 srtt_us;
	u32 mdev_us;
	u32 mss_cache;
	u32 delivered;
	u32 snd_nxt;
	u32 snd_una;
	u32 lsndtime;
	u32 lost_out;
	u32 sacked_out;
	u32 retrans_out;
#ifdef __bpf__
	u8 is_cwnd_limited : 1;
#else
	u32 is_cwnd_limited;
	u32 ca_state;
	/* What a user tells: see struct socket_hint. */
	u32 bundle;
#endif
} RELOCATED;

/* Times of one acknowledgement: packets cumulatively acknowledged; bytes delivered since the last of them was sent. */
struct ack_sample {
	u32 pkts_acked;
	s32 rtt_us;
	u32 in_flight;
} RELOCATED;

/* Rate of delivery over one acknowledgement, for algorithms with cong_control. */
struct rate_sample {
	u64 prior_mstamp;
	u32 prior_delivered;
	s32 delivered;
	long interval_us;
	long rtt_us;
	int losses;
	u32 acked_sacked;
	u32 prior_in_flight;
	bool is_app_limited;
	bool is_retrans;
	bool is_ack_delayed;
} RELOCATED;

enum tcp_ca_state { TCP_CA_Open, TCP_CA_Disorder, TCP_CA_CWR, TCP_CA_Recovery, TCP_CA_Loss };

enum tcp_ca_event {
	CA_EVENT_TX_START,
	CA_EVENT_CWND_RESTART,
	CA_EVENT_COMPLETE_CWR,
	CA_EVENT_LOSS,
	CA_EVENT_ECN_NO_CE,
	CA_EVENT_ECN_IS_CE,
};

#define TCP_INFINITE_SSTHRESH 0x7fffffff

/*
 * The operations of an algorithm; the kernel's structure is matched by the names of these members. In BPF each is a
 * program, whose arguments are an array.
 */
#ifdef __bpf__
#define MEMBER(ret, name, ...) ret (*name)(unsigned long long *arguments)
#else
#define MEMBER(ret, name, ...) ret (*name)(__VA_ARGS__)
#endif
struct tcp_congestion_ops {
	MEMBER(void, init, struct sock *sk);
	MEMBER(void, release, struct sock *sk);
	MEMBER(u32, ssthresh, struct sock *sk);
	MEMBER(void, cong_avoid, struct sock *sk, u32 ack, u32 acked);
	MEMBER(void, set_state, struct sock *sk, u8 new_state);
	MEMBER(void, cwnd_event, struct sock *sk, enum tcp_ca_event event);
	MEMBER(void, pkts_acked, struct sock *sk, const struct ack_sample *sample);
	MEMBER(u32, min_tso_segs, struct sock *sk);
	MEMBER(void, cong_control, struct sock *sk, const struct rate_sample *rs);
	MEMBER(u32, undo_cwnd, struct sock *sk);
	MEMBER(u32, sndbuf_expand, struct sock *sk);
	char name[16];
};

static inline __attribute__((always_inline)) struct tcp_sock *tcp_sk(struct sock *sk)
{
	return (struct tcp_sock *)sk;
}

static inline __attribute__((always_inline)) void *inet_csk_ca(struct sock *sk)
{
	return (void *)((struct inet_connection_sock *)sk)->icsk_ca_priv;
}

static inline __attribute__((always_inline)) bool tcp_in_slow_start(const struct tcp_sock *tp)
{
	return tp->snd_cwnd < tp->snd_ssthresh;
}

#define CHECK_PRIVATE(type) _Static_assert(sizeof(type) <= CA_PRIV_BYTES, "private state exceeds icsk_ca_priv")

/* What always holds, if the algorithm has no error: native debug builds end where it does not. */
#ifdef ICDC_CHECKED
#define INVARIANT(condition) do { if (!(condition)) __builtin_trap(); } while (0)
#else
#define INVARIANT(condition) ((void)0)
#endif

#ifdef __bpf__
#include "build_bpf.h"
#else
#include "build_native.h"
#endif

/* Whether the window is what holds the sender back: only then it grows. In slow start half of it in use suffices. */
static inline __attribute__((always_inline)) bool tcp_is_cwnd_limited(struct sock *sk)
{
	const struct tcp_sock *tp = tcp_sk(sk);

	return is_cwnd_limited(tp) || (tcp_in_slow_start(tp) && tp->snd_cwnd < 2 * tp->max_packets_out);
}

/*
 * What every cong_avoid begins with: no growth unless the window limits, then slow start. Whether congestion avoidance is
 * to go on; *acked is then what slow start has left over for it.
 */
static inline __attribute__((always_inline)) bool beyond_slow_start(struct sock *sk, u32 *acked)
{
	struct tcp_sock *tp = tcp_sk(sk);

	if (!tcp_is_cwnd_limited(sk))
		return false;
	if (!tcp_in_slow_start(tp))
		return true;
	*acked = tcp_slow_start(tp, *acked);
	return *acked;
}

#endif
