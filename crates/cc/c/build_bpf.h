/* SPDX-License-Identifier: MIT OR GPL-2.0 */
/*
 * The eBPF build: how an algorithm's file declares its operations and parameters for the kernel's verifier. Loaders know
 * an object by its sections: programs in struct_ops/OPERATION, one struct tcp_congestion_ops in .struct_ops (a loader on
 * kernel 6.4 or newer adds BPF_F_LINK; kernel 5.15 knows no links), parameters in .rodata, by name.
 */
#ifndef ICDC_BUILD_BPF_H
#define ICDC_BUILD_BPF_H

#define SECTION(name) __attribute__((section(name), used))
#define INLINED static inline __attribute__((always_inline))
#define JOINED_(a, b) a##b
#define JOINED(a, b) JOINED_(a, b)
#define QUOTED_(a) #a
#define QUOTED(a) QUOTED_(a)

/* The kernel's functions, of kernel 5.13 and newer. */
#define KERNEL_FUNCTION extern __attribute__((section(".ksyms")))
KERNEL_FUNCTION u32 tcp_slow_start(struct tcp_sock *tp, u32 acked);
KERNEL_FUNCTION void tcp_cong_avoid_ai(struct tcp_sock *tp, u32 w, u32 acked);
KERNEL_FUNCTION u32 tcp_reno_ssthresh(struct sock *sk);
KERNEL_FUNCTION void tcp_reno_cong_avoid(struct sock *sk, u32 ack, u32 acked);
KERNEL_FUNCTION u32 tcp_reno_undo_cwnd(struct sock *sk);

/* What the compiler asks of the running kernel's type information; the numbers are those of enum bpf_field_info_kind. */
#define FIELD_BYTE_OFFSET 0
#define FIELD_BYTE_SIZE 1
#define FIELD_LEFT_SHIFT 4
#define FIELD_RIGHT_SHIFT 5

/* Reads an unsigned bit field wherever the running kernel has it. */
#define BIT_FIELD(pointer, field)                                                                                   \
	({                                                                                                          \
		const void *place = (const char *)(pointer) +                                                       \
			__builtin_preserve_field_info((pointer)->field, FIELD_BYTE_OFFSET);                          \
		u64 bits;                                                                                           \
		/* Without this the compiler folds the offset into loads that cannot be relocated. */               \
		asm volatile("" : "+r"(place));                                                                     \
		switch (__builtin_preserve_field_info((pointer)->field, FIELD_BYTE_SIZE)) {                          \
		case 1: bits = *(const u8 *)place; break;                                                           \
		case 2: bits = *(const u16 *)place; break;                                                          \
		case 4: bits = *(const u32 *)place; break;                                                          \
		default: bits = *(const u64 *)place; break;                                                         \
		}                                                                                                   \
		bits << __builtin_preserve_field_info((pointer)->field, FIELD_LEFT_SHIFT) >>                         \
			__builtin_preserve_field_info((pointer)->field, FIELD_RIGHT_SHIFT);                          \
	})

INLINED u8 icsk_ca_state(const struct sock *sk)
{
	return BIT_FIELD((const struct inet_connection_sock *)sk, icsk_ca_state);
}

INLINED bool is_cwnd_limited(const struct tcp_sock *tp)
{
	return BIT_FIELD(tp, is_cwnd_limited);
}

/* A parameter, see build_native.h, where its range and text are kept. The loader overwrites the initial value. */
#define PARAMETER(type, parameter, initial_, lowest_, highest_, help_)                                             \
	const volatile type parameter SECTION(".rodata") = initial_;
/* What the native build lists, loaders find by name. */
#define PARAMETERS(...)

/*
 * An operation: the kernel passes its arguments as an array of u64. Names of programs are those of the operations.
 */
#define OPERATION_1(ret, name, t1, a1)                                                                              \
	INLINED ret body_##name(t1 a1);                                                                             \
	SECTION("struct_ops/" #name) ret name(unsigned long long *arguments)                                        \
	{                                                                                                           \
		TRACED(ret, name, (struct sock *)arguments[0], 0, 0, body_##name((t1)arguments[0]));                \
	}                                                                                                           \
	INLINED ret body_##name(t1 a1)

#define OPERATION_2(ret, name, t1, a1, t2, a2)                                                                      \
	INLINED ret body_##name(t1 a1, t2 a2);                                                                      \
	SECTION("struct_ops/" #name) ret name(unsigned long long *arguments)                                        \
	{                                                                                                           \
		TRACED(ret, name, (struct sock *)arguments[0], arguments[1], 0,                                     \
		       body_##name((t1)arguments[0], (t2)arguments[1]));                                            \
	}                                                                                                           \
	INLINED ret body_##name(t1 a1, t2 a2)

#define OPERATION_3(ret, name, t1, a1, t2, a2, t3, a3)                                                              \
	INLINED ret body_##name(t1 a1, t2 a2, t3 a3);                                                               \
	SECTION("struct_ops/" #name) ret name(unsigned long long *arguments)                                        \
	{                                                                                                           \
		TRACED(ret, name, (struct sock *)arguments[0], arguments[1], arguments[2],                          \
		       body_##name((t1)arguments[0], (t2)arguments[1], (t3)arguments[2]));                          \
	}                                                                                                           \
	INLINED ret body_##name(t1 a1, t2 a2, t3 a3)

/*
 * What a user tells of a socket before it takes the algorithm; mirrored in tcp's ebpf/hint.rs, which finds the map by its
 * name. SOCKET_HINTS is for algorithms that ask.
 */
struct socket_hint {
	u32 rate;
	u32 rtt_us;
	/* Connections with one number are one bundle; 0: none. */
	u32 bundle;
	/* Whether it gives way to others. */
	u32 background;
};
struct socket_hints {
	int (*type)[24]; /* BPF_MAP_TYPE_SK_STORAGE */
	int (*map_flags)[1]; /* BPF_F_NO_PREALLOC */
	int *key;
	struct socket_hint *value;
};
#define SOCKET_HINTS struct socket_hints icdc_hints SECTION(".maps");                                               \
	INLINED void socket_hint(struct sock *sk, struct socket_hint *hint)                                         \
	{                                                                                                           \
		const struct socket_hint *told = bpf_sk_storage_get(&icdc_hints, sk, 0, 0);                         \
		if (told)                                                                                           \
			*hint = *told;                                                                              \
	}
static void *(*const bpf_sk_storage_get)(void *map, struct sock *sk, void *value, u64 flags) = (void *)107;

/* What several sockets share, by the number of their bundle: bundle_find, bundle_add and so on. */
struct bpf_spin_lock {
	u32 val;
};
static void *(*const bpf_map_lookup_elem)(void *map, const void *key) = (void *)1;
static long (*const bpf_map_update_elem)(void *map, const void *key, const void *value, u64 flags) = (void *)2;
static long (*const bpf_map_delete_elem)(void *map, const void *key) = (void *)3;
static long (*const bpf_spin_lock)(struct bpf_spin_lock *lock) = (void *)93;
static long (*const bpf_spin_unlock)(struct bpf_spin_lock *lock) = (void *)94;
#define BPF_NOEXIST 1
#define MOST_BUNDLES 4096
#define BUNDLES(type_)                                                                                              \
	struct {                                                                                                    \
		int (*type)[1]; /* BPF_MAP_TYPE_HASH */                                                             \
		int (*map_flags)[1]; /* BPF_F_NO_PREALLOC */                                                        \
		int (*max_entries)[MOST_BUNDLES];                                                                   \
		u32 *key;                                                                                           \
		struct type_ *value;                                                                                \
	} icdc_bundles SECTION(".maps");                                                                            \
	INLINED struct type_ *bundle_find(u32 number)                                                               \
	{                                                                                                           \
		return bpf_map_lookup_elem(&icdc_bundles, &number);                                                 \
	}                                                                                                           \
	INLINED void bundle_add(u32 number)                                                                         \
	{                                                                                                           \
		struct type_ empty = {};                                                                            \
		bpf_map_update_elem(&icdc_bundles, &number, &empty, BPF_NOEXIST);                                   \
	}                                                                                                           \
	INLINED void bundle_remove(u32 number)                                                                      \
	{                                                                                                           \
		bpf_map_delete_elem(&icdc_bundles, &number);                                                        \
	}                                                                                                           \
	INLINED void bundle_lock(struct type_ *bundle)                                                              \
	{                                                                                                           \
		bpf_spin_lock(&bundle->lock);                                                                       \
	}                                                                                                           \
	INLINED void bundle_unlock(struct type_ *bundle)                                                            \
	{                                                                                                           \
		bpf_spin_unlock(&bundle->lock);                                                                     \
	}

/*
 * cong_control: since kernel 6.10 with acknowledgement and flags between its arguments. The verifier sees only the branch
 * of the running kernel: the version is a constant to it.
 */
extern int LINUX_KERNEL_VERSION __attribute__((section(".kconfig")));
#define OPERATION_CONTROL(sk, rs)                                                                                   \
	INLINED void body_cong_control(struct sock *sk, const struct rate_sample *rs);                              \
	INLINED void call_cong_control(struct sock *sk, const struct rate_sample *rs)                               \
	{                                                                                                           \
		TRACED(void, cong_control, sk, (u64)rs, 0, body_cong_control(sk, rs));                              \
	}                                                                                                           \
	SECTION("struct_ops/cong_control") void cong_control(unsigned long long *arguments)                         \
	{                                                                                                           \
		if (LINUX_KERNEL_VERSION >= 0x060a00)                                                               \
			call_cong_control((struct sock *)arguments[0], (const struct rate_sample *)arguments[3]);   \
		else                                                                                                \
			call_cong_control((struct sock *)arguments[0], (const struct rate_sample *)arguments[1]);   \
	}                                                                                                           \
	INLINED void body_cong_control(struct sock *sk, const struct rate_sample *rs)

#ifdef ICDC_TRACE
#include "trace_bpf.h"
#define REGISTERED JOINED(icdct_, ALGORITHM)
#else
#define TRACED(ret, name, sk, second, third, call) return call
#define REGISTERED JOINED(icdc_, ALGORITHM)
#endif

/* The operations of the file: OPERATIONS(.ssthresh = ..., ...). */
#define OPERATIONS(...)                                                                                             \
	_Static_assert(sizeof(QUOTED(REGISTERED)) <= 16, "the kernel's names have 15 characters");                  \
	struct tcp_congestion_ops REGISTERED SECTION(".struct_ops") = {__VA_ARGS__, .name = QUOTED(REGISTERED)};    \
	char _license[] SECTION("license") = "Dual MIT/GPL";

#endif
