#!/usr/bin/env python3
"""A run whose hops between regions are carried by NCCL, here by the stand-in, from
the experiment's file to the store: every placement is measured, the bytes that
tc counted are those of the ranks' sockets, and a build without it says so.

usage: run_nccl.py EXPERIMENT BACE AGENT SHAPERD WORKER STANDIN-WORKER STANDIN-LIBRARY
"""
import json
import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "common"))
import experiments  # noqa: E402
import outcome  # noqa: E402

# The stand-in copies through a socket of its own; a step without its transfers, or with them twice, is further off.
WORST = 0.25


def install(directory, programs, nccl):
    """Copies, as an installation has them side by side."""
    for p in programs:
        shutil.copy(p, directory)
    if nccl:
        shutil.copy(nccl, os.path.join(directory, "bace-worker-nccl"))


def experiment(original, directory, **settings):
    with open(original, encoding="utf-8") as f:
        text = f.read()
    path = os.path.join(directory, "x.cfg")
    with open(path, "w", encoding="utf-8") as f:
        f.write(experiments.with_testbed(experiments.first_policy(text), **settings))
    return path


def command(directory, *args):
    return [os.path.join(directory, "bace"), "--store", os.path.join(directory, "x.db"), "--json", *args]


def bace(directory, *args):
    return subprocess.run(command(directory, *args), capture_output=True, text=True, check=False, timeout=240)


def computed(directory):
    """Of operations: that ended exactly when they were planned to, and all."""
    db = sqlite3.connect(os.path.join(directory, "x.db"))
    try:
        return db.execute("SELECT coalesce(sum(planned_end_s = end_s), 0), count(*) FROM op WHERE kind IN ('F', 'B')").fetchone()
    finally:
        db.close()


def attempt(original, programs, nccl, compute):
    with tempfile.TemporaryDirectory(prefix="bace-nccl-test-") as directory:
        install(directory, programs, nccl)
        os.chmod(directory, 0o755)
        run = outcome.bace(*command(directory, "run", experiment(original, directory, transport="nccl", compute=compute, steps=1)))
        rows = json.loads(run.stdout)["placements"]
        # A cell that the machine was too busy for is run again, and both have rows.
        good = [r for r in rows if r["valid"]]
        assert {r["job"] for r in rows} == {r["job"] for r in good}, rows
        assert any(">" in r["placement"] for r in good), "no placement crossed a link"
        for r in good:
            assert r["n_steps"] > 0, r
            error = r["measured_median_s"] / r["event_sim_s"] - 1
            print(f"{compute}, {r['placement']}: {error:+.1%} against the event simulation")
            if compute == "timed" and abs(error) > WORST:
                raise outcome.Busy(f"{compute}, {r['placement']}: {error:+.1%}")
        # A product has no plan but its end; a timer's is seen after it should have been.
        exact, n = computed(directory)
        assert n > 0 and (exact == n) == (compute == "cuda"), (compute, exact, n)


def without(original, programs):
    """Programs without bace-worker-nccl."""
    with tempfile.TemporaryDirectory(prefix="bace-nccl-test-") as directory:
        install(directory, programs, None)
        os.chmod(directory, 0o755)
        run = bace(directory, "run", experiment(original, directory, transport="nccl"))
        assert run.returncode == 1, (run.returncode, run.stderr[-2000:])
        text = run.stdout + run.stderr
        assert "bace-worker-nccl is not in" in text and "built without CUDA and NCCL" in text, text[-2000:]
        run = bace(directory, "run", experiment(original, directory, compute="cuda"))
        assert run.returncode == 1 and "bace-worker-nccl is not in" in run.stdout + run.stderr, run.stderr[-2000:]


def refused(original, programs):
    with tempfile.TemporaryDirectory(prefix="bace-nccl-test-") as directory:
        install(directory, programs, None)
        run = bace(directory, "check", experiment(original, directory, transport="nccl", ranks="region"))
        assert run.returncode == 2, run
        assert 'must be "tcp" with ranks = "region"' in json.loads(run.stdout)["errors"][0]["message"], run
        run = bace(directory, "check", experiment(original, directory, compute="gpu"))
        assert run.returncode == 2 and '"timed"' in json.loads(run.stdout)["errors"][0]["message"], run


def main():
    original, nccl, library = sys.argv[1], sys.argv[6], sys.argv[7]
    programs = sys.argv[2:6]
    os.environ["LD_LIBRARY_PATH"] = os.path.dirname(library)
    os.environ["BACE_PROFILES"] = os.path.dirname(os.path.dirname(os.path.abspath(original)))
    refused(original, programs)
    for compute in ("timed", "cuda"):
        if outcome.tried(lambda c=compute: attempt(original, programs, nccl, c)):
            return 1
    without(original, programs)
    return 0


if __name__ == "__main__":
    sys.exit(main())
