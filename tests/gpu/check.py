"""The GPU check's runs and its table; run.sh starts it."""
import os
import re
import statistics
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "netns", "nccl"))
from ranks import Ranks, driver			# noqa: E402  pylint: disable=wrong-import-position

N = 4
MBIT = 1000
DELAY_MS = 10.0			# one-way, by netem, where the kernel has it
MTU = 1500
GOODPUT = (MTU - 52) / (MTU + 14)	# of the rate: Ethernet, IPv4 and TCP with timestamps
WHERE = [(f"bwk-{i}", f"10.98.{i}.1") for i in range(N)]
TARGET = 0.05			# median step against the event simulation, timed compute
DEADLINE_S = 3.0		# of a step, in the runs that fail
SLACK_S = 6.0			# to notice, to abort, to end
PATIENCE_S = 30.0		# to wait for it, however late
POWER = (0.3, 3)		# of the model: a unit or a counter that is wrong is farther off
BYTES = 1000000
STAND_IN = bool(os.environ.get("BACE_STAND_IN"))
STEPS = 2 if STAND_IN else 5
ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")

rows = []


def row(what, measured, wanted, good, timing=False):
    """good: True, False, or None where there is nothing to be judged by, which are
    times of the stand-in too."""
    good = None if timing and STAND_IN else good
    rows.append((what, measured, wanted, {True: "yes", False: "NO", None: "-"}[good]))
    print(f"  {what}: {measured}", flush=True)


def guarded(what):
    """A part that fails is a row, not the end of the check."""
    def wrap(fn):
        def run(*args):
            print(f"{what} ...", flush=True)
            try:
                fn(*args)
            except Exception as e:		# pylint: disable=broad-except
                row(what, f"{type(e).__name__}: {str(e)[:200]}", "ends as it should", False)
        return run
    return wrap


# ---- the network: every rank's namespace on a link of its own to a router ----

def shape(ns, dev):
    burst = max(2 * MTU + 28, MBIT * 1000000 // 8 // 4000)
    driver.run(f"tc -n {ns} qdisc add dev {dev} root handle 1: htb default 1;"
               f"tc -n {ns} class add dev {dev} parent 1: classid 1:1 htb rate {MBIT}mbit burst {burst} cburst {burst}"
               f" quantum 60000; tc -n {ns} qdisc add dev {dev} parent 1:1 bfifo limit 64000000")


def kernel_has_netem():
    driver.run("ip netns add bwk-try; ip -n bwk-try link add d0 type veth peer name d1")
    r = subprocess.run("tc -n bwk-try qdisc add dev d0 root netem delay 1ms", shell=True, capture_output=True, check=False)
    driver.run("ip netns del bwk-try")
    return r.returncode == 0


def network(netem):
    driver.run("ip netns add bwk-r; ip -n bwk-r link set lo up; ip netns exec bwk-r sysctl -qw net.ipv4.ip_forward=1")
    for i in range(N):
        ns = f"bwk-{i}"
        driver.run(f"ip netns add {ns}; ip -n {ns} link set lo up;"
                   f"ip netns exec {ns} sysctl -qw net.ipv6.conf.default.disable_ipv6=1;"
                   f"ip link add eth0 netns {ns} type veth peer name to{i} netns bwk-r;"
                   f"ip -n {ns} addr add 10.98.{i}.1/24 dev eth0; ip -n bwk-r addr add 10.98.{i}.254/24 dev to{i};"
                   f"ip -n {ns} link set eth0 up; ip -n bwk-r link set to{i} up;"
                   f"ip -n {ns} route add default via 10.98.{i}.254 initcwnd 2000 initrwnd 2000;"
                   f"ip netns exec {ns} sysctl -qw net.ipv4.tcp_rmem='4096 131072 67108864'"
                   f" net.ipv4.tcp_wmem='4096 131072 67108864' net.ipv4.tcp_slow_start_after_idle=0")
        # The rate at the sender, the delay on the way to the receiver.
        shape(ns, "eth0")
        if netem:
            driver.run(f"tc -n bwk-r qdisc add dev to{i} root netem delay {DELAY_MS}ms limit 100000")


def remove_network():
    for ns in [f"bwk-{i}" for i in range(N)] + ["bwk-r"]:
        driver.run(f"ip netns del {ns}")


def tc_bytes():
    return [driver.counted_bytes(f"bwk-{i}", "eth0") for i in range(N)]


# ---- runs ----

def job(stages=N, **options):
    return Ranks(stages, **{"where": WHERE[:stages], "bytes": BYTES, "connect_timeout_ms": 60000,
                            "step_timeout_ms": 30000, **options})


def finished(j):
    try:
        return j.start().connect().ready().go().done()
    finally:
        j.kill()


def step_times(reports):
    """Of the job: from its first start to its last end, each measured step."""
    steps = {}
    for r in reports:
        for _, step, start, end, _ in r["steps"]:
            if step >= 0:
                a, b = steps.get(step, (start, end))
                steps[step] = (min(a, start), max(b, end))
    return [(b - a) / 1e9 for a, b in steps.values()]


def predicted(schedule, m, tf, tb, delay_s, bytes_):
    out = subprocess.run([os.environ["BACE_PREDICT"], schedule, str(N), str(m), str(tf), str(tb), str(delay_s),
                          str(bytes_ * 8 / (MBIT * 1e6 * GOODPUT))], check=True, capture_output=True, text=True)
    return float(out.stdout)


def mean_compute(reports, kind):
    """Seconds that an operation of that kind took, measured steps."""
    return statistics.mean((op[6] - op[4]) / 1e9 for r in reports for op in r["ops"] if op[3] == kind and op[1] >= 0)


@guarded("p2p")
def p2p(delay_s):
    for size in (65536, 1000000, 8000000):
        m = 24
        reports = finished(job(2, schedule="gpipe", micro_batches=m, bytes=size, fwd_ns=0, bwd_ns=0, steps=3))
        rates = []
        for step in range(3):
            ends = sorted(op[5] for op in reports[1]["ops"] if op[3] == 3 and op[1] == step)
            rates.append((m - 1) * size * 8 / ((ends[-1] - ends[0]) / 1e9))
        rate, limit = statistics.median(rates), MBIT * 1e6 * GOODPUT
        # The shaper's burst and the receiver's polling help and hurt the small ones.
        row(f"p2p, {m} messages of {size} B, at the receiver", f"{rate / 1e6:.0f} Mbit/s",
            f"{limit / 1e6:.0f} Mbit/s +-5 % (8 MB)", abs(rate / limit - 1) < TARGET if size == 8000000 else None, timing=True)
    reports = finished(job(2, schedule="gpipe", micro_batches=1, bytes=64, fwd_ns=0, bwd_ns=0, steps=STEPS * 4))
    half = statistics.median(step_times(reports)) / 2
    row("p2p, one-way, 64 B and back", f"{half * 1e3:.2f} ms", f"> {delay_s * 1e3:.0f} ms" if delay_s else "no delay",
        half > delay_s if delay_s else None)


@guarded("1f1b")
def pipeline(compute, delay_s):
    m, tf, tb = 8, 0.02, 0.04
    before = tc_bytes()
    reports = finished(job(micro_batches=m, fwd_ns=int(tf * 1e9), bwd_ns=int(tb * 1e9), steps=STEPS, compute=compute))
    counted = sum(b - a for a, b in zip(before, tc_bytes()))
    times = step_times(reports)
    median, what = statistics.median(times), f"1f1b, p {N}, m {m}, {compute}"
    if compute == "cuda":
        tf, tb = mean_compute(reports, 0), mean_compute(reports, 1)
        c = reports[0]["compute"]
        row(f"{what}: product {c['gemm_n']}^3", f"{c['flops'] / 1e12:.1f} TFLOP/s", "calibrated alone or shared", None)
        row(f"{what}: forward, backward", f"{tf * 1e3:.1f}, {tb * 1e3:.1f} ms", "20, 40 ms if the GPU were not shared", None)
    want = predicted("1f1b", m, tf, tb, delay_s, BYTES)
    row(f"{what}: step, median of {len(times)}", f"{median * 1e3:.1f} ms",
        f"{want * 1e3:.1f} ms simulated" + (" +-5 %" if compute == "timed" else ", of the measured operations"),
        abs(median / want - 1) <= TARGET if compute == "timed" else None, timing=True)
    payload = sum(f["payload_bytes"] for r in reports for f in r["flows"])
    wire = sum(f["wire_bytes"] for r in reports for f in r["flows"])
    row(f"{what}: tc, sockets, payload", f"{counted}, {wire}, {payload} B", "sockets within 2 % of tc, above payload",
        payload < counted and abs(wire / counted - 1) < 0.02)
    ways = {p.split(" via ")[1] for r in reports for p in r["nccl"]["paths"]}
    row(f"{what}: NCCL's log", ", ".join(sorted(ways)), "NET/Socket alone", bool(ways) and all(w.startswith("NET/Socket/") for w in ways))
    energy(what, compute, reports)


def profile_of(name):
    """(idle, active) watts of the first profile whose type is in the GPU's name."""
    if STAND_IN:
        return 50, 150			# it always draws 100
    with open(os.path.join(ROOT, "profiles", "gpus", "gpus.cfg"), encoding="utf-8") as f:
        text = f.read()
    for kind, active, idle in re.findall(r'\{ name = "([^"]+)"; active_w = (\d+); idle_ctx_w = (\d+);', text):
        if kind.split("-")[0] in re.split(r"[ -]", name):
            return int(idle), int(active)
    return None


def energy(what, compute, reports):
    gpu = reports[0]["nccl"]["gpu"]
    if "energy_j" not in gpu:
        row(f"{what}: energy", "no counter", "NVML", None)
        return
    watts = gpu["energy_j"] / gpu["seconds"]
    start = min(s[2] for r in reports for s in r["steps"])
    end = max(s[3] for r in reports for s in r["steps"])
    # One GPU for all ranks: it is busy when any of them is.
    busy, at = 0, start
    for op in sorted((o for r in reports for o in r["ops"] if o[3] <= 2), key=lambda o: o[4]):
        busy += max(0, op[6] - max(at, op[4]))
        at = max(at, op[6])
    profile, share = profile_of(gpu["name"]), busy / (end - start)
    measured = f"{gpu['energy_j']:.0f} J, {watts:.0f} W"
    if not profile:
        row(f"{what}: energy of {gpu['name']}", measured, "no profile of this GPU", None)
        return
    # A timer draws what waiting does.
    model = profile[0] + (share * (profile[1] - profile[0]) if compute == "cuda" else 0)
    row(f"{what}: energy of {gpu['name']}", measured,
        f"model: {model:.0f} W at {share:.2f} busy, x {POWER[0]} to {POWER[1]}", POWER[0] <= watts / model <= POWER[1])


@guarded("faults")
def fault(what, hurt, victims):
    """Every rank but the victims ends within the deadline, with an error."""
    j = job(micro_batches=4, fwd_ns=40000000, bwd_ns=80000000, steps=100, warmup_steps=0,
            step_timeout_ms=int(DEADLINE_S * 1e3))
    try:
        j.start().connect().ready().go()
        time.sleep(1.5)
        hurt(j)
        at, late, texts, ended = time.monotonic(), 0.0, [], 0
        for s, rank in enumerate(j.ranks):
            if s in victims:
                continue
            e = rank.event(PATIENCE_S)
            status = rank.end(PATIENCE_S)
            late = max(late, time.monotonic() - at)
            good = bool(e) and e["event"] == "error" and status == 1
            ended += good
            texts.append(e["text"] if good else f"rank {s}: {e}, status {status}")
        wanted = len(j.ranks) - len(victims)
        row(f"{what}: ranks that said where they were", f"{ended}, with status 1", f"{wanted}", ended == wanted)
        row(f"{what}: the last ended", f"after {late:.1f} s", f"within {DEADLINE_S + SLACK_S:.0f} s",
            late <= DEADLINE_S + SLACK_S, timing=True)
        print("   ", "\n    ".join(texts), flush=True)
    finally:
        j.kill()


def table():
    widths = [max(len(r[i]) for r in rows + [("what", "measured", "wanted", "good")]) for i in range(4)]
    print()
    for r in [("what", "measured", "wanted", "good")] + rows:
        print("  ".join(c.ljust(w) for c, w in zip(r, widths)).rstrip())


def body():
    netem = kernel_has_netem()
    delay_s = DELAY_MS / 1e3 if netem else 0.0
    kind = "the stand-in: nothing here is NCCL's or a GPU's" if STAND_IN else "CUDA and NCCL"
    print(f"{kind}; {os.cpu_count()} processors, Linux {os.uname().release}")
    print(f"links: HTB at {MBIT} Mbit/s, " + (f"netem {DELAY_MS:.0f} ms one-way" if netem else
          "no delay: this kernel has no netem"))
    network(netem)
    try:
        p2p(delay_s)
        pipeline("timed", delay_s)
        pipeline("cuda", delay_s)
        fault("rank 1 killed", lambda j: j.ranks[1].kill(), (1,))
        fault("link of rank 2 down", lambda j: driver.run("ip -n bwk-2 link set eth0 down"), ())
    finally:
        remove_network()
    left = driver.left_running()
    row("left running", f"{len(left)} processes", "0", not left)
    table()
    return 1 if any(r[3] == "NO" for r in rows) else 0


driver.main(body)
