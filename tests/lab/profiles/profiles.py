#!/usr/bin/env python3
"""Shipped experiments that a laptop can play run in the lab, briefly: the first
policy alone, one measured step, links not probed for goodput.

usage: profiles.py BACE PROFILES EXPERIMENT...

A machine that was too busy for a cell says so; then it is tried again, three
times in all.
"""
import json
import os
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "common"))
import experiments  # noqa: E402
import outcome  # noqa: E402

WORST = 0.12


def brief(text):
    """The same experiment with its first policy, and one step a cell."""
    assert '"measured"' in text, text
    return experiments.with_testbed(experiments.first_policy(text), steps=1, warmup_steps=1, verify_s=0)


def attempt(bace, profiles, name, directory):
    with open(os.path.join(profiles, "experiments", name + ".cfg"), encoding="utf-8") as f:
        text = brief(f.read())
    path = os.path.join(directory, name + ".cfg")
    with open(path, "w", encoding="utf-8") as f:
        f.write(text)
    p = outcome.bace(bace, "--store", os.path.join(directory, "x.db"), "--json", "run", path, "--no-report")
    rows = json.loads(p.stdout)["placements"]
    # A cell that the machine was too busy for is run again.
    assert rows and {r["job"] for r in rows} == {r["job"] for r in rows if r["valid"]}, rows
    rows = [r for r in rows if r["valid"]]
    assert any(">" in r["placement"] for r in rows), "no placement crossed a link"
    worst = max(abs(r["measured_median_s"] / r["event_sim_s"] - 1) for r in rows)
    print(f"{name}: {len(rows)} placements, worst error {worst:.2%}", flush=True)
    if worst > WORST:
        raise outcome.Busy(f"{name}: worst error {worst:.1%}")


def main():
    bace, profiles, names = sys.argv[1], sys.argv[2], sys.argv[3:]

    def one(name):
        with tempfile.TemporaryDirectory(prefix="bace-profiles-test-") as directory:
            attempt(bace, profiles, name, directory)

    return max(outcome.tried(lambda n=name: one(n)) for name in names)


sys.exit(main())
