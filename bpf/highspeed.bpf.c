// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * HighSpeed TCP (RFC 3649) as a congestion control of the kernel: slow start, recovery and timeouts are the
 * kernel's, growth and cut are laws.h's.
 */
#include "control.h"

struct highspeed {
	/* What the window has beyond whole packets, in 2^-32. */
	__u32 part;
};

SEC("struct_ops")
void BPF_PROG(highspeed_init, struct sock *sk)
{
	stop_pacing(sk);
}

SEC("struct_ops")
void BPF_PROG(highspeed_cong_avoid, struct sock *sk, __u32 ack, __u32 acked)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct highspeed *ca = private_of(sk);

	if (!window_was_used(tp))
		return;
	acked = packets_for_avoidance(tp, acked);
	if (acked)
		grow(tp, &ca->part, highspeed_growth(tp->snd_cwnd), acked);
}

SEC("struct_ops")
__u32 BPF_PROG(highspeed_ssthresh, struct sock *sk)
{
	__u32 w = tcp_sk(sk)->snd_cwnd;

	return cut(w, highspeed_decrease(w));
}

SEC("struct_ops")
__u32 BPF_PROG(highspeed_undo_cwnd, struct sock *sk)
{
	return window_before(tcp_sk(sk));
}

SEC(".struct_ops")
struct tcp_congestion_ops inhaul_hstcp = {
	.init = (void *)highspeed_init,
	.cong_avoid = (void *)highspeed_cong_avoid,
	.ssthresh = (void *)highspeed_ssthresh,
	.undo_cwnd = (void *)highspeed_undo_cwnd,
	.flags = TCP_CONG_NON_RESTRICTED,
	.name = "inhaul_hstcp",
};
