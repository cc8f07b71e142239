#!/usr/bin/env python3
"""bace compare: its verdicts, and with --sim another simulator's log through the
converter example, beside a made-up run; and the examples of docs/policy.md, one of
which has that simulator's placements measured. Usage: own.py BACE MAKE_STORE POLICIES"""
import json
import os
import sqlite3
import subprocess
import sys
import tempfile
import unittest

BACE, MAKE_STORE, POLICIES = sys.argv[1:4]
CONVERTER = os.path.join(POLICIES, "convert_results.py")
TWO = {"gpt2-a": [["frankfurt", 1], ["ireland", 1]], "gpt2-b": [["ireland", 1], ["frankfurt", 1]]}
EXPERIMENT = """cluster = "tiny"; jobs = "tiny"; k_limit = 4;
policies = ( { name = "external"; command = "python3 %s"; }, { name = "lcf"; } );
"""


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

    def test_one_has_no_interval(self):
        self.measured = self.measured[:1]
        self.convert(0.8)
        text = self.compare().stdout
        self.assertNotIn("nan", text)
        self.assertIn("25.00 %  (n = 1 of 1 placements)", text)

    def change(self, *sql):
        db = sqlite3.connect(self.store)
        for line in sql:
            db.execute(line)
        db.commit()
        db.close()

    def status(self, *args):
        p = run(BACE, "--store", self.store, "compare", *args)
        self.assertIn(p.returncode, (0, 2, 4), p.stderr)
        return p.returncode

    def test_fail_above(self):
        worst = max(abs(p["measured_median_s"] / p["event_sim_s"] - 1) for p in self.measured)
        self.assertEqual(self.status("last", "--fail-above", str(101 * worst)), 0)
        self.assertEqual(self.status("last", "--fail-above", str(99 * worst)), 4)
        # nothing to judge by is no success
        self.change("UPDATE placement SET event_sim_s = NULL")
        self.assertEqual(self.status("last"), 0)
        self.assertEqual(self.status("last", "--fail-above", "50"), 4)

    def test_scales(self):
        first = run(BACE, "--store", self.store, "--json", "runs").stdout
        self.assertEqual(run(MAKE_STORE, self.store, "2", "2").returncode, 0)
        ids = [r["id"] for r in json.loads(run(BACE, "--store", self.store, "--json", "runs").stdout)]
        other = next(i for i in ids if i not in first)
        ids.remove(other)
        for factor, want in (("1.029", 0), ("1.031", 4)):
            self.change(f"UPDATE placement SET measured_median_s = {factor} * (SELECT p.measured_median_s FROM"
                        f" placement p WHERE p.run_id = '{ids[0]}' AND p.moment = placement.moment AND p.valid AND"
                        f" p.measured_median_s > 0) WHERE run_id = '{other}' AND valid")
            self.assertEqual(self.status("--scales", ids[0], other), want)
        self.assertEqual(self.status("--scales", ids[0], other, "--fail-above", "4"), 0)

    def test_bad_numbers(self):
        for option, value in (("--resamples", "4294967396"), ("--resamples", "99"), ("--seed", "18446744073709551616")):
            self.assertEqual(self.status("last", option, value), 2)
        self.assertEqual(run(BACE, "--store", self.store, "runs", "-n", "4294967297").returncode, 2)

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
        for text, says in (('[{"policy": "a", "job": "b", "placement": "ireland"}]', "entry 1: must be"),
                           ('[{"policy": "a", "job": "slip", "placement": [["ireland", 2]]}]',
                            "entry 1: --sim's file has no row of policy `a' and job `slip'")):
            self.convert(1)
            with open(self.path("my.json"), "w", encoding="utf-8") as f:
                f.write(text)
            p = self.compare()
            self.assertEqual(p.returncode, 2, p.stderr)
            self.assertIn(says, p.stderr)

    def test_spreadsheet(self):
        """A byte-order mark, and a path of any length."""
        self.convert(0.8)
        with open(self.path("my.csv"), encoding="utf-8") as f:
            text = f.read()
        with open(self.path("my.csv"), "w", encoding="utf-8-sig") as f:
            f.write(text + "mine,long,1,\n")
        with open(self.path("my.json"), encoding="utf-8") as f:
            placements = json.load(f)
        placements.append({"policy": "mine", "job": "long", "placement": [[f"region-{i:02}", 2] for i in range(40)]})
        with open(self.path("my.json"), "w", encoding="utf-8") as f:
            json.dump(placements, f)
        p = self.compare("--json")
        self.assertEqual(p.returncode, 0, p.stderr)
        answer = json.loads(p.stdout)
        self.assertAlmostEqual(answer["worst_abs"], 0.25, 6)
        self.assertTrue(answer["rows"][-1]["placement"].startswith("region-00:2 > region-01:2"))

    def test_verdict(self):
        self.convert(0.8)
        self.assertEqual(self.compare("--json").returncode, 0)
        self.assertEqual(run(BACE, "--store", self.store, "compare", "last", "--sim", self.path("my.csv"), "--placements",
                             self.path("my.json"), "--fail-above", "10").returncode, 4)


class Policies(unittest.TestCase):
    def ask(self, program, view, *args):
        p = subprocess.run([sys.executable, os.path.join(POLICIES, program), *args], input=json.dumps(view) + "\n",
                           capture_output=True, text=True, timeout=60, check=True)
        return [(x["job"], x["path"]) for x in json.loads(p.stdout)["placements"]]

    def sim(self, command):
        """What the program's answers come to, in the simulator."""
        with tempfile.TemporaryDirectory(prefix="bace-own-") as directory:
            path = os.path.join(directory, "x.cfg")
            with open(path, "w", encoding="utf-8") as f:
                f.write(EXPERIMENT % command)
            p = run(BACE, "--json", "sim", path)
        self.assertEqual(p.returncode, 0, p.stderr)
        self.assertEqual(p.stderr, "")
        return json.loads(p.stdout)

    def test_widest(self):
        # as in docs/policy.md
        view = {"regions": [{"name": "a", "free": 4}], "links": [], "jobs": [{"name": "j", "fits": [2, 4], "k_star": 4}]}
        self.assertEqual(self.ask("widest.py", view), [("j", [["a", 4]])])
        view["regions"] = [{"name": n, "free": 3} for n in "abc"]
        view["links"] = [{"src": s, "dst": d, "capacity_bps": c, "reserved_bps": 1} for s, d, c in
                         (("a", "b", 5), ("b", "a", 5), ("b", "c", 9), ("c", "b", 9), ("c", "a", 99))]
        view["jobs"].append({"name": "k", "fits": [1, 2], "k_star": 2})
        # c - a is no link both ways; for k neither pair has room any more
        self.assertEqual(self.ask("widest.py", view), [("j", [["b", 3], ["c", 1]]), ("k", [["a", 2]])])
        self.sim(os.path.join(POLICIES, "widest.py"))

    def test_replay(self):
        with tempfile.TemporaryDirectory(prefix="bace-own-") as directory:
            path = os.path.join(directory, "my.json")
            with open(path, "w", encoding="utf-8") as f:
                json.dump([{"policy": p, "job": j, "placement": at if p == "mine" else [["nowhere", 1]]}
                           for p in ("mine", "other") for j, at in TWO.items()], f)
            view = {"regions": [{"name": "ireland", "free": 1}, {"name": "frankfurt", "free": 1}],
                    "jobs": [{"name": "gpt2-b"}, {"name": "gpt2-a"}]}
            # one at a time, in the file's order
            self.assertEqual(self.ask("replay.py", view, path, "mine"), [("gpt2-a", TWO["gpt2-a"])])
            view["jobs"].pop()
            self.assertEqual(self.ask("replay.py", view, path, "mine"), [("gpt2-b", TWO["gpt2-b"])])
            self.sim(f"{os.path.join(POLICIES, 'replay.py')} {path} mine")


sys.argv[1:] = []
unittest.main()
