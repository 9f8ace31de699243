/* SPDX-License-Identifier: MIT OR GPL-2.0 */
/*
 * The native build: how an algorithm's file declares its operations and parameters, and what stands for the kernel.
 */
#ifndef ICDC_BUILD_NATIVE_H
#define ICDC_BUILD_NATIVE_H

/* The kernel's functions, in native.c. */
u32 tcp_slow_start(struct tcp_sock *tp, u32 acked);
void tcp_cong_avoid_ai(struct tcp_sock *tp, u32 w, u32 acked);
u32 tcp_reno_ssthresh(struct sock *sk);
void tcp_reno_cong_avoid(struct sock *sk, u32 ack, u32 acked);
u32 tcp_reno_undo_cwnd(struct sock *sk);

static inline bool is_cwnd_limited(const struct tcp_sock *tp)
{
	return tp->is_cwnd_limited;
}

static inline u8 icsk_ca_state(const struct sock *sk)
{
	return ((const struct tcp_sock *)sk)->ca_state;
}

/* Mirrored in src/native/sys.rs. */
struct icdc_parameter {
	const char *name;
	const char *help;
	s64 initial;
	s64 lowest;
	s64 highest;
	void (*set)(s64 value);
};

struct icdc_algorithm {
	const struct tcp_congestion_ops *operations;
	/* Ends with a null pointer. */
	const struct icdc_parameter *const *parameters;
};

#define JOINED_(a, b) a##b
#define JOINED(a, b) JOINED_(a, b)
#define QUOTED_(a) #a
#define QUOTED(a) QUOTED_(a)

/*
 * A parameter: PARAMETER(type, name, initial, lowest, highest, "what it is"). Values belong to the thread: the simulator
 * sets those of a connection before it calls.
 */
#define PARAMETER(type, parameter, initial_, lowest_, highest_, help_)                                             \
	static _Thread_local type parameter = initial_;                                                             \
	static void set_##parameter(s64 value) { parameter = (type)value; }                                         \
	static const struct icdc_parameter parameter_##parameter = {                                                \
		#parameter, help_, initial_, lowest_, highest_, set_##parameter,                                      \
	};

/* The parameters of the file, at most ten: PARAMETERS(name, ...). The compiler warns of one that is left out. */
#define PARAMETERS(...)                                                                                             \
	static const struct icdc_parameter *const parameters[] = {                                                  \
		PICK(0, ##__VA_ARGS__, P10, P9, P8, P7, P6, P5, P4, P3, P2, P1, P0)(__VA_ARGS__) 0                    \
	};
#define PICK(zero, a, b, c, d, e, f, g, h, i, j, chosen, ...) chosen
#define P0()
#define P1(a) &parameter_##a,
#define P2(a, ...) P1(a) P1(__VA_ARGS__)
#define P3(a, ...) P1(a) P2(__VA_ARGS__)
#define P4(a, ...) P1(a) P3(__VA_ARGS__)
#define P5(a, ...) P1(a) P4(__VA_ARGS__)
#define P6(a, ...) P1(a) P5(__VA_ARGS__)
#define P7(a, ...) P1(a) P6(__VA_ARGS__)
#define P8(a, ...) P1(a) P7(__VA_ARGS__)
#define P9(a, ...) P1(a) P8(__VA_ARGS__)
#define P10(a, ...) P1(a) P9(__VA_ARGS__)

/* An operation: OPERATION_1(return type, name, type, argument) { body }. */
#define OPERATION_1(ret, name, t1, a1) static ret name(t1 a1)
#define OPERATION_2(ret, name, t1, a1, t2, a2) static ret name(t1 a1, t2 a2)
/* The simulator's sockets are told by parameters, and of their bundle by a field of their own. */
struct socket_hint {
	u32 rate;
	u32 rtt_us;
	u32 bundle;
	u32 background;
};
#define SOCKET_HINTS                                                                                                \
	static void socket_hint(struct sock *sk, struct socket_hint *hint)                                          \
	{                                                                                                           \
		hint->bundle = tcp_sk(sk)->bundle;                                                                  \
	}
/* What several sockets share: those of one simulation are on one thread. */
struct bpf_spin_lock {
	u32 val;
};
#define MOST_BUNDLES 16
#define BUNDLES(type)                                                                                               \
	static _Thread_local struct {                                                                               \
		u32 number;                                                                                         \
		struct type shared;                                                                                 \
	} bundles[MOST_BUNDLES];                                                                                    \
	static struct type *bundle_find(u32 number)                                                                 \
	{                                                                                                           \
		for (int i = 0; i < MOST_BUNDLES; i++)                                                              \
			if (bundles[i].number == number)                                                            \
				return &bundles[i].shared;                                                          \
		return 0;                                                                                           \
	}                                                                                                           \
	static void bundle_add(u32 number)                                                                          \
	{                                                                                                           \
		for (int i = 0; i < MOST_BUNDLES; i++)                                                              \
			if (!bundles[i].number) {                                                                   \
				bundles[i].number = number;                                                         \
				return;                                                                             \
			}                                                                                           \
	}                                                                                                           \
	static void bundle_remove(u32 number)                                                                       \
	{                                                                                                           \
		for (int i = 0; i < MOST_BUNDLES; i++)                                                              \
			if (bundles[i].number == number)                                                            \
				__builtin_memset(&bundles[i], 0, sizeof(bundles[i]));                               \
	}                                                                                                           \
	static void bundle_lock(struct type *bundle)                                                                \
	{                                                                                                           \
		bundle->lock.val++;                                                                                 \
	}                                                                                                           \
	static void bundle_unlock(struct type *bundle)                                                              \
	{                                                                                                           \
		bundle->lock.val--;                                                                                 \
	}
#define OPERATION_CONTROL(sk, rs) static void cong_control(struct sock *sk, const struct rate_sample *rs)
#define OPERATION_3(ret, name, t1, a1, t2, a2, t3, a3) static ret name(t1 a1, t2 a2, t3 a3)

/* The operations of the file: OPERATIONS(.ssthresh = ..., ...). */
#define OPERATIONS(...)                                                                                             \
	static const struct tcp_congestion_ops operations = {__VA_ARGS__, .name = "icdc_" QUOTED(ALGORITHM)};        \
	const struct icdc_algorithm JOINED(icdc_algorithm_, ALGORITHM) = {&operations, parameters};

#endif
