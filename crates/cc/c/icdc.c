/* SPDX-License-Identifier: MIT OR GPL-2.0 */
/*
 * icdc: paces just under what the path has free, which it learns from how a queue grows behind short trains.
 *
 * A train is a run of packets that leaves a little faster than the rest. While it leaves at rate S beside other traffic X,
 * the queue of a bottleneck of capacity C grows by
 *
 *   dq/dt = (S + X - C) / C      so that free for us is      A = C - X = S - C dq/dt
 *
 * and at least S where no queue grows. q is the round-trip time of a packet less the least one; S is known from the times
 * at which the packets left, which are those of their acknowledgements less their round-trip times. Of the first and of the
 * last quarter of a train the least queue counts, and of the last three trains the median: what keeps a host from sending
 * or acknowledging for a while only ever adds to a round-trip time. Where hosts send and acknowledge in bunches so large that none
 * ends in such a quarter, trains become longer until one does.
 *
 *          a burst was spread            the first train of a              a queue stands for eight round
 *          over a millisecond            paced flight is back              trips, or others have most
 *   SEARCH ───────────────────► FILL ─────────────────────────► HOLD ────────────────────────────────────► COMPETE
 *   window x 4 per round trip,  rate C/2,                   ┌─► rate 39/40 A, less what  ◄──────────────────  window by
 *   not paced                   a train at C                │   drains a queue; trains      the queue goes,   shares
 *                                                           │                               or we have most
 *   PROBE ──────────────────────────────────────────────────┘
 *   a train at C, no more            it is back
 *
 * In SEARCH bursts leave as fast as the host sends, so that they arrive at the rate C, and the last packets of one have
 * waited longer than the first. Where they have not, the burst left spread: by a device of just that rate, and then
 * the burst before was spread as much; or by an application that had no more, and then it tells nothing. As soon as a few
 * packets look spread the window stays, so that the burst is no longer than it must be. A burst of which much is lost was too long
 * already, and its rate is taken.
 *
 * COMPETE holds half of C beside algorithms that fill every queue. Per round trip, with the share s of C that was delivered:
 *
 *   window := window (1 + (1/2 - s)/4) + 1    nothing lost; no 1 above s = 1/2
 *   window := window (1 - 3/5 s)              losses, at most every second round trip: at s = 1/2 as CUBIC's, less below
 *   window := window * 5/4 + 1                s < 9/20, and no queue for three round trips: the others have just reduced
 *
 * Their queue may not drain for minutes, so the least round-trip time is not looked for meanwhile: it would become that of
 * the queue. Instead HOLD looks now and then whether it was all a longer path.
 *
 * Where others have had a quarter of C or more, trains leave at twice the rate, but below C: the first one that leaves no
 * queue shows that they have gone, and is believed without a second.
 *
 * In the background COMPETE does not exist, and a queue that our trains do not leave halves the rate with each quarter of a round
 * trip: after one or two round trips others have nearly everything. What they leave when they end is found by trains as ever.
 *
 * Every eighth train of HOLD leaves so fast that it measures C again, at S = 4 C; so do the few
 * trains of COMPETE. Beside X it arrives at C S/(S + X).
 *
 * In HOLD a loss changes nothing, unless more than one packet in 50 of a round trip is lost: then trains become shorter,
 * if no queue stands that overflows by itself, and from the second such round trip on no more is free than what was
 * delivered, for two seconds, and after that a sixteenth more with each round trip. FILL ends by that as well. In COMPETE
 * any loss is a decrease.
 *
 * That is a test: at a rate that the path has just delivered, a policer or a short queue loses hardly anything, and one that
 * others fill loses less. Where as much is lost as before, once what left before has been heard of, losses are the path's
 * own, as those of a radio link: they limit nothing, and only what is lost beyond them counts. A rate is always one of
 * packets that leave; trains tell of those that arrive.
 *
 * After a timeout the path begins anew with FILL, at half of the capacity that it had.
 *
 * A path that is known begins with PROBE, if its round-trip time is about the same: a train an eighth faster than the rate that is
 * known, and nothing else, confirms it or not, and shows whether there is more. Where it tells nothing it is sent again, at half of
 * the rate if much of it was lost; after three, FILL begins at half of what is known. These are the phases Reconnaissance,
 * Validating, Safe Retreat and Unvalidated of Careful Resume (RFC 9959). A train that a ceiling or the application keeps from
 * being fast enough ends PROBE at once.
 *
 * What ends a train is an acknowledgement, or, where none comes because nothing was under way before it, the next packets that leave.
 *
 * Connections that were told the same number are a bundle, one flow to others: all of this happens once for them, see
 * struct icdc_bundle and below. Of a bundle, also of one member, what a host that did not run has not sent is sent later.
 */
#define ALGORITHM icdc
#include "kernel.h"

/* Rates are packets per microsecond. */
#define RATE_BITS 24
#define RATE_MAX 0xffffffffULL
#define SECOND_US 1000000U
#define NONE 0xffffU

PARAMETER(u32, margin, 25, 5, 200, "share of what is free that is left alone, in thousandths")
PARAMETER(u32, excess, 4000, 200, 20000, "how long the queue behind a train may become, microseconds")
PARAMETER(u32, known_rate, 0, 0, 0x7fffffff, "rate that the path is known to carry, kilobytes of payload per second; 0: not known")
PARAMETER(u32, known_rtt, 0, 0, 60000000, "its least round-trip time, microseconds")
PARAMETER(u32, background, 0, 0, 1, "1: gives way to others that fill every queue; 0: shares the path with them")
PARAMETERS(margin, excess, known_rate, known_rtt, background)

SOCKET_HINTS

/*
 * Constants. A train at 9/8 of what is free makes the queue grow by 1/8 of the train's time. That and the parameters
 * `excess` (the longest queue behind a train) and `margin` (the share left alone) give most of the others.
 */

/* Rate of a train to the rate of the rest, in eighths: usually; where much more seems to be free. */
#define TRAIN_USUAL 9
#define TRAIN_DOUBLE 16
/* Every eighth train measures C: at 4 C the queue grows by three times the train's time whatever others send, and the
 * packets arrive at C. */
#define FAST_EVERY 8
#define FAST_GAIN 4
/* COMPETE: round trips between two, of which a few only leave fast enough where several members send them. */
#define BESIDE_ROUNDS 3
/* HOLD, COMPETE: a queue that grows behind a train by less than one part in so many of what C makes it grow is full. */
#define HOLD_FULL 2
#define BESIDE_FULL 8
/* COMPETE: by at most one part in so many C may then be more. */
#define BESIDE_STEP 8
/* Where one is wanted earlier, so many others come first: others on the path see a fast one as a queue. */
#define FAST_APART 4
/* Others have much: one part in so many of C, at least. Trains go up to so little under C then that one that comes as fast
 * as it left shows at once that they have gone. */
#define OTHERS_PART 4
#define UNDER_PART 32
/*
 * How many times `excess` a train lasts until the queue has grown by it: 8 at 9/8; 2 in FILL, at C above C/2. In PROBE it is so long
 * that each quarter has packets which no host has held back; a queue of a tenth of a long path's round trip takes what half of
 * the capacity leaves of it.
 */
#define TRAIN_EXCESSES 8
#define FILL_EXCESSES 2
#define PROBE_EXCESSES 4
/* PROBE: one part in so many of what arrived is free where it is not clear what others have. */
#define PROBE_DOUBT 4
/* For how long no acknowledgement comes where the next packets that leave end a train. */
#define SILENT_US 1000
/* Trains of PROBE at most, until one tells what is free. */
#define PROBES 3
/* Fewest packets of a train: four in its first and four in its last quarter, of which the least queue counts. */
#define TRAIN_PACKETS 16
/* Where acknowledgements come in bunches: doubled at most so often. */
#define TRAIN_DOUBLINGS 4
/*
 * Bits of `flags`, as the kernel refuses the BTF of bit fields: how many times trains have been doubled, as acknowledgements
 * come in bunches; a flow in the background; the next train shows how much is free; a ceiling is tested; losses have fallen with
 * the rate.
 */
#define BUNCHED 0x07U
#define GIVES_WAY 0x80U
#define MUCH_FREE 0x40U
#define TESTS 0x20U
#define FELL 0x10U
/* Longest train: a quarter of a round trip, so that it has left before it is answered, but not below a host's pauses. */
#define TRAIN_PART 4
#define TRAIN_LEAST_US 8000
/* Pause between trains: at `margin` = 25/1000 below what is free a queue drains in 40 times its length; and a fifth more. */
#define PAUSE_EXCESSES 48
/* A queue above what two trains leave, and a millisecond of a host's own delay, is not of our making. */
#define STANDING_EXCESSES 2
#define STANDING_US 1000
/* The queue that a train may leave: 1/64 of the round trip; no less than pacing timers can tell; after losses, their least. */
#define EXCESS_PART 64
#define EXCESS_LEAST_US 500
#define EXCESS_LOSSY_US 200

/* Losses count from 1 packet in 50 and a burst of three on: a path's own are rarer, a queue's that overflows are not. */
#define LOSSY 50
#define LOSSY_PACKETS 3
/* How long what was delivered is then the ceiling; after that (17/16)^12, 12 round trips, double it. */
#define CEILING_MS 2000
#define CEILING_LIFT 16
/* A ceiling is tested by packets that left below it: halves of round trips until nothing else is heard of. */
#define TEST_HALVES 5
/* Losses that have not fallen are the path's own: they are so many eighths of what they were, at least. */
#define UNFALLEN 7
/* Two counts differ by more than chance makes them: three standard deviations, squared. */
#define CHANCE 9
/* What counts beyond the path's own losses, which vary: one part in so many of them, besides LOSSY. */
#define OWN_LOSS_VARIES 4

/* COMPETE begins after 24 round trips in which others have most, a third of that where a queue stands. */
#define COMPETE_AFTER 24
#define STANDS 3
/* After so many round trips HOLD looks anew at what the path has; where a queue stands, COMPETE goes on after two. */
#define COMPETE_LONGEST 255
#define COMPETE_AGAIN (COMPETE_AFTER - 2 * STANDS)
/* The share of C, in 256ths, that it aims at; below which it takes what a queue that has gone leaves; which is nearly all. */
#define SHARE_AIM 128
#define SHARE_LOW 115
#define SHARE_MOST 217
/* Round trips without a queue: after three it tries more, or there is nobody if it has nearly half; after 16 in any case. */
#define QUEUE_GONE 3
#define NOBODY 16

/* In the background one part in so many of C is kept at least: with less, trains that show that others have gone last too long. */
#define BACKGROUND_PART 64

/* The least round-trip time is that of two periods of eight round trips: a queue that stands is told from a longer path
 * before. The bounds keep a period longer than a host's pauses and within the 16 bits of its begin. */
#define PERIOD_ROUNDS 8
#define PERIOD_LEAST_MS 2000
#define PERIOD_MOST_MS 30000

/* SEARCH: from when on a burst may look spread, and from when on that is believed: bunched acknowledgements look so, too. */
#define LOOK_PACKETS 8
#define LOOK_US 200
#define BELIEVE_PACKETS 32
#define BELIEVE_US 1000
/* The length of a burst tells of a device's rate if it came evenly: with no long silence, and not much more slowly than at its begin;
 * with losses by so many packets. */
#define EVEN_PART 2
#define EVEN_PACKETS 128
/* Packets delivered and lost of a burst, and part of what was delivered, from which on losses are those of a queue. */
#define OVERFLOW_PACKETS 64
#define OVERFLOW_PART 3
/* Hosts hold acknowledgements back for up to 4 ms: the rate is taken of that much of a burst, the window has room for it. */
#define BUNCH_US 4000
/* Packets; 1.5 GB. */
#define WINDOW_MOST (1U << 20)

#define INLINE static inline __attribute__((always_inline))

enum icdc_mode { SEARCH, PROBE, FILL, HOLD, COMPETE };
enum icdc_train { NO_TRAIN, LEAVING, UNDER_WAY };

/* A packet of a train: when it left, its number in the order of deliveries. */
struct icdc_point {
	u32 left_us;
	u32 number;
};

/* What a bundle has counted of one of its members. */
struct icdc_member {
	/* Its bundle, and its number in that. */
	u32 bundle;
	u32 number;
	u32 delivered;
	u32 in_flight;
	/* Its rate, and the most that it makes use of; since when that is looked at, and what it had sent by then. */
	u32 rate;
	u32 most;
	u32 round_us;
	u32 round_sent;
};

/*
 * Of a socket: alone, or a member of a bundle: it does not count while another one searches, has nothing under way, has
 * not heard of what it has under way, sends less than others could, or as much.
 */
enum icdc_standing { ALONE, UNCOUNTED, IDLE, FRESH, LIMITED, FREE };

struct icdc {
	union {
		struct {
			/* Low 32 bits of microseconds: begin of the round trip, of the tick, of the train. */
			u32 round_us;
			u32 tick_us;
			u32 train_us;
			/* Least round-trip time before this period, in it, and in this tick. */
			u32 before_us;
			u32 period_us;
			u32 tick_rtt_us;
			/* What stood in the queue in the last tick. */
			u32 queue_us;
			u32 tick_delivered;
			u32 round_delivered;
		};
		/* A member has nothing else. */
		struct icdc_member member;
	};
	u32 capacity;
	/* SEARCH: rate of the burst before. */
	u32 rate;
	u32 ceiling;
	union {
		/* What the last three trains found free. PROBE: the best that one has found, and what is known. */
		u32 free[3];
		/* SEARCH: the longest silence between acknowledgements of a burst, packets that it ended with, the last one. */
		struct {
			u32 silence_us;
			u32 silence_packets;
			u32 last_us;
		};
		/* COMPETE: the window in packets, the rate of the last round trip, whether it was reduced then. */
		struct {
			u32 window;
			u32 delivered;
			u32 reduced;
		};
	};
	/* First packet of the train, and how many. SEARCH: last packet of the burst. */
	u32 train_first;
	u32 train_packets;
	/* In its first and in its last quarter. SEARCH: the burst's first acknowledgement. */
	struct icdc_point early;
	union {
		struct icdc_point late;
		/* SEARCH: least round-trip time in the burst, and its rate after an eighth of a round trip. */
		struct {
			u32 least_us;
			u32 begin_rate;
		};
		/* Until one of the last quarter of a train is acknowledged: the last acknowledgement, or the train's begin. */
		u32 acked_us;
	};
	u16 early_us;
	u16 late_us;
	/* Milliseconds, low 16 bits: begin of the period; of the ceiling. */
	u16 period_ms;
	u16 ceiling_ms;
	/* Packets lost in this round trip; in PROBE of this train. */
	u16 lost;
	/* Length that a train may give to the queue. */
	u16 excess_us;
	u8 mode;
	u8 train;
	/* Share of packets that the path loses by itself, in 256ths; with TESTS, of all that were lost before the ceiling. */
	u8 loss;
	/* COMPETE: round trips. */
	u8 trains;
	u8 ticks;
	/*
	 * COMPETE: round trips in a row in which the queue had gone. HOLD: thirds of those in which it stood. PROBE: trains that have not
	 * told what is free.
	 */
	u8 rounds;
	u8 standing;
	u8 flags;
};
CHECK_PRIVATE(struct icdc);

/* What the members of a bundle share. */
struct icdc_bundle {
	struct bpf_spin_lock lock;
	/* The algorithm, for all of them together. */
	struct icdc all;
	u64 us;
	u32 delivered;
	u32 in_flight;
	/* How many have joined ever; are members; send as much as they may. */
	u32 joined;
	u32 members;
	u32 unlimited;
	/* Who searches, by number; 0: nobody. */
	u32 leader;
	/* Rates of all that have something under way; of those of them that send less than others. */
	u64 rates;
	u64 limited;
	/* Rates of all to what they are to send, in 256ths; since when that is so, at which rate, and what had been sent by then. */
	u32 factor;
	u32 factor_us;
	u32 factor_rate;
	u32 factor_sent;
	/* Packets that were due and have not been sent. */
	s32 owed;
	/* The last acknowledgement of PROBE. */
	u32 probed_us;
	bool has_probed;
};
BUNDLES(icdc_bundle)

/* What a connection has done so far, or the members of a bundle together. */
struct icdc_account {
	u64 us;
	u32 delivered;
	u32 in_flight;
	u32 members;
};

INLINE u32 icdc_in_flight(const struct tcp_sock *tp)
{
	return tp->packets_out - tp->sacked_out - tp->lost_out + tp->retrans_out;
}

INLINE struct icdc_account icdc_own(const struct tcp_sock *tp)
{
	return (struct icdc_account){tp->tcp_mstamp, tp->delivered, icdc_in_flight(tp), 1};
}

INLINE u32 icdc_sent(const struct icdc_account *all)
{
	return all->delivered + all->in_flight;
}

INLINE u32 icdc_base(const struct icdc *ca)
{
	return ca->before_us < ca->period_us ? ca->before_us : ca->period_us;
}

INLINE u32 icdc_rate(u32 packets, u32 us)
{
	u64 rate = ((u64)packets << RATE_BITS) / (us ? us : 1);

	return rate < RATE_MAX ? rate : RATE_MAX;
}

INLINE u64 icdc_packets(u32 rate, u32 us)
{
	return (u64)rate * us >> RATE_BITS;
}

INLINE void icdc_pace(struct sock *sk, const struct tcp_sock *tp, u64 rate)
{
	u64 pacing;

	if (rate > RATE_MAX)
		rate = RATE_MAX;
	pacing = ((rate * tp->mss_cache >> 8) * SECOND_US) >> (RATE_BITS - 8);

	if (pacing > sk->sk_max_pacing_rate)
		pacing = sk->sk_max_pacing_rate;
	sk->sk_pacing_rate = pacing ? pacing : 1;
}

/* Whether it leaves a queue to others: it does not COMPETE. */
INLINE bool icdc_gives_way(const struct icdc *ca)
{
	return ca->flags & GIVES_WAY;
}

/* The states in which `free` holds rates: in the others its room has another use. */
INLINE bool icdc_has_trains(const struct icdc *ca)
{
	return ca->mode == PROBE || ca->mode == FILL || ca->mode == HOLD;
}

/* The states that end with the first train that tells something. */
INLINE bool icdc_begins(const struct icdc *ca)
{
	return ca->mode == PROBE || ca->mode == FILL;
}

/* The states in which there are trains, and `early` and `late` mean what they say. */
INLINE bool icdc_sends_trains(const struct icdc *ca)
{
	return ca->mode != SEARCH;
}

INLINE u32 icdc_least(u32 a, u32 b)
{
	return a < b ? a : b;
}

INLINE u32 icdc_median(u32 a, u32 b, u32 c)
{
	u32 low = a < b ? a : b, high = a < b ? b : a;

	return c < low ? low : c > high ? high : c;
}

/* Share of packets that the path loses by itself, in 256ths. */
INLINE u32 icdc_own_loss(const struct icdc *ca)
{
	return ca->flags & TESTS ? 0 : ca->loss;
}

/* Share of the packets of a round trip that were lost, of which so many were delivered. */
INLINE u8 icdc_loss(const struct icdc *ca, u32 delivered)
{
	return ca->lost ? (255ULL * ca->lost) / ((u64)delivered + ca->lost) : 0;
}

/* Most packets that the path loses by itself beside so many that were delivered. */
INLINE u64 icdc_own_losses(const struct icdc *ca, u32 delivered)
{
	u64 own = (u64)delivered * icdc_own_loss(ca) / (256 - icdc_own_loss(ca));

	return own + own / OWN_LOSS_VARIES;
}

/* Whether one number of packets exceeds another one by more than chance makes two counts of equal losses differ. */
INLINE bool icdc_exceeds(u64 more, u64 less)
{
	return more > less && (more - less) * (more - less) > CHANCE * (more + less);
}

/* Whether more is lost than the path loses by itself, and more than may be by chance. */
INLINE bool icdc_loses_more(const struct icdc *ca, u32 delivered)
{
	u64 own = icdc_own_losses(ca, delivered);

	return ca->lost > own && (!own || icdc_exceeds(ca->lost, own));
}

/* Whether so much more is lost that a queue overflows, or a rate is enforced. */
INLINE bool icdc_is_lossy(const struct icdc *ca, u32 delivered)
{
	u64 own = icdc_own_losses(ca, delivered);

	return ca->lost > own + delivered / LOSSY + LOSSY_PACKETS && (!own || icdc_exceeds(ca->lost, own));
}

/* The rate at which packets arrive that leave at this one. */
INLINE u32 icdc_arriving(const struct icdc *ca, u32 rate)
{
	return (u64)rate * (256 - icdc_own_loss(ca)) / 256;
}

INLINE bool icdc_is_fast(const struct icdc *ca)
{
	return ca->trains % FAST_EVERY == 0;
}

/* How long a queue is one that our own trains do not leave. */
INLINE u32 icdc_standing(const struct icdc *ca)
{
	return (u32)STANDING_EXCESSES * ca->excess_us + STANDING_US;
}

INLINE bool icdc_others_have(const struct icdc *ca, u32 rate)
{
	return rate < ca->capacity - ca->capacity / OTHERS_PART;
}

/* From what the last train found, unless a queue has reduced the rate since. */
INLINE u64 icdc_usual_train_rate(const struct icdc *ca)
{
	u32 from = ca->free[2] > ca->rate && ca->queue_us <= icdc_standing(ca) ? ca->free[2] : ca->rate;
	u32 all = ca->capacity - ca->capacity / UNDER_PART;
	u64 rate = (u64)from * (ca->flags & MUCH_FREE ? TRAIN_DOUBLE : TRAIN_USUAL) / 8;

	return icdc_others_have(ca, from) && rate > all ? all : rate;
}

INLINE u32 icdc_train_rate(const struct icdc *ca)
{
	u64 rate;

	if (icdc_begins(ca))
		return ca->capacity;
	rate = ca->mode == COMPETE || icdc_is_fast(ca) ? (u64)ca->capacity * FAST_GAIN : icdc_usual_train_rate(ca);
	return rate < RATE_MAX ? rate : RATE_MAX;
}

/* As long as the queue takes to grow by what it may. */
INLINE void icdc_start_train(struct icdc *ca, const struct icdc_account *all)
{
	u32 free = ca->mode == COMPETE ? 0 : icdc_median(ca->free[0], ca->free[1], ca->free[2]);
	u32 longest = icdc_base(ca) / TRAIN_PART, rate, above = 0;
	u64 us = TRAIN_EXCESSES * ca->excess_us, packets;

	INVARIANT(icdc_sends_trains(ca));
	if (ca->mode != COMPETE)
		ca->trains++;
	rate = icdc_train_rate(ca);
	if (icdc_begins(ca))
		us = (ca->mode == PROBE ? PROBE_EXCESSES : FILL_EXCESSES) * ca->excess_us;
	else if (rate > free)
		above = (u64)(rate - free) * 1024 / (ca->capacity ? ca->capacity : 1);
	if (above)
		us = (u64)ca->excess_us * 1024 / above;
	/* On short paths the pauses of hosts are longer than a share of the round trip. */
	if (longest < TRAIN_LEAST_US)
		longest = TRAIN_LEAST_US;
	if (us > longest)
		us = longest;
	packets = icdc_packets(rate, us);
	ca->train_packets = packets < TRAIN_PACKETS ? TRAIN_PACKETS : packets;
	if (icdc_begins(ca) || (ca->mode == HOLD && !icdc_is_fast(ca) && !(ca->flags & MUCH_FREE)))
		ca->train_packets <<= ca->flags & BUNCHED;
	ca->train_first = icdc_sent(all);
	ca->train_us = all->us;
	ca->early_us = ca->late_us = NONE;
	ca->acked_us = all->us;
	ca->train = LEAVING;
}

/* The path has less than what is known of it. */
INLINE void icdc_retreat(struct icdc *ca)
{
	ca->capacity -= ca->capacity / 2;
	ca->rate -= ca->rate / 2;
}

/* No train tells what is free: what is known is tried with care. */
INLINE void icdc_give_up_probe(struct icdc *ca, u32 now)
{
	INVARIANT(ca->mode == PROBE);
	ca->free[0] = ca->free[1];
	ca->rounds = 0;
	ca->train_us = now;
	ca->mode = FILL;
}

INLINE void icdc_keep(struct icdc *ca, u32 free)
{
	INVARIANT(icdc_has_trains(ca));
	if (icdc_begins(ca)) {
		ca->free[0] = ca->free[1] = ca->free[2] = free;
		/* What was known is not believed any more. */
		if (ca->mode == PROBE) {
			ca->rate = free - (u64)free * margin / 1000;
			ca->rounds = 0;
		}
		ca->mode = HOLD;
	} else {
		ca->free[0] = ca->free[1];
		ca->free[1] = ca->free[2];
		ca->free[2] = free;
	}
}

/*
 * What the queue leaves of the rate S at which packets left over `us` while it grew, of which no more than `arrived` is ours; 0 if less
 * than `least`, which others alone would not take.
 */
INLINE u32 icdc_free(const struct icdc *ca, u32 sent, u32 arrived, u32 growth, u32 us, u32 least)
{
	u64 taken = (u64)ca->capacity * growth / us;

	if (taken + least > sent)
		return 0;
	return sent - taken < arrived ? sent - taken : arrived;
}

/* The rate of all, where a train at the rate S came at `arrived`, and packets of others in between, who have `others`. */
INLINE u32 icdc_with_others(u32 sent, u32 arrived, u32 others)
{
	u64 all = arrived + (u64)arrived * others / sent;

	return all < RATE_MAX ? all : RATE_MAX;
}

/* Whether a queue stands that does not grow by a part in so many of what it must behind packets that leave at more than C. */
INLINE bool icdc_is_full(const struct icdc *ca, u32 sent, u32 growth, u32 us, u32 part)
{
	return ca->early_us > icdc_standing(ca) && sent > ca->capacity &&
	       part * (u64)ca->capacity * growth < (u64)(sent - ca->capacity) * us;
}

/*
 * COMPETE: C from a fast train. What has been found beside others may have been a part of it only; what seems to have waited
 * for hardly anything may owe that to a host that did not run.
 */
INLINE void icdc_measure_beside(struct icdc *ca, u32 sent, u32 growth, u32 us, u32 arrived)
{
	u32 others = ca->capacity > ca->delivered ? ca->capacity - ca->delivered : 0, found;

	INVARIANT(ca->mode == COMPETE);
	/* A queue longer than can be counted has no growth to see. */
	if (sent <= ca->capacity + ca->capacity / 2 || ca->late_us >= NONE - 1)
		return;
	found = icdc_with_others(sent, arrived, others);
	if (icdc_is_full(ca, sent, growth, us, BESIDE_FULL))
		found = icdc_least(found, ca->capacity + ca->capacity / BESIDE_STEP);
	ca->capacity = ca->capacity / 2 + found / 2;
}

/*
 * No acknowledgement has come in one of the quarters of a train that count. Where the last one has brought more than such a
 * quarter they come in bunches: hosts send bursts of a millisecond, and others join what they receive. Then the next train is
 * longer; or slower first, as the faster a train the fewer its bursts. After losses they come so for another reason.
 */
INLINE void icdc_lengthen(struct icdc *ca, const struct rate_sample *rs)
{
	if (rs->rtt_us <= 0 || ca->lost || rs->acked_sacked <= ca->train_packets / 4)
		return;
	if (ca->mode == COMPETE || (ca->mode == HOLD && icdc_is_fast(ca)))
		return;
	if (ca->mode == HOLD && ca->flags & MUCH_FREE)
		ca->flags &= ~MUCH_FREE;
	else if ((ca->flags & BUNCHED) < TRAIN_DOUBLINGS)
		ca->flags++;
}

/* What a train tells; nothing, if it did not leave as fast as it was to. */
INLINE void icdc_take_train(struct icdc *ca, const struct icdc_account *all, const struct rate_sample *rs)
{
	u32 us = ca->late.left_us - ca->early.left_us, packets = ca->late.number - ca->early.number;
	u32 growth = ca->late_us > ca->early_us ? ca->late_us - ca->early_us : 0;
	u32 sent, arrived, free;

	INVARIANT(icdc_sends_trains(ca));
	if (ca->early_us == NONE || ca->late_us == NONE) {
		icdc_lengthen(ca, rs);
		return;
	}
	if ((s32)us <= 0 || (s32)packets <= 0)
		return;
	sent = icdc_rate(packets, us);
	/* Packets seem to have left faster than they could: of one burst, or where acknowledgements of members are waited for. */
	if (sent > icdc_train_rate(ca))
		sent = icdc_train_rate(ca);
	arrived = icdc_rate(packets, us + growth);
	if (ca->mode == COMPETE) {
		icdc_measure_beside(ca, sent, growth, us, arrived);
		return;
	}
	if (icdc_is_full(ca, sent, growth, us, HOLD_FULL))
		return;
	if (!icdc_begins(ca) && icdc_is_fast(ca)) {
		if (sent <= ca->capacity + ca->capacity / 2)
			return;
		/* It can show that the capacity is still what it was, not that there is more. */
		free = icdc_median(ca->free[0], ca->free[1], ca->free[2]);
		if (arrived < ca->capacity && free < ca->capacity)
			arrived = icdc_least(icdc_with_others(sent, arrived, ca->capacity - free), ca->capacity);
		/* So short a train may seem to have arrived as it left. */
		arrived = icdc_least(arrived, ca->capacity + ca->capacity / 4);
		if (arrived < ca->capacity - ca->capacity / 4)
			ca->capacity = ca->capacity / 2 + arrived / 2;
		else
			ca->capacity = ca->capacity - ca->capacity / 4 + arrived / 4;
		return;
	}
	if (sent < icdc_arriving(ca, ca->rate + ca->rate / 16)) {
		/* A ceiling or the application kept it from being faster; another one would be no faster. */
		if (ca->mode == PROBE)
			icdc_give_up_probe(ca, all->us);
		return;
	}
	free = icdc_free(ca, sent, arrived, growth, us, arrived / 2);
	if (!free) {
		/* The capacity may be less than it was held to be, or others take nearly all: the next train tells by measuring it. */
		free = arrived / (ca->mode == PROBE ? PROBE_DOUBT : 2);
		if (ca->trains % FAST_EVERY >= FAST_APART)
			ca->trains = FAST_EVERY - 1;
	}
	if (ca->mode == PROBE) {
		/*
		 * Hosts that pause make a train look slower than the path is, and none faster: another one, before that is
		 * believed. Several members cannot send it while they wait for acknowledgements.
		 */
		if (free < ca->free[0])
			free = ca->free[0];
		ca->free[0] = free;
		if (!ca->rounds && all->members == 1 && free < ca->free[1] / 2)
			return;
	}
	/* The faster a train the shorter, and the less exact. */
	if (free > ca->capacity)
		ca->capacity = ca->flags & MUCH_FREE ? ca->capacity - ca->capacity / 4 + free / 4 : free;
	/*
	 * The queue did not grow, or there is much more than we use: the next train shows how much, or confirms it. Others who
	 * have much may go at any time.
	 */
	ca->flags &= ~MUCH_FREE;
	if (free > sent - sent / 32 || free > ca->rate + ca->rate / 4 || icdc_others_have(ca, ca->rate))
		ca->flags |= MUCH_FREE;
	/* Where no queue is left at its end all of it was carried: no delay makes a train look so. Of three that is two. */
	if (ca->mode == HOLD && ca->late_us <= ca->excess_us / 4)
		ca->free[2] = free;
	icdc_keep(ca, free);
}

/* Notes an acknowledged packet of the train, if it is of its first or last quarter and waited less than others. */
INLINE void icdc_note(struct icdc *ca, const struct icdc_account *all, u32 rtt_us)
{
	u32 number = all->delivered - ca->train_first, queue = rtt_us > icdc_base(ca) ? rtt_us - icdc_base(ca) : 0;

	INVARIANT(icdc_sends_trains(ca));
	if (queue >= NONE)
		queue = NONE - 1;
	if (number <= ca->train_packets / 4 && queue < ca->early_us) {
		ca->early_us = queue;
		ca->early.left_us = (u32)all->us - rtt_us;
		ca->early.number = all->delivered;
	} else if (number > ca->train_packets - ca->train_packets / 4 && number <= ca->train_packets && queue < ca->late_us) {
		ca->late_us = queue;
		ca->late.left_us = (u32)all->us - rtt_us;
		ca->late.number = all->delivered;
	}
}

/* Ends a train that has left. */
INLINE void icdc_end_train(struct icdc *ca, const struct icdc_account *all)
{
	if (ca->train == LEAVING && (s32)(icdc_sent(all) - (ca->train_first + ca->train_packets)) >= 0)
		ca->train = UNDER_WAY;
}

/* Ends a train that has left, where acknowledgements that would end it fail to come; whether it has ended. */
INLINE bool icdc_end_silent_train(struct icdc *ca, const struct icdc_account *all)
{
	if (!icdc_sends_trains(ca) || ca->train == NO_TRAIN || ca->late_us != NONE || (u32)all->us - ca->acked_us < SILENT_US)
		return false;
	icdc_end_train(ca, all);
	return ca->train != LEAVING;
}

/* A train on a path that is known has told nothing. */
INLINE void icdc_probe_again(struct icdc *ca, const struct icdc_account *all)
{
	/* What was lost of this one is nothing of the next. */
	ca->lost = 0;
	if (++ca->rounds >= PROBES) {
		icdc_give_up_probe(ca, all->us);
		return;
	}
	ca->trains--;
	icdc_start_train(ca, all);
}

INLINE void icdc_follow_train(struct icdc *ca, const struct icdc_account *all, const struct rate_sample *rs)
{
	u32 last = ca->train_first + ca->train_packets, now = all->us, pause;
	bool is_longer;

	if (ca->train == NO_TRAIN) {
		/*
		 * Until what the last one left in the queue has gone. In FILL until acknowledgements are there that can end it: with
		 * a capacity that was found too high it would fill any queue.
		 */
		pause = icdc_base(ca) / 2;
		if (pause < (u32)PAUSE_EXCESSES * ca->excess_us)
			pause = (u32)PAUSE_EXCESSES * ca->excess_us;
		if (ca->mode == FILL)
			pause = icdc_base(ca);
		else if (ca->mode == COMPETE)
			pause = BESIDE_ROUNDS * icdc_base(ca);
		if (now - ca->train_us >= pause)
			icdc_start_train(ca, all);
		return;
	}
	if (ca->late_us == NONE)
		ca->acked_us = now;
	/* Where few packets fill the path its first packets are back before its last ones leave. */
	is_longer = icdc_packets(icdc_train_rate(ca), icdc_base(ca)) < ca->train_packets;
	if (rs->rtt_us > 0 && (s32)(all->delivered - ca->train_first) > 0 && (ca->train == UNDER_WAY || is_longer))
		icdc_note(ca, all, rs->rtt_us);
	if ((s32)(all->delivered - last) >= 0) {
		ca->train = NO_TRAIN;
		if (ca->mode == PROBE && ca->lost > ca->train_packets / LOSSY + LOSSY_PACKETS)
			icdc_retreat(ca);
		else
			icdc_take_train(ca, all, rs);
		if (ca->mode == PROBE)
			icdc_probe_again(ca, all);
	} else {
		icdc_end_train(ca, all);
	}
}

/*
 * What a growing queue leaves: as with a train, but of all that came in a tick. Others who have just come share the queue
 * with us, so that more of ours is delivered than is free. That is not believed for less than 7/10: the capacity may be less.
 */
INLINE u32 icdc_left(const struct icdc *ca, u32 packets, u32 us, u32 growth)
{
	u32 delivered = icdc_rate(packets, us), least = delivered / 10 * 7, free;

	if (growth >= us)
		return least;
	free = icdc_free(ca, icdc_rate(packets, us - growth), delivered, growth, us - growth, least);
	return free ? free : least;
}

/* Where a queue has cost more than half of the rate, what trains found before it stood is not true any more. */
INLINE void icdc_doubt(struct icdc *ca)
{
	u32 most = ca->rate < RATE_MAX / 2 ? 2 * ca->rate : RATE_MAX;

	INVARIANT(icdc_has_trains(ca));
	if (ca->free[0] > most)
		ca->free[0] = most;
	if (ca->free[1] > most)
		ca->free[1] = most;
	if (ca->free[2] > most)
		ca->free[2] = most;
}

/* A quarter of a round trip: a train's queue is gone before the tick is. */
INLINE void icdc_tick(struct icdc *ca, const struct icdc_account *all)
{
	u32 now = all->us, packets = all->delivered - ca->tick_delivered, base = icdc_base(ca), left;
	u32 before_us = ca->queue_us, us = now - ca->tick_us, growth;
	u64 target, drain;

	ca->queue_us = ca->tick_rtt_us != ~0U && ca->tick_rtt_us > base ? ca->tick_rtt_us - base : 0;
	growth = ca->queue_us > before_us ? ca->queue_us - before_us : 0;
	ca->tick_us = now;
	ca->tick_delivered = all->delivered;
	ca->tick_rtt_us = ~0U;
	ca->ticks++;
	if (ca->mode != HOLD)
		return;
	target = icdc_median(ca->free[0], ca->free[1], ca->free[2]);
	if (ca->ceiling && target > ca->ceiling)
		target = ca->ceiling;
	target -= target * margin / 1000;
	if (ca->queue_us > icdc_standing(ca) && ca->queue_us < before_us - before_us / 16) {
		/* It drains. */
		if (target > ca->rate)
			target = ca->rate;
		/* A queue that others fill does not. */
		if (ca->rounds)
			ca->rounds--;
	} else if (ca->queue_us > icdc_standing(ca)) {
		drain = ca->queue_us < base / 2 ? ca->queue_us : base / 2;
		left = icdc_left(ca, packets, us, growth);
		if (icdc_gives_way(ca))
			left = icdc_least(left, ca->rate / 2);
		if (target > left)
			target = left;
		target -= target * drain / (2 * base);
	}
	if (target < ca->rate / 2)
		target = ca->rate / 2;
	if (target > (u64)ca->rate * 2)
		target = (u64)ca->rate * 2;
	if (icdc_gives_way(ca) && target < ca->capacity / BACKGROUND_PART)
		target = ca->capacity / BACKGROUND_PART;
	ca->rate = target < RATE_MAX ? target : RATE_MAX;
	if (ca->queue_us > icdc_standing(ca))
		icdc_doubt(ca);
}

/* A quarter of a round trip is over, or an eighth in which a queue has grown more than our trains make it grow. */
INLINE bool icdc_tick_ends(const struct icdc *ca, u32 now)
{
	u32 us = now - ca->tick_us, base = icdc_base(ca);

	if (us >= base / 4)
		return true;
	return us >= base / 8 && ca->tick_rtt_us != ~0U && ca->tick_rtt_us > base + ca->queue_us + 2 * icdc_standing(ca);
}

INLINE void icdc_compete(struct icdc *ca, u32 packets, u32 delivered)
{
	u32 base = icdc_base(ca), share = ((u64)delivered << 8) / (ca->capacity ? ca->capacity : 1);

	INVARIANT(ca->mode == COMPETE);
	ca->delivered = delivered;
	/* Packets of one burst are found lost in two round trips. */
	if (icdc_loses_more(ca, packets) && !ca->reduced) {
		ca->window -= (u64)ca->window * share * 3 / (5 * 256);
		ca->reduced = true;
	} else {
		ca->reduced = false;
		if (ca->rounds >= QUEUE_GONE && share < SHARE_LOW && ca->queue_us < icdc_standing(ca))
			ca->window += 1 + ca->window / 4;
		else if (share > SHARE_AIM)
			ca->window -= (u64)ca->window * (share - SHARE_AIM) >> 10;
		else if (ca->window < 2 * icdc_packets(delivered, base + ca->queue_us) + 16)
			ca->window += 1 + ((u64)ca->window * (SHARE_AIM - share) >> 10);
	}
	if (ca->window < 4)
		ca->window = 4;
	if (share > SHARE_MOST || ca->queue_us < base / 16 + 1000)
		ca->rounds++;
	else
		ca->rounds = 0;
	ca->rate = icdc_rate(ca->window + ca->window / 16 + 1, base + ca->queue_us);
	ca->trains++;
	if (ca->rounds >= (share > SHARE_LOW ? QUEUE_GONE : NOBODY) || ca->trains >= COMPETE_LONGEST) {
		ca->rounds = ca->trains >= COMPETE_LONGEST ? COMPETE_AGAIN : 0;
		ca->mode = HOLD;
		ca->free[0] = ca->free[1] = ca->free[2] = delivered;
		ca->rate = delivered;
		ca->train = NO_TRAIN;
	}
}

/* The queue that a train may leave behind it on a path of this round-trip time. */
INLINE u32 icdc_usual_excess(u32 rtt_us)
{
	u32 shortest = rtt_us / EXCESS_PART < EXCESS_LEAST_US ? EXCESS_LEAST_US : rtt_us / EXCESS_PART;

	return shortest < excess ? shortest : excess;
}

/* The ceiling has been kept for long enough to tell whose the losses are. */
INLINE void icdc_end_test(struct icdc *ca, u32 packets, u32 delivered, u16 now_ms)
{
	u8 loss = icdc_loss(ca, packets);
	u64 before = ((u64)packets + ca->lost) * ca->loss / 256;

	if (!icdc_exceeds(before * UNFALLEN / 8, ca->lost)) {
		ca->flags &= ~TESTS;
		/* Those that have fallen before were of the rate. */
		if (!(ca->flags & FELL)) {
			ca->ceiling = 0;
			ca->excess_us = icdc_usual_excess(icdc_base(ca));
		}
	} else {
		ca->flags |= FELL;
		if (!icdc_is_lossy(ca, packets))
			ca->flags &= ~TESTS;
		else if (delivered < ca->ceiling)
			ca->ceiling = delivered;
	}
	ca->loss = loss;
	ca->ceiling_ms = now_ms;
}

/* HOLD: what was lost in a round trip; `stood`: a queue of others had stood for long. */
INLINE void icdc_hear_of_losses(struct icdc *ca, u32 packets, u32 delivered, u16 now_ms, bool stood)
{
	u32 base = icdc_base(ca), free = icdc_median(ca->free[0], ca->free[1], ca->free[2]);
	u16 since_ms = now_ms - ca->ceiling_ms;
	u8 loss = icdc_loss(ca, packets);

	if (ca->flags & TESTS) {
		if (since_ms > (u64)TEST_HALVES * base / 2000)
			icdc_end_test(ca, packets, delivered, now_ms);
	} else if (icdc_is_lossy(ca, packets)) {
		/* A single one may owe its losses to the bursts that came before; and after a long queue they are its. */
		if (!stood && (ca->ceiling || since_ms <= 3 * base / 1000 + 50)) {
			if (!ca->ceiling)
				ca->flags &= ~FELL;
			ca->flags |= TESTS;
			ca->loss = loss;
			ca->ceiling = delivered;
		}
		ca->ceiling_ms = now_ms;
		/* The queue is too short for our trains, unless others fill it. */
		if (ca->queue_us <= icdc_standing(ca))
			ca->excess_us -= ca->excess_us / 4;
		if (ca->excess_us < EXCESS_LOSSY_US)
			ca->excess_us = EXCESS_LOSSY_US;
	} else {
		if (loss < ca->loss)
			ca->loss -= ((u32)ca->loss - loss + 3) / 4;
		if (ca->ceiling && since_ms > CEILING_MS) {
			/* From now on a little more with each round trip, up to what seems to be free. */
			ca->ceiling += ca->ceiling / CEILING_LIFT;
			if (ca->ceiling > free || ca->ceiling > RATE_MAX / 2)
				ca->ceiling = 0;
		}
	}
}

/* Losses are not asked about any more. */
INLINE void icdc_drop_test(struct icdc *ca)
{
	if (ca->flags & TESTS)
		ca->loss = 0;
	ca->flags &= ~(TESTS | FELL);
}

/* Four ticks. */
INLINE void icdc_end_round(struct icdc *ca, const struct icdc_account *all)
{
	u32 now = all->us, packets = all->delivered - ca->round_delivered, base = icdc_base(ca);
	u32 delivered = icdc_rate(packets, now - ca->round_us), free, longest;
	u16 now_ms = all->us / 1000;
	bool stood;

	if (ca->mode == FILL && icdc_is_lossy(ca, packets) && ++ca->rounds > 1) {
		/* Not only the last burst: the path has less than it had, or than it seemed to have. */
		ca->rounds = 0;
		icdc_keep(ca, delivered);
		ca->rate = delivered;
		ca->train = NO_TRAIN;
	}
	if (ca->mode == COMPETE) {
		icdc_compete(ca, packets, delivered);
	} else if (ca->mode == HOLD) {
		free = icdc_median(ca->free[0], ca->free[1], ca->free[2]);
		stood = ca->rounds >= STANDS;
		/* Eight round trips of a queue, or 24 in which others have most. */
		if (ca->queue_us > base / 8 + 2000)
			ca->rounds += STANDS;
		else if (free < ca->capacity / 8 * 3)
			ca->rounds++;
		else
			ca->rounds = 0;
		if (ca->rounds >= COMPETE_AFTER && icdc_gives_way(ca)) {
			ca->rounds = COMPETE_AFTER;
		} else if (ca->rounds >= COMPETE_AFTER) {
			ca->rounds = 0;
			icdc_drop_test(ca);
			ca->mode = COMPETE;
			ca->window = icdc_packets(delivered, base + ca->queue_us) + 4;
			ca->delivered = delivered;
			ca->reduced = false;
			ca->trains = 0;
			ca->train = NO_TRAIN;
		}
		icdc_hear_of_losses(ca, packets, delivered, now_ms, stood);
	}
	/* The path may have become longer: the least round-trip time is that of the last two periods outside of COMPETE. */
	longest = PERIOD_ROUNDS * base > PERIOD_LEAST_MS * 1000U ? PERIOD_ROUNDS * base / 1000 : PERIOD_LEAST_MS;
	if (ca->mode != COMPETE && (u16)(now_ms - ca->period_ms) > (longest < PERIOD_MOST_MS ? longest : PERIOD_MOST_MS)) {
		/* Nothing but packets sent again tells nothing. */
		if (ca->period_us != ~0U) {
			ca->before_us = ca->period_us;
			ca->period_us = ~0U;
		}
		ca->period_ms = now_ms;
	}
	ca->round_us = now;
	ca->round_delivered = all->delivered;
	ca->ticks = 0;
	ca->lost = 0;
}

INLINE void icdc_fill(struct icdc *ca, u32 now)
{
	ca->rate = ca->capacity / 2;
	ca->free[0] = ca->free[1] = ca->free[2] = ca->capacity;
	ca->train_us = now;
	ca->mode = FILL;
}

/* The rate of a burst that has come back. The longest silence in it may be a host that did not run. */
INLINE u32 icdc_burst_rate(const struct icdc *ca)
{
	u32 us = ca->last_us - ca->early.left_us - ca->silence_us;
	u32 packets = ca->train_first - ca->early.number - ca->silence_packets;

	INVARIANT(ca->mode == SEARCH);
	return packets < LOOK_PACKETS || (s32)us <= 0 ? 0 : icdc_rate(packets, us);
}

/* Whether so much of a burst is lost that it was too long: it shows no rate then where the host itself sends it slowly. */
INLINE bool icdc_overflows(const struct icdc *ca, u32 delivered)
{
	return delivered >= OVERFLOW_PACKETS && ca->lost >= OVERFLOW_PACKETS && ca->lost > delivered / OVERFLOW_PART;
}

/* Whether a burst is spread by the path, or by the device that it leaves by. */
INLINE bool icdc_is_spread(struct icdc *ca, const struct rate_sample *rs, u32 us, u32 rate)
{
	u32 grown = (u32)rs->rtt_us - ca->least_us;

	if (rs->rtt_us <= 0)
		return false;
	if ((s32)(grown - ca->silence_us) > (s32)(us / 4))
		return true;
	if (us + ca->silence_us < icdc_base(ca) / 8)
		return false;
	/* What is sent again for losses comes later than the rest, and so does what only answers the other end. */
	if (!ca->begin_rate)
		ca->begin_rate = rate;
	if (rate < ca->begin_rate / EVEN_PART || ca->silence_us > us / EVEN_PART)
		return false;
	if (us < icdc_base(ca) / 8 || rs->is_app_limited || (ca->lost && icdc_packets(rate, us) < EVEN_PACKETS))
		return false;
	return rate - ca->rate / 2 < ca->rate;
}

/*
 * Once the rate shows, the window stays while up to 4 ms of the burst are looked at: acknowledgements that a host held
 * back come in a bunch.
 */
INLINE void icdc_search(struct icdc *ca, struct tcp_sock *tp, const struct icdc_account *all, const struct rate_sample *rs)
{
	u32 now = all->us, us, packets, silence, rate, base = icdc_base(ca);
	bool spread = false;
	u64 window;

	INVARIANT(ca->mode == SEARCH);
	if (icdc_overflows(ca, all->delivered - ca->round_delivered)) {
		rate = icdc_burst_rate(ca);
		ca->capacity = rate > ca->rate ? rate : ca->rate;
		if (ca->capacity) {
			icdc_fill(ca, now);
			return;
		}
	}
	if ((s32)(all->delivered - ca->train_first) > 0) {
		/* The first acknowledgement of a burst. */
		if (ca->capacity) {
			icdc_fill(ca, now);
			return;
		}
		ca->rate = icdc_burst_rate(ca);
		ca->least_us = rs->rtt_us > 0 ? (u32)rs->rtt_us : base;
		ca->early.left_us = now;
		ca->early.number = all->delivered;
		ca->train_first = icdc_sent(all);
		ca->silence_us = ca->silence_packets = ca->begin_rate = 0;
	} else {
		silence = now - ca->last_us;
		if (silence > ca->silence_us) {
			ca->silence_us = silence;
			ca->silence_packets = rs->acked_sacked;
		}
		if (rs->rtt_us > 0 && rs->rtt_us < ca->least_us)
			ca->least_us = rs->rtt_us;
		us = now - ca->early.left_us - ca->silence_us;
		packets = all->delivered - ca->early.number - ca->silence_packets;
		rate = icdc_rate(packets, us);
		spread = packets >= LOOK_PACKETS && us >= LOOK_US && icdc_is_spread(ca, rs, us, rate);
		if (spread && ((packets >= BELIEVE_PACKETS && us >= BELIEVE_US) || us >= base / 2))
			ca->capacity = rate;
		if (ca->capacity && (us >= BUNCH_US || us >= base / 2 || all->delivered == ca->train_first)) {
			icdc_fill(ca, now);
			return;
		}
	}
	ca->last_us = now;
	/* A window that is not used does not grow. */
	if (spread || ca->capacity || rs->prior_in_flight < tp->snd_cwnd / 2)
		return;
	window = tp->snd_cwnd + 3ULL * rs->acked_sacked;
	if (window > WINDOW_MOST)
		window = WINDOW_MOST;
	tp->snd_cwnd = window < tp->snd_cwnd_clamp ? window : tp->snd_cwnd_clamp;
}

INLINE u32 icdc_window(const struct icdc *ca)
{
	u32 base = icdc_base(ca);
	u64 window = icdc_packets(ca->rate, base);

	if (ca->mode == PROBE)
		return ca->train_packets + TRAIN_PACKETS;
	window += window / 8 + icdc_packets(ca->rate, BUNCH_US) + ca->train_packets + TRAIN_PACKETS;
	return window < 0x7fffffff ? window : 0x7fffffff;
}

/* A train is on top of it. */
INLINE u32 icdc_window_beside(const struct icdc *ca)
{
	INVARIANT(ca->mode == COMPETE);
	return ca->train == NO_TRAIN ? ca->window : ca->window + ca->train_packets;
}

/* What an acknowledgement leads to. */
struct icdc_order {
	u32 rate;
	u32 window;
};

/* False in SEARCH, which sets the window by itself. */
INLINE bool icdc_decide(struct icdc *ca, struct tcp_sock *tp, const struct icdc_account *all, const struct rate_sample *rs,
			struct icdc_order *order)
{
	u32 lost, left;

	if (rs->rtt_us > 0) {
		if (rs->rtt_us < ca->period_us)
			ca->period_us = rs->rtt_us;
		if (rs->rtt_us < ca->tick_rtt_us)
			ca->tick_rtt_us = rs->rtt_us;
	}
	if (rs->losses > 0) {
		lost = ca->lost + (u32)rs->losses;
		ca->lost = lost < NONE ? lost : NONE;
		/* They left before the train, or in it, and will not be counted. */
		ca->train_first -= (u32)rs->losses;
	}
	if (icdc_tick_ends(ca, all->us)) {
		icdc_tick(ca, all);
		if (ca->ticks >= 4 && (ca->mode != COMPETE || (u32)all->us - ca->round_us >= icdc_base(ca) + ca->queue_us))
			icdc_end_round(ca, all);
	}
	if (ca->mode == SEARCH) {
		icdc_search(ca, tp, all, rs);
		if (ca->mode == SEARCH)
			return false;
	}
	order->rate = ca->rate;
	icdc_follow_train(ca, all, rs);
	if (ca->train == LEAVING)
		order->rate = icdc_train_rate(ca);
	order->window = ca->mode == COMPETE ? icdc_window_beside(ca) : icdc_window(ca);
	/*
	 * Where acknowledgements fail to come the train ends nevertheless, before the queue is as long as the train may make it
	 * once more. While less is under way than fills the path they have gaps by themselves.
	 */
	left = ca->train_first + ca->train_packets - all->delivered;
	if (ca->mode == PROBE && all->members == 1)
		order->window = left + TRAIN_PACKETS;
	if (ca->mode == HOLD && ca->train == LEAVING && left >= icdc_packets(ca->rate, icdc_base(ca))) {
		left += icdc_packets(ca->capacity, ca->excess_us);
		if (order->window > left)
			order->window = left;
	}
	return true;
}

INLINE void icdc_set_window(struct tcp_sock *tp, u32 window)
{
	tp->snd_cwnd = window < tp->snd_cwnd_clamp ? window : tp->snd_cwnd_clamp;
}

/* What the user knows of the path from connections before this one. */
INLINE void icdc_resume(struct icdc *ca, const struct icdc_account *all, const struct socket_hint *hint, u32 rtt_us, u32 mss)
{
	u32 difference = hint->rtt_us > rtt_us ? hint->rtt_us - rtt_us : rtt_us - hint->rtt_us;
	u64 rate;

	if (!hint->rate || !rtt_us || !mss || difference > hint->rtt_us / 8 + 2000)
		return;
	/* 1000 bytes in 1,000,000 microseconds. */
	rate = ((u64)hint->rate << RATE_BITS) / 1000 / mss;
	if (!rate || rate >= RATE_MAX)
		return;
	/* A train of what is known would show no more than that. */
	ca->capacity = rate + rate / 8 < RATE_MAX ? rate + rate / 8 : rate;
	ca->rate = rate / 2;
	ca->free[0] = 0;
	ca->free[1] = ca->free[2] = rate;
	ca->mode = PROBE;
	/* The train after the first measures the capacity, which may be another one now. */
	ca->trains = 6;
	icdc_start_train(ca, all);
}

INLINE void icdc_begin(struct icdc *ca, const struct icdc_account *all, const struct socket_hint *hint, u32 rtt_us, u32 mss)
{
	u8 gives_way = hint->background ? GIVES_WAY : ca->flags & GIVES_WAY;

	__builtin_memset(ca, 0, sizeof(*ca));
	ca->flags = gives_way;
	ca->before_us = ~0U;
	ca->period_us = rtt_us ? rtt_us : ~0U;
	ca->period_ms = all->us / 1000;
	ca->tick_rtt_us = ~0U;
	ca->round_us = ca->tick_us = ca->last_us = all->us;
	ca->tick_delivered = ca->round_delivered = ca->train_first = all->delivered;
	ca->excess_us = icdc_usual_excess(rtt_us);
	icdc_resume(ca, all, hint, rtt_us, mss);
}

/* What is sent after a pause is a train of its own: what came before it tells nothing. */
INLINE void icdc_begin_train(struct icdc *ca, const struct icdc_account *all)
{
	/* One that was cut off, or has not begun, does not count. */
	if (ca->train == LEAVING)
		ca->trains--;
	icdc_start_train(ca, all);
}

/* A timeout: nothing came back for long. What the path carried before is tried anew, as a path that is known. */
INLINE void icdc_begin_anew(struct icdc *ca, u32 now)
{
	/* What is known has not been carried at all. */
	if (ca->mode == PROBE)
		icdc_retreat(ca);
	icdc_fill(ca, now);
	icdc_drop_test(ca);
	ca->ceiling = 0;
	ca->rounds = 0;
	ca->train = NO_TRAIN;
}

/*
 * A bundle: several connections of one application over one path, which are one flow to others. The algorithm runs once,
 * for all of them: `delivered` and what is in flight are sums, every acknowledgement of any member is one of the bundle, all
 * members together send a train. In SEARCH one of them is the leader, and nobody else counts.
 *
 *   rate of a member    = (R - rates of those that cannot send as much) / number of the others, and all together R at most
 *   window              = its own part + what is left of the whole window
 *   R                   = rate of all * factor
 *   factor             := factor * rate of all / what was sent, each 8 ms: what some cannot send any more, the others do
 *
 * A member's rate changes with its acknowledgements. So one that has none yet begins with little: until it has, the others
 * do not know of it.
 */
#define FACTOR_ONE 256U
#define FACTOR_US 8000U
/* At most so much of it in one step. */
#define FACTOR_STEP 8
/* Packets that a member may send in each round trip while another one searches. */
#define AWAITING_WINDOW 2
/* Those without acknowledgements together have that part of the rate. */
#define FRESH_PART 8
/* What a member has made use of may double with each round trip, as windows do. */
#define MOST_GROWTH 2
/* What is owed is sent in that time; at most one part in so many of the rate. */
#define OWED_US 32000U
#define OWED_PART 4

/* Rate of all members together. */
INLINE u64 icdc_whole(const struct icdc_bundle *bundle, u32 rate)
{
	u64 whole = (u64)rate * bundle->factor / FACTOR_ONE;
	u64 more = bundle->owed > 0 ? ((u64)bundle->owed << RATE_BITS) / OWED_US : 0;

	/* Trains tell by the rate that they are to have. */
	if (bundle->all.mode != HOLD || bundle->all.train == LEAVING)
		return whole;
	return whole + (more < rate / OWED_PART ? more : rate / OWED_PART);
}

/* What a member is given is not promised to anybody any more. */
INLINE void icdc_withdraw(struct icdc_bundle *bundle, struct icdc *ca)
{
	if (ca->standing == FREE)
		bundle->unlimited--;
	else if (ca->standing == FRESH || ca->standing == LIMITED)
		bundle->limited -= ca->member.rate;
	else
		return;
	bundle->rates -= ca->member.rate;
	ca->member.rate = 0;
	ca->standing = IDLE;
}

/* Gives a member its part of `all`. */
INLINE void icdc_give(struct icdc_bundle *bundle, struct icdc *ca, u32 all, bool is_fresh)
{
	u64 whole = icdc_whole(bundle, all), rate, free, least;

	icdc_withdraw(bundle, ca);
	rate = whole > bundle->limited ? (whole - bundle->limited) / (bundle->unlimited + 1) : 0;
	least = all / (FRESH_PART * (bundle->members + 1)) + 1;
	free = whole > bundle->rates ? whole - bundle->rates : 0;
	if (is_fresh && bundle->rates) {
		rate = least;
		ca->standing = FRESH;
	} else if (ca->member.most < rate) {
		rate = ca->member.most;
		ca->standing = LIMITED;
	} else {
		ca->standing = FREE;
		bundle->unlimited++;
	}
	if (rate > free)
		rate = free;
	if (rate < least)
		rate = least;
	if (rate > RATE_MAX)
		rate = RATE_MAX;
	ca->member.rate = rate;
	/* Whether that is a part of a train's rate. */
	ca->train = icdc_sends_trains(&bundle->all) ? bundle->all.train : NO_TRAIN;
	bundle->rates += rate;
	if (ca->standing != FREE)
		bundle->limited += rate;
}

/* Once per round trip: how much a member makes use of. */
INLINE void icdc_look(struct icdc_bundle *bundle, struct icdc *ca)
{
	struct icdc_member *own = &ca->member;
	u32 us = (u32)bundle->us - own->round_us, sent = own->delivered + own->in_flight;
	/* A train and nothing else tells nothing of what it could send. */
	bool is_probe = bundle->has_probed && (s32)(bundle->probed_us - own->round_us) >= 0;
	bool is_told = !is_probe && (s32)(sent - own->round_sent) >= 0;
	u64 used;

	if (!is_probe && us < icdc_base(&bundle->all))
		return;
	used = icdc_rate(sent - own->round_sent, us);
	own->most = RATE_MAX;
	if (is_told && used < own->rate - own->rate / 4 && used * MOST_GROWTH < RATE_MAX)
		own->most = used * MOST_GROWTH + 1;
	own->round_us = bundle->us;
	own->round_sent = sent;
}

/* Counts what a member has done since it was counted last. */
INLINE void icdc_count(struct icdc_bundle *bundle, struct icdc *ca, const struct tcp_sock *tp)
{
	struct icdc_member *own = &ca->member;
	u32 in_flight = icdc_in_flight(tp);

	/* Members on other processors may be a little ahead of this one's clock. */
	if (bundle->us < tp->tcp_mstamp)
		bundle->us = tp->tcp_mstamp;
	if (ca->standing == UNCOUNTED) {
		own->delivered = tp->delivered;
		own->in_flight = 0;
		ca->standing = IDLE;
	}
	bundle->delivered += tp->delivered - own->delivered;
	bundle->in_flight += in_flight - own->in_flight;
	own->delivered = tp->delivered;
	own->in_flight = in_flight;
	if (!in_flight)
		icdc_withdraw(bundle, ca);
}

INLINE struct icdc_account icdc_sum(const struct icdc_bundle *bundle)
{
	return (struct icdc_account){bundle->us, bundle->delivered, bundle->in_flight, bundle->members};
}

/* From now on this rate is due. */
INLINE void icdc_begin_due(struct icdc_bundle *bundle, const struct icdc_account *all, u32 rate)
{
	bundle->factor_us = all->us;
	bundle->factor_rate = rate;
	bundle->factor_sent = icdc_sent(all);
}

/*
 * What was due since the last look, and what was sent. What is owed is sent later: a host that did not run lets the others
 * of the path have its part, and a queue gives it back as far as trains may make it grow.
 */
INLINE void icdc_adapt_factor(struct icdc_bundle *bundle, const struct icdc_account *all, u32 rate, const struct rate_sample *rs)
{
	u32 us = (u32)all->us - bundle->factor_us;
	u64 due = icdc_packets(bundle->factor_rate, us), sent, factor = bundle->factor;
	s64 most = icdc_packets(rate, icdc_standing(&bundle->all)), owed;
	u32 packets = icdc_sent(all) - bundle->factor_sent;

	if (bundle->all.mode == PROBE) {
		/* After a train nothing is due. */
		bundle->has_probed = true;
		bundle->probed_us = all->us;
		bundle->owed = 0;
		icdc_begin_due(bundle, all, 0);
		return;
	}
	if (rs->losses > 0)
		bundle->factor_sent -= rs->losses;
	if (rate == bundle->factor_rate && us < FACTOR_US)
		return;
	/* A member that has just timed out has less under way. */
	sent = (s32)packets > 0 ? packets : 0;
	/* An application that has no more does not owe anything. */
	owed = rs->is_app_limited ? 0 : (s64)bundle->owed + (s64)due - (s64)sent;
	bundle->owed = owed > most ? most : owed < -most ? -most : owed;
	if (us >= FACTOR_US / 2 && due && (sent >= due || !rs->is_app_limited)) {
		if (sent < due - due / FACTOR_STEP)
			sent = due - due / FACTOR_STEP;
		if (sent > due + due / FACTOR_STEP)
			sent = due + due / FACTOR_STEP;
		if (sent)
			factor = (factor * due + sent / 2) / sent;
		if (factor > FACTOR_ONE * bundle->members)
			factor = FACTOR_ONE * bundle->members;
		if (factor < FACTOR_ONE - FACTOR_ONE / FACTOR_STEP)
			factor = FACTOR_ONE - FACTOR_ONE / FACTOR_STEP;
	}
	bundle->factor = bundle->members > 1 ? factor : FACTOR_ONE;
	icdc_begin_due(bundle, all, rate);
}

INLINE u32 icdc_rate_now(const struct icdc *ca)
{
	return icdc_sends_trains(ca) && ca->train == LEAVING ? icdc_train_rate(ca) : ca->rate;
}

INLINE u32 icdc_window_now(const struct icdc *ca)
{
	return ca->mode == COMPETE ? icdc_window_beside(ca) : icdc_window(ca);
}

INLINE u32 icdc_room(const struct icdc_bundle *bundle, const struct icdc *ca, u32 window)
{
	u32 left = window > bundle->in_flight ? window - bundle->in_flight : 0;
	u32 others = bundle->unlimited - (ca->standing == FREE);

	window = ca->member.in_flight + (left + others) / (others + 1);
	return window < 4 ? 4 : window;
}

/* Whether it is another one's to search the rate; if nobody does, this one does. */
INLINE bool icdc_awaits(struct icdc_bundle *bundle, struct icdc *ca, const struct tcp_sock *tp)
{
	struct socket_hint nothing = {};
	struct icdc_account all;

	if (bundle->all.mode != SEARCH)
		return false;
	if (!bundle->leader) {
		bundle->leader = ca->member.number;
		icdc_count(bundle, ca, tp);
		all = icdc_sum(bundle);
		icdc_begin(&bundle->all, &all, &nothing, tp->srtt_us >> 3, tp->mss_cache);
	}
	return bundle->leader != ca->member.number;
}

/* The first packets of a member. */
INLINE void icdc_begin_member(struct icdc_bundle *bundle, struct icdc *ca, u32 all)
{
	struct icdc_member *own = &ca->member;

	own->most = RATE_MAX;
	own->round_us = bundle->us;
	own->round_sent = own->delivered + own->in_flight;
	icdc_give(bundle, ca, all, true);
}

/* False if the bundle is gone. */
INLINE bool icdc_control_member(struct sock *sk, struct icdc *ca, const struct rate_sample *rs)
{
	struct icdc_bundle *bundle = bundle_find(ca->member.bundle);
	struct tcp_sock *tp = tcp_sk(sk);
	struct icdc_order order;
	struct icdc_account all;
	bool decided = false;
	u64 rate = 0;

	if (!bundle)
		return false;
	bundle_lock(bundle);
	if (!icdc_awaits(bundle, ca, tp)) {
		icdc_count(bundle, ca, tp);
		all = icdc_sum(bundle);
		decided = icdc_decide(&bundle->all, tp, &all, rs, &order);
		if (decided) {
			icdc_adapt_factor(bundle, &all, order.rate, rs);
			if (ca->standing != IDLE) {
				icdc_look(bundle, ca);
				icdc_give(bundle, ca, order.rate, false);
			} else if (ca->member.in_flight) {
				icdc_begin_member(bundle, ca, order.rate);
			}
			rate = ca->member.rate;
			order.window = icdc_room(bundle, ca, order.window);
		}
	}
	bundle_unlock(bundle);
	if (rate)
		icdc_pace(sk, tp, rate);
	if (decided)
		icdc_set_window(tp, order.window);
	return true;
}

OPERATION_CONTROL(sk, rs)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct icdc *ca = inet_csk_ca(sk);
	struct icdc_account own = icdc_own(tp);
	struct socket_hint nothing = {};
	struct icdc_order order;

	if (ca->standing != ALONE) {
		if (icdc_control_member(sk, ca, rs))
			return;
		icdc_begin(ca, &own, &nothing, tp->srtt_us >> 3, tp->mss_cache);
	}
	if (icdc_decide(ca, tp, &own, rs, &order)) {
		icdc_pace(sk, tp, order.rate);
		icdc_set_window(tp, order.window);
	}
}

/* Makes a socket a member; false if there is no room for its bundle. */
INLINE bool icdc_join(struct sock *sk, struct icdc *ca, const struct socket_hint *hint)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct icdc_bundle *bundle = bundle_find(hint->bundle);
	struct icdc_account all;
	u32 window = 0;
	u64 rate = 0;

	if (!bundle) {
		bundle_add(hint->bundle);
		bundle = bundle_find(hint->bundle);
		if (!bundle)
			return false;
	}
	__builtin_memset(ca, 0, sizeof(*ca));
	ca->standing = UNCOUNTED;
	ca->flags = hint->background ? GIVES_WAY : 0;
	ca->member.bundle = hint->bundle;
	bundle_lock(bundle);
	ca->member.number = ++bundle->joined;
	if (!bundle->members++) {
		bundle->leader = ca->member.number;
		bundle->factor = FACTOR_ONE;
		icdc_count(bundle, ca, tp);
		all = icdc_sum(bundle);
		icdc_begin(&bundle->all, &all, hint, tp->srtt_us >> 3, tp->mss_cache);
	}
	if (bundle->all.mode != SEARCH) {
		icdc_count(bundle, ca, tp);
		icdc_begin_member(bundle, ca, icdc_rate_now(&bundle->all));
		rate = ca->member.rate;
		window = icdc_room(bundle, ca, icdc_window_now(&bundle->all));
		if (!ca->member.in_flight)
			icdc_withdraw(bundle, ca);
	} else if (bundle->leader != ca->member.number) {
		window = AWAITING_WINDOW;
	}
	bundle_unlock(bundle);
	if (rate)
		icdc_pace(sk, tp, rate);
	if (window)
		icdc_set_window(tp, window);
	return true;
}

INLINE void icdc_leave(struct icdc *ca)
{
	struct icdc_bundle *bundle = bundle_find(ca->member.bundle);
	bool was_last;

	if (!bundle)
		return;
	bundle_lock(bundle);
	if (ca->standing != UNCOUNTED)
		bundle->in_flight -= ca->member.in_flight;
	icdc_withdraw(bundle, ca);
	if (bundle->leader == ca->member.number)
		bundle->leader = 0;
	was_last = !--bundle->members;
	bundle_unlock(bundle);
	if (was_last)
		bundle_remove(ca->member.bundle);
}

OPERATION_1(void, init, struct sock *, sk)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct icdc *ca = inet_csk_ca(sk);
	struct icdc_account own = icdc_own(tp);
	struct socket_hint hint = {known_rate, known_rtt, 0, 0};

	socket_hint(sk, &hint);
	/* What a user says of a socket does not take back what he said of all. */
	hint.background |= background;
	tp->snd_ssthresh = TCP_INFINITE_SSTHRESH;
	sk->sk_pacing_rate = sk->sk_max_pacing_rate;
	sk->sk_pacing_status = sk->sk_pacing_status ? sk->sk_pacing_status : 1;
	if (hint.bundle && icdc_join(sk, ca, &hint))
		return;
	icdc_begin(ca, &own, &hint, tp->srtt_us >> 3, tp->mss_cache);
	if (ca->mode == PROBE) {
		icdc_pace(sk, tp, icdc_train_rate(ca));
		icdc_set_window(tp, icdc_window(ca));
	}
}

OPERATION_1(void, release, struct sock *, sk)
{
	struct icdc *ca = inet_csk_ca(sk);

	if (ca->standing != ALONE)
		icdc_leave(ca);
}

/* The first packet of one with nothing under way. */
INLINE void icdc_start_member(struct sock *sk, struct icdc *ca)
{
	struct icdc_bundle *bundle = bundle_find(ca->member.bundle);
	struct tcp_sock *tp = tcp_sk(sk);
	struct icdc_account all;
	u32 window = 0;
	u64 rate = 0;

	if (!bundle)
		return;
	bundle_lock(bundle);
	if (bundle->all.mode != SEARCH) {
		icdc_count(bundle, ca, tp);
		all = icdc_sum(bundle);
		if (!bundle->rates) {
			bundle->factor = FACTOR_ONE;
			bundle->owed = 0;
			if (icdc_has_trains(&bundle->all))
				icdc_begin_train(&bundle->all, &all);
		}
		icdc_begin_member(bundle, ca, icdc_rate_now(&bundle->all));
		rate = ca->member.rate;
		window = icdc_room(bundle, ca, icdc_window_now(&bundle->all));
	}
	bundle_unlock(bundle);
	if (rate) {
		icdc_pace(sk, tp, rate);
		icdc_set_window(tp, window);
	}
}

OPERATION_2(void, cwnd_event, struct sock *, sk, enum tcp_ca_event, event)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct icdc *ca = inet_csk_ca(sk);
	struct icdc_account own = icdc_own(tp);

	if (event != CA_EVENT_TX_START)
		return;
	if (ca->standing != ALONE) {
		icdc_start_member(sk, ca);
		return;
	}
	if (!icdc_has_trains(ca))
		return;
	icdc_begin_train(ca, &own);
	icdc_pace(sk, tp, icdc_train_rate(ca));
	if (ca->mode == PROBE)
		icdc_set_window(tp, icdc_window(ca));
}

/* Packets of a burst at least: the kernel's default, which this operation is in the place of. */
#define TSO_SEGMENTS 2

/* As `min_tso_segs`, for one whose part of the rate is that of a train. */
INLINE void icdc_end_train_of_member(struct sock *sk, struct icdc *ca)
{
	struct icdc_bundle *bundle;
	struct tcp_sock *tp = tcp_sk(sk);
	struct icdc_account all;
	u64 rate = 0;

	if (ca->train != LEAVING || ca->standing <= IDLE)
		return;
	bundle = bundle_find(ca->member.bundle);
	if (!bundle)
		return;
	bundle_lock(bundle);
	icdc_count(bundle, ca, tp);
	all = icdc_sum(bundle);
	if (icdc_end_silent_train(&bundle->all, &all) && ca->standing > IDLE) {
		if (bundle->factor_rate != bundle->all.rate)
			icdc_begin_due(bundle, &all, bundle->all.rate);
		icdc_give(bundle, ca, bundle->all.rate, ca->standing == FRESH);
		rate = ca->member.rate;
	}
	bundle_unlock(bundle);
	if (rate)
		icdc_pace(sk, tp, rate);
}

/*
 * Asked for before packets leave, and so what ends a train: where nothing was under way before it acknowledgements that would
 * end it come a round trip later.
 */
OPERATION_1(u32, min_tso_segs, struct sock *, sk)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct icdc *ca = inet_csk_ca(sk);
	struct icdc_account own = icdc_own(tp);

	if (ca->standing != ALONE)
		icdc_end_train_of_member(sk, ca);
	else if (ca->train == LEAVING && icdc_end_silent_train(ca, &own))
		icdc_pace(sk, tp, ca->rate);
	return TSO_SEGMENTS;
}

/* One that times out while others do not is not what the path has. */
INLINE void icdc_time_out_member(struct icdc *ca, const struct tcp_sock *tp)
{
	struct icdc_bundle *bundle = bundle_find(ca->member.bundle);
	struct icdc_account all;

	if (!bundle)
		return;
	bundle_lock(bundle);
	if (bundle->all.mode != SEARCH) {
		icdc_count(bundle, ca, tp);
		all = icdc_sum(bundle);
		if ((u32)all.us - bundle->all.tick_us > icdc_base(&bundle->all))
			icdc_begin_anew(&bundle->all, all.us);
	}
	bundle_unlock(bundle);
}

OPERATION_2(void, set_state, struct sock *, sk, u8, new_state)
{
	struct icdc *ca = inet_csk_ca(sk);

	if (new_state != TCP_CA_Loss)
		return;
	if (ca->standing != ALONE) {
		icdc_time_out_member(ca, tcp_sk(sk));
	} else if (ca->mode != SEARCH) {
		icdc_begin_anew(ca, tcp_sk(sk)->tcp_mstamp);
		icdc_pace(sk, tcp_sk(sk), ca->rate);
	}
}

OPERATION_1(u32, ssthresh, struct sock *, sk)
{
	return tcp_sk(sk)->snd_ssthresh;
}

OPERATION_1(u32, undo_cwnd, struct sock *, sk)
{
	return tcp_sk(sk)->snd_cwnd;
}

OPERATIONS(
	.init = init,
	.release = release,
	.ssthresh = ssthresh,
	.cong_control = cong_control,
	.cwnd_event = cwnd_event,
	.min_tso_segs = min_tso_segs,
	.set_state = set_state,
	.undo_cwnd = undo_cwnd
)
