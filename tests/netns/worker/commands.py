#!/usr/bin/env python3
"""`bace probe` between two namespaces says what the link gives; what `bace probe`,
`bace p2p` and `bace allreduce` cannot do they say in one line, with status 2."""
import json
import os
import signal
import subprocess
import time
import unittest

import driver

BACE = os.environ.get("BACE", "bace")
RATE_BPS = 100e6
TOLERANCE = 0.3		# what was not read before the window is counted in it
# HTB counts L2; a segment of 1448 bytes is 1514 long.
GOODPUT_BPS = RATE_BPS * 1448 / 1514


def bace(*arguments, ns=None):
    where = ["ip", "netns", "exec", ns] if ns else []
    return subprocess.run([*where, BACE, *arguments], capture_output=True, text=True, check=False, timeout=60)


class Probe(unittest.TestCase):
    def setUp(self):
        driver.network(2, 100)
        self.addCleanup(driver.remove_network, 2)

    def respond(self):
        p = subprocess.Popen(["ip", "netns", "exec", "bwk-1", BACE, "-q", "probe", "--respond"])
        self.addCleanup(self.stop, p)
        until = time.monotonic() + driver.PATIENCE_S
        while ":7411" not in driver.output("ip netns exec bwk-1 ss -Hltn"):
            self.assertLess(time.monotonic(), until)
            time.sleep(0.05)

    def stop(self, p):
        p.send_signal(signal.SIGTERM)
        self.assertEqual(p.wait(driver.PATIENCE_S), 0)
        self.assertEqual(driver.left_running(), [])

    def test_a_link(self):
        self.respond()
        r = bace("--json", "probe", "10.99.0.2", "--seconds", "2", "--samples", "20", ns="bwk-0")
        self.assertEqual(r.returncode, 0, r.stderr)
        got = json.loads(r.stdout)
        self.assertEqual(got["rtt_sent"], 20)
        self.assertGreater(got["rtt_received"], 15)
        self.assertGreater(got["rtt_min_s"], 0)
        self.assertLessEqual(got["rtt_min_s"], got["rtt_median_s"]["value"])
        for way in ("to", "from"):
            goodput = got[f"goodput_{way}_bps"]["value"]
            print(f"goodput {way}: {goodput / 1e6:.2f} Mbit/s of {GOODPUT_BPS / 1e6:.2f}")
            self.assertLess(goodput, (1 + TOLERANCE) * GOODPUT_BPS)
            self.assertGreater(goodput, 0.5 * GOODPUT_BPS)
        text = bace("probe", "10.99.0.2", "--seconds", "0", ns="bwk-0").stdout
        self.assertRegex(text, r"^RTT to +10\.99\.0\.2 +median +[\d.]+ ms .* n = \d+ of 50\n$")

    def test_the_port_is_taken(self):
        self.respond()
        r = bace("probe", "--respond", ns="bwk-1")
        self.assertEqual(r.returncode, 1)
        self.assertRegex(r.stderr, r"7411: Address already in use")

    def test_nobody_responds(self):
        r = bace("probe", "10.99.0.2", "--seconds", "0", ns="bwk-0")
        self.assertEqual(r.returncode, 1)
        self.assertRegex(r.stderr, r"^bace probe: .*10\.99\.0\.2.*\n$")
        self.assertEqual(r.stderr.count("\n"), 1)


class Refused(unittest.TestCase):
    def refused(self, says, *arguments):
        with self.subTest(arguments=arguments):
            r = bace(*arguments)
            self.assertEqual(r.returncode, 2, r.stderr)
            self.assertIn(says, r.stderr)
            self.assertEqual(r.stderr.count("\n"), 1, r.stderr)

    def test_bad_input(self):
        self.refused("the address of a host is needed", "probe")
        self.refused("--seconds -1: must be 0 to 60", "probe", "h", "--seconds", "-1")
        self.refused("--connections 65: must be 1 to 64", "probe", "h", "--connections", "65")
        self.refused("`nowhere' is not an address", "probe", "nowhere")
        self.refused("has no region nowhere", "allreduce", "tiny", "--regions", "ireland,nowhere")
        self.refused("ireland is named twice", "allreduce", "tiny", "--regions", "ireland,frankfurt,ireland")
        self.refused("a ring of 1 regions: must be 2 to", "allreduce", "tiny", "--regions", "ireland")
        self.refused("128 B to 4 GiB each", "allreduce", "tiny", "--sizes", "127B")
        self.refused("4 GiB", "p2p", "tiny", "--sizes", "8GiB")
        self.refused("--replicas 0: must be 1 to", "fidelity", "--replicas", "0")
        self.refused("--gradient 0B", "fidelity", "--gradient", "0B")


if __name__ == "__main__":
    driver.main()
