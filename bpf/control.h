/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * What the congestion controls share of the kernel. vmlinux.h is made of the types of the very kernel that the
 * objects are built for, when they are loaded; so nothing has to be relocated.
 */
#ifndef INHAUL_CONTROL_H
#define INHAUL_CONTROL_H

#define BPF_NO_PRESERVE_ACCESS_INDEX
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#include "laws.h"

/*
 * Every process may choose the algorithm, in every network namespace. The types of a kernel do not hold its
 * macros.
 */
#define TCP_CONG_NON_RESTRICTED 1

/* Kernel functions that take a struct_ops object demand a licence that is compatible with the GPL. */
char LICENSE[] SEC("license") = "Dual MIT/GPL";

/* The kernel's own slow start, up to the threshold; returns the packets that are left beyond it. */
extern __u32 tcp_slow_start(struct tcp_sock *tp, __u32 acked) __ksym;

LAW struct tcp_sock *tcp_sk(struct sock *sk)
{
	return (struct tcp_sock *)sk;
}

/* 104 bytes of each socket that are the algorithm's own, zero at first. */
LAW void *private_of(struct sock *sk)
{
	return ((struct inet_connection_sock *)sk)->icsk_ca_priv;
}

LAW bool in_slow_start(const struct tcp_sock *tp)
{
	return tp->snd_cwnd < tp->snd_ssthresh;
}

/* Whether the window held the sender back during the last round trip, by the kernel's own rule. */
LAW bool window_was_used(const struct tcp_sock *tp)
{
	return tp->is_cwnd_limited || (in_slow_start(tp) && tp->snd_cwnd < 2 * tp->max_packets_out);
}

/* Slow start, if the flow is in it; returns how many of the acknowledged packets count in congestion avoidance. */
LAW __u32 packets_for_avoidance(struct tcp_sock *tp, __u32 acked)
{
	return in_slow_start(tp) ? tcp_slow_start(tp, acked) : acked;
}

/* Packets on their way (pipe of RFC 6675). */
LAW __u32 in_flight(const struct tcp_sock *tp)
{
	return tp->packets_out - (tp->sacked_out + tp->lost_out) + tp->retrans_out;
}

/* The window after an undone reduction. */
LAW __u32 window_before(const struct tcp_sock *tp)
{
	return at_least(tp->snd_cwnd, tp->prior_cwnd);
}

/* Growth in congestion avoidance. `part` is what the window has beyond whole packets. */
LAW void grow(struct tcp_sock *tp, __u32 *part, __u64 growth, __u32 acked)
{
	tp->snd_cwnd = at_most(grown(tp->snd_cwnd, part, growth, acked), tp->snd_cwnd_clamp);
}

/*
 * Takes back pacing that another algorithm left switched on in the socket (an accepted socket begins with the
 * system's own, which may be bbr), unless the application asked for it.
 */
LAW void stop_pacing(struct sock *sk)
{
	if (sk->sk_pacing_status == SK_PACING_NEEDED && sk->sk_max_pacing_rate == ~0UL)
		sk->sk_pacing_status = SK_PACING_NONE;
}

#endif
