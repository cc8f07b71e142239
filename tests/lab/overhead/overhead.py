#!/usr/bin/env python3
"""bace overhead in the lab: a known slowdown is in the interval that is measured,
a change of the link is seen by probes, rows are in the store, the plot is drawn.

usage: overhead.py BACE EXPERIMENT

On a machine that is busy with something else the interval is wide, never wrong:
nothing here asserts how narrow it is.
"""
import json
import os
import sqlite3
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "common"))
import outcome  # noqa: E402


def overhead(bace, directory, *args):
    run = subprocess.run([bace, "--store", os.path.join(directory, "x.db"), "--json", "overhead", *args],
                         capture_output=True, text=True, check=False, timeout=360)
    if run.returncode == 3:
        print(f"skipped: {run.stderr.strip().splitlines()[-1]}")
        sys.exit(77)
    # A row that is not valid is printed, with its reason, and the status is 1.
    assert run.returncode == 0 or (run.returncode == 1 and "not valid" in run.stderr), run.stderr[-2000:]
    return run.returncode, json.loads(run.stdout)


def measured(bace, experiment, directory):
    svg = os.path.join(directory, "x.svg")
    status, data = overhead(bace, directory, experiment, "--methods", "probe:24kB", "--periods", "100ms", "--pairs", "6",
                            "--block-steps", "2", "--inject", "20%", "-o", svg)
    row = data["rows"][0]
    assert row["valid"] == (status == 0), (row, status)
    if not row["valid"]:
        # Blocks whose every step the machine spoilt are no pairs.
        if outcome.busy(row["why"]) or "fewer than two pairs" in row["why"]:
            raise outcome.Busy(row["why"])
        raise AssertionError(row["why"])
    want = data["injected_step"]
    assert 0.1 < want <= 0.2, want
    assert row["n_pairs"] >= 2, row
    if row["n_pairs"] < 6:
        assert row["lo"] is None and row["hi"] is None, row
        raise outcome.Busy("blocks without a whole step")
    # Six pairs are few for an interval, and the probes cost something too.
    # By chance alone they miss in 3 of 100 times.
    if not row["lo"] - 0.03 <= want <= row["hi"] + 0.03:
        raise outcome.Busy(f"{want} is not in {row['lo']} to {row['hi']}")
    assert row["n_changes"] == 4 and row["n_idle_changes"] == 2, row
    assert row["n_detected"] + row["n_idle_detected"] >= 1, row
    assert row["probe_bytes_per_s"] > 0 and row["wire_bytes_per_s"] > 0, row
    db = sqlite3.connect(os.path.join(directory, "x.db"))
    rows = dict(db.execute("SELECT metric, value FROM comparison WHERE run_id = ? AND kind = 'overhead'",
                           (data["run"],)).fetchall())
    assert abs(rows["inflation_percent"] - 100 * row["inflation"]) < 1e-6, rows
    assert rows["probe_bytes_per_s"] > 0, rows
    with open(svg, encoding="utf-8") as f:
        assert "probe 24 kB" in f.read()


def refused(bace, directory):
    for args in (["--periods", "1ms"], ["--methods", "sflow"], ["--inject", "7"], ["--pairs", "1"]):
        run = subprocess.run([bace, "--store", os.path.join(directory, "x.db"), "overhead", "x.cfg", *args],
                             capture_output=True, text=True, check=False)
        assert run.returncode == 2 and args[0] in run.stderr, run.stderr


def main():
    bace, experiment = sys.argv[1:3]
    with tempfile.TemporaryDirectory(prefix="bace-overhead-test-") as directory:
        refused(bace, directory)
        return outcome.tried(lambda: measured(bace, experiment, directory))


sys.exit(main())
