#!/usr/bin/env python3
"""`compute = "cpu"` and `timeline = "full"` from an experiment's file to the store:
every operation is as long as its products took, not as long as it was planned,
and what was received has a row of when it had been sent.

usage: compute.py BACE EXPERIMENT
"""
import json
import os
import sqlite3
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "common"))
import experiments  # noqa: E402
import outcome  # noqa: E402


def planned_and_seen(store):
    """Of operations: that ended exactly as planned, and all."""
    db = sqlite3.connect(store)
    try:
        return db.execute("SELECT coalesce(sum(planned_end_s = end_s), 0), count(*) FROM op WHERE kind IN ('F', 'B')").fetchone()
    finally:
        db.close()


def messages(store):
    db = sqlite3.connect(store)
    try:
        return dict(db.execute("SELECT kind, count(*) FROM op WHERE kind LIKE 'recv%' OR kind LIKE 'send%' GROUP BY kind"))
    finally:
        db.close()


def attempt(bace, experiment):
    os.environ["BACE_PROFILES"] = os.path.dirname(os.path.dirname(os.path.abspath(experiment)))
    with open(experiment, encoding="utf-8") as f:
        text = f.read()
    with tempfile.TemporaryDirectory(prefix="bace-compute-test-") as directory:
        store = os.path.join(directory, "x.db")
        path = os.path.join(directory, "x.cfg")
        with open(path, "w", encoding="utf-8") as f:
            f.write(experiments.with_testbed(experiments.first_policy(text), compute="cpu", timeline="full", steps=1))
        run = outcome.bace(bace, "--store", store, "--json", "run", path, "--no-report")
        rows = [r for r in json.loads(run.stdout)["placements"] if r["valid"]]
        assert rows and all(r["n_steps"] == 1 for r in rows), run.stdout
        exact, n = planned_and_seen(store)
        print(f"{len(rows)} placements, {n} operations; against the event simulation: "
              + ", ".join(f"{r['measured_median_s'] / r['event_sim_s'] - 1:+.1%}" for r in rows))
        # A timer's end is seen after it should have been.
        assert n > 0 and exact == n, (exact, n)
        count = messages(store)
        assert sorted(count) == ["recvB", "recvF", "sendB", "sendF"], count
        assert count["sendF"] == count["recvF"] and count["sendB"] == count["recvB"], count


def main():
    bace, experiment = sys.argv[1:3]
    return outcome.tried(lambda: attempt(bace, experiment))


sys.exit(main())
