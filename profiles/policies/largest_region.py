#!/usr/bin/env python3
"""An external policy: the largest region with room, first come, first served.

One JSON line in (the view and the queue), one JSON line out (placements); see
docs/policy.md for every field. In an experiment:
    { name = "external"; command = "python3 largest_region.py"; timeout = "5s"; }
"""
import json
import sys

for line in sys.stdin:
    view = json.loads(line)
    placements = []
    free = {r["name"]: r["free"] for r in view["regions"]}
    for job in view["jobs"]:
        region = max(free, key=free.get)
        k = max((k for k in job["fits"] if k <= min(job["k_star"], free[region])), default=0)
        if k == 0:
            break  # the head of the queue blocks
        placements.append({"job": job["name"], "path": [[region, k]]})
        free[region] -= k
    print(json.dumps({"placements": placements}), flush=True)
