#!/usr/bin/env python3
"""An external policy: two regions joined by the widest free link, else the largest
region; first come, first served. docs/policy.md has every field.
    { name = "external"; label = "widest"; command = "python3 widest.py"; }
"""
import json
import sys


def most(job, limit):
    """The most GPUs that this job can have of so many."""
    return max((k for k in job["fits"] if k <= min(job["k_star"], limit)), default=0)


def place(job, free, room):
    """[[region, GPUs], ...], or None: the job waits."""
    for a, b in sorted(room, key=room.get, reverse=True):
        k = most(job, free[a] + free[b])
        if k > 1 and free[a] and free[b] and (b, a) in room:
            first = min(free[a], k - 1)
            return [[a, first], [b, k - first]]
    region = max(free, key=free.get)
    k = most(job, free[region])
    return [[region, k]] if k else None


for line in sys.stdin:
    view = json.loads(line)
    free = {r["name"]: r["free"] for r in view["regions"]}
    room = {(x["src"], x["dst"]): x["capacity_bps"] - x["reserved_bps"] for x in view["links"]}
    placements = []
    for job in view["jobs"]:
        path = place(job, free, room)
        if path is None:
            break  # the head of the queue blocks
        for region, gpus in path:
            free[region] -= gpus
        placements.append({"job": job["name"], "path": path})
    print(json.dumps({"placements": placements}), flush=True)
