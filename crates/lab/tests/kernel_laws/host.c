/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * bpf/laws.h as a program of the host: prints what the kernel would reckon, one fact a line, for ../kernel_laws.rs to hold
 * against the simulator's laws. The first word says what the numbers are.
 */
#include <linux/types.h>
#include <stdio.h>

#include "laws.h"

#define C 10
#define WINDOW_MOST 168070

static const __u32 RTTS_MS[] = { 1, 80, 140, 200, 20000 };
#define RTTS (sizeof(RTTS_MS) / sizeof(RTTS_MS[0]))

enum law { HIGHSPEED, SCALABLE, FHSTCP };

static __u64 growth_of(enum law law, __u32 w)
{
	switch (law) {
	case HIGHSPEED:
		return highspeed_growth(w);
	case SCALABLE:
		return scalable_growth(w);
	default:
		return fhstcp_growth(w, fair_factor(C, 200000));
	}
}

/* The window after each of some round trips, each packet acknowledged, two at a time. */
static void climb(const char *name, enum law law, __u32 w)
{
	__u32 part = 0;

	printf("%s", name);
	for (int round = 0; round < 20; round++) {
		printf(" %u", w);
		for (__u32 left = w / 2; left; left--)
			w = grown(w, &part, growth_of(law, w), 2);
	}
	printf("\n");
}

/*
 * BIC from a window of `w`, at which a packet is lost: the window before that, and after each of some round trips. In the
 * fourth of them one is lost again, before the old maximum is reached.
 */
static void search(__u32 w)
{
	struct bic_search search = { .max = BIC_NO_MAX };
	__u32 part = 0;

	printf("bic %u", w);
	for (int round = 0; round < 60; round++) {
		if (round == 0 || round == 3)
			w = bic_cut(&search, w);
		printf(" %u", w);
		for (__u32 left = w / 2; left; left--)
			w = grown(w, &part, bic_growth(&search, w, part), 2);
	}
	printf("\n");
}

int main(void)
{
	for (__u32 w = 1; w <= WINDOW_MOST; w++) {
		printf("growth %u %llu %llu", w, highspeed_growth(w), scalable_growth(w));
		for (unsigned i = 0; i < RTTS; i++)
			printf(" %llu", fhstcp_growth(w, fair_factor(C, RTTS_MS[i] * 1000)));
		printf("\ncut %u %u %u\n", w, cut(w, highspeed_decrease(w)), cut(w, SCALABLE_DECREASE));
	}
	/* Beyond what can be: nothing may overflow or divide by zero. */
	for (__u64 w = 0; w <= 0xffffffffU; w += 0xfffffffU)
		printf("extreme %llu %llu %llu %u\n", w, fhstcp_growth(w, fair_factor(0xffffffffU, 0xffffffffU)),
		       scalable_growth(w), cut(w, highspeed_decrease(w)));
	for (__u32 w = 100; w <= 50000; w *= 5) {
		climb("highspeed", HIGHSPEED, w);
		climb("scalable", SCALABLE, w);
		climb("fhstcp", FHSTCP, w);
	}
	/* Below, whole windows are coarse beside what they grow by in a round trip. */
	for (__u32 w = 135; w <= 50000; w *= 3)
		search(w);
	for (__u32 w = 1; w <= 1000; w++) {
		struct bic_search first = { .max = BIC_NO_MAX };

		printf("first %u %llu\n", w, bic_growth(&first, w, 0));
	}
	for (__u32 rtt_us = 500; rtt_us < 2000000; rtt_us += 1000) {
		__u32 blocks = fhstcp_blocks(1000, fair_factor(C, rtt_us));

		printf("blocks %u %u %u\n", rtt_us, blocks, fhstcp_block(1000, blocks));
	}
	for (__u64 pause = 1; pause < 1000000000; pause *= 3)
		for (__u64 credit = 0; credit < 1000000000; credit = 3 * credit + 1)
			printf("charge %llu %llu %llu\n", pause, credit, charge_for(pause, credit));
	return 0;
}
