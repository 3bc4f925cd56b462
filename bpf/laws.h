/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * HighSpeed TCP, Scalable TCP, BIC and FHSTCP in whole numbers: the kernel has no floating point.
 *
 * This is arithmetic alone, so that a test can build it for the host and hold it against the simulator's laws
 * (crates/lab/tests/kernel_laws.rs). A window w is in packets. Growth is for each acknowledged packet, in 2^-32
 * packets; parts of a window are in 2^-20. Includers have __u32 and __u64.
 */
#ifndef INHAUL_LAWS_H
#define INHAUL_LAWS_H

#define LAW static inline __attribute__((always_inline, unused))

/* A packet, as growth is counted. */
#define PACKET (1ULL << 32)
/* A whole window, as its parts are counted. */
#define WHOLE (1U << 20)
/* No window is cut below this many packets (RFC 5681 equation 4). */
#define WINDOW_MIN 2U
#define USEC_PER_S 1000000ULL

LAW __u64 at_most(__u64 value, __u64 most)
{
	return value < most ? value : most;
}

LAW __u64 at_least(__u64 value, __u64 least)
{
	return value > least ? value : least;
}

/* --- Windows --- */

/*
 * The window after an acknowledgement of `packets`. What it has grown by beyond whole packets stays in `part`:
 * so counting packets, not acknowledgements (RFC 3465), loses nothing.
 */
LAW __u32 grown(__u32 w, __u32 *part, __u64 growth, __u32 packets)
{
	__u64 sum = growth * packets + *part;

	*part = (__u32)sum;
	return w + (__u32)(sum >> 32);
}

/* What is left of a window that loses `decrease`. */
LAW __u32 cut(__u32 w, __u32 decrease)
{
	return at_least(w - (__u32)((__u64)w * decrease / WHOLE), WINDOW_MIN);
}

/* --- HighSpeed TCP (RFC 3649) --- */

/* Up to Low_Window it is standard TCP; at High_Window a loss takes High_Decrease, a tenth (section 5). */
#define LOW_WINDOW 38U
#define HIGH_WINDOW 83000U
#define LOW_DECREASE (WHOLE / 2)
#define HIGH_DECREASE (WHOLE / 10)
/* Their logarithms to base 2, in 2^-16. */
#define LOG2_LOW_WINDOW 343928U
#define LOG2_HIGH_WINDOW 1070912U

struct highspeed_row {
	__u32 window;
	__u32 increase;
};

/*
 * RFC 3649 appendix B: the largest window for which a(w) is at most `increase`. Its last two rows (89,053 and
 * 94,717) are left out: they carry on with a b(w) below High_Decrease, which section 5 has as the least. The last
 * two rows here are section 5's formula with b = 0.1, up to twice the table's last window.
 */
static const struct highspeed_row HIGHSPEED_ROWS[] = {
	{ 38, 1 },     { 118, 2 },    { 221, 3 },    { 347, 4 },    { 495, 5 },    { 663, 6 },    { 851, 7 },
	{ 1058, 8 },   { 1284, 9 },   { 1529, 10 },  { 1793, 11 },  { 2076, 12 },  { 2378, 13 },  { 2699, 14 },
	{ 3039, 15 },  { 3399, 16 },  { 3778, 17 },  { 4177, 18 },  { 4596, 19 },  { 5036, 20 },  { 5497, 21 },
	{ 5979, 22 },  { 6483, 23 },  { 7009, 24 },  { 7558, 25 },  { 8130, 26 },  { 8726, 27 },  { 9346, 28 },
	{ 9991, 29 },  { 10661, 30 }, { 11358, 31 }, { 12082, 32 }, { 12834, 33 }, { 13614, 34 }, { 14424, 35 },
	{ 15265, 36 }, { 16137, 37 }, { 17042, 38 }, { 17981, 39 }, { 18955, 40 }, { 19965, 41 }, { 21013, 42 },
	{ 22101, 43 }, { 23230, 44 }, { 24402, 45 }, { 25618, 46 }, { 26881, 47 }, { 28193, 48 }, { 29557, 49 },
	{ 30975, 50 }, { 32450, 51 }, { 33986, 52 }, { 35586, 53 }, { 37253, 54 }, { 38992, 55 }, { 40808, 56 },
	{ 42707, 57 }, { 44694, 58 }, { 46776, 59 }, { 48961, 60 }, { 51258, 61 }, { 53677, 62 }, { 56230, 63 },
	{ 58932, 64 }, { 61799, 65 }, { 64851, 66 }, { 68113, 67 }, { 71617, 68 }, { 75401, 69 }, { 79517, 70 },
	{ 84035, 71 }, { 118842, 94 }, { 168070, 124 },
};
#define HIGHSPEED_LAST (sizeof(HIGHSPEED_ROWS) / sizeof(HIGHSPEED_ROWS[0]) - 1)

/* log2(w) in 2^-16, for w of at least 1: bit by bit, by squaring the mantissa. */
LAW __u32 log2_of(__u32 w)
{
	__u32 whole = 31, log;
	__u64 mantissa;

	while (whole && !(w >> whole))
		whole--;
	log = whole;
	/* From 1 to 2, in 2^-31. */
	mantissa = (__u64)w << (31 - whole);
	for (int bit = 0; bit < 16; bit++) {
		mantissa = mantissa * mantissa >> 31;
		log = log << 1 | (__u32)(mantissa >> 32);
		mantissa >>= mantissa >> 32;
	}
	return log;
}

/* b(w) of section 5, by formula: it falls with log w from a half at Low_Window. In 2^-20. */
LAW __u32 highspeed_decrease(__u32 w)
{
	__u64 above;

	if (w <= LOW_WINDOW)
		return LOW_DECREASE;
	if (w >= HIGH_WINDOW)
		return HIGH_DECREASE;
	above = log2_of(w) - LOG2_LOW_WINDOW;
	return LOW_DECREASE - (__u32)(above * (LOW_DECREASE - HIGH_DECREASE) / (LOG2_HIGH_WINDOW - LOG2_LOW_WINDOW));
}

/*
 * a(w) of section 5, in 2^-20 packets a round trip: appendix B's rows, and straight lines between them, which
 * stay nearer to the formula than steps would.
 */
LAW __u64 highspeed_increase(__u32 w)
{
	__u32 row = 0, from, to, at;

	if (w <= HIGHSPEED_ROWS[0].window)
		return WHOLE;
	if (w >= HIGHSPEED_ROWS[HIGHSPEED_LAST].window)
		return (__u64)HIGHSPEED_ROWS[HIGHSPEED_LAST].increase * WHOLE;
	/* The last row whose window is below w. */
	for (__u32 step = 64; step; step /= 2) {
		if (row + step < HIGHSPEED_LAST && HIGHSPEED_ROWS[row + step].window < w)
			row += step;
	}
	from = HIGHSPEED_ROWS[row].window;
	to = HIGHSPEED_ROWS[row + 1].window;
	at = HIGHSPEED_ROWS[row].increase;
	return (__u64)at * WHOLE + (__u64)(HIGHSPEED_ROWS[row + 1].increase - at) * WHOLE * (w - from) / (to - from);
}

/* a(w) / w. */
LAW __u64 highspeed_growth(__u32 w)
{
	return highspeed_increase(w) * (PACKET / WHOLE) / at_least(w, 1);
}

/* --- Scalable TCP (Kelly 2003) --- */

/* A hundredth for each acknowledged packet; windows below 100 grow as standard TCP's do, which is faster there. */
LAW __u64 scalable_growth(__u32 w)
{
	return at_least(PACKET / 100, PACKET / at_least(w, 1));
}

#define SCALABLE_DECREASE (WHOLE / 8)

/* --- BIC (Xu, Harfoush, Rhee 2004) --- */

/* Windows below this many packets behave as standard TCP (low_window). */
#define BIC_LOW_WINDOW 14U
/* Growth in a round trip, at most (S_max) and at least (S_min, a hundredth), in 2^-20 packets. */
#define BIC_STEP_MAX (32ULL * WHOLE)
#define BIC_STEP_MIN (WHOLE / 100)
#define BIC_DECREASE (WHOLE / 8)
/* No loss has shown a maximum. */
#define BIC_NO_MAX (~0ULL)

/* The search for the window at which packets are lost. Windows are in 2^-20 packets here. */
struct bic_search {
	/* Where packets were lost, as far as is known (max_win). */
	__u64 max;
	/* Beyond it: growth in this round trip, 0 before the first, and the window at which it doubles. */
	__u64 step;
	__u64 until;
};

/* Growth in a round trip at a window of `at`. */
LAW __u64 bic_step(struct bic_search *search, __u64 at)
{
	if (at < (__u64)BIC_LOW_WINDOW * WHOLE)
		return WHOLE;
	if (search->max > at + BIC_STEP_MIN) {
		/* Binary search: half of the way, or additive increase when that is too far. */
		search->step = 0;
		return at_most(at_least((search->max - at) / 2, BIC_STEP_MIN), BIC_STEP_MAX);
	}
	/* "Slow start" beyond the old maximum: 1, 2, 4 ... packets in a round trip, up to S_max. */
	if (!search->step) {
		search->step = WHOLE;
		search->until = at + WHOLE;
	}
	/* Five doublings lead from 1 to 32. */
	for (int doubling = 0; doubling < 5; doubling++) {
		if (at < search->until || search->step >= BIC_STEP_MAX)
			break;
		search->step *= 2;
		search->until = at + search->step;
	}
	return search->step;
}

/* Growth for each acknowledged packet; `part` is what the window has beyond whole packets, in 2^-32. */
LAW __u64 bic_growth(struct bic_search *search, __u32 w, __u32 part)
{
	__u64 at = (__u64)w * WHOLE + part / (PACKET / WHOLE);

	return bic_step(search, at) * (PACKET / WHOLE) / at_least(w, 1);
}

/* Congestion at a window of `w`: remembers where it was, and says what is left of the window. */
LAW __u32 bic_cut(struct bic_search *search, __u32 w)
{
	__u64 at = (__u64)w * WHOLE;

	search->step = 0;
	if (w < BIC_LOW_WINDOW) {
		search->max = at;
		return cut(w, WHOLE / 2);
	}
	/* Fast convergence: a window that no longer reaches its old maximum aims at the middle. */
	search->max = search->max != BIC_NO_MAX && at < search->max ? (at + at - at / 8) / 2 : at;
	return cut(w, BIC_DECREASE);
}

/* --- FHSTCP (fhstcp-2005) --- */

/* The fair factor c * RTT, in millionths, for c per second and an RTT in microseconds. */
LAW __u64 fair_factor(__u32 c, __u32 rtt_us)
{
	/* The limit keeps what follows within 64 bits: a factor of 4,294. */
	return at_most((__u64)c * rtt_us, 0xffffffffU);
}

/* Figure 1: "increment = c * RTT * a(w) / cwnd; if (increment > 1) increment = 1". */
LAW __u64 fhstcp_growth(__u32 w, __u64 factor)
{
	return at_most(highspeed_growth(w) * factor / USEC_PER_S, PACKET);
}

/* Figure 1: "k = (int)c * RTT + 1" and "if (k > cwnd) k = cwnd": how many blocks a window is sent in. */
LAW __u32 fhstcp_blocks(__u32 w, __u64 factor)
{
	return at_most(factor / USEC_PER_S + 1, at_least(w, 1));
}

/* Figure 1: "block = cwnd / k": packets of a block, so that k of them hold the window. */
LAW __u32 fhstcp_block(__u32 w, __u32 blocks)
{
	return (w + blocks - 1) / blocks;
}

/*
 * The kernel waits after what it sends, for its length over the pacing rate; but time since it last had to wait
 * is credit that takes up to half of that off. This is the length of time to charge for a wait of `pause`, so
 * that `pause` is left.
 */
LAW __u64 charge_for(__u64 pause, __u64 credit)
{
	return pause + at_most(pause, credit);
}

#endif
