#!/usr/bin/env python3
"""What the worker's transport reaches, beside iperf3 and ping in the same run:
goodput of one connection and of four, and one-way latency of the smallest
message. Prints medians and their ratio; asserts nothing.

usage: transport.py [ROUNDS] [SECONDS]
"""
import json
import os
import re
import statistics
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "netns", "worker"))
sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import driver		# noqa: E402
import rows		# noqa: E402
from driver import Job, Worker		# noqa: E402

ROUNDS = int(sys.argv[1]) if len(sys.argv) > 1 else 5
SECONDS = float(sys.argv[2]) if len(sys.argv) > 2 else 2.0		# of each goodput
WHERE = [("bwk-0", "10.99.0.1"), ("bwk-1", "10.99.0.2")]
CONTROL = "cubic"
UNSHAPED_BPS = 8e9		# about, shared with what else runs


def congestion_control():
    have = open("/proc/sys/net/ipv4/tcp_available_congestion_control", encoding="ascii").read().split()
    return CONTROL if CONTROL in have else "reno"


def iperf3(cc, sockets):
    server = subprocess.Popen(["ip", "netns", "exec", "bwk-1", "iperf3", "-s", "-1", "-p", "5201"],
                              stdout=subprocess.DEVNULL)
    time.sleep(0.3)
    # The first 30 % is left out, as the probe does.
    text = driver.output(f"ip netns exec bwk-0 iperf3 -J -c 10.99.0.2 -t {max(1, round(0.7 * SECONDS))} "
                         f"-O {max(1, round(0.3 * SECONDS))} -C {cc} -P {sockets}")
    server.wait()
    return json.loads(text)["end"]["sum_received"]["bits_per_second"]


def probe(cc, samples, seconds):
    server = Worker({"mode": "probe-server", "addr": "10.99.0.2"}, "bwk-1")
    client = Worker({"mode": "probe-client", "addr": "10.99.0.2", "port": server.event()["port"],
                     "rtt_samples": samples, "goodput_s": seconds, "congestion_control": cc,
                     "timeout_ms": 60000}, "bwk-0")
    report = client.event(60)
    server.event()
    client.end()
    server.end()
    return report


def hop(size, count, fwd_ns=0, steps=1, sockets=1):
    """Activations, of measured steps: (operation should have ended, was seen to end, received)."""
    job = Job(2, where=WHERE, schedule="gpipe", bytes=size, micro_batches=count, fwd_ns=fwd_ns, bwd_ns=0, steps=steps,
              warmup_steps=1, sockets=sockets, step_timeout_ms=120000,
              congestion_control=congestion_control()).begin()
    reports = job.done()
    seen = {op[1:3]: (op[6], op[5]) for op in map(tuple, reports[0]["ops"]) if op[3] == 0 and op[1] >= 0}
    return [(*seen[op[1:3]], op[5]) for op in map(tuple, reports[1]["ops"]) if op[3] == 3 and op[1] >= 0]


def hop_goodput(rate_bps, sockets):
    """A stream of messages of 4 MB that keeps the link busy."""
    size = 4000000
    count = max(20, int(SECONDS * rate_bps / 8 / size))
    got = hop(size, count, sockets=sockets)
    # From the end of the first message to that of the last.
    return (len(got) - 1) * size * 8e9 / (max(g[2] for g in got) - min(g[2] for g in got))


def hop_latency_us():
    """(noticed late, under way) of each message."""
    return [((seen - made) / 1e3, (end - seen) / 1e3) for made, seen, end in hop(64, 100, fwd_ns=1000000, steps=3)]


def hop_ping_pong_us():
    """Steps in which nothing is computed: a message there and one back, each from the end of its operation
    to where it is received; and half of the step. Behind the one back the sender has the step's end to send
    and tcp_info to read, while the receiver, which may share its core, wants to run."""
    job = Job(2, where=WHERE, bytes=64, micro_batches=1, fwd_ns=0, bwd_ns=0, steps=1000, warmup_steps=10,
              congestion_control=congestion_control()).begin()
    reports = job.done()
    ends = [{op[1]: op[6] for op in r["ops"] if op[3] == kind} for kind, r in enumerate(reports)]
    there = [(op[5] - ends[0][op[1]]) / 1e3 for op in reports[1]["ops"] if op[3] == 3 and op[1] >= 0]
    back = [(op[5] - ends[1][op[1]]) / 1e3 for op in reports[0]["ops"] if op[3] == 4 and op[1] >= 0]
    return there, back, [(s[3] - s[2]) / 2e3 for s in reports[0]["steps"] if s[1] >= 0]


def ping_us():
    text = driver.output("ip netns exec bwk-0 ping -q -i 0.002 -c 300 10.99.0.2")
    return float(re.search(r"= [\d.]+/([\d.]+)/", text).group(1)) * 1e3 / 2


def goodput(name, cc, rate_bps, sockets):
    ours, streams, theirs = [], [], []
    for i in range(ROUNDS):
        # In turn, so that what else the machine does meets all alike.
        for what in ("ours", "hop", "iperf3") if i % 2 else ("iperf3", "hop", "ours"):
            if what == "ours" and sockets == 1:
                ours.append(probe(cc, 0, SECONDS)["goodput_bps"])
            elif what == "hop":
                streams.append(hop_goodput(rate_bps, sockets))
            elif what == "iperf3":
                theirs.append(iperf3(cc, sockets))
    base = statistics.median(theirs)
    for what, v in (("iperf3", theirs), ("probe", ours), ("hop", streams)):
        if not v:
            continue
        print(f"goodput {name:9s} {sockets} sockets {what:7s} {statistics.median(v) / 1e6:9.1f} Mbit/s  ratio "
              f"{statistics.median(v) / base:.3f}  (n = {len(v)}, {min(v) / 1e6:.1f} to {max(v) / 1e6:.1f})", flush=True)
        if what != "iperf3":
            rows.row(f"goodput {name}, {sockets} sockets, {what} (iperf3)", "Mbit/s", [x / 1e6 for x in v],
                     [x / 1e6 for x in theirs], "ratio >= 0.9", rows.ratio(v, theirs) >= 0.9)


def latency(name, cc):
    half_rtt, there, back, half = [], [], [], []
    for _ in range(ROUNDS):
        # In turn, and a median of each: what else the machine does meets both.
        half_rtt.append(statistics.median(r / 2e3 for r in probe(cc, 1000, 0)["rtt_ns"]))
        for to, v in zip((there, back, half), hop_ping_pong_us()):
            to.append(statistics.median(v))
    bare = statistics.median(half_rtt)
    ways = (("there", there), ("back", back), ("half a step", half))
    for what, v in ways:
        rows.row(f"one-way 64 B {name}, hop {what} (bare ping-pong)", "us", v, half_rtt, "ratio <= 1.3",
                 rows.ratio(v, half_rtt) <= 1.3)
    late, way = zip(*hop_latency_us())
    print(f"one-way 64 B {name}: ping {ping_us():.1f} us (mean RTT/2), ping-pong over TCP {bare:.1f} us (RTT/2), hop "
          + ", ".join(f"{what} {statistics.median(v):.1f} us ({statistics.median(v) / bare:.2f})" for what, v in ways)
          + f" (medians of {ROUNDS} medians of 1000); a hop whose ranks slept for 1 ms {statistics.median(way):.1f} us "
          f"(median, n = {len(way)}, p95 {statistics.quantiles(way, n=100)[94]:.1f}), where the end of the operation "
          f"before is noticed {statistics.median(late):.1f} us late (median)", flush=True)


def body():
    cc = congestion_control()
    print(f"congestion control {cc}, {os.cpu_count()} CPUs, load {os.getloadavg()[0]:.1f}", flush=True)
    for name, rate_bps in (("unshaped", None), ("1 Gbit/s", 1e9)):
        driver.network(2, 1000)
        if rate_bps is None:
            for ns, dev in (("bwk-0", "eth-up"), ("bwk-1", "eth-down")):
                driver.run(f"tc -n {ns} qdisc del dev {dev} root")
        for sockets in (1, 4):
            goodput(name, cc, rate_bps or UNSHAPED_BPS, sockets)
        latency(name, cc)
        driver.remove_network(2)


if __name__ == "__main__":
    driver.main(body)
