#!/usr/bin/env python3
"""Links are disturbed and nobody is told: the run keeps what was done, and what
the steps lost is seen in what was measured, not in what was predicted.

usage: disturb.py BACE PROFILES

A machine that was too busy for a cell says so; then all is tried again, three
times in all.
"""
import json
import os
import sqlite3
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "common"))
import outcome  # noqa: E402
from outcome import Busy, bace  # noqa: E402


def variant(text, directory, name, links, trace=None):
    """The experiment with other disturbances, and with a trace beside it."""
    head = text[:text.index("  disturb = (")]
    path = os.path.join(directory, name + ".cfg")
    with open(path, "w", encoding="utf-8") as f:
        f.write(head + "  disturb = ( " + links + " );\n};\n" if links else head + "};\n")
    if trace:
        with open(os.path.join(directory, "own.csv"), "w", encoding="utf-8") as f:
            f.write(trace)
    return path


def refusals(program, text, directory):
    link = 'from = "ireland"; to = "frankfurt"; '
    for links, trace, words in (
            ("{ " + link + 'trace = "nowhere"; }', None, "nowhere.csv"),
            ("{ " + link + 'trace = "./own.csv"; }', "t_s,speed\n0,1\n", "unknown column"),
            ("{ " + link + 'trace = "./own.csv"; loop = true; }', "t_s,rate\n0,1gbit\n", "no length"),
            ("{ " + link + 'jitter = "10s"; }', None, "at most the link's latency"),
            ("{ " + link + "loss = 2; }", None, "loss"),
            ("{ " + link + "}", None, "nothing is done"),
            ('{ from = "ireland"; to = "frankfort"; loss = 0.1; }', None, "did you mean `frankfurt'"),
            ("{ " + link + "loss = 0.1; }, { " + link + "loss = 0.2; }", None, "each link once")):
        path = variant(text, directory, "bad", links, trace)
        p = bace(program, "check", path, want=2)
        assert words in p.stderr + p.stdout, (links, p.stderr, p.stdout)


def step(program, store, path):
    bace(program, "--store", store, "run", path, "--no-report")
    rows = [p for p in json.loads(bace(program, "--store", store, "--json", "show", "last").stdout)["placements"]
            if p["measured_median_s"]]
    assert rows, "nothing was measured"
    return rows[0]["event_sim_s"], rows[0]["measured_median_s"]


def flapping(program, text, directory):
    """A link at a tenth of its rate for most of the time."""
    store = os.path.join(directory, "x.db")
    link = 'from = "ireland"; to = "frankfurt"; both_ways = true; '
    trace = "t_s,rate\n0,2gbit\n0.2,400mbit\n60,2gbit\n"
    predicted, calm = step(program, store, variant(text, directory, "calm", None))
    told, disturbed = step(program, store, variant(text, directory, "flap", "{ " + link + 'trace = "./own.csv"; }', trace))
    print(f"predicted {predicted:.3f} s, calm {calm:.3f} s, rate falls {disturbed:.3f} s")
    assert told == predicted, "event simulation was told"
    if abs(calm / predicted - 1) > 0.12:
        raise Busy("not as predicted without disturbance")
    assert disturbed > 1.1 * calm, "the trace was not played"
    db = sqlite3.connect(store)
    rows = db.execute("SELECT src, dst, trace, loop FROM disturbance ORDER BY src").fetchall()
    assert len(rows) == 2 and rows[0][:2] == ("frankfurt", "ireland") and rows[0][2].endswith("own.csv"), rows
    kept = db.execute("SELECT config_text FROM run ORDER BY id DESC LIMIT 1").fetchone()[0]
    assert trace in kept, "the trace is not kept with the run"
    db.close()


def shipped(program, profiles, directory):
    bace(program, "--store", os.path.join(directory, "y.db"), "run",
         os.path.join(profiles, "experiments", "tiny-disturbed.cfg"), "--no-report")
    text = bace(program, "--store", os.path.join(directory, "y.db"), "show", "last").stdout
    assert "Links disturbed on the testbed" in text and "flap.csv" in text, text


def main():
    program, profiles = sys.argv[1:3]
    with open(os.path.join(profiles, "experiments", "tiny-disturbed.cfg"), encoding="utf-8") as f:
        text = f.read()

    def attempt():
        with tempfile.TemporaryDirectory(prefix="bace-disturb-test-") as directory:
            refusals(program, text, directory)
            flapping(program, text, directory)
            shipped(program, profiles, directory)

    return outcome.tried(attempt)


sys.exit(main())
