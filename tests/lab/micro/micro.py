#!/usr/bin/env python3
"""`bace p2p` and `bace allreduce` on the links of tiny: a row for every size that was
asked for, and no link gives more than it has or is faster than it is long.

usage: micro.py BACE EXPERIMENT
"""
import json
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "common"))
import outcome  # noqa: E402

# profiles/links/aws-skyplane.cfg, between ireland and frankfurt, either way; tiny's
# scale; of a packet of 1514 bytes 1448 are goodput.
RATE_BPS = 4872e6
LATENCY_S = (0.01113 + 0.01137) / 2
SCALE_BYTES, SCALE_TIME = 0.01, 0.5
GOODPUT_BPS = RATE_BPS * SCALE_BYTES / SCALE_TIME * 1448 / 1514
ONE_WAY_S = LATENCY_S * SCALE_TIME
# What a bucket lets through at once, and a clock's grain.
TOLERANCE = 0.02
# What a busy machine reads late is counted where it is read.
LATE = 0.3
SIZES = (64, 128000)


def run(bace, command, experiment, sizes):
    out = json.loads(outcome.bace(bace, "--json", command, experiment, "--sizes",
                                  ",".join(f"{s}B" for s in sizes)).stdout)
    assert [row["bytes"] for row in out["sizes"]] == list(sizes), out
    return out


def p2p(bace, experiment):
    out = run(bace, "p2p", experiment, SIZES)
    assert (out["from"], out["to"]) == ("ireland", "frankfurt"), out
    for row in out["sizes"]:
        print(f"p2p {row['bytes']} B: one way {row['one_way_s'] * 1e3:.3f} ms, latency {ONE_WAY_S * 1e3:.3f} ms, goodput "
              f"{row['goodput_bps'] / 1e6:.2f} of {GOODPUT_BPS / 1e6:.2f} Mbit/s")
        assert ONE_WAY_S * (1 - TOLERANCE) <= row["one_way_s"] <= row["one_way_p95_s"], row
        assert abs(row["planned_goodput_bps"] / GOODPUT_BPS - 1) < TOLERANCE, row
        assert 0 < row["goodput_bps"] <= GOODPUT_BPS * (1 + LATE), row
        assert row["messages"] >= 4, row
    small, large = out["sizes"]
    # Headers take most of the smallest packets.
    assert small["goodput_bps"] < 0.6 * GOODPUT_BPS, out
    if large["goodput_bps"] < 0.6 * GOODPUT_BPS:
        raise outcome.Busy(f"p2p: {large}")
    assert abs(small["planned_one_way_s"] / ONE_WAY_S - 1) < TOLERANCE, small
    assert large["one_way_s"] > small["one_way_s"], out


def allreduce(bace, experiment):
    sizes = (1000, 256000)
    out = run(bace, "allreduce", experiment, sizes)
    assert out["ring"] == ["ireland", "frankfurt"], out
    for row in out["sizes"]:
        print(f"allreduce {row['bytes']} B: {row['time_s'] * 1e3:.3f} ms, planned {row['planned_s'] * 1e3:.3f}, busbw "
              f"{row['busbw_bps'] / 1e6:.2f} of {GOODPUT_BPS / 1e6:.2f} Mbit/s")
        # Two rounds, each of which crosses a link.
        assert 2 * ONE_WAY_S * (1 - TOLERANCE) <= row["time_s"] <= row["time_p95_s"], row
        assert abs(row["algbw_bps"] * row["time_s"] / row["bytes"] / 8 - 1) < 1e-6, row
        assert abs(row["busbw_bps"] / row["algbw_bps"] - 1) < 1e-6, row		# 2 (D - 1) / D of two
        assert 0 < row["busbw_bps"] <= GOODPUT_BPS * (1 + LATE), row
        assert row["n"] >= 5, row
    assert out["sizes"][1]["time_s"] > out["sizes"][0]["time_s"], out
    if out["sizes"][1]["busbw_bps"] < 0.3 * GOODPUT_BPS:
        raise outcome.Busy(f"allreduce: {out['sizes'][1]}")


def main():
    bace, experiment = sys.argv[1:3]
    return max(outcome.tried(lambda c=c: c(bace, experiment)) for c in (p2p, allreduce))


sys.exit(main())
