// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * Fair HighSpeed TCP (fhstcp-2005) as a congestion control of the kernel: HighSpeed TCP whose growth is
 * multiplied by c * RTT, and whose window leaves in k = (int)(c * RTT) + 1 blocks.
 *
 * Block pacing needs a pacing rate of our own, which the kernel leaves alone only under .cong_control; and that
 * op has to do what the kernel otherwise does around .cong_avoid: the window during recovery, and its end.
 * README.md lists what is the paper's, what is the kernel's, and what differs from the simulator.
 */
#include "control.h"

/* The paper's c, per second; the loader sets it. */
#ifndef FAIR_FACTOR
#define FAIR_FACTOR 10
#endif
const volatile __u32 fair_factor_per_s = FAIR_FACTOR;

#define NSEC_PER_S 1000000000ULL
/*
 * Bytes per second within a block: 40 Gbit/s. "output( )" of Figure 1 sends at once; a rate, though, makes the
 * kernel ask before each buffer (fhstcp_before_sending), and keeps what waits below TCP to a millisecond's
 * worth (TCP small queues).
 */
#define BURST_RATE 5000000000ULL
/* Segments of a buffer at least, where no block ends: the kernel's default (sysctl tcp_min_tso_segs). */
#define SEGMENTS_MIN 2U

struct fhstcp {
	/* What the window has beyond whole packets, in 2^-32. */
	__u32 part;
	/* The first unacknowledged byte at the last acknowledgement. */
	__u32 acked_to;
	/* Packets that a block holds; 0: there are no blocks. */
	__u32 block;
	/* From the beginning of one block to that of the next: RTT / k. */
	__u32 gap_us;
	/* Packets that had been sent when this block began ("number" counts from here). */
	__u32 block_first;
	/* The window before the last reduction (RecoverFS of RFC 6937). */
	__u32 reduced_from;
	/* Delivered since it began (prr_delivered). */
	__u32 reduced_delivered;
	/* When this block began ("time_0"), by the socket's clock. */
	__u64 block_began_ns;
	/* A reduction is under way. */
	bool reducing;
};
_Static_assert(sizeof(struct fhstcp) <= sizeof(((struct inet_connection_sock *)0)->icsk_ca_priv),
	       "the kernel keeps room for it in each socket");

/* Linux 6.10 put two arguments in front of the rate sample. */
#define CONG_CONTROL_OF_2 void (*)(struct sock *, const struct rate_sample *)
#define IS_CONG_CONTROL_OF_2                                                                                         \
	__builtin_types_compatible_p(typeof(((struct tcp_congestion_ops *)0)->cong_control), CONG_CONTROL_OF_2)
#define RATE_SAMPLE(ctx) ((const struct rate_sample *)(ctx)[IS_CONG_CONTROL_OF_2 ? 1 : 3])

/* --- The window --- */

/*
 * The window held the sender back, or the wait between blocks did: then less is on its way than the window, by
 * a block at most. An application that has nothing to send earns no growth.
 */
static bool window_or_pace_was_used(const struct tcp_sock *tp, const struct fhstcp *ca, const struct rate_sample *rs)
{
	return window_was_used(tp) ||
	       (ca->block && !rs->is_app_limited && tp->max_packets_out + ca->block >= tp->snd_cwnd);
}

/*
 * Proportional rate reduction (RFC 6937), as the kernel does it: at most what is delivered leaves as long as losses
 * are found, and one packet more when none are (RFC 9937's safeACK).
 */
static void reduce(struct tcp_sock *tp, struct fhstcp *ca, __u32 delivered, bool safe)
{
	__u32 pipe = in_flight(tp), ssthresh = tp->snd_ssthresh;
	__s64 to_send;

	if (!delivered)
		return;
	ca->reduced_delivered += delivered;
	if (pipe > ssthresh) {
		/* In proportion: by the end ssthresh has been sent for what was the window. */
		__u64 share = (__u64)ca->reduced_delivered * ssthresh + ca->reduced_from - 1;

		to_send = (__s64)(share / ca->reduced_from) - tp->prr_out;
	} else {
		__s64 owed = (__s64)ca->reduced_delivered - tp->prr_out;

		to_send = at_most(at_least(owed > 0 ? owed : 0, delivered) + safe, ssthresh - pipe);
	}
	/* The first retransmission leaves at once. */
	if (to_send < 1)
		to_send = tp->prr_out ? 0 : 1;
	tp->snd_cwnd = at_least(pipe + to_send, 1);
}

/* --- Pacing --- */

/*
 * No blocks: rates as the kernel has them for unpaced flows (they size its buffers), twice the window a round trip
 * in slow start.
 */
static void send_freely(struct sock *sk, struct tcp_sock *tp, struct fhstcp *ca, __u32 rtt_us)
{
	__u64 window_bytes = at_least(tp->snd_cwnd, tp->packets_out) * tp->mss_cache;
	__u64 rate = window_bytes * USEC_PER_S / at_least(rtt_us, 1);

	ca->block = 0;
	stop_pacing(sk);
	sk->sk_pacing_rate = at_most(in_slow_start(tp) ? 2 * rate : rate + rate / 5, sk->sk_max_pacing_rate);
}

/* Figure 1: the window is divided into k blocks. One block is the window itself, which acknowledgements clock. */
static void divide(struct sock *sk, struct tcp_sock *tp, struct fhstcp *ca, __u64 factor, __u32 rtt_us)
{
	__u32 blocks = fhstcp_blocks(tp->snd_cwnd, factor);

	if (blocks < 2 || in_slow_start(tp)) {
		send_freely(sk, tp, ca, rtt_us);
		return;
	}
	if (!ca->block)
		ca->block_first = tp->data_segs_out;
	ca->block = fhstcp_block(tp->snd_cwnd, blocks);
	ca->gap_us = rtt_us / blocks;
	sk->sk_pacing_status = SK_PACING_NEEDED;
}

/* The rate at which the kernel, having sent `bytes`, waits until the next block's time. */
static __u64 rate_to_next_block(const struct tcp_sock *tp, const struct fhstcp *ca, __u64 bytes)
{
	__u64 now = tp->tcp_clock_cache, next = ca->block_began_ns + ca->gap_us * 1000ULL;

	if (next <= now)
		return BURST_RATE;
	/* Not negative: the kernel lets nothing leave before tcp_wstamp_ns. */
	return at_most(bytes * NSEC_PER_S / charge_for(next - now, now - tp->tcp_wstamp_ns), BURST_RATE);
}

/*
 * .min_tso_segs, which the kernel calls before it sends: "On sending data" of Figure 1. With a pacing rate it
 * sends one buffer a call, then waits for the buffer's length over the rate. So the buffer that fills a block
 * gets the rate that makes this wait last until the next block's time, and is made no longer than the block;
 * others leave back to back.
 */
SEC("struct_ops")
__u32 BPF_PROG(fhstcp_before_sending, struct sock *sk)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct fhstcp *ca = private_of(sk);
	__u32 sent, left, room, pipe;
	__u64 rate = BURST_RATE;

	/* In a wait nothing is sent. */
	if (!ca->block || tp->tcp_wstamp_ns > tp->tcp_clock_cache)
		return SEGMENTS_MIN;
	sent = tp->data_segs_out - ca->block_first;
	if (sent >= ca->block) {
		ca->block_first = tp->data_segs_out;
		sent = 0;
	}
	if (!sent)
		ca->block_began_ns = tp->tcp_clock_cache;
	left = ca->block - sent;
	pipe = in_flight(tp);
	room = tp->snd_cwnd > pipe ? tp->snd_cwnd - pipe : 0;
	if (left <= room && (__u64)left * tp->mss_cache <= sk->sk_gso_max_size)
		rate = rate_to_next_block(tp, ca, (__u64)left * tp->mss_cache);
	sk->sk_pacing_rate = at_most(rate, sk->sk_max_pacing_rate);
	return rate < BURST_RATE ? left : at_most(left, SEGMENTS_MIN);
}

/* --- What the kernel calls --- */

SEC("struct_ops")
void BPF_PROG(fhstcp_init, struct sock *sk)
{
	stop_pacing(sk);
}

/* "On receiving a new ack", and the window during recovery. */
SEC("struct_ops")
void BPF_PROG(fhstcp_cong_control, struct sock *sk)
{
	const struct rate_sample *rs = RATE_SAMPLE(ctx);
	struct tcp_sock *tp = tcp_sk(sk);
	struct fhstcp *ca = private_of(sk);
	__u32 acked = rs->acked_sacked, rtt_us = tp->srtt_us >> 3;
	__u64 factor = fair_factor(fair_factor_per_s, rtt_us);
	bool of_something_new = tp->snd_una != ca->acked_to;

	ca->acked_to = tp->snd_una;
	if (ca->reducing) {
		reduce(tp, ca, acked, of_something_new && !rs->losses);
	} else if (of_something_new && window_or_pace_was_used(tp, ca, rs)) {
		acked = packets_for_avoidance(tp, acked);
		if (acked)
			grow(tp, &ca->part, fhstcp_growth(tp->snd_cwnd, factor), acked);
	}
	divide(sk, tp, ca, factor, rtt_us);
}

/* "On congestion happening": at a loss, where a reduction begins, and at a timeout. */
SEC("struct_ops")
__u32 BPF_PROG(fhstcp_ssthresh, struct sock *sk)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct fhstcp *ca = private_of(sk);

	ca->reducing = true;
	ca->reduced_from = tp->snd_cwnd;
	ca->reduced_delivered = 0;
	/* "number = 0" */
	ca->block_first = tp->data_segs_out;
	return cut(tp->snd_cwnd, highspeed_decrease(tp->snd_cwnd));
}

/*
 * The end of a reduction, which the kernel leaves to algorithms with .cong_control. After a timeout the window is
 * the kernel's.
 */
SEC("struct_ops")
void BPF_PROG(fhstcp_set_state, struct sock *sk, __u8 state)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct fhstcp *ca = private_of(sk);

	if (!ca->reducing || state == TCP_CA_CWR || state == TCP_CA_Recovery)
		return;
	ca->reducing = false;
	if (state != TCP_CA_Loss)
		tp->snd_cwnd = tp->snd_ssthresh;
}

/* A reduction, or a timeout, that turned out to be for nothing. */
SEC("struct_ops")
__u32 BPF_PROG(fhstcp_undo_cwnd, struct sock *sk)
{
	struct fhstcp *ca = private_of(sk);

	ca->reducing = false;
	return window_before(tcp_sk(sk));
}

SEC(".struct_ops")
struct tcp_congestion_ops inhaul_fhstcp = {
	.init = (void *)fhstcp_init,
	.cong_control = (void *)fhstcp_cong_control,
	.min_tso_segs = (void *)fhstcp_before_sending,
	.ssthresh = (void *)fhstcp_ssthresh,
	.set_state = (void *)fhstcp_set_state,
	.undo_cwnd = (void *)fhstcp_undo_cwnd,
	.flags = TCP_CONG_NON_RESTRICTED,
	.name = "inhaul_fhstcp",
};
