#!/usr/bin/env python3
"""Faults of whole runs on two "machines" by the ssh launcher: what happened is
said, nothing is lost, nothing is left, and the run goes on or is gone on with.

usage: faults.py BACE AGENT WORKER SHAPERD PROFILES CLOCKSHIFT
"""
import contextlib
import os
import signal
import sqlite3
import struct
import subprocess
import sys
import time
import unittest

SHIFT = sys.argv.pop(6)
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import launch  # noqa: E402
from launch import outcome  # noqa: E402

JOBS = """jobs = (
  %s );
"""
JOB = '{ name = "j%d"; model = "GPT2-1.5B"; micro_batches = %d; micro_batch_size = 4; steps = 20; arrival = "%ds"; }'
# alone, each across the link, no two alike: such are measured once; lcf's stay in one region
MANY = """
cluster = "cluster.cfg"; jobs = "jobs.cfg"; k_limit = 4;
oracles = ["event-sim", "measured"];
policies = ( { name = "bace"; }, { name = "lcf"; start = "k_min"; } );
testbed = { scale = { bytes = 0.01; time = 0.5; }; warmup_steps = 0; steps = 1; verify_s = 0; };
"""


class Faults(launch.Launch):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        with open(f"{cls.dir}/jobs.cfg", "w") as f:
            f.write(JOBS % ",\n  ".join(JOB % (i, 4 + i, 1000 * i) for i in range(3)))
        with open(f"{cls.dir}/many.cfg", "w") as f:
            f.write(MANY)

    def go(self, experiment="e", **more):
        self.said = ""
        return self.start("ssh", experiment, path=f"{self.dir}/bin", **more)

    def until_cell(self, p, least=1):
        """Workers of a cell, not of the probes before it."""
        seen = lambda: all(len(launch.pids(n, "bace-worker")) == 2 for n in launch.HOSTS) or p.poll() is not None
        self.assertTrue(launch.wait_until(seen, 60), "no cell came")
        self.assertIsNone(p.poll(), "it ended before a cell came")

    def lines(self, p, *words):
        """What it says up to the line with one of the words, and when that came."""
        text = ""
        while True:
            line = p.stderr.readline()
            text += line
            self.said += line
            if any(w in line for w in words) or not line:
                return text, time.monotonic()

    def ends_well(self, p):
        """False: bace says itself that the machine was too busy."""
        out, err = p.communicate(timeout=180)
        return self.measured(p, out, self.said + err), self.said + err

    def test_partition(self):
        """Between two regions nothing passes for a while; both hear the controller."""
        def attempt():
            # Of more steps: it is hurt in its cell, also when this test gets there late.
            p = self.go("some")
            self.until_cell(p)
            time.sleep(0.7)
            at = time.monotonic()
            for host, net in (("ireland-0", "10.77.2.0/24"), ("frankfurt-0", "10.77.1.0/24")):
                launch.sh("ip", "-n", launch.ns(host), "route", "add", "blackhole", net)
            said, when = self.lines(p, "is invalid", "bace run:")
            # It goes on when its hosts are there again, however late this test is.
            p.send_signal(signal.SIGSTOP)
            for host in launch.HOSTS:
                launch.sh("ip", "-n", launch.ns(host), "route", "flush", "type", "blackhole")
            p.send_signal(signal.SIGCONT)
            print(f"\npartition: known after {when - at:.1f} s: {said.splitlines()[-1] if said else ''}", file=sys.stderr)
            self.assertIsNone(p.poll(), said)
            if outcome.busy(said):
                self.ends_well(p)
                return False
            self.assertRegex(said, r"rank \d .*(timed out|nothing heard|unreachable|Invalid argument)")
            return self.ends_well(p)[0]

        self.until_idle(attempt)

    def test_agent_stopped(self):
        """For longer than the 3 s that a host may be silent: the cell is run again when it is back."""
        def attempt():
            p = self.go()
            self.until_cell(p)
            pid, = launch.pids("ireland-0", "bace-agent")
            os.kill(pid, signal.SIGSTOP)
            at = time.monotonic()
            said, when = self.lines(p, "is invalid", "bace run:")
            print(f"\nagent stopped: known after {when - at:.1f} s", file=sys.stderr)
            self.assertIn("ireland-0: its agent is gone: nothing heard", said)
            time.sleep(max(0, at + 4 - time.monotonic()))
            os.kill(pid, signal.SIGCONT)
            good, err = self.ends_well(p)
            self.assertNotIn("starting it again", err)
            return good

        self.until_idle(attempt)

    def test_disk_full(self):
        """The run ends and names the store; what was finished is in it; with room again it is gone on with."""
        place = f"{self.dir}/small"
        os.makedirs(place, exist_ok=True)
        launch.sh("mount", "-t", "tmpfs", "-o", "size=16m", "tmpfs", place)
        try:
            p = self.go("many", store=f"{place}/s.db")
            self.lines(p, "step ")
            with open(f"{place}/filler", "wb", buffering=0) as f:
                try:
                    while f.write(b"\0" * 4096):
                        pass
                except OSError:
                    pass
            _, err = p.communicate(timeout=120)
            self.assertEqual(p.returncode, 1, err)
            self.assertRegex(err, r"s\.db.*(disk is full|disk I/O error|No space)", err)
            self.nothing_left()
            os.unlink(f"{place}/filler")
            before = self.cells(f"{place}/s.db")
            self.assertTrue(before, "what was finished is lost")
            self.resumed(f"{place}/s.db", before)
        finally:
            launch.sh("umount", place)

    def test_clock_stepped(self):
        """An hour back, then a day on, in the middle of a cell, for every program there is."""
        shift = f"{self.dir}/shift"
        with open(shift, "wb") as f:
            f.write(struct.pack("q", 0))
        env = {"LD_PRELOAD": SHIFT, "BACE_CLOCK_SHIFT": shift,
               "ASAN_OPTIONS": os.environ.get("ASAN_OPTIONS", "") + ":verify_asan_link_order=0"}

        def step(seconds):
            with open(shift, "r+b") as f:
                f.write(struct.pack("q", seconds))

        def attempt():
            step(0)
            p = self.go()
            self.until_cell(p)
            step(-3600)
            time.sleep(1)
            step(86400)
            return self.ends_well(p)[0]

        before = dict(os.environ)
        shown = subprocess.run(["date", "+%s"], env=dict(os.environ, **env), capture_output=True, text=True).stdout
        step(86400)
        later = subprocess.run(["date", "+%s"], env=dict(os.environ, **env), capture_output=True, text=True).stdout
        self.assertGreater(int(later) - int(shown), 86000)
        os.environ.update(env)
        try:
            self.restart_daemons()
            self.until_idle(attempt)
        finally:
            os.environ.clear()
            os.environ.update(before)
            self.restart_daemons()

    def restart_daemons(self):
        for d in self.daemons:
            d.terminate()
            d.wait()
        self.daemons.clear()
        self.start_daemons()

    def test_two_controllers(self):
        """The hosts are another's: the second says so; the first is not disturbed."""
        p = self.go("long")
        self.until_cell(p)
        second = self.go(store=f"{self.dir}/second.db")
        _, err = second.communicate(timeout=60)
        self.assertEqual(second.returncode, 1, err)
        self.assertIn("Address already in use", err)
        second = self.go(store=f"{self.dir}/second.db", port=7612)
        _, err = second.communicate(timeout=60)
        self.assertEqual(second.returncode, 1, err)
        self.assertIn("another client holds the lease", err)
        self.assertIsNone(p.poll())
        self.assertTrue(all(launch.shaped(n) for n in launch.HOSTS))
        self.assertEqual([len(launch.pids(n, "bace-worker")) for n in launch.HOSTS], [2, 2])
        p.send_signal(signal.SIGINT)
        _, err = p.communicate(timeout=60)
        self.assertNotIn("is invalid", err)
        self.nothing_left()

    @staticmethod
    def cells(store, since=""):
        """What was measured after a run, by the keys of moments, and how often: what was looked up has no steps."""
        with contextlib.closing(sqlite3.connect(f"file:{store}?mode=ro", uri=True)) as db:
            return dict(db.execute("SELECT moment, count(*) FROM placement WHERE valid AND run_id > ? AND id IN "
                                   "(SELECT placement_id FROM step) GROUP BY moment", (since,)))

    @staticmethod
    def rows(store):
        with contextlib.closing(sqlite3.connect(f"file:{store}?mode=ro", uri=True)) as db:
            run, = db.execute("SELECT max(id) FROM run").fetchone()
            return sorted(db.execute("SELECT policy, job, placement, moment FROM placement WHERE run_id = ? AND valid",
                                     (run,)))

    def resumed(self, store, before, since=""):
        """Goes on with the last run, and does exactly the rest."""
        def attempt():
            p = self.go("many", store=store, more=("--resume", "last"))
            _, err = p.communicate(timeout=180)
            self.nothing_left()
            good = outcome.good(p.returncode, err)
            self.assertTrue(good or outcome.busy(err), err)
            return good

        self.until_idle(attempt)
        after = self.cells(store, since)
        self.assertTrue(set(before) < set(after), "nothing was left to be done")
        self.assertEqual(set(after.values()), {1}, "a cell was measured twice")
        return after

    def test_resume_exactly(self):
        """Killed after two cells: --resume runs the others, none twice, though another run in the store did;
        the rows are those of a whole run."""
        store, mine = f"{self.dir}/cut.db", f"{self.dir}/test_resume_exactly.db"

        def cut():
            for end in ("", "-wal", "-shm"):
                if os.path.exists(store + end):
                    os.unlink(store + end)
            with contextlib.closing(sqlite3.connect(mine)) as a, contextlib.closing(sqlite3.connect(store)) as b:
                a.backup(b)
            p = self.go("many", store=store)
            for _ in range(2):
                self.lines(p, "step ")
            p.kill()
            _, err = p.communicate()
            self.nothing_left()
            return len(self.cells(store, first)) == 2

        def whole():
            p = self.go("many")
            _, err = p.communicate(timeout=180)
            self.nothing_left()
            return outcome.good(p.returncode, err)

        self.until_idle(whole)
        with contextlib.closing(sqlite3.connect(mine)) as db:
            first, = db.execute("SELECT max(id) FROM run").fetchone()
        self.until_idle(cut)
        after = self.resumed(store, self.cells(store, first), first)
        self.assertEqual(set(after), set(self.cells(mine)))
        self.assertEqual(self.rows(store), self.rows(mine))
        self.assertEqual(len(self.rows(store)), 6)
        # What was measured with another backend is not gone on with in silence.
        p = self.go("many", store=store, more=("--resume", "last", "--backend", "netem"))
        _, err = p.communicate(timeout=60)
        self.assertEqual(p.returncode, 2, err)
        self.assertIn("measured with other settings: backend=nfqueue (now netem)", err)


if __name__ == "__main__":
    own = sys.argv[1:] or sorted(t for t in vars(Faults) if t.startswith("test_"))
    sys.exit(launch.main(unittest.TestSuite(Faults(t) for t in own)))
