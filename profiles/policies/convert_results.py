#!/usr/bin/env python3
"""Example: turns a simulator's log into the two files that `bace compare --sim`
reads. The log has one JSON object a job:

    {"scheduler": "mine", "job": "gpt2-a", "path": "ireland:2,frankfurt:2",
     "iteration_ms": 1840, "finished_at": 42.0, "submitted_at": 0.0}

usage: convert_results.py LOG MY.csv MY.json
"""
import csv
import json
import sys


def main(log, table, placements):
    with open(log, encoding="utf-8") as f:
        jobs = [json.loads(line) for line in f if line.strip()]
    with open(table, "w", newline="", encoding="utf-8") as f:
        out = csv.writer(f, lineterminator="\n")
        out.writerow(["policy", "job", "step_s", "jct_s"])
        for j in jobs:
            out.writerow([j["scheduler"], j["job"], j["iteration_ms"] / 1000, j["finished_at"] - j["submitted_at"]])
    with open(placements, "w", encoding="utf-8") as f:
        json.dump([{"policy": j["scheduler"], "job": j["job"],
                    "placement": [[part.split(":")[0], int(part.split(":")[1])] for part in j["path"].split(",")]}
                   for j in jobs], f, indent=1)


main(*sys.argv[1:])
