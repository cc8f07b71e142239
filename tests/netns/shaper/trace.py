#!/usr/bin/env python3
"""`bace shape trace`: what it plays at which end, and what it refuses.

usage: trace.py        wan0 of this namespace leads to another gateway
"""
import json
import os
import shutil
import subprocess
import sys
import time
import unittest

BACE = os.environ.get("BACE", "bace")
INSIDE = "BACE_SHAPE_TRACE_INSIDE"
SKIP = 77
PATIENCE_S = 30
SHAPE = """
delay = "nfqueue";
regions = ( { name = "a"; prefixes = [ "10.16.0.0/16" ]; }, { name = "b"; prefixes = [ "10.17.0.0/16" ]; },
            { name = "c"; prefixes = [ "10.18.0.0/16" ]; } );
hosts = ( { name = "ga"; region = "a"; egress = "wan0"; ingress = "lan0"; } );
links = ( { from = "a"; to = "b"; both_ways = true; rate = "20mbit"; latency = "20ms"; },
          { from = "a"; to = "c"; both_ways = true; rate = "20mbit"; latency = "20ms"; } );
"""


def run(command):
    subprocess.run(["sh", "-ec", command], check=True)


def shape(*args, ok=0):
    # Files, not pipes: what stays in the background may keep its end open.
    with open("/run/out", "w+", encoding="utf-8") as out, open("/run/err", "w+", encoding="utf-8") as err:
        p = subprocess.run([BACE, "shape", *args], stdout=out, stderr=err, timeout=PATIENCE_S, check=False)
        out.seek(0)
        err.seek(0)
        p.stdout, p.stderr = out.read(), err.read()
    if p.returncode != ok:
        raise AssertionError(f"bace shape {' '.join(args)}: exit {p.returncode}, not {ok}\n{p.stdout}{p.stderr}")
    return p


def file(name, text):
    with open(f"/run/{name}", "w", encoding="utf-8") as f:
        f.write(text)
    return f"/run/{name}"


def rate():
    text = subprocess.run(["tc", "class", "show", "dev", "wan0"], capture_output=True, text=True, check=True).stdout
    line = [x for x in text.splitlines() if "bace:11 " in x][0].split()
    return line[line.index("rate") + 1]


def until_rate(want):
    end = time.monotonic() + PATIENCE_S
    while rate() != want:
        if time.monotonic() > end:
            raise AssertionError(f"rate is {rate()}, not {want}")
        time.sleep(0.02)


class Trace(unittest.TestCase):
    def setUp(self):
        self.shape = file("s.cfg", SHAPE)

    def tearDown(self):
        shape("clear")

    def play(self, trace, *options, link=("a", "b"), ok=0):
        return shape("trace", "--host", "ga", *options, self.shape, "--link", *link, trace, ok=ok)

    def test_rate_at_the_senders_end(self):
        shape("apply", "--detach", "--host", "ga", self.shape)
        trace = file("t.csv", "t_s,rate,latency\n0,30mbit,10ms\n0.2,40mbit,\n")
        self.assertIn("playing: rate of a -> b, 2 changes", self.play(trace).stdout)
        until_rate("40Mbit")
        self.play(file("slow.csv", "t_s,rate_mbit\n0,5\n3600,6\n"), "--loop")
        until_rate("5Mbit")
        shape("trace", "--stop", "--host", "ga", self.shape, "--link", "a", "b")
        self.assertEqual(rate(), "5Mbit")
        # 3 packets in 100 ms.
        self.play(file("m", "20\n60\n100\n"), "--loop")
        until_rate("363360bit")

    def test_latency_and_loss_at_the_receivers_end(self):
        shape("apply", "--detach", "--host", "ga", self.shape)
        trace = file("t.csv", "t_s,rate,latency,loss\n0,30mbit,10ms,0\n0.1,,,1%\n0.2,40mbit,,\n")
        said = self.play(trace, "--at", "+0.1s", link=("b", "a")).stdout
        self.assertIn("playing: latency and loss of b -> a, 2 changes", said)
        self.assertIn("nothing to do here", self.play(file("r.csv", "t_s,rate\n0,30mbit\n"), link=("b", "a")).stdout)
        until = time.monotonic() + 30
        while '"latency_ns": 10000000' not in shape("show", "--json").stdout:
            self.assertLess(time.monotonic(), until)
            time.sleep(0.05)
        self.assertEqual(rate(), "20Mbit")

    def test_a_dry_run_plays_nothing(self):
        """It needs no plan that is held, and looks at no interface."""
        trace = file("t.csv", "t_s,rate,latency\n0,30mbit,10ms\n0.2,40mbit,\n")
        self.assertIn("would play: rate of a -> b, 2 changes", self.play(trace, "--dry-run").stdout)
        shape("apply", "--detach", "--host", "ga", self.shape)
        said = json.loads(self.play(trace, "--dry-run", "--loop", "--json").stdout)
        self.assertEqual((said["state"], said["src"], said["dst"], said["part"], said["changes"], said["loop"]),
                         ("would play", "a", "b", "rate", 2, True))
        self.assertAlmostEqual(said["round_s"], 0.4)
        said = json.loads(self.play(trace, "--dry-run", "--json", link=("b", "a")).stdout)
        self.assertEqual((said["part"], said["changes"]), ("latency and loss", 1))
        self.assertEqual(rate(), "20Mbit")
        self.assertIn("1 outage: a rate cannot be 0, so one packet passes", self.play(file("m", "20\n310\n350\n"), "--dry-run").stdout)
        self.assertIn("back.csv:3", self.play(file("back.csv", "t_s,rate\n1,30mbit\n0.5,40mbit\n"), "--dry-run", ok=2).stderr)

    def test_bad_input_changes_nothing(self):
        good = file("t.csv", "t_s,rate\n0,30mbit\n1,40mbit\n")
        # Nothing holds a plan.
        self.assertIn("bace shape apply", self.play(good, ok=2).stderr)
        shape("apply", "--detach", "--host", "ga", self.shape)
        for name, text in (("back.csv", "t_s,rate\n1,30mbit\n0.5,40mbit\n"), ("nan.csv", "t_s,rate\nnan,30mbit\n"),
                           ("empty.csv", ""), ("gb.csv", "t_s,rate\n0,10Gb\n"), ("m", "5\n4\n"),
                           ("low.csv", "t_s,rate\n0,1kbit\n")):
            said = self.play(file(name, text), ok=2).stderr
            self.assertEqual(said.count("\n"), 1, said)
            self.assertIn(f"/run/{name}", said)
        self.assertIn("back.csv:3", self.play("/run/back.csv", ok=2).stderr)
        self.assertIn("neither end", self.play(good, link=("b", "c"), ok=2).stderr.replace("at neither", "neither"))
        self.assertIn("no region", self.play(good, link=("a", "x"), ok=2).stderr)
        self.assertIn("no length", self.play(file("one.csv", "t_s,rate\n0,30mbit\n"), "--loop", ok=2).stderr)
        self.assertIn("--at", self.play(good, "--at", "yesterday", ok=2).stderr)
        self.play("/run/nosuch.csv", ok=2)
        shape("trace", "--host", "ga", self.shape, good, ok=2)
        self.assertEqual(rate(), "20Mbit")


def main():
    if not os.environ.get(INSIDE):
        command = ["unshare", "--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
        if os.geteuid() != 0:
            command += ["--user", "--map-root-user"]
        refused = subprocess.run(command + ["true"], capture_output=True, text=True, check=False)
        if refused.returncode:
            print("skipped: namespaces are refused here:", refused.stderr.strip())
            sys.exit(SKIP)
        os.environ[INSIDE] = "1"
        os.environ["PATH"] = "/usr/local/sbin:/usr/sbin:/sbin:" + os.environ["PATH"]
        os.execvp(command[0], command + [sys.executable] + sys.argv)
    run("mount -t tmpfs tmpfs /run; mkdir /run/netns")
    os.environ["XTABLES_LOCKFILE"] = "/run/xtables.lock"
    run("ip link set lo up; for d in wan lan; do ip link add ${d}0 type veth peer name ${d}1; ip link set ${d}0 up; "
        "ip link set ${d}1 up; done; ip addr add 10.99.0.1/24 dev wan0; ip addr add 10.16.0.1/16 dev lan0")
    iptables = shutil.which("iptables-legacy") or shutil.which("iptables")
    if not iptables or subprocess.run([iptables, "-t", "mangle", "-L"], capture_output=True, check=False).returncode:
        print("skipped: no mangle table for the NFQUEUE delay line here")
        sys.exit(SKIP)
    unittest.main(verbosity=2, warnings="ignore")


main()
