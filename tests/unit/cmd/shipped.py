#!/usr/bin/env python3
"""Every experiment that ships is free of errors and can be simulated, its first
policy places every job, and every cluster that ships is used by one.
Usage: shipped.py BACE PROFILES"""
import glob
import json
import os
import re
import subprocess
import sys
import unittest

PROFILES = sys.argv.pop(2)
BACE = sys.argv.pop(1)


def experiments():
    return sorted(glob.glob(os.path.join(PROFILES, "experiments", "*.cfg")))


def bace(*args):
    return subprocess.run([BACE, *args], capture_output=True, text=True, timeout=120, check=False)


class Shipped(unittest.TestCase):
    def test_experiments(self):
        self.assertGreaterEqual(len(experiments()), 15)
        for path in experiments():
            with self.subTest(os.path.basename(path)):
                p = bace("check", path)
                self.assertEqual(p.returncode, 0, p.stderr)
                p = bace("sim", path, "--oracle", "closed-form", "--json")
                self.assertEqual(p.returncode, 0, p.stderr)
                answer = json.loads(p.stdout)
                self.assertEqual(answer["rows"][0]["finished_jobs"]["value"], answer["jobs"])

    def test_named(self):
        """Those that must be there, and what makes each what it is."""
        have = {os.path.basename(p)[:-4] for p in experiments()}
        for name in ("six-regions", "six-regions-paper", "dtfm-worldwide", "two-sites", "retail-prices", "hourly-prices",
                     "hourly-prices-week", "laptop", "one-gpu-host", "four-gpu-hosts", "sixty-four-hosts"):
            self.assertIn(name, have)
        for name, values in (("wholesale-2024-day", 24), ("wholesale-2024-week", 168)):
            with open(os.path.join(PROFILES, "prices", name + ".cfg"), encoding="utf-8") as f:
                text = f.read()
            series = re.findall(r"usd_per_kwh = \[([^]]*)\]", text)
            self.assertTrue(series)
            for one in series:
                self.assertEqual(len(one.split(",")), values)
            self.assertIn("source", text.lower())

    def test_event_simulation(self):
        """Operation by operation too, where that takes no time."""
        for name in ("six-regions", "dtfm-worldwide", "two-sites", "laptop", "one-gpu-host", "four-gpu-hosts", "tiny"):
            with self.subTest(name):
                p = bace("sim", os.path.join(PROFILES, "experiments", name + ".cfg"), "--oracle", "event-sim", "--json")
                self.assertEqual(p.returncode, 0, p.stderr)
                for row in json.loads(p.stdout)["rows"]:
                    self.assertGreater(row["finished_jobs"]["value"], 0, row)

    def test_clusters_are_used(self):
        used = set()
        for path in experiments():
            with open(path, encoding="utf-8") as f:
                used |= set(re.findall(r'^cluster = "([^"]+)"', f.read(), re.M))
        have = {os.path.basename(p)[:-4] for p in glob.glob(os.path.join(PROFILES, "clusters", "*.cfg"))}
        self.assertEqual(have - used, set())


unittest.main()
