#!/usr/bin/env python3
"""Two "machines" with a router between them that has a latency of its own: a run takes
it off the links, so that they have what was asked, and refuses what is shorter.

usage: paths.py BACE AGENT WORKER SHAPERD PROFILES
"""
import contextlib
import json
import os
import re
import sqlite3
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import launch  # noqa: E402
from launch import inside, ns, outcome, sh  # noqa: E402

OWN_RTT_S = 0.0095
ROUTER = """
regions = (
  { name = "ireland"; prefixes = [ "10.77.1.0/24" ]; },
  { name = "frankfurt"; prefixes = [ "10.77.2.0/24" ]; } );
hosts = ( { name = "router"; region = "ireland"; egress = "%sp2"; ingress = "%sp1"; } );
links = ( { from = "frankfurt"; to = "ireland"; latency = "9.5ms"; } );
"""


class Paths(launch.Launch):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        sh("ip", "-n", ns("x"), "link", "del", "br0")
        sh(*inside("x", "sh", "-c", "echo 1 > /proc/sys/net/ipv4/ip_forward"))
        for i, (node, addr) in enumerate(launch.NODES.items()):
            sh("ip", "-n", ns("x"), "addr", "add", f"10.77.{i}.254/24", "dev", f"{launch.PRE}p{i}")
            sh("ip", "-n", ns(node), "addr", "del", f"{addr}/16", "dev", "eth0")
            sh("ip", "-n", ns(node), "addr", "add", f"{addr}/24", "dev", "eth0")
            sh("ip", "-n", ns(node), "route", "add", "default", "via", f"10.77.{i}.254")
        with open(f"{cls.dir}/router.cfg", "w") as f:
            f.write(ROUTER % (launch.PRE, launch.PRE))
        sh(*inside("x", "env", f"BACE_PROFILES={launch.PROFILES}", launch.BACE, "-q", "shape", "apply", "--detach",
                   "--host", "router", f"{cls.dir}/router.cfg"))
        with open(f"{cls.dir}/fast.cfg", "w") as f:
            f.write((launch.EXPERIMENT % 2).replace("time = 0.5", "time = 0.4"))

    @classmethod
    def tearDownClass(cls):
        subprocess.run(inside("x", launch.BACE, "-q", "shape", "clear"), capture_output=True)
        super().tearDownClass()

    def run_it(self, experiment):
        """The hosts shape the interface that their connection with the controller uses; it is the only one."""
        p = self.start("ssh", experiment, path=f"{self.dir}/bin", more=("--allow-control-interface",))
        out, err = p.communicate(timeout=120)
        return p, out, err

    def test_subtracted(self):
        """9.5 ms of 11.3 are the path's: added to it, they would make 20.8."""
        def attempt():
            p, out, err = self.run_it("e")
            self.assertRegex(err, r"paths without shaping take 4\.[7-9]\d* ms to 4\.[7-9]\d* ms one way: taken off")
            return self.measured(p, out, err)

        self.until_idle(attempt)
        with contextlib.closing(sqlite3.connect(f"{self.dir}/test_subtracted.db")) as db:
            rows = db.execute("SELECT planned_rtt_s, rtt_min_s FROM plan_check WHERE run_id = (SELECT max(id) FROM run)").fetchall()
            inventory, = db.execute("SELECT inventory_json FROM run ORDER BY id DESC LIMIT 1").fetchone()
        self.assertEqual(len(rows), 2)
        for planned, least in rows:
            self.assertLess(abs(least - planned), OWN_RTT_S / 8, rows)
        own = json.loads(inventory)["frankfurt-0"]["own_latency_s"]
        self.assertEqual(list(own), ["ireland"])
        self.assertTrue(0.98 * OWN_RTT_S / 2 < own["ireland"] < OWN_RTT_S, own)

    def test_shorter_than_its_path(self):
        p, _, err = self.run_it("fast")
        self.assertEqual(p.returncode, 2, err)
        self.assertTrue(re.search(r"the link from (ireland to frankfurt|frankfurt to ireland) is to have a latency of "
                                  r"4\.5\d* ms \(scaled\), below the 4(\.\d+)? ms that the path", err), err)
        self.assertFalse(launch.shaped("ireland-0") or launch.shaped("frankfurt-0"))
        self.nothing_left()


if __name__ == "__main__":
    own = sys.argv[1:] or sorted(t for t in vars(Paths) if t.startswith("test_"))
    sys.exit(launch.main(unittest.TestSuite(Paths(t) for t in own)))
