// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * Scalable TCP (Kelly 2003) as a congestion control of the kernel: slow start, recovery and timeouts are the
 * kernel's, growth and cut are laws.h's.
 */
#include "control.h"

struct scalable {
	/* What the window has beyond whole packets, in 2^-32. */
	__u32 part;
};

SEC("struct_ops")
void BPF_PROG(scalable_init, struct sock *sk)
{
	stop_pacing(sk);
}

SEC("struct_ops")
void BPF_PROG(scalable_cong_avoid, struct sock *sk, __u32 ack, __u32 acked)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct scalable *ca = private_of(sk);

	if (!window_was_used(tp))
		return;
	acked = packets_for_avoidance(tp, acked);
	if (acked)
		grow(tp, &ca->part, scalable_growth(tp->snd_cwnd), acked);
}

SEC("struct_ops")
__u32 BPF_PROG(scalable_ssthresh, struct sock *sk)
{
	return cut(tcp_sk(sk)->snd_cwnd, SCALABLE_DECREASE);
}

SEC("struct_ops")
__u32 BPF_PROG(scalable_undo_cwnd, struct sock *sk)
{
	return window_before(tcp_sk(sk));
}

SEC(".struct_ops")
struct tcp_congestion_ops inhaul_stcp = {
	.init = (void *)scalable_init,
	.cong_avoid = (void *)scalable_cong_avoid,
	.ssthresh = (void *)scalable_ssthresh,
	.undo_cwnd = (void *)scalable_undo_cwnd,
	.flags = TCP_CONG_NON_RESTRICTED,
	.name = "inhaul_stcp",
};
