"""Rows of a benchmark written in Python, as tests/bench/table.h has them in C."""
import json
import os
import statistics


def figure(values):
    """Of one number, or of some: their median and spread."""
    v = sorted(values) if isinstance(values, (list, tuple)) else [values]
    return {"median": statistics.median(v), "least": v[0], "most": v[-1], "n": len(v)}


def row(what, unit, ours, peer=None, asked="", met=True):
    """asked: what is asked, in words; met: whether it is so."""
    r = {"what": what, "unit": unit, "ours": figure(ours), "peer": None if peer is None else figure(peer),
         "asked": asked, "met": bool(met)}
    path = os.environ.get("BACE_BENCH_ROWS")
    if path:
        with open(path, "a", encoding="utf-8") as f:
            f.write(json.dumps(r, sort_keys=True) + "\n")
    return r


def ratio(ours, peer):
    return figure(ours)["median"] / figure(peer)["median"]
