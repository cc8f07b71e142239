#!/usr/bin/env python3
"""A cause of slow messages is provoked, and bace compare names it.

usage: causes.py BACE BACKEND CAUSE...

Pipelines of two stages over one link of 20 Mbit/s and 40 ms each way, placed by
an external policy; a message of 100 kB takes 42 ms of it, and 82 ms in all.

  retransmission  one packet in twenty is lost
  cwnd            stock TCP: slow start after every pause (of the kernel's own
                  congestion control, so where that is not bbr)
  buffer          sockets hold 16 kB at most
  contention      two pipelines that send all they have in one phase of a step, of
                  which event simulation knows the average load alone
  none            nothing: messages are in time

A machine that was too busy for a cell says so; then all is tried again, three
times in all.
"""
import json
import os
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "common"))
import outcome  # noqa: E402
from outcome import Busy  # noqa: E402

CLUSTER = """
regions_file = "ring"; links_file = "./links.cfg"; prices_file = "flat"; gpu = "A6000"; bandwidth = "10gbit";
regions = ( { name = "r0"; gpus = 4; }, { name = "r1"; gpus = 4; } );
"""
LINKS = """
mtu = 1500;
links = ( { from = "r0"; to = "r1"; both_ways = true; rate = "20mbit"; latency = "40ms"; buffer = "2MB"; %s } );
"""
MODELS = """
models = ( { name = "two"; params = 2; layers = 2; hidden = 1; seq = 1;
  measured = { forward = "%dms"; backward = "%dms"; boundary = "100kB"; }; } );
"""
JOB = '{ name = "%s"; model = "two"; micro_batches = %d; steps = 3; }'
EXPERIMENT = """
cluster = "./cluster.cfg"; jobs = "./jobs.cfg"; models_file = "./models.cfg";
k_limit = 2; schedule = "gpipe"; oracles = ["closed-form", "event-sim", "measured"];
policies = ( { name = "external"; command = "python3 %s"; timeout = "10s"; } );
testbed = { warmup_steps = 1; steps = 2; verify_s = 0; wan = "%s"; backend = "%s"; %s };
"""
POLICY = """
import json, sys
for line in sys.stdin:
    view = json.loads(line)
    print(json.dumps({"placements": [{"job": j["name"], "path": [["r0", 1], ["r1", 1]]} for j in view["jobs"]]}),
          flush=True)
"""


def bace(*args):
    return outcome.bace(*args).stdout


def write(directory, name, text):
    path = os.path.join(directory, name)
    with open(path, "w", encoding="utf-8") as f:
        f.write(text)
    return path


def gaps(program, backend, cause, directory):
    two = cause == "contention"
    jobs = ["a", "b"] if two else ["a"]
    write(directory, "cluster.cfg", CLUSTER)
    write(directory, "links.cfg", LINKS % ("loss = 0.05;" if cause == "retransmission" else ""))
    write(directory, "models.cfg", MODELS % ((80, 480) if two else (400, 800)))
    write(directory, "jobs.cfg", "jobs = (" + ", ".join(JOB % (j, 6 if two else 2) for j in jobs) + ");")
    policy = write(directory, "policy.py", POLICY)
    experiment = write(directory, "x.cfg", EXPERIMENT % (
        policy, "stock" if cause == "cwnd" else "steady", backend,
        'socket_buffer = "16kB";' if cause == "buffer" else ""))
    store = os.path.join(directory, "x.db")
    bace(program, "--store", store, "run", experiment, "--no-report")
    text = bace(program, "--store", store, "compare", "last")
    assert "Why messages were slower than planned" in text, text
    answer = json.loads(bace(program, "--store", store, "--json", "compare", "last"))
    # The one that ends last may run alone at the end.
    return [p["gap"] for p in answer["placements"]][:len(jobs)], text


def blame(right, cause, gap):
    """Other work on the machine makes messages slower as well, and has its part of the blame."""
    if not right:
        raise Busy(f"{cause} is not what it was named: {gap}")


def check(gap, cause):
    why = gap["messages_slower_by"]
    slower, step = gap["messages_slower_s"], gap["measured_mean_s"]
    print(f"{cause}: a step of {step:.3f} s is {slower / step:+.1%} through slower messages, of it",
          ", ".join(f"{k[:-2]} {v / step:+.1%}" for k, v in why.items()))
    assert abs(sum(why.values()) - slower) < 0.02 * abs(slower) + 1e-9, gap
    whole = gap["computation_late_s"] + slower + gap["waiting_s"] + gap["unexplained_s"]
    assert abs(whole - (step - gap["event_sim_s"])) < 0.02 * abs(whole) + 1e-6, gap
    if cause == "none":
        if abs(slower) > 0.02 * step:
            raise Busy(f"slower by {slower} s with nothing to cause it")
        return
    # So much was provoked that it cannot be the machine.
    assert slower > 0.02 * step, gap
    named, least = why[cause + "_s"], 0.5
    if cause == "retransmission":
        # What is lost closes the window, too: the two share the blame, as the draw has it.
        blame(named > 0.25 * slower, cause, gap)
        named, least = named + why["cwnd_s"], 0.7
    blame(named > least * slower, cause, gap)


def main():
    program, backend, causes = sys.argv[1], sys.argv[2], sys.argv[3:]

    def attempt(cause):
        text = ""
        with tempfile.TemporaryDirectory(prefix="bace-causes-test-") as directory:
            try:
                found, text = gaps(program, backend, cause, directory)
                for gap in found:
                    check(gap, cause)
            except AssertionError:
                print(text)
                raise

    return max(outcome.tried(lambda c=cause: attempt(c)) for cause in causes)


sys.exit(main())
