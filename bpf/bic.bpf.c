// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * BIC (Xu, Harfoush, Rhee 2004) as a congestion control of the kernel, with the paper's values, not with those of
 * Linux's own tcp_bic: slow start, recovery and timeouts are the kernel's, growth and cut are laws.h's.
 */
#include "control.h"

struct bic {
	struct bic_search search;
	/* The maximum before the last congestion, for an undo. */
	__u64 max_before;
	/* What the window has beyond whole packets, in 2^-32. */
	__u32 part;
};

SEC("struct_ops")
void BPF_PROG(bic_init, struct sock *sk)
{
	struct bic *ca = private_of(sk);

	ca->search.max = BIC_NO_MAX;
	ca->max_before = BIC_NO_MAX;
	stop_pacing(sk);
}

SEC("struct_ops")
void BPF_PROG(bic_cong_avoid, struct sock *sk, __u32 ack, __u32 acked)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct bic *ca = private_of(sk);

	if (!window_was_used(tp))
		return;
	acked = packets_for_avoidance(tp, acked);
	if (acked)
		grow(tp, &ca->part, bic_growth(&ca->search, tp->snd_cwnd, ca->part), acked);
}

SEC("struct_ops")
__u32 BPF_PROG(bic_ssthresh, struct sock *sk)
{
	struct bic *ca = private_of(sk);

	ca->max_before = ca->search.max;
	return bic_cut(&ca->search, tcp_sk(sk)->snd_cwnd);
}

SEC("struct_ops")
__u32 BPF_PROG(bic_undo_cwnd, struct sock *sk)
{
	struct bic *ca = private_of(sk);

	ca->search.max = ca->max_before;
	ca->search.step = 0;
	return window_before(tcp_sk(sk));
}

SEC(".struct_ops")
struct tcp_congestion_ops inhaul_bic = {
	.init = (void *)bic_init,
	.cong_avoid = (void *)bic_cong_avoid,
	.ssthresh = (void *)bic_ssthresh,
	.undo_cwnd = (void *)bic_undo_cwnd,
	.flags = TCP_CONG_NON_RESTRICTED,
	.name = "inhaul_bic",
};
