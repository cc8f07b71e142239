#!/usr/bin/env python3
"""A whole run in the lab: every placement is measured, agrees with the event
simulation, its links have the delay that was planned, and the store says so.

usage: run.py BACE EXPERIMENT BACKEND

A cell that the machine was too busy for is marked invalid by bace itself; then
the run is tried again, as it is where an error is above 12 %, the bound that bace
promises for its main job: a machine that is late now and then is not always.
"""
import json
import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "common"))
import outcome  # noqa: E402

WORST = 0.12


def attempt(bace, experiment, backend, directory):
    store = os.path.join(directory, "x.db")
    run = outcome.bace(bace, "--store", store, "--json", "run", experiment, "--backend", backend)
    data = json.loads(run.stdout)
    rows = [r for r in data["placements"] if r["valid"]]
    assert rows, "no placement was recorded"
    # A cell that the machine was too busy for is run again, and both have rows.
    measured = {(r["policy"], r["job"]) for r in rows}
    assert measured == {(r["policy"], r["job"]) for r in data["placements"]}, data["placements"]
    for row in rows:
        assert row["n_steps"] > 0, row
        error = row["measured_median_s"] / row["event_sim_s"] - 1
        if abs(error) > WORST:
            raise outcome.Busy(f"{row['policy']} {row['job']}: error {error:+.1%}")
    assert any(">" in r["placement"] for r in rows), "no placement crossed a link"
    assert data["links"], "no link was verified"
    for link in data["links"]:
        assert 0.9 <= link["rtt_median_s"] / link["planned_rtt_s"] <= 1.6, link
    oracles = {(o["policy"], o["oracle"]) for o in data["jobs"]}
    for policy, oracle in oracles:
        assert (policy, "measured") in oracles, f"{policy} has {oracle} but was not measured"
    db = sqlite3.connect(store)
    told = dict(db.execute("SELECT oracle, count(job) FROM decision GROUP BY oracle"))
    made = db.execute("SELECT queue_bytes, burst_bytes, gso_max_bytes, initcwnd_segments, delay_limit_packets FROM"
                      " link_truth").fetchall()
    late = db.execute("SELECT max(delay_lateness_p99_s) FROM placement").fetchone()[0]
    db.close()
    assert len(set(told.values())) == 1 and "measured" in told and told["measured"] >= len({r["job"] for r in rows}), told
    assert made and all(x > 0 for row in made for x in row), made
    # Only a delay line of bace's own says how late it was.
    assert (late is None) == (data["run"]["backend"] != "nfqueue"), late
    html = [f for f in os.listdir(directory) if f.endswith(".html")]
    assert len(html) == 1, html
    worst = max(abs(r["measured_median_s"] / r["event_sim_s"] - 1) for r in rows)
    print(f"{backend}: {len(rows)} placements, worst error {worst:.2%}")


def incomplete(bace, experiment, backend):
    """A bace without the programs beside it: the environment cannot, and nothing is left."""
    with tempfile.TemporaryDirectory(prefix="bace-run-test-") as directory:
        alone = shutil.copy(bace, directory)
        p = subprocess.run([alone, "--store", os.path.join(directory, "x.db"), "run", experiment, "--backend", backend],
                           capture_output=True, text=True, check=False, timeout=240)
        assert p.returncode == 3 and "is not beside" in p.stderr, (p.returncode, p.stderr)


def main():
    bace, experiment, backend = sys.argv[1:4]

    def once():
        with tempfile.TemporaryDirectory(prefix="bace-run-test-") as directory:
            attempt(bace, experiment, backend, directory)

    status = outcome.tried(once)
    if not status and backend != "uml":
        incomplete(bace, experiment, backend)
    return status


sys.exit(main())
