#!/usr/bin/env python3
"""bace pipeline and bace trace-gen as a user types them: exit status, where
output goes, what machines read. Usage: pipeline_trace.py BACE"""
import json
import os
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree as ET

BACE = sys.argv.pop(1)
SVG = "{http://www.w3.org/2000/svg}"


def bace(*args):
    p = subprocess.run([BACE, *args], capture_output=True, text=True, timeout=60)
    return p.returncode, p.stdout, p.stderr


class Refusals(unittest.TestCase):
    def refused(self, lines, *args):
        code, out, err = bace(*args)
        self.assertEqual(code, 2, err)
        self.assertEqual(out, "")
        for line in lines:
            self.assertIn(line, err)
        return err


class Pipeline(Refusals):
    GOOD = ("--stages", "4", "--micro-batches", "8", "--tf", "1", "--tb", "2")

    def test_text(self):
        # 33 = (m + p - 1)(tF + tB): bubble 3/11
        code, out, err = bace("pipeline", *self.GOOD)
        self.assertEqual((code, err), (0, ""))
        self.assertIn("step time       33\n", out)
        self.assertIn("bubble          27.27 %", out)

    def test_json(self):
        # (m + p - 1)(tF + tB) + 2c[(p - 1)m/p + (p - 2)], c = 0.5
        for args in (("pipeline", *self.GOOD, "--latency", "0.5", "--json"),
                     ("--json", "pipeline", *self.GOOD, "--latency", "0.5,0.5,0.5")):
            code, out, _ = bace(*args)
            answer = json.loads(out)
            self.assertEqual(code, 0)
            self.assertEqual(answer["step_time"], 41)
            self.assertEqual(answer["closed_form"], 36)
            self.assertEqual(len(answer["per_stage"]), 4)
            for s in answer["per_stage"]:
                self.assertAlmostEqual(s["busy"] + s["waiting"] + s["held"] + s["drained"], 41)

    def test_directions(self):
        def step(*more):
            return json.loads(bace("pipeline", *self.GOOD, "--json", *more)[1])["step_time"]

        self.assertEqual(step("--latency", "0.5", "--reverse-latency", "0.5"), step("--latency", "0.5"))
        self.assertLess(step("--latency", "0.5", "--reverse-latency", "0"), step("--latency", "0.5"))
        self.assertGreater(step("--serialisation", "0.5", "--no-overlap"), step("--serialisation", "0.5"))

    def test_zero_bubble(self):
        # m(tF + tB + tW) + (p - 1)(tF + tB - tW)
        code, out, _ = bace("pipeline", "--schedule", "zb-h1", "--stages", "4", "--micro-batches", "8",
                            "--tf", "1", "--tb", "1", "--tw", "1", "--json")
        self.assertEqual((code, json.loads(out)["step_time"]), (0, 27))

    def test_gantt(self):
        with tempfile.TemporaryDirectory() as d:
            path = os.path.join(d, "g.svg")
            code, _, err = bace("pipeline", "--schedule", "interleaved-1f1b", "--chunks", "2", *self.GOOD,
                                "--latency", "0.1,0.2,0.1,0.4", "--serialisation", "0.2", "--no-overlap",
                                "--gantt", path)
            self.assertEqual((code, err), (0, ""))
            root = ET.parse(path).getroot()
            self.assertEqual(root.tag, SVG + "svg")
            bars = [r.get("class") for r in root.iter(SVG + "rect") if r.find(SVG + "title") is not None]
            self.assertEqual(bars.count("f"), 4 * 8 * 2)
            self.assertEqual(bars.count("b"), 4 * 8 * 2)
            for kind in ("wc", "ws", "wl", "held"):
                self.assertIn(kind, bars)
            width = float(root.get("width"))
            for r in root.iter(SVG + "rect"):
                self.assertGreaterEqual(float(r.get("width")), 0)
                self.assertLessEqual(float(r.get("x")) + float(r.get("width")), width)

    def test_refused(self):
        self.refused(["--stages is missing", "--micro-batches is missing", "--tf is missing", "--tb is missing"],
                     "pipeline")
        err = self.refused(["--stages x: must be", "--micro-batches 0: must be", "--tf: `nan'", "--tb: `-1'"],
                           "pipeline", "--stages", "x", "--micro-batches", "0", "--tf", "nan", "--tb", "-1")
        self.assertEqual(err.count("\n"), 4)
        for line, *args in (
                ("did you mean 1f1b?", "--schedule", "1fb1"),
                ("--tf: 2 numbers: must be one, or one per stage: 4", "--tf", "1,2"),
                ("--latency: 2 numbers: must be one, or one per hop: 3", "--latency", "1,2"),
                ("--latency: `inf'", "--latency", "inf"),
                ("only zb-h1", "--tw", "1"),
                ("--tw is missing", "--schedule", "zb-h1"),
                ("--chunks is missing", "--schedule", "interleaved-1f1b"),
                ("only interleaved-1f1b", "--chunks", "2"),
                ("multiple of the 4 stages", "--schedule", "interleaved-1f1b", "--chunks", "2",
                 "--micro-batches", "6"),
                ("stage 0 holds 4 activations under 1f1b, the limit is 3", "--max-activations", "3"),
                ("--max-activations 0", "--max-activations", "0"),
                ("operations: at most", "--stages", "65536", "--micro-batches", "16777216"),
                ("at most 50000 can be drawn", "--stages", "64", "--micro-batches", "1024", "--gantt", "/x/y.svg"),
                ("unknown option --foo", "--foo"), ("unexpected argument `foo'", "foo"),
                ("--tf needs a value", "--tf")):
            self.refused([line], "pipeline", *self.GOOD, *args)

    def test_numbers(self):
        """Sums stay finite; a step that takes no time has no closed form to be set against."""
        for bad in ("1e308", "1e16", "nan", "-1"):
            self.refused(["must be a number, 0 to 1e+15"], "pipeline", *self.GOOD, "--latency", bad)
        code, out, _ = bace("pipeline", "--stages", "2", "--micro-batches", "1", "--tf", "0", "--tb", "0")
        self.assertEqual(code, 0)
        self.assertNotIn("nan", out)
        code, out, _ = bace("pipeline", "--stages", "9", "--micro-batches", "99", "--tf", "1e15", "--tb", "1e15")
        self.assertEqual(code, 0)
        self.assertNotIn("nan", out)
        self.assertNotIn("inf", out)

    def test_misuse_is_short(self):
        """What was wrong is not scrolled away by a page of usage."""
        for args in (("sim", "--seeds", "0", "x.cfg"), ("sim",), ("merge",), ("pipeline", "--foo"),
                     ("claims", "--scenarios", "x")):
            err = self.refused([f"`bace help {args[0]}' says more"], *args)
            self.assertEqual(err.count("\n"), 1, err)

    @unittest.skipUnless(os.path.exists("/dev/full"), "no /dev/full")
    def test_full_disk(self):
        """What could not be printed has not been done."""
        for args in (("pipeline", *self.GOOD), ("policies",), ("help",), ("help", "sim"), ("--version",),
                     ("trace-gen", "--jobs", "3")):
            with open("/dev/full", "w") as full:
                p = subprocess.run([BACE, *args], stdout=full, stderr=subprocess.PIPE, text=True, timeout=60)
            self.assertEqual(p.returncode, 1, args)
            self.assertIn("No space left on device", p.stderr)

    def test_unwritable(self):
        code, _, err = bace("pipeline", *self.GOOD, "--gantt", "/nonexistent/x.svg")
        self.assertEqual(code, 1)
        self.assertIn("/nonexistent/x.svg", err)


class TraceGen(Refusals):
    def test_endless_line(self):
        """Refused after a million bytes, not when memory ends."""
        path = self.path("line.csv")
        with open(path, "w") as f:
            f.truncate(1 << 33)
        self.refused([f"{path}:1: longer than 1048576 bytes"], "trace-gen", "--import", path)
        path = self.path("second.csv", "name,arrival_s,gpus,duration_s\na,0,1,10\n" + "x" * (1 << 21))
        self.refused([f"{path}:3: longer than 1048576 bytes"], "trace-gen", "--import", path)

    def setUp(self):
        self.dir = tempfile.TemporaryDirectory()
        self.addCleanup(self.dir.cleanup)

    def path(self, name, text=None):
        path = os.path.join(self.dir.name, name)
        if text is not None:
            with open(path, "w") as f:
                f.write(text)
        return path

    def test_checks(self):
        """What it writes, bace check accepts."""
        jobs, csv = self.path("jobs.cfg"), self.path("jobs.csv")
        self.assertEqual(bace("trace-gen", "-o", jobs, "--csv", csv, "--jobs", "30", "--arrivals", "bursty"),
                         (0, "", ""))
        exp = self.path("e.cfg", f'cluster = "six-regions-paper"; jobs = "{jobs}"; '
                                 'policies = ( { name = "lcf"; } );')
        code, out, err = bace("check", exp)
        self.assertEqual(code, 0, err)
        self.assertIn("30 jobs", out)
        code, again, _ = bace("trace-gen", "--import", csv, "--csv", "-")
        with open(csv) as f:
            self.assertEqual((code, again), (0, f.read()))

    def test_same_seed(self):
        first = bace("trace-gen", "--seed", "7")
        self.assertEqual(first[0], 0)
        self.assertEqual(first, bace("trace-gen", "--seed", "7"))
        self.assertNotEqual(first[1], bace("trace-gen", "--seed", "8")[1])

    def test_import(self):
        log = self.path("cluster_log.csv",
                        "job_id,user,vc,gpu_num,cpu_num,node_num,state,submit_time,start_time,end_time,duration,queue\n"
                        "1,u,v,1,1,1,COMPLETED,2020-06-09 18:41:01,2020-06-09 18:41:01,2020-06-10 04:55:09,36848,0\n"
                        "2,u,v,8,1,1,FAILED,2020-06-09 18:41:27,2020-06-09 18:41:27,2020-06-10 18:41:27,86400,0\n")
        code, out, err = bace("trace-gen", "--import", log, "--format", "helios", "--csv", "-")
        self.assertEqual(code, 0)
        self.assertIn("2 jobs; left out: 0 without a GPU, 0 that never ran", err)
        self.assertEqual([r.split(",")[:5] for r in out.splitlines()[1:]],
                         [["1", "0.000", "1", "36848.000", "Qwen2.5-14B"],
                          ["2", "26.000", "8", "86400.000", "FLM-101B"]])

    def test_refused(self):
        bad = self.path("bad.csv", "id,when,n,secs\na,0,1,100\nb,-3,1,100\na,nan,1,100\n")
        err = self.refused([bad + ":3: arrival `-3'", bad + ":4: name `a' is there before, at line 2",
                            bad + ":4: arrival `nan'"],
                           "trace-gen", "--import", bad, "--columns", "name=id,arrival=when,gpus=n,duration=secs")
        self.assertEqual(err.count("\n"), 3)
        for line, *args in (
                ("--jobs 1000000000: must be a whole number from 1 to 50000", "--jobs", "1000000000"),
                ("--arrivals foo", "--arrivals", "foo"), ("has no unit", "--interarrival", "3"),
                ("--gpus 1:x", "--gpus", "1:x"), ("--duration-sigma nan", "--duration-sigma", "nan"),
                ("ascending", "--duration-median", "100s"), ("did you mean `Qwen2.5-14B'", "--models", "Qwen2.5-14b"),
                ("No such file", "--import", self.path("none.csv")), ("--format foo", "--import", bad, "--format", "foo"),
                ("no column `arrival_s' (arrival)", "--import", bad),
                ("not JSON", "--import", bad, "--format", "philly"),
                ("neither --seed", "--import", bad, "--seed", "1"), ("only with --import", "--completed"),
                ("--flops-eff 0", "--flops-eff", "0"), ("unknown option --foo", "--foo")):
            self.refused([line], "trace-gen", *args)


if __name__ == "__main__":
    unittest.main(verbosity=0)
