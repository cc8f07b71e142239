#!/usr/bin/env python3
"""bace robust as a user types it. Usage: command.py BACE"""
import json
import os
import subprocess
import sys
import tempfile
import unittest

BACE = sys.argv.pop(1)
SMALL = ("--seeds", "4", "--links", "static,adverse", "--prices", "flat", "--delays", "0,20ms", "--noise", "0,30",
         "--bias", "20", "--kinds", "once")


def bace(*args):
    p = subprocess.run([BACE, *args], capture_output=True, text=True, timeout=120)
    return p.returncode, p.stdout, p.stderr


class Robust(unittest.TestCase):
    def test_text(self):
        code, out, err = bace("robust", *SMALL)
        self.assertEqual((code, err), (0, ""))
        for line in ("six-regions-paper: 8 jobs, 4 seeds from 1", "Exact view, before any noise: ",
                     "\nlinks bind, links adverse, prices flat\n", "View 20 ms late, noise 30 %", "Break-even",
                     "  bias +20 %", "  30 % gaussian multiplicative correlated"):
            self.assertIn(line, out)

    def test_threads_do_not_matter(self):
        one = bace("robust", *SMALL, "--threads", "1", "--json")
        self.assertEqual(one[0], 0)
        self.assertEqual(bace("robust", *SMALL, "--threads", "3", "--json"), one)

    def test_json(self):
        code, out, _ = bace("--json", "robust", *SMALL)
        answer = json.loads(out)
        self.assertEqual(code, 0)
        self.assertEqual(len(answer["worlds"]), 4)
        # 2 delays; 30 % of the first kind with both, of seven others with none; a bias
        self.assertEqual(len(answer["views"]), 2 + 2 + 7 + 1)
        lcf = answer["worlds"][0]["baselines"][0]
        self.assertEqual((lcf["policy"], lcf["baseline"], len(lcf["cells"])), ("bace", "lcf", 12))
        exact = lcf["cells"][0]
        self.assertEqual(exact["jct"]["retention"], 1)
        self.assertTrue(exact["jct"]["lo"] <= exact["jct"]["mean"] <= exact["jct"]["hi"])
        for cell in lcf["cells"]:
            parts = {cell["jct"]["verdict"], cell["cost"]["verdict"]}
            worst = "FAILS" if "FAILS" in parts else "UNDECIDED" if "UNDECIDED" in parts else "HOLDS"
            self.assertEqual(cell["verdict"], worst)

    def test_patient_policies_are_compared_among_themselves(self):
        answer = json.loads(bace("--json", "robust", *SMALL)[1])
        pairs = {(b["policy"], b["baseline"]) for b in answer["worlds"][0]["baselines"]}
        self.assertEqual(pairs, {("bace", p) for p in ("lcf", "ldf", "cr-lcf", "cr-ldf")} |
                         {("bace-patient", p + "-patient") for p in ("lcf", "ldf", "cr-lcf", "cr-ldf")})

    def test_verdict(self):
        self.assertEqual(bace("robust", *SMALL, "--verdict")[0], 4)
        low = ("--jct-threshold", "-100", "--cost-threshold", "-100")
        self.assertEqual(bace("robust", *SMALL, "--verdict", *low)[0], 0)

    def test_store(self):
        with tempfile.TemporaryDirectory() as d:
            store = os.path.join(d, "r.db")
            code, _, err = bace("--store", store, "robust", *SMALL)
            self.assertEqual(code, 0, err)
            self.assertIn("run ", err)
            code, out, _ = bace("--store", store, "export", "last", "--format", "json")
            rows = json.loads(out)["comparison"]
            # 12 views, 4 worlds, 8 baselines, 2 metrics
            self.assertEqual(len(rows), 12 * 4 * 8 * 2)
            self.assertEqual({r["kind"] for r in rows}, {"robust"})
            report = os.path.join(d, "r.html")
            code, _, err = bace("--store", store, "report", "last", "-o", report)
            self.assertEqual(code, 0, err)
            with open(report, encoding="utf-8") as f:
                self.assertIn("Stale and noisy views", f.read())

    def test_refusals(self):
        for args, says in ((("--delays", "5ms"), "--delays 5ms"), (("--noise", "0,30,10"), "--noise"),
                           (("--links", "wavy"), "--links wavy"), (("--seeds", "1"), "--seeds 1"),
                           (("--hourly", "nowhere"), "nowhere"), (("no-such-experiment",), "no-such-experiment"),
                           (("--period", "soon"), "--period soon"), (("--testbed", "20:30"), "--testbed 20:30"),
                           (("--testbed", "0:30", "six-regions-paper"), "measured")):
            code, out, err = bace("robust", *args)
            self.assertEqual((code, out), (2, ""), err)
            self.assertIn(says, err)


unittest.main()
