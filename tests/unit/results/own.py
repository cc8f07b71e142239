#!/usr/bin/env python3
"""bace compare --sim: another simulator's log through the converter example,
beside a made-up run. Usage: own.py BACE MAKE_STORE CONVERTER"""
import json
import os
import subprocess
import sys
import tempfile
import unittest

BACE, MAKE_STORE, CONVERTER = sys.argv[1:4]


def run(*args):
    return subprocess.run(args, capture_output=True, text=True, timeout=60, check=False)


class Own(unittest.TestCase):
    def setUp(self):
        self.dir = tempfile.TemporaryDirectory(prefix="bace-own-")
        self.store = self.path("x.db")
        self.assertEqual(run(MAKE_STORE, self.store, "2", "2").returncode, 0)
        answer = json.loads(run(BACE, "--store", self.store, "--json", "compare", "last").stdout)
        self.measured = answer["placements"]
        self.assertGreater(len(self.measured), 2)

    def tearDown(self):
        self.dir.cleanup()

    def path(self, name):
        return os.path.join(self.dir.name, name)

    def convert(self, factor):
        with open(self.path("log"), "w", encoding="utf-8") as f:
            for p in self.measured:
                f.write(json.dumps({"scheduler": p["policy"], "job": p["job"],
                                    "path": p["placement"].replace(" > ", ","),
                                    "iteration_ms": 1000 * factor * p["measured_median_s"], "submitted_at": 1,
                                    "finished_at": 11}) + "\n")
        p = run(sys.executable, CONVERTER, self.path("log"), self.path("my.csv"), self.path("my.json"))
        self.assertEqual(p.returncode, 0, p.stderr)

    def compare(self, *more):
        return run(BACE, "--store", self.store, *more, "compare", "last", "--sim", self.path("my.csv"),
                   "--placements", self.path("my.json"))

    def test_error(self):
        # yours is 0.8 of what was measured: measured is 25 % above
        self.convert(0.8)
        p = self.compare("--json")
        self.assertEqual(p.returncode, 0, p.stderr)
        answer = json.loads(p.stdout)
        self.assertEqual(answer["n"], len(self.measured))
        self.assertAlmostEqual(answer["median_abs"], 0.25, 6)
        self.assertAlmostEqual(answer["worst_abs"], 0.25, 6)
        text = self.compare()
        self.assertEqual(text.returncode, 0, text.stderr)
        self.assertIn("median absolute error 25.00 %", text.stdout)

    def test_unmeasured(self):
        self.convert(1)
        with open(self.path("my.csv"), "a", encoding="utf-8") as f:
            f.write("mine,nobody,1.5,\n")
        answer = json.loads(self.compare("--json").stdout)
        self.assertEqual((answer["n"], len(answer["rows"])), (len(self.measured), len(self.measured) + 1))
        self.assertIsNone(answer["rows"][-1]["measured_s"])

    def test_refusals(self):
        self.convert(1)
        for text, says in (("policy,job\na,b\n", "step_s"), ("policy,job,step_s\na,b\n", "my.csv:2"),
                           ("policy,job,step_s\na,b,fast\n", "fast"), ("policy,job,step_s,colour\n", "colour"),
                           ("policy,job,step_s\n", "no row")):
            with open(self.path("my.csv"), "w", encoding="utf-8") as f:
                f.write(text)
            p = self.compare()
            self.assertEqual(p.returncode, 2, p.stderr)
            self.assertIn(says, p.stderr)
        self.convert(1)
        with open(self.path("my.json"), "w", encoding="utf-8") as f:
            f.write('[{"policy": "a", "job": "b", "placement": "ireland"}]')
        self.assertEqual(self.compare().returncode, 2)


sys.argv[1:] = []
unittest.main()
