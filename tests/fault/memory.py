#!/usr/bin/env python3
"""No memory, at one allocation after the other: a command says so and ends as it says
it does, or does all of its work without.

usage: memory.py BACE FAULT.SO PROFILES [EVERY]     EVERY: all of them, not a part
"""
import json
import os
import random
import re
import subprocess
import sys
import tempfile

BACE, FAULT, PROFILES = (os.path.abspath(a) for a in sys.argv[1:4])
EVERY = len(sys.argv) > 4
FIRST = 40			# all of the first so many, then ever fewer
GROWTH = 1.25
STATUS = {0, 1, 2, 3}
TIMEOUT_S = 60

SHAPE = """
delay = "nfqueue"; mode = "host";
regions = ( { name = "a"; prefixes = [ "10.16.0.0/16" ]; }, { name = "b"; prefixes = [ "10.17.0.0/16", "fd00:11::/32" ]; } );
hosts = ( { name = "ga"; region = "a"; egress = "lo"; } );
links = ( { from = "a"; to = "b"; both_ways = true; rate = "20mbit"; latency = "20ms"; jitter = "1ms"; } );
"""


def commands(place):
    """(arguments, files that a failed command must not leave half-written)"""
    with open(f"{place}/s.cfg", "w", encoding="utf-8") as f:
        f.write(SHAPE)
    store = ["--store", f"{place}/store.db"]
    subprocess.run([BACE, *store, "-q", "run", "tiny", "--sim-only", "--no-report"], check=False, capture_output=True)
    return [
        (["policies"], []),
        (["--json", "check", "tiny"], []),
        (["check", "six-regions"], []),
        (["pipeline", "--stages", "3", "--micro-batches", "4", "--tf", "10", "--tb", "20"], []),
        (["sim", "tiny"], []),
        (["--json", "sim", "tiny", "--oracle", "event-sim"], []),
        (["trace-gen", "--jobs", "20", "-o", f"{place}/jobs.cfg"], [f"{place}/jobs.cfg"]),
        (["shape", "plan", "--host", "ga", f"{place}/s.cfg"], []),
        (["shape", "plan", "--json", "--host", "ga", f"{place}/s.cfg"], []),
        (["shape", "plan", "--tc", "--host", "ga", f"{place}/s.cfg"], []),
    ]


def numbers(r):
    """1, 2, 3, ..., then ever further apart."""
    n = 0
    while True:
        n = n + 1 if n < FIRST or EVERY else max(n + 1, int(n * (GROWTH + r.random() / 4)))
        yield n


def run(args, place, n):
    said = f"{place}/said"
    if os.path.exists(said):
        os.remove(said)
    env = {**os.environ, "BACE_PROFILES": PROFILES, "LD_PRELOAD": FAULT, "BACE_FAULT_SAID": said, "HOME": place,
           # Reads what it has not got.
           "BACE_FAULT_SPARES": "libconfig"}
    if n:
        env["BACE_FAULT"] = f"alloc:{n}"
    p = subprocess.run([BACE, *args], env=env, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    return p, os.path.exists(said)


def without_notes(text):
    """They are advice: what could not be looked at is not said; nor is an interval that could not be worked out."""
    lines = (line for line in text.splitlines() if not re.match(r'note: | *"(lo|hi)": ', line))
    return "\n".join(re.sub(r"\s+", " ", re.sub(r"\[[-+.\d]+, [-+.\d]+\]| -(?= )", "", line)) for line in lines)


def planned(text):
    """Of a plan as JSON; None: it is none."""
    try:
        return {k: v for k, v in json.loads(text).items() if k != "notes"}
    except (ValueError, AttributeError):
        return None


def judge(p, whole, files, before):
    """What is wrong; None: nothing."""
    if p.returncode not in STATUS:
        return f"status {p.returncode}"
    if p.returncode == 0:
        made_up = [x for x in p.stdout.splitlines() if x.startswith("note: this kernel has no") and x not in whole.stdout]
        same = without_notes(p.stdout) == without_notes(whole.stdout) or (planned(p.stdout) or 0) == planned(whole.stdout)
        return None if same and not made_up else "status 0, but other output"
    said = p.stderr + p.stdout
    if not re.search("out of memory|Cannot allocate memory", said):
        return f"it does not say why: {p.stdout[-200:]}"
    if p.returncode != 1:
        return f"status {p.returncode}"
    if "(null)" in said or len(p.stderr.splitlines()) > 3:
        return "no clear line"
    for f in files:
        if os.path.exists(f):
            with open(f, encoding="utf-8") as g:
                if g.read() != before:
                    return f"{os.path.basename(f)} is half-written"
    return None


def sweep(args, files, place, r):
    whole, _ = run(args, place, 0)
    if whole.returncode:
        raise AssertionError(f"bace {' '.join(args)}: {whole.stderr}")
    before = None
    for f in files:
        with open(f, encoding="utf-8") as g:
            before = g.read()
        os.remove(f)
    bad, statuses, n = [], {}, 0
    for n in numbers(r):
        p, reached = run(args, place, n)
        if not reached:
            break
        why = judge(p, whole, files, before)
        statuses[p.returncode] = statuses.get(p.returncode, 0) + 1
        if why:
            bad.append(f"allocation {n}: {why}: {p.stderr.strip()[-300:]}")
        for f in files:
            if os.path.exists(f):
                os.remove(f)
    print(f"bace {' '.join(args).replace(place, '.')}: up to {n} allocations, status {statuses}", flush=True)
    return [f"bace {' '.join(args)}: {b}" for b in bad]


def main():
    seed = int(os.environ.get("SEED", random.randrange(1 << 30)))
    print(f"SEED={seed}")
    r = random.Random(seed)
    bad = []
    with tempfile.TemporaryDirectory(prefix="bace-fault-") as place:
        for args, files in commands(place):
            bad += sweep(args, files, place, r)
    print("\n".join(bad[:60]))
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
