#!/usr/bin/env python3
"""What `bace shape verify` measures, tools that are not ours measure as well: ping, iperf3, tc -j.

usage: agree.py [nfqueue|netem]     wants an idle machine; the network is shape.py's
"""
import json
import os
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from shape import BACE, PATIENCE_S, main, output, rtt_ms, run, shape, until, write_shape  # noqa: E402

TRIES = 5


def iperf3_bps(frm, to, addr):
    """By the receiver's intervals, without the first second and what comes after the end."""
    seconds = 6
    run(f"ip netns exec {to} iperf3 -s -1 -D -J -i 0.5 >/dev/null")
    until(lambda: output(f"ip netns exec {to} ss -Hltn 'sport = :5201'"), "iperf3 listens")
    said = json.loads(output(f"ip netns exec {frm} iperf3 -J --get-server-output -P 4 -t {seconds} -c {addr}"))
    sums = [i["sum"] for i in said["server_output_json"]["intervals"] if i["sum"]["start"] >= 1 and i["sum"]["end"] <= seconds]
    return 8 * sum(s["bytes"] for s in sums) / sum(s["seconds"] for s in sums)


class Agree(unittest.TestCase):
    """What `verify` measures, tools that are not ours measure as well."""

    def tearDown(self):
        for ns in ("ga", "gb"):
            shape(ns, "clear")

    def verified(self, file):
        """As planned, within verify's own tolerances; a disturbed measurement is taken again."""
        for _ in range(TRIES):
            p = shape("a", "verify", "--json", "--host", "ga", "--seconds", "8", file, ok=None)
            self.assertTrue(p.stdout, p.stderr)
            verdict = json.loads(p.stdout)
            print(p.returncode, [(c["from"], c["what"], c["measured"], c["ci_low"], c["ci_high"])
                                 for c in verdict["checks"] if not c["ok"]])
            if p.returncode == 0:
                break
        self.assertEqual([c for c in verdict["checks"] if not c["ok"]], [])
        self.assertEqual((p.returncode, verdict["verdict"], verdict["checks_n"]), (0, "as planned", 5))
        return verdict

    def test_verify_and_others_agree(self):
        f = write_shape("s")
        for ns in ("ga", "gb"):
            shape(ns, "apply", "--detach", "--host", ns, f)
        classes = output("tc -n ga class show dev wan0")
        self.assertIn("rate 20Mbit ceil 20Mbit", classes)
        leaf = [q for q in json.loads(output("tc -n ga -j qdisc show dev wan0")) if q["kind"] == "bfifo"]
        self.assertEqual([str(q["options"]["limit"]) for q in leaf], ["150000"])
        responder = subprocess.Popen(["ip", "netns", "exec", "b", BACE, "-q", "shape", "respond"])
        try:
            until(lambda: "7411" in output("ip netns exec b ss -Hlnt 'sport = :7411'"), "the responder listens")
            verdict = self.verified(f)
        finally:
            responder.terminate()
            responder.wait(PATIENCE_S)
        ours = {(c["from"], c["what"]): c for c in verdict["checks"]}
        rows = [("RTT, ping", ours["a", "RTT"], 1e3, rtt_ms(), 0.01, 0.5, "ms"),
                ("a -> b, iperf3", ours["a", "TCP goodput"], 1e-6, iperf3_bps("a", "b", "10.17.0.10") / 1e6, 0.02, 0, "Mbit/s"),
                ("b -> a, iperf3", ours["b", "TCP goodput"], 1e-6, iperf3_bps("b", "a", "10.16.0.10") / 1e6, 0.02, 0, "Mbit/s")]
        for what, c, unit, theirs, _, _, name in rows:
            print(f"{what:16} verify {c['measured'] * unit:8.3f} [{c['ci_low'] * unit:.3f}, {c['ci_high'] * unit:.3f}] {name}, "
                  f"theirs {theirs:8.3f}, ratio {c['measured'] * unit / theirs:.4f}")
        # As far as verify itself says how sure it is.
        for what, c, unit, theirs, part, more, _ in rows:
            self.assertGreaterEqual(theirs, c["ci_low"] * unit - part * theirs - more, what)
            self.assertLessEqual(theirs, c["ci_high"] * unit + part * theirs + more, what)


if __name__ == "__main__":
    main()
