#!/usr/bin/env python3
"""An external policy: each job where another simulator had it, so that its placements
are measured and `bace compare --sim` has something to compare. In the file's order;
a job waits until its GPUs are free.

usage: replay.py MY.json POLICY      MY.json as docs/compare.md has it
"""
import json
import sys

with open(sys.argv[1], encoding="utf-8") as f:
    plan = [p for p in json.load(f) if p["policy"] == sys.argv[2]]
for line in sys.stdin:
    view = json.loads(line)
    free = {r["name"]: r["free"] for r in view["regions"]}
    waiting = {j["name"] for j in view["jobs"]}
    placements = []
    for p in plan:
        if p["job"] not in waiting:
            continue
        if any(free[region] < gpus for region, gpus in p["placement"]):
            break
        for region, gpus in p["placement"]:
            free[region] -= gpus
        placements.append({"job": p["job"], "path": p["placement"]})
    print(json.dumps({"placements": placements}), flush=True)
