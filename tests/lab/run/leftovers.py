#!/usr/bin/env python3
"""Ctrl-C, SIGTERM and kill -9 of bace, of the lab's supervisor, of an agent, of a
shaperd and of a worker, at several moments of a run: within 5 s no process,
namespace, link, qdisc, iptables rule or temporary file is left. An agent and a shaperd
that are killed in a cell are started again, and the run ends well.

usage: leftovers.py BACE EXPERIMENT BACKEND [SEED]

Everything that a run starts inherits a token in its environment; a process
that has it and is still there is a leftover.
"""
import glob
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "common"))
import outcome  # noqa: E402

DEADLINE_S = 5.0
INSIDE = ("agent", "shaperd", "worker")     # must have been hit, so long after the first was there
MENDED = ("agent", "shaperd")
MOMENTS_S = [0.05, 0.3, 0.8, 1.5, 3.0, 5.0]
SKIP = 77
GONE = "was gone by itself"
hit = set()     # what was killed at least once


def text_of(*command):
    try:
        return subprocess.run(command, capture_output=True, text=True, check=False).stdout
    except FileNotFoundError:
        return ""


def files_under(path):
    try:
        return sorted(os.listdir(path))
    except OSError:
        return []


def machine_state():
    """What a lab could leave on the machine, but processes."""
    return {
        "namespaces": files_under("/run/netns") + files_under("/var/run/netns"),
        "links": text_of("ip", "-o", "link", "show").count("\n"),
        "qdiscs": text_of("tc", "qdisc", "show"),
        "iptables": text_of("iptables-legacy-save"),
        "shm": files_under("/dev/shm"),
        "uml": files_under(os.path.expanduser("~/.uml")),
        "mounts": [m for m in open("/proc/self/mounts", encoding="utf-8") if "netns" in m],
    }


def processes(token):
    """pid -> command line of every process with the token."""
    found = {}
    for path in glob.glob("/proc/[0-9]*/environ"):
        pid = int(path.split("/")[2])
        try:
            with open(path, "rb") as f:
                if token.encode() not in f.read():
                    continue
            with open(f"/proc/{pid}/cmdline", "rb") as f:
                line = f.read().replace(b"\0", b" ").decode(errors="replace")
            with open(f"/proc/{pid}/stat", encoding="utf-8") as f:
                zombie = f.read().rsplit(")", 1)[1].split()[0] == "Z"
        except OSError:
            continue
        if not zombie:
            found[pid] = line
    return found


def parent_of(pid):
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8") as f:
            return int(f.read().rsplit(")", 1)[1].split()[1])
    except OSError:
        return 0


def pick(token, what, outer, rng):
    """The process to hit, or None when there is none at this moment."""
    if what == "bace":
        return outer
    names = {"supervisor": ("lab-inner", "lab-uml"), "agent": ("bace-agent",),
             "shaperd": ("bace-shaperd",), "worker": ("bace-worker",)}[what]
    fit = [p for p, line in processes(token).items()
           if p != outer and any(n in line.split(" --worker-dir")[0] for n in names)]
    # A child that has not yet become its worker has its agent's name.
    fit = [p for p in fit if parent_of(p) not in fit]
    return rng.choice(sorted(fit)) if fit else None


def wait_in_cell(token, what, run):
    """The agent of one end of a cell that crosses a link, or the shaperd of its region;
    None: no such cell came. The probes before it have one worker a host."""
    until = time.monotonic() + 60
    while run.poll() is None and time.monotonic() < until:
        lines = processes(token)
        workers = [parent_of(p) for p, line in lines.items() if line.startswith("/") and "bace-worker" in line.split()[0]]
        busy = sorted({p for p in workers if workers.count(p) > 1 and "bace-agent" in lines.get(p, "")})
        if len(busy) > 1 and what == "agent":
            return busy[0]
        if len(busy) > 1:
            words = lines[busy[0]].split()
            region = words[words.index("--name") + 1].rsplit("-", 1)[0]
            return next((p for p, line in lines.items() if f"/{region}-gw.sock" in line and "bace-shaperd" in line), None)
        time.sleep(0.02)
    return None


def wait_for(token, what, run, at_s, rng):
    """One to hit, so long after the first came; None: none came, or the run ended before."""
    until = time.monotonic() + 60
    while run.poll() is None and time.monotonic() < until:
        if pick(token, what, run.pid, rng) is not None:
            break
        time.sleep(0.02)
    time.sleep(at_s)
    while run.poll() is None and time.monotonic() < until:
        victim = pick(token, what, run.pid, rng)
        if victim is not None:
            return victim
        time.sleep(0.02)    # between two cells
    return None


def one(bace, experiment, backend, what, sig, at_s, rng, before):
    token = f"BACE_LEFTOVER_TOKEN={rng.getrandbits(64):016x}"
    key, value = token.split("=")
    with tempfile.TemporaryDirectory(prefix="bace-leftovers-") as tmp:
        env = dict(os.environ, **{key: value}, TMPDIR=tmp)
        run = subprocess.Popen(
            [bace, "--store", os.path.join(tmp, "x.db"), "run", experiment, "--backend", backend],
            env=env, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL)
        if what in MENDED:
            victim = wait_in_cell(token, what, run)
        elif what in INSIDE:
            victim = wait_for(token, what, run, at_s, rng)
        else:
            time.sleep(at_s)
            victim = pick(token, what, run.pid, rng)
        if victim is None and what in INSIDE:
            run.kill()
            run.communicate()
            return f"no {what} to kill came within 60 s"
        if victim is None:
            victim = run.pid
            what += " (not there yet: bace)"
        try:
            os.kill(victim, sig)
            hit.add(what)
        except ProcessLookupError:
            if what in INSIDE:
                run.kill()
                run.communicate()
                return f"the {what} to kill {GONE}"
        if what in INSIDE:
            # The run itself must notice, finish and clean up by itself.
            try:
                run.wait(timeout=120)
            except subprocess.TimeoutExpired:
                run.kill()
                return f"{what}: bace still runs 120 s after"
        until = time.monotonic() + DEADLINE_S
        while time.monotonic() < until and (run.poll() is None or processes(token)):
            time.sleep(0.02)
        left = processes(token)
        if run.poll() is None:
            run.kill()
        said = run.communicate()[1].decode(errors="replace")
        extra = [f for f in os.listdir(tmp) if not f.startswith("x.db") and not f.endswith(".html")]
    after = machine_state()
    if left:
        for pid in left:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        return f"processes left: {left}"
    if extra:
        return f"temporary files left: {extra}"
    if after != before:
        return "; ".join(f"{k}: {before[k]!r} became {after[k]!r}"[:300] for k in before if before[k] != after[k])
    if what not in MENDED:
        return None
    if not re.search(f"the {what} of [^ ]* is gone; starting it again", said):
        return f"the {what} was not started again: {said[-1000:]}"
    if outcome.good(run.returncode, said):
        return None
    if outcome.busy(said) and run.returncode == 1:
        raise outcome.Busy(said[-300:])
    return f"the {what} was started again and the run ended with {run.returncode}: {said[-1000:]}"


def tried(*args):
    for k in range(outcome.TRIES):
        if k:
            outcome.pause(k)
        try:
            why = one(*args)
            return one(*args) if why and why.endswith(GONE) else why
        except outcome.Busy as why:
            busy = why
    return f"too busy, {outcome.TRIES} times: {busy}"


def main():
    bace, experiment, backend = sys.argv[1:4]
    seed = int(sys.argv[4]) if len(sys.argv) > 4 else 1
    rng = random.Random(seed)
    # SIGTERM is taken as SIGINT is: not at the earliest and the latest moment again.
    plan = [((what, sig), at) for what, sig, moments in [
        ("bace", signal.SIGINT, MOMENTS_S), ("bace", signal.SIGTERM, MOMENTS_S[1:-1]),
        ("bace", signal.SIGKILL, MOMENTS_S), ("supervisor", signal.SIGKILL, MOMENTS_S)] for at in moments]
    plan += [((what, signal.SIGKILL), at) for what, at in
             [("agent", 0), ("shaperd", 0), ("worker", 0.05), ("worker", 0.6)]]
    before = machine_state()
    failures = 0
    for (what, sig), at_s in plan:
        at_s *= rng.uniform(0.8, 1.2)
        start = time.monotonic()
        why = tried(bace, experiment, backend, what, sig, at_s, rng, before)
        print(f"{'FAILED' if why else 'ok'}: {sig.name} of {what} at {at_s:.2f} s"
              f" ({time.monotonic() - start:.1f} s){': ' + why if why else ''}", flush=True)
        failures += bool(why)
    # At the first moments it may not be there yet.
    if "supervisor" not in hit:
        print("FAILED: no supervisor was ever there to be killed")
        failures += 1
    print(f"seed {seed}: {len(plan)} cases, {failures} failed")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
