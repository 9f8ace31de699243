/* SPDX-License-Identifier: MIT OR GPL-2.0 */
/* The tracing build: every operation leaves a record in a ring buffer; when that is full, records are lost. */
#ifndef ICDC_TRACE_BPF_H
#define ICDC_TRACE_BPF_H

#include "trace.h"

/* Numbers of enum bpf_map_type and of the helpers in linux/bpf.h. */
#define MAP_TYPE_RINGBUF 27
static void *(*ringbuf_reserve)(void *map, u64 size, u64 flags) = (void *)131;
static void (*ringbuf_submit)(void *data, u64 flags) = (void *)132;

/* Types of the members hold the map's definition, as loaders expect of section .maps. */
struct {
	int (*type)[MAP_TYPE_RINGBUF];
	int (*max_entries)[1 << 24];
} icdc_trace SECTION(".maps");

INLINED void trace_state(struct icdc_trace_state *state, const struct tcp_sock *tp)
{
	const u64 *private = inet_csk_ca((struct sock *)tp);

#pragma unroll
	for (int i = 0; i < ICDC_TRACE_PRIVATE; i++)
		state->private[i] = private[i];
	state->snd_cwnd = tp->snd_cwnd;
	state->snd_cwnd_cnt = tp->snd_cwnd_cnt;
	state->snd_ssthresh = tp->snd_ssthresh;
	state->snd_cwnd_stamp = tp->snd_cwnd_stamp;
}

INLINED void trace_inputs(struct icdc_trace_record *record, struct sock *sk)
{
	const struct tcp_sock *tp = tcp_sk(sk);

	record->socket = (u64)sk;
	record->result = 0;
	record->acked_sacked = record->is_app_limited = record->reserved = 0;
	record->in_flight = 0;
	record->is_cwnd_limited = is_cwnd_limited(tp);
	record->ca_state = icsk_ca_state(sk);
	record->snd_cwnd_clamp = tp->snd_cwnd_clamp;
	record->prior_cwnd = tp->prior_cwnd;
	record->packets_out = tp->packets_out;
	record->max_packets_out = tp->max_packets_out;
	record->srtt_us = tp->srtt_us;
	record->mdev_us = tp->mdev_us;
	record->mss_cache = tp->mss_cache;
	record->delivered = tp->delivered;
	record->snd_nxt = tp->snd_nxt;
	record->snd_una = tp->snd_una;
	record->lsndtime = tp->lsndtime;
	record->lost_out = tp->lost_out;
	record->sacked_out = tp->sacked_out;
	record->retrans_out = tp->retrans_out;
	record->tcp_mstamp = tp->tcp_mstamp;
}

INLINED struct icdc_trace_record *trace_begin(struct sock *sk, u32 operation, u64 second, u64 third)
{
	struct icdc_trace_record *record = ringbuf_reserve(&icdc_trace, sizeof(*record), 0);

	if (!record)
		return record;
	record->operation = operation;
	trace_inputs(record, sk);
	record->second = second;
	record->third = third;
	if (operation == ICDC_TRACED_pkts_acked) {
		const struct ack_sample *sample = (const struct ack_sample *)second;

		record->second = sample->pkts_acked;
		record->third = sample->rtt_us;
		record->in_flight = sample->in_flight;
	}
	if (operation == ICDC_TRACED_cong_control) {
		const struct rate_sample *sample = (const struct rate_sample *)second;

		record->second = sample->rtt_us;
		record->third = sample->losses;
		record->in_flight = sample->prior_in_flight;
		record->acked_sacked = sample->acked_sacked;
		record->is_app_limited = sample->is_app_limited;
	}
	trace_state(&record->before, tcp_sk(sk));
	return record;
}

INLINED void trace_end(struct icdc_trace_record *record, struct sock *sk, u32 result)
{
	if (!record)
		return;
	trace_state(&record->after, tcp_sk(sk));
	record->result = result;
	ringbuf_submit(record, 0);
}

/* Runs an operation between two looks at the socket. */
#define TRACED(ret, name, sk, second, third, call)                                                                  \
	struct icdc_trace_record *record = trace_begin(sk, ICDC_TRACED_##name, second, third);                      \
	TRACED_##ret(record, sk, call)
#define TRACED_void(record, sk, call)                                                                               \
	call;                                                                                                       \
	trace_end(record, sk, 0)
#define TRACED_u32(record, sk, call)                                                                                \
	u32 result = call;                                                                                          \
	trace_end(record, sk, result);                                                                              \
	return result

#endif
