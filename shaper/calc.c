#include "shaper/calc.h"

#include <linux/if_ether.h>

#define BURST_PER_RATE_NS 250000
#define HEADERS_MIN 40		/* IPv4 + TCP, a GSO packet's payload is split by MTU - this */
#define PACKET_MIN_BYTES 60
#define DELAY_LIMIT_MIN 1000
#define DELAY_LIMIT_MAX 500000000.0
#define QUANTUM_MAX 200000	/* above, HTB warns and shares coarsely */
#define BUFFER_MAX 0xf0000000u

uint32_t calc_frame_bytes(unsigned mtu)
{
	return mtu + ETH_HLEN;
}

uint64_t calc_burst_bytes(uint64_t rate_bps, unsigned mtu)
{
	uint64_t by_rate = (uint64_t)((__uint128_t)rate_bps * BURST_PER_RATE_NS / 8 / 1000000000);
	uint64_t floor_bytes = 2ULL * calc_frame_bytes(mtu);

	return by_rate > floor_bytes ? by_rate : floor_bytes;
}

uint32_t calc_bytes_ticks(uint64_t bytes, uint64_t bytes_ps)
{
	__uint128_t ns = ((__uint128_t)bytes * 1000000000 + bytes_ps - 1) / bytes_ps;
	__uint128_t ticks = (ns + CALC_TICK_NS - 1) / CALC_TICK_NS;

	return ticks > UINT32_MAX ? UINT32_MAX : (uint32_t)ticks;
}

uint64_t calc_ticks_bytes(uint32_t ticks, uint64_t bytes_ps)
{
	return (uint64_t)((__uint128_t)ticks * CALC_TICK_NS * bytes_ps / 1000000000);
}

uint32_t calc_quantum_bytes(uint64_t burst_bytes, unsigned mtu)
{
	uint64_t least = calc_frame_bytes(mtu);

	if (burst_bytes < least)
		return (uint32_t)least;
	return burst_bytes > QUANTUM_MAX ? QUANTUM_MAX : (uint32_t)burst_bytes;
}

uint64_t calc_buffer_bytes(uint64_t rate_bps, int64_t rtt_ns, uint64_t message_bytes,
			   uint32_t gso_max_bytes, unsigned mtu)
{
	uint64_t bdp = (uint64_t)((__uint128_t)rate_bps * (uint64_t)rtt_ns / 8 / 1000000000);
	uint64_t messages = message_bytes + message_bytes / 5;
	uint64_t gso = gso_max_bytes ? gso_max_bytes : CALC_GSO_MAX_DEFAULT;
	/* A bfifo below one GSO packet with its headers drops every one of them. */
	uint64_t packet = (gso / (mtu - HEADERS_MIN) + 1) * calc_frame_bytes(mtu);
	uint64_t most = bdp;

	if (messages > most)
		most = messages;
	if (packet > most)
		most = packet;
	return most > BUFFER_MAX ? BUFFER_MAX : most;
}

uint32_t calc_delay_limit_pkts(uint64_t rate_bps, int64_t delay_ns)
{
	double packets = 1.5 * (double)rate_bps / 8 * (double)delay_ns / 1e9 / PACKET_MIN_BYTES;

	if (packets < DELAY_LIMIT_MIN)
		return DELAY_LIMIT_MIN;
	return packets > DELAY_LIMIT_MAX ? (uint32_t)DELAY_LIMIT_MAX : (uint32_t)packets;
}
