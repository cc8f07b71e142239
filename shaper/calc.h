/*
 * Everything about a shaped link that is computed and never left to a default:
 * bursts, quantum, buffer, queue limits. Pure; private to the shaper.
 */
#ifndef SHAPER_CALC_H
#define SHAPER_CALC_H

#include "common/common.h"

#define CALC_TICK_NS 64		/* PSCHED_SHIFT 6: the kernel's burst unit */
#define CALC_RATE_MIN_BPS 8000ULL
#define CALC_RATE_MAX_BPS 4000000000000ULL	/* 4 Tbit/s: bytes/s times ns stays in 64 bits */
#define CALC_LATENCY_MAX_NS 60000000000LL
#define CALC_GSO_MAX_DEFAULT 65536	/* of a device that nobody told */
#define CALC_UNSHAPED_BPS 1000000000000ULL	/* of classes that must not limit */

/* L2 bytes of one full packet. */
uint32_t calc_frame_bytes(unsigned mtu);
/* Burst = cburst: max(2 frames, 0.25 ms at the rate). Never sized by GSO: HTB
 * gives every message `burst` bytes for free. */
uint64_t calc_burst_bytes(uint64_t rate_bps, unsigned mtu);
/* Rounded up, so that the kernel never has less than was asked. */
uint32_t calc_bytes_ticks(uint64_t bytes, uint64_t bytes_ps);
uint64_t calc_ticks_bytes(uint32_t ticks, uint64_t bytes_ps);
uint32_t calc_quantum_bytes(uint64_t burst_bytes, unsigned mtu);
/* Leaf buffer: max(BDP over the RTT, 1.2 largest messages, one GSO packet). */
uint64_t calc_buffer_bytes(uint64_t rate_bps, int64_t rtt_ns, uint64_t message_bytes,
			   uint32_t gso_max_bytes, unsigned mtu);
/* Packets that a delay queue may have to hold, none ever being dropped: 1.5
 * times rate x delay in packets of the smallest size. */
uint32_t calc_delay_limit_pkts(uint64_t rate_bps, int64_t delay_ns);

#endif
