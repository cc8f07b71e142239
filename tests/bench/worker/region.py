#!/usr/bin/env python3
"""What one worker that plays many stages in one event loop costs in accuracy
(ranks = "region"): 640 stages at once, of 20 and of 50 ms; and the step time of
one pipeline played by one worker, and by a worker a stage. Measured against the
exact step time of 1f1b without communication, (m + p - 1)(t_F + t_B), or with
latency c, by medians. Prints; asserts nothing.

usage: region.py [STAGES_IN_ALL]
"""
import os
import statistics
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "netns", "worker"))
sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import driver		# noqa: E402
import rows		# noqa: E402
from driver import Job, Worker		# noqa: E402

PIPELINE = 80			# stages of one worker
STEPS = 3


def spec(stages, micro_batches, fwd_ns, bwd_ns, latency_ns=0, steps=STEPS):
    hop = {"kind": "local", "role": "internal", "bytes": 64, "rate_bps": 0, "latency_ns": latency_ns}
    return {"mode": "pipeline", "job": 0, "name": "region", "schedule": "1f1b", "chunks": 1,
            "micro_batches": micro_batches, "n_stages": stages, "overlap": True, "timeline": "ops",
            "stages": [{"stage": s, "fwd_ns": fwd_ns, "bwd_ns": bwd_ns, "w_ns": 0} for s in range(stages)],
            "hops": [{**hop, "hop": h} for h in range(stages - 1)], "warmup_steps": 0, "steps": steps,
            "congestion_control": "", "connect_timeout_ms": 20000, "step_timeout_ms": 120000}


def play(specs):
    """Reports of workers that begin together."""
    workers = [Worker(s) for s in specs]
    for w in workers:
        w.tell({"cmd": "connect", "hops": []})
    for w in workers:
        assert w.event()["event"] == "ready"
    at = time.monotonic_ns() + 100000000
    for w in workers:
        w.tell({"cmd": "go", "at_ns": at})
    reports = [w.event(600) for w in workers]
    for w in workers:
        status = w.end()
        assert status == 0, (status, w.errors)
    return reports


def step_times_s(reports):
    """Of one job: by step, first start to last end over its stages."""
    times = {}
    for r in reports:
        for _, step, start, end, _ in r["steps"]:
            first, last = times.get(step, (start, end))
            times[step] = (min(first, start), max(last, end))
    return [(b - a) / 1e9 for step, (a, b) in sorted(times.items()) if step >= 0]


def many(total, stage_ms):
    fwd = bwd = int(stage_ms * 1e6)
    n = total // PIPELINE
    reports = play([spec(PIPELINE, PIPELINE, fwd, bwd, steps=1)] * n)
    exact = (2 * PIPELINE - 1) * (fwd + bwd) / 1e9
    times = [t for r in reports for t in step_times_s([r])]
    errors = [t / exact - 1 for t in times]
    most = 0.02 if stage_ms < 50 else 0.01
    rows.row(f"step of {n * PIPELINE} stages of {stage_ms} ms in {n} workers (exact)", "s", times, exact,
             f"ratio 1 +- {most}", abs(rows.ratio(times, exact) - 1) <= most)
    print(f"{n * PIPELINE} stages of {stage_ms} ms in {n} workers: {n * PIPELINE * PIPELINE * 2 / exact:.0f} operations/s, "
          f"step {statistics.median(errors):+.3%} (median), {max(errors, key=abs):+.3%} (worst); noticed late p50 "
          f"{statistics.median(r['lateness_p50_ns'] for r in reports) / 1e6:.2f} ms, p99 "
          f"{max(r['lateness_p99_ns'] for r in reports) / 1e6:.2f} ms", flush=True)


def one_or_many(stages, micro_batches, latency_ms):
    fwd, bwd, latency = 20000000, 40000000, int(latency_ms * 1e6)
    together = step_times_s(play([spec(stages, micro_batches, fwd, bwd, latency)]))
    apart = step_times_s(Job(stages, kind="local", bytes=64, latency_ns=latency, fwd_ns=fwd, bwd_ns=bwd,
                             micro_batches=micro_batches, warmup_steps=0, steps=STEPS).begin().done())
    exact = (micro_batches + stages - 1) * (fwd + bwd) + 2 * latency * ((stages - 1) * micro_batches // stages + stages - 2)
    a, b = statistics.median(together), statistics.median(apart)
    rows.row(f"step of a worker a stage, p = {stages}, m = {micro_batches}, c = {latency_ms} ms (one worker)", "s", apart,
             together, "ratio 1 +- 0.02", abs(b / a - 1) <= 0.02)
    print(f"p = {stages}, m = {micro_batches}, c = {latency_ms} ms: exact {exact / 1e9:.4f} s, one worker {a:.4f} s "
          f"({a * 1e9 / exact - 1:+.3%}), a worker a stage {b:.4f} s ({b * 1e9 / exact - 1:+.3%}), difference "
          f"{b / a - 1:+.3%} (medians of {STEPS})", flush=True)


def body():
    total = int(sys.argv[1]) if len(sys.argv) > 1 else 640
    print(f"{os.cpu_count()} CPUs, load {os.getloadavg()[0]:.1f}", flush=True)
    many(total, 20)
    many(total, 50)
    for p, m, c in ((4, 8, 0), (8, 16, 0), (8, 16, 5)):
        one_or_many(p, m, c)
    return 0


if __name__ == "__main__":
    driver.main(body)
