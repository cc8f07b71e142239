#!/usr/bin/env python3
"""Probes over a link of known rate: round trips and goodput that can be."""
import unittest

import driver
from driver import Worker

RATE_BPS = 100e6
# HTB counts L2; a segment of 1448 bytes is 1514 long.
GOODPUT_BPS = RATE_BPS * 1448 / 1514
PING_BYTES = 64 + 66		# L2
BURST_BYTES = 4096


class Probes(unittest.TestCase):
    def setUp(self):
        driver.network(2, 100)
        self.addCleanup(driver.remove_network, 2)

    def probe(self, samples, goodput_s, **options):
        server = Worker({"mode": "probe-server", "addr": "10.99.0.2"}, "bwk-1")
        self.addCleanup(server.kill)
        e = server.event()
        self.assertEqual((e["event"], e["hop"]), ("listening", -1))
        client = Worker({"mode": "probe-client", "addr": "10.99.0.2", "port": e["port"], "rtt_samples": samples,
                         "goodput_s": goodput_s, "congestion_control": "reno",
                         "timeout_ms": int(goodput_s * 1000) + 20000, **options}, "bwk-0")
        self.addCleanup(client.kill)
        report = client.event(goodput_s + 40)
        self.assertEqual(report["event"], "done", report)
        self.assertEqual(server.event(), {"event": "done"})
        self.assertEqual((client.end(), server.end()), (0, 0))
        self.assertEqual(client.errors + server.errors, [])
        return report

    def test_goodput_is_the_links(self):
        got = self.probe(0, 3)["goodput_bps"]
        print(f"goodput {got / 1e6:.2f} Mbit/s of {GOODPUT_BPS / 1e6:.2f}")
        # A busy machine's is slower, and has a little more in the window than was sent in it.
        self.assertTrue(0.5 * GOODPUT_BPS < got < 1.3 * GOODPUT_BPS)

    def test_round_trips_are_the_links(self):
        """At 100 kbit/s the link itself, beyond its burst, says how long 101 of them take at least."""
        driver.run("tc -n bwk-0 class change dev eth-up classid 1:1 htb rate 100kbit burst 4k cburst 4k quantum 60000")
        report = self.probe(100, 0)
        rtt = report["rtt_ns"]
        self.assertEqual(len(rtt), 100)
        least_s = (101 * PING_BYTES - BURST_BYTES) * 8 / 100e3
        print(f"RTT in all {sum(rtt) / 1e9:.3f} s, at least {least_s:.3f}; least {min(rtt) / 1e6:.3f} ms")
        self.assertGreater(sum(rtt) / 1e9, 0.9 * least_s)
        self.assertEqual(report["goodput_bps"], 0)

    def test_round_trips_and_goodput(self):
        report = self.probe(5, 1)
        self.assertEqual(len(report["rtt_ns"]), 5)
        self.assertGreater(report["goodput_bps"], 0)

    def test_bad_arguments(self):
        for bad, says in (({"port": 0}, "`port' must be 1 to 65535"), ({"rtt_samples": -1}, "`rtt_samples' must be"),
                          ({"goodput_s": 1e9}, "`goodput_s' must be"), ({"addr": 5}, "`addr' must be a string"),
                          ({"goodput_s": 2, "timeout_ms": 1000}, "`timeout_ms' must be more than goodput_s takes"),
                          ({"addr": "nowhere"}, "not IPv4 or IPv6")):
            with self.subTest(bad=bad):
                client = Worker({"mode": "probe-client", "addr": "10.99.0.2", "port": 9, "rtt_samples": 1,
                                 "goodput_s": 0, "congestion_control": "", "timeout_ms": 1000, **bad})
                self.assertIn(says, client.event()["text"])
                self.assertEqual(client.end(), 2)


if __name__ == "__main__":
    driver.main()
