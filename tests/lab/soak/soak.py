#!/usr/bin/env python3
"""A lab experiment in a loop, for hours: memory, file descriptors, namespaces and
qdiscs stay as they are.

usage: soak.py BACE [MINUTES] [CELLS]

Each round is one run of CELLS cells, no two alike, on one testbed, whose agents and
shapers live as long as it. Every process but the workers is looked at every few
seconds; of a round the last third is judged by the second third: the median of resident
memory +3 % and 512 KiB at most, the least of descriptors, namespaces and qdiscs no more. After each
round the machine is as it was before. A cell that a busy machine spoils is no failure.
"""
import contextlib
import glob
import os
import shutil
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
import uuid

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "run"))
import leftovers		# noqa: E402
from leftovers import processes		# noqa: E402

LOOK_S = 1.0
GROWTH, GROWTH_KB = 1.03, 512
NAMES = ("lab-inner", "bace-agent", "bace-shaperd")


def machine_state():
    """What a lab could leave, but what others on the machine make meanwhile."""
    return {k: v for k, v in leftovers.machine_state().items() if k not in ("namespaces", "mounts")}


def write_experiment(directory, cells, first):
    jobs = ",\n".join(f'  {{ name = "j{first + i:05d}"; model = "GPT2-1.5B"; micro_batches = 4; micro_batch_size = 16; '
                      f'steps = 10; seq = {512 + (first + i) % 512}; arrival = "{3600 * i}s"; }}' for i in range(cells))
    with open(os.path.join(directory, "soak-jobs.cfg"), "w", encoding="utf-8") as f:
        f.write(f"jobs = (\n{jobs}\n);\n")
    path = os.path.join(directory, "soak.cfg")
    with open(path, "w", encoding="utf-8") as f:
        f.write('cluster = "tiny";\njobs = "./soak-jobs.cfg";\nk_limit = 4;\n'
                'oracles = ["event-sim", "measured"];\npolicies = ( { name = "bace"; } );\n'
                'testbed = { scale = { bytes = 0.005; time = 0.2; }; warmup_steps = 1; steps = 2; verify_s = 0; };\n')
    return path


def status_of(pid):
    """(resident kB, descriptors, network namespace) or None when it has ended."""
    try:
        with open(f"/proc/{pid}/status", encoding="ascii", errors="replace") as f:
            rss = next((int(line.split()[1]) for line in f if line.startswith("VmRSS")), None)
        return None if rss is None else (rss, len(os.listdir(f"/proc/{pid}/fd")), os.readlink(f"/proc/{pid}/ns/net"))
    except OSError:
        return None


def look(token, outer):
    """What every lasting process is, and how many namespaces and qdiscs there are."""
    seen, nets = {}, {}
    for pid, line in processes(token).items():
        who = "bace" if pid == outer else next((n for n in NAMES if n in line.split(" --worker-dir")[0]), None)
        s = status_of(pid) if who else None
        if s:
            seen[(who, pid)] = s[:2]
            nets[s[2]] = pid
    qdiscs = 0
    for pid in nets.values():
        p = subprocess.run(["nsenter", "-t", str(pid), "-n", "tc", "qdisc", "show"], capture_output=True, text=True, check=False)
        qdiscs += p.stdout.count("\n")
    return seen, len(nets), qdiscs


def follow(bace, experiment, store):
    """One round: (exit status, looks, errors of it, the token of its processes)."""
    token = f"bace-soak-{uuid.uuid4().hex}"
    with tempfile.TemporaryFile("w+") as errors:
        p = subprocess.Popen([bace, "--store", store, "-q", "run", experiment, "--no-report"], stdout=subprocess.DEVNULL,
                             stderr=errors, env={**os.environ, "BACE_SOAK_TOKEN": token})
        looks = []
        while p.poll() is None:
            time.sleep(LOOK_S)
            looks.append(look(token, p.pid))
        errors.seek(0)
        return p.returncode, looks[:-1], errors.read(), token


def third(values, k, of=statistics.median):
    n = len(values)
    return of(values[k * n // 3:(k + 1) * n // 3])


def grew(values):
    """In a cell there are more than between two, and a third of a short round may have no look between; what leaks is
    more in either."""
    return all(third(values, 2, of) > third(values, 1, of) for of in (min, max))


def judge(looks):
    """What grew, a line each; and a line of figures."""
    bad, said = [], []
    lasting = set(looks[len(looks) // 3][0])
    for _, now in ((None, look_[0]) for look_ in looks[len(looks) // 3:]):
        lasting &= set(now)
    assert lasting, "no process lasted"
    for who in sorted(lasting):
        rss = [seen[who][0] for seen, _, _ in looks if who in seen]
        fds = [seen[who][1] for seen, _, _ in looks if who in seen]
        a, b = third(rss, 1), third(rss, 2)
        said.append(f"{who[0]} {a / 1024:.1f} > {b / 1024:.1f} MiB, {third(fds, 2):.0f} fds")
        if b > a * GROWTH + GROWTH_KB:
            bad.append(f"{who[0]}: resident {a} kB, then {b} kB")
        if grew(fds):
            bad.append(f"{who[0]}: {third(fds, 1, min)} to {third(fds, 1, max)} descriptors, then {third(fds, 2, min)} to {third(fds, 2, max)}")
    for what, k in (("namespaces", 1), ("qdiscs", 2)):
        v = [x[k] for x in looks]
        if grew(v):
            bad.append(f"{third(v, 1, min)} to {third(v, 1, max)} {what}, then {third(v, 2, min)} to {third(v, 2, max)}")
        said.append(f"{third(v, 2):.0f} {what}")
    return bad, "; ".join(said)


def counted(store):
    with contextlib.closing(sqlite3.connect(f"file:{store}?mode=ro", uri=True)) as db:
        return db.execute("SELECT count(*) FROM placement WHERE valid").fetchone()[0]


def main():
    bace = os.path.abspath(sys.argv[1])
    minutes = float(sys.argv[2]) if len(sys.argv) > 2 else 120
    cells = int(sys.argv[3]) if len(sys.argv) > 3 else 150
    if not shutil.which("nsenter") or not glob.glob("/proc/self/ns/net"):
        print("skipped: no nsenter or no network namespaces")
        return 77
    before, end, rounds, empty = machine_state(), time.monotonic() + 60 * minutes, 0, 0
    with tempfile.TemporaryDirectory(prefix="bace-soak-") as directory:
        while rounds == 0 or time.monotonic() < end:
            store = os.path.join(directory, f"round-{rounds}.db")
            began = time.monotonic()
            status, looks, errors, token = follow(bace, write_experiment(directory, cells, rounds * cells), store)
            if status == 3:
                print(f"skipped: {errors.strip()}")
                return 77
            # 1: a cell was invalid, not all of them.
            assert status in (0, 1), errors
            if not counted(store):
                # Given up at its first cells: a moment in which the machine was too busy for any.
                empty += 1
                assert empty < 3, f"no cell counted, three times: {errors}"
                os.remove(store)
                continue
            bad, said = judge(looks)
            print(f"round {rounds}: {cells} cells, {time.monotonic() - began:.0f} s, exit {status}: {said}", flush=True)
            assert not bad, "\n".join(bad)
            until = time.monotonic() + leftovers.DEADLINE_S
            while (processes(token) or machine_state() != before) and time.monotonic() < until:
                time.sleep(0.05)
            after = machine_state()
            assert not processes(token), f"left behind: {processes(token)}"
            assert after == before, f"left behind: {after} and not {before}"
            os.remove(store)
            rounds += 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
