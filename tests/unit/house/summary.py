#!/usr/bin/env python3
"""What ./test.sh says at its end, and what tests call busy, skipped and failed; what
it says of a build folder that is somebody else's.

usage: summary.py SOURCE_ROOT
"""
import contextlib
import io
import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = sys.argv.pop(1)
sys.path.insert(0, os.path.join(ROOT, "tests", "common"))
import outcome  # noqa: E402


def summary(*logs, failed=False, names=None, suite="unit", **env):
    """logs: lists of (test, result, output), or None for one that is not there. names: that the first was to have."""
    with tempfile.TemporaryDirectory(prefix="bace-summary-") as directory:
        paths = []
        for i, log in enumerate(logs):
            paths.append(os.path.join(directory, f"{i}.json"))
            if log is None:
                continue
            with open(paths[-1], "w", encoding="utf-8") as f:
                for name, result, out, *err in log:
                    f.write(json.dumps({"name": f"bace:{suite} / " + name, "result": result, "stdout": out,
                                        "stderr": "".join(err)}) + "\n")
        if names is not None:
            with open(os.path.join(directory, "0.list"), "w", encoding="utf-8") as f:
                f.write("".join(f"bace:{suite} / {n}\n" for n in names))
        p = subprocess.run([os.path.join(ROOT, ".ci", "summary"), *(["--failed"] if failed else []), *paths],
                           capture_output=True, text=True, check=False, env={**os.environ, "BACE_NO_SKIPS": "", **env})
        return p.returncode, p.stdout.splitlines()


class Summary(unittest.TestCase):
    def test_counts(self):
        first = [("a", "OK", ""), ("b", "FAIL", ""), ("c", "SKIP", "skipped: no root\n", "noise of a child\n"), ("d", "TIMEOUT", "")]
        status, lines = summary(first, [("b", "OK", "")])
        self.assertEqual(status, 1)
        self.assertEqual(lines[-1], "2 passed, 1 failed, 1 skipped")
        self.assertIn("skipped bace:unit / c: skipped: no root", lines)
        self.assertIn("passed the second time only: bace:unit / b", lines)
        self.assertIn("failed bace:unit / d", lines)
        self.assertEqual(summary(first, None, failed=True), (0, ["b", "d"]))
        status, lines = summary([("b", "FAIL", "")], [("b", "TIMEOUT", "")], [("b", "OK", "")])
        self.assertEqual((status, lines), (0, ["passed the third time only: bace:unit / b", "1 passed, 0 failed, 0 skipped"]))
        # Run again for another test of its name.
        self.assertEqual(summary([("a", "OK", "")], [("a", "OK", "")]), (0, ["1 passed, 0 failed, 0 skipped"]))

    def test_what_did_not_run(self):
        """A run that ends half-way leaves a shorter log."""
        half = [("a", "OK", "")]
        self.assertEqual(summary(half, names=["a"])[0], 0)
        status, lines = summary(half, names=["a", "b"])
        self.assertEqual((status, lines), (1, ["failed bace:unit / b: it did not run", "1 passed, 1 failed, 0 skipped"]))
        self.assertEqual(summary(half, names=["a", "b"], failed=True), (0, ["b"]))
        self.assertEqual(summary(half, [("b", "OK", "")], names=["a", "b"])[0], 0)
        self.assertEqual(summary(half, [("b", "OK", "")], names=["a", "b"], failed=True), (0, []))

    def test_what_may_not_skip(self):
        skips = [("run-native", "SKIP", "skipped: no NFQUEUE\n"), ("run-uml", "SKIP", ""), ("launch-slurm", "SKIP", ""), ("a", "OK", "")]
        self.assertEqual(summary(skips, suite="lab")[0], 0)
        status, lines = summary(skips, suite="lab", BACE_NO_SKIPS="1")
        self.assertEqual(status, 1)
        self.assertIn("failed bace:lab / run-native: this machine can run it, and it skipped", lines)
        self.assertEqual(lines[-1], "1 passed, 1 failed, 3 skipped")
        self.assertEqual(summary(skips, suite="unit", BACE_NO_SKIPS="1")[0], 0)

    def test_a_part(self):
        status, lines = summary([("a", "OK", "", "skipped in part: test_x: no ssh\n")])
        self.assertEqual((status, lines), (0, ["skipped in part: test_x: no ssh (bace:unit / a)", "1 passed, 0 failed, 0 skipped"]))

    def test_nothing_ran(self):
        self.assertEqual(summary([])[0], 1)
        status, lines = summary([("a", "OK", "")], None)
        self.assertEqual(status, 1)
        self.assertRegex(lines[-1], r"^summary: .*1\.json is not there: its tests did not run$")


class Prepare(unittest.TestCase):
    def test_a_folder_of_somebody_else(self):
        """As after one `sudo ./demo.sh`. Root may write everywhere, so it asks as nobody."""
        with tempfile.TemporaryDirectory(prefix="bace-summary-") as directory:
            os.mkdir(os.path.join(directory, ".ci"))
            shutil.copy(os.path.join(ROOT, ".ci", "prepare.sh"), os.path.join(directory, ".ci"))
            build = os.path.join(directory, "build")
            os.mkdir(build, 0o555)
            os.chmod(directory, 0o755)
            other = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups"] if os.geteuid() == 0 else []
            p = subprocess.run([*other, "bash", "-c", f". {directory}/.ci/prepare.sh; build; echo built"], cwd="/",
                               env={**os.environ, "BUILD": build}, capture_output=True, text=True, check=False)
            self.assertEqual((p.returncode, p.stdout), (3, ""), p.stderr)
            self.assertIn(f"{build} is not yours: chown -R ", p.stderr)


class Outcome(unittest.TestCase):
    def test_busy(self):
        for text in ("h: its delay line was late by 3.1 ms (p99); the machine is overloaded",
                     "timed compute was late by 9.0 % of its duration on average (p99 9 ms, allowed 5 %); the machine is overloaded",
                     "link a to b out of tolerance: RTT +9.0 %, goodput +0.0 %"):
            self.assertTrue(outcome.busy(text), text)
        for text in ("link a to b out of tolerance: RTT -9.0 %, goodput +0.0 %", "calculated latency is wrong", "1 of 2 agents did not connect within 45 s: h", "nothing heard from h for 3.0 s",
                     "1 of the cells, links or policies failed"):
            self.assertFalse(outcome.busy(text), text)

    def test_links_that_are_late(self):
        """A second run in which nothing else was wrong is taken; one of which more was wrong never is."""
        link = "link a to b out of tolerance: RTT +%s %%, goodput %s %%\n"
        two = "bace run: 2 of the cells, links or policies failed; see `bace show 1'\n"
        late = link % ("9.8", "+0.0") + link % ("12.1", "-1.2") + two
        worse = (link % ("9.8", "+0.0") + two, link % ("9.8", "+0.0") + link % ("99.8", "+0.0") + two, link % ("9.8", "+0.0"),
                 link % ("9.8", "+0.0") + link % ("9.8", "-7.0") + two, "1 of 2 jobs did not finish\n" + late, "")
        with contextlib.redirect_stderr(io.StringIO()):
            self.assertFalse(outcome.good(1, late))
            self.assertTrue(outcome.good(1, late))
            for text in worse:
                self.assertFalse(outcome.good(1, text), text)
            self.assertFalse(outcome.good(4, late))
        self.assertTrue(outcome.good(0, ""))

    def test_tried(self):
        def never():
            raise outcome.Busy("too busy")
        outcome.PAUSES_S = (0,)
        self.assertEqual(outcome.tried(never), 1)
        self.assertEqual(outcome.tried(lambda: None), 0)

    def test_ended(self):
        def ended(*tests):
            result = unittest.TestResult()
            unittest.TestSuite(map(unittest.FunctionTestCase, tests)).run(result)
            # else ./test.sh would print it
            with contextlib.redirect_stdout(io.StringIO()):
                return outcome.ended(result)

        def skips():
            raise unittest.SkipTest("no such thing here")

        def fails():
            raise AssertionError
        self.assertEqual(ended(lambda: None), 0)
        self.assertEqual(ended(lambda: None, skips), 0)
        self.assertEqual(ended(skips), 77)
        self.assertEqual(ended(skips, fails), 1)


unittest.main()
