#include "profiles/profiles.h"

/* IPv4 20 + TCP 20 + timestamps 12 inside the MTU; Ethernet 14 outside it. */
static double payload_share(unsigned mtu)
{
	return (mtu - 52.0) / (mtu + 14.0);
}

double goodput_bps(double l2_rate_bps, unsigned mtu)
{
	return l2_rate_bps * payload_share(mtu);
}

double l2_rate_bps(double goodput, unsigned mtu)
{
	return goodput / payload_share(mtu);
}
