/* SPDX-License-Identifier: MIT OR GPL-2.0 */
/*
 * Policies: what the TCP sockets of a cgroup get when they are connected, by the address of the other end.
 *
 *   connect or accept ──► govern: longest prefix ──► bpf_setsockopt: pacing rate, algorithm, windows
 *                                                └──► note in the socket's own storage
 *   icdc pace policy watch ──► report: every socket with such a note, and how it fares now
 *
 * govern runs when a handshake is through and never again for that socket: data costs nothing. The note goes with its
 * socket. Programs of inner cgroups run before those of outer ones, and the first that has a policy for a socket decides.
 *
 * A rate is what SO_MAX_PACING_RATE means: bytes of TCP payload per second, by the kernel's own pacing, which lets the first ten
 * segments of a connection through. bpf_setsockopt takes it as 32 bits.
 *
 * The structures are mirrored in src/policy/ebpf/layout.rs. Kernel 5.15 has all that is used here.
 */
typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;

#define SECTION(name) __attribute__((section(name), used))
#define RELOCATED __attribute__((preserve_access_index))
#define INLINED static inline __attribute__((always_inline))

/* linux/bpf.h, linux/in.h, asm-generic/socket.h, linux/tcp.h */
enum { BPF_SOCK_OPS_ACTIVE_ESTABLISHED_CB = 4, BPF_SOCK_OPS_PASSIVE_ESTABLISHED_CB = 5 };
enum { AF_INET = 2, AF_INET6 = 10 };
enum { SOL_SOCKET = 1, SO_MAX_PACING_RATE = 47 };
enum { SOL_TCP = 6, TCP_CONGESTION = 13, TCP_BPF_IW = 1001, TCP_BPF_SNDCWND_CLAMP = 1002 };
enum { BPF_SK_STORAGE_GET_F_CREATE = 1 };

struct bpf_sock;
/* The beginning of what linux/bpf.h has; the kernel checks every offset. */
struct bpf_sock_ops {
	u32 op;
	u32 args[4];
	u32 family;
	u32 remote_ip4;
	u32 local_ip4;
	u32 remote_ip6[4];
	u32 local_ip6[4];
	u32 remote_port; /* in network byte order, the upper half of four bytes */
	u32 local_port; /* in host byte order */
	u32 is_fullsock, snd_cwnd, srtt_us, cb_flags, state, rtt_min, snd_ssthresh, rcv_nxt, snd_nxt, snd_una, mss_cache;
	u32 ecn_flags, rate_delivered, rate_interval_us, packets_out, retrans_out, total_retrans, segs_in, data_segs_in;
	u32 segs_out, data_segs_out, lost_out, sacked_out, sk_txhash;
	u64 bytes_received, bytes_acked;
	struct bpf_sock *sk;
};

/* Fields of the kernel's own structures, found by name. */
struct sock {
	unsigned long sk_pacing_rate;
	unsigned long sk_max_pacing_rate;
} RELOCATED;
struct inet_sock {
	struct sock sk;
} RELOCATED;
struct tcp_congestion_ops {
	char name[16];
} RELOCATED;
struct inet_connection_sock {
	struct inet_sock icsk_inet;
	const struct tcp_congestion_ops *icsk_ca_ops;
} RELOCATED;
struct tcp_sock {
	struct inet_connection_sock inet_conn;
	u64 bytes_acked;
	u32 srtt_us;
	u32 snd_cwnd;
	u32 total_retrans;
} RELOCATED;
struct seq_file;
struct bpf_iter_meta {
	struct seq_file *seq;
} RELOCATED;
struct bpf_map;
struct bpf_iter__bpf_sk_storage_map {
	struct bpf_iter_meta *meta;
	struct bpf_map *map;
	struct sock *sk;
	void *value;
};

static void *(*const bpf_map_lookup_elem)(void *map, const void *key) = (void *)1;
static u64 (*const bpf_get_socket_cookie)(void *ctx) = (void *)46;
static long (*const bpf_setsockopt)(void *ctx, int level, int name, void *value, int length) = (void *)49;
static void *(*const bpf_sk_storage_get)(void *map, void *sk, void *value, u64 flags) = (void *)107;
static long (*const bpf_probe_read_kernel_str)(void *to, u32 size, const void *from) = (void *)115;
static long (*const bpf_seq_write)(struct seq_file *seq, const void *data, u32 length) = (void *)127;
static struct tcp_sock *(*const bpf_skc_to_tcp_sock)(void *sk) = (void *)137;

/* What a prefix gets. Zero, or an empty name: as it is. */
struct policy {
	u64 connections; /* that have got it */
	u32 rate; /* bytes per second */
	u32 initial_window; /* segments */
	u32 largest_window; /* segments */
	u32 length; /* of the prefix, in bits */
	u8 address[16]; /* of the prefix; IPv4 in the first four */
	char congestion[16];
	u32 ipv6; /* 1, or 0 for IPv4 */
	u32 reserved;
};

/* A part of a policy that the kernel refused to a socket, as a bit. */
enum { REFUSED_RATE = 1, REFUSED_CONGESTION = 2, REFUSED_INITIAL_WINDOW = 4, REFUSED_LARGEST_WINDOW = 8 };

/* The note in a socket. */
struct governed {
	u64 cookie; /* tells sockets apart */
	u64 cgroup; /* whose policy it is */
	struct policy policy;
	u8 local[16], remote[16]; /* as the prefix */
	u16 local_port, remote_port; /* in host byte order */
	u32 refused;
};

/* How it fares. */
struct progress {
	u64 acknowledged; /* bytes */
	u64 pacing_rate; /* bytes per second */
	u64 largest_pacing_rate; /* bytes per second */
	u32 rtt_us; /* eighths of a microsecond */
	u32 window; /* segments */
	u32 retransmitted; /* segments */
	u32 reserved;
	char congestion[16];
};

struct key_v4 {
	u32 length;
	u8 address[4];
};
struct key_v6 {
	u32 length;
	u8 address[16];
};

/* Prefixes of one cgroup. */
struct {
	int (*type)[11]; /* BPF_MAP_TYPE_LPM_TRIE */
	int (*map_flags)[1]; /* BPF_F_NO_PREALLOC */
	int (*max_entries)[65536];
	struct key_v4 *key;
	struct policy *value;
} icdc_policy_v4 SECTION(".maps");
struct {
	int (*type)[11];
	int (*map_flags)[1];
	int (*max_entries)[65536];
	struct key_v6 *key;
	struct policy *value;
} icdc_policy_v6 SECTION(".maps");
/* Sockets of all cgroups. */
struct {
	int (*type)[24]; /* BPF_MAP_TYPE_SK_STORAGE */
	int (*map_flags)[1];
	int *key;
	struct governed *value;
} icdc_governed SECTION(".maps");
/* The path of the cgroup, for people. */
struct path {
	char text[4096];
};
struct {
	int (*type)[2]; /* BPF_MAP_TYPE_ARRAY */
	int (*max_entries)[1];
	u32 *key;
	struct path *value;
} icdc_place SECTION(".maps");

/* Which cgroup this is attached to; the loader sets it. */
const volatile u64 cgroup SECTION(".rodata") = 0;

#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define IPV4_MAPPED 0xffff0000
#define HOST_PORT(port) __builtin_bswap32(port)
#else
#define IPV4_MAPPED 0x0000ffff
#define HOST_PORT(port) (port)
#endif

/* Keeps the compiler from reading one of several fields by a computed address, which the kernel does not allow here. */
#define FIELD(field) ({ u32 read = (field); asm volatile("" : "+r"(read)); read; })

INLINED void put(u8 *to, u32 word)
{
	__builtin_memcpy(to, &word, sizeof(word));
}

/* The policy for the other end, and where the two ends are. A socket of IPv6 may be connected by IPv4. */
INLINED struct policy *policy_for(struct bpf_sock_ops *ops, struct governed *note)
{
	if (ops->family == AF_INET) {
		put(note->remote, FIELD(ops->remote_ip4));
		put(note->local, FIELD(ops->local_ip4));
	} else if (ops->family == AF_INET6 && !ops->remote_ip6[0] && !ops->remote_ip6[1] && ops->remote_ip6[2] == IPV4_MAPPED) {
		put(note->remote, FIELD(ops->remote_ip6[3]));
		put(note->local, FIELD(ops->local_ip6[3]));
	} else if (ops->family == AF_INET6) {
		struct key_v6 key = {.length = 128};

		put(note->remote, FIELD(ops->remote_ip6[0]));
		put(note->remote + 4, FIELD(ops->remote_ip6[1]));
		put(note->remote + 8, FIELD(ops->remote_ip6[2]));
		put(note->remote + 12, FIELD(ops->remote_ip6[3]));
		put(note->local, FIELD(ops->local_ip6[0]));
		put(note->local + 4, FIELD(ops->local_ip6[1]));
		put(note->local + 8, FIELD(ops->local_ip6[2]));
		put(note->local + 12, FIELD(ops->local_ip6[3]));
		__builtin_memcpy(key.address, note->remote, sizeof(key.address));
		return bpf_map_lookup_elem(&icdc_policy_v6, &key);
	} else {
		return 0;
	}
	struct key_v4 key = {.length = 32};

	__builtin_memcpy(key.address, note->remote, sizeof(key.address));
	return bpf_map_lookup_elem(&icdc_policy_v4, &key);
}

SECTION("sockops") int govern(struct bpf_sock_ops *ops)
{
	struct governed note = {};
	struct policy *policy;
	struct bpf_sock *sk;

	if (ops->op != BPF_SOCK_OPS_ACTIVE_ESTABLISHED_CB && ops->op != BPF_SOCK_OPS_PASSIVE_ESTABLISHED_CB)
		return 1;
	policy = policy_for(ops, &note);
	sk = ops->sk;
	if (!policy || !sk)
		return 1;
	/* That of an inner cgroup. */
	if (bpf_sk_storage_get(&icdc_governed, sk, 0, 0))
		return 1;
	__sync_fetch_and_add(&policy->connections, 1);
	note.policy = *policy;
	note.cgroup = cgroup;
	note.cookie = bpf_get_socket_cookie(ops);
	note.local_port = ops->local_port;
	note.remote_port = HOST_PORT(ops->remote_port);
	/* Before the rest: an algorithm that begins may set a rate and windows of its own. */
	if (note.policy.congestion[0] &&
	    bpf_setsockopt(ops, SOL_TCP, TCP_CONGESTION, note.policy.congestion, sizeof(note.policy.congestion)))
		note.refused |= REFUSED_CONGESTION;
	if (note.policy.rate &&
	    bpf_setsockopt(ops, SOL_SOCKET, SO_MAX_PACING_RATE, &note.policy.rate, sizeof(note.policy.rate)))
		note.refused |= REFUSED_RATE;
	if (note.policy.initial_window &&
	    bpf_setsockopt(ops, SOL_TCP, TCP_BPF_IW, &note.policy.initial_window, sizeof(note.policy.initial_window)))
		note.refused |= REFUSED_INITIAL_WINDOW;
	if (note.policy.largest_window &&
	    bpf_setsockopt(ops, SOL_TCP, TCP_BPF_SNDCWND_CLAMP, &note.policy.largest_window, sizeof(note.policy.largest_window)))
		note.refused |= REFUSED_LARGEST_WINDOW;
	bpf_sk_storage_get(&icdc_governed, sk, &note, BPF_SK_STORAGE_GET_F_CREATE);
	return 1;
}

SECTION("iter/bpf_sk_storage_map") int report(struct bpf_iter__bpf_sk_storage_map *ctx)
{
	struct seq_file *seq = ctx->meta->seq;
	struct progress progress = {};
	struct sock *sk = ctx->sk;
	void *note = ctx->value;
	const struct tcp_congestion_ops *congestion;
	struct tcp_sock *tp;

	if (!sk || !note)
		return 0;
	tp = bpf_skc_to_tcp_sock(sk);
	if (!tp)
		return 0;
	progress.acknowledged = tp->bytes_acked;
	progress.pacing_rate = sk->sk_pacing_rate;
	progress.largest_pacing_rate = sk->sk_max_pacing_rate;
	progress.rtt_us = tp->srtt_us;
	progress.window = tp->snd_cwnd;
	progress.retransmitted = tp->total_retrans;
	congestion = tp->inet_conn.icsk_ca_ops;
	bpf_probe_read_kernel_str(progress.congestion, sizeof(progress.congestion), congestion->name);
	bpf_seq_write(seq, note, sizeof(struct governed));
	bpf_seq_write(seq, &progress, sizeof(progress));
	return 0;
}

char _license[] SECTION("license") = "Dual MIT/GPL";
