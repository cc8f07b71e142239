"""Plays the agent for real bace-worker processes, in a sandbox of its own.

A test calls main(): it runs again inside new network, mount and pid namespaces
(a user namespace as well where it is not root), in which nothing outlives it.
"""
import json
import os
import re
import selectors
import subprocess
import sys
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "common"))
import outcome  # noqa: E402  pylint: disable=wrong-import-position

WORKER = os.environ.get("BACE_WORKER", "bace-worker")
SKIP = 77
PATIENCE_S = 30.0		# for what should take no time at all
INSIDE = "BACE_WORKER_TEST_INSIDE"


def main(body=None):
    """body: instead of the tests of the program itself."""
    if os.environ.get(INSIDE):
        subprocess.run(["mount", "-t", "tmpfs", "tmpfs", "/run"], check=True)
        os.makedirs("/run/netns")
        os.makedirs("/run/lock", exist_ok=True)
        run("ip link set lo up")
        if body:
            sys.exit(body())
        sys.exit(outcome.ended(unittest.main(verbosity=2, warnings="ignore", exit=False).result))
    command = ["unshare", "--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
    if os.geteuid() != 0:
        command += ["--user", "--map-root-user"]
    refused = subprocess.run(command + ["true"], capture_output=True, text=True, check=False)
    if refused.returncode:
        print("skipped: namespaces are refused here:", refused.stderr.strip())
        sys.exit(SKIP)
    os.environ[INSIDE] = "1"
    os.environ["XTABLES_LOCKFILE"] = "/run/xtables.lock"
    os.environ["PATH"] = "/usr/local/sbin:/usr/sbin:/sbin:" + os.environ["PATH"]
    os.execvp(command[0], command + [sys.executable] + sys.argv)


def run(command):
    subprocess.run(["sh", "-ec", command], check=True)


def output(command):
    return subprocess.run(["sh", "-ec", command], check=True, capture_output=True, text=True).stdout


def network(n, mbit=40000):
    """Namespaces bwk-0 ... bwk-(n-1) in a ring; the link from i to i + 1 is 10.99.i.0/24,
    eth-up at .1 and eth-down at .2; all that leaves either counts in an HTB class."""
    burst = max(3028, mbit * 1000000 // 8 // 4000)		# 0.25 ms, as shaped links have it
    for i in range(n):
        run(f"ip netns add bwk-{i}; ip -n bwk-{i} link set lo up;"
            f"ip netns exec bwk-{i} sysctl -qw net.ipv6.conf.default.disable_ipv6=1")
    for i in range(n if n > 2 else n - 1):
        k = (i + 1) % n
        run(f"ip link add eth-up netns bwk-{i} type veth peer name eth-down netns bwk-{k};"
            f"ip -n bwk-{i} addr add 10.99.{i}.1/24 dev eth-up; ip -n bwk-{k} addr add 10.99.{i}.2/24 dev eth-down;"
            f"ip -n bwk-{i} link set eth-up up; ip -n bwk-{k} link set eth-down up")
        for ns, dev in ((f"bwk-{i}", "eth-up"), (f"bwk-{k}", "eth-down")):
            run(f"tc -n {ns} qdisc add dev {dev} root handle 1: htb default 1;"
                f"tc -n {ns} class add dev {dev} parent 1: classid 1:1 htb rate {mbit}mbit burst {burst} cburst {burst} quantum 60000")


def remove_network(n):
    for i in range(n):
        run(f"ip netns del bwk-{i}")


def counted_bytes(ns, dev):
    """What the HTB class has let through, L2."""
    return int(re.search(r"class htb 1:1 .*?Sent (\d+) bytes", output(f"tc -n {ns} -s class show dev {dev}"),
                         re.DOTALL).group(1))


def left_running(patience_s=5.0):
    """Command lines of what still runs in the sandbox, whose PID 1 adopts all orphans."""
    until = time.monotonic() + patience_s
    while True:
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return []
        if time.monotonic() > until:
            break
        time.sleep(0.01)
    with open(f"/proc/{os.getpid()}/task/{os.getpid()}/children", encoding="ascii") as f:
        pids = f.read().split()
    return [open(f"/proc/{pid}/cmdline", encoding="utf-8").read().replace("\0", " ") for pid in pids]


class Worker:
    def __init__(self, spec=None, ns=None):
        command = ["ip", "netns", "exec", ns, WORKER] if ns else [WORKER]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE)
        self.errors = None
        self._text = b""
        self._select = selectors.DefaultSelector()
        self._select.register(self.process.stdout, selectors.EVENT_READ)
        if spec is not None:
            self.tell(spec)

    def tell(self, command):
        self.process.stdin.write(json.dumps(command).encode() + b"\n")
        self.process.stdin.flush()

    def event(self, timeout=PATIENCE_S):
        """The next event; None: it ended, or said nothing in time."""
        until = time.monotonic() + timeout
        while b"\n" not in self._text:
            if not self._select.select(max(0, until - time.monotonic())):
                return None
            piece = os.read(self.process.stdout.fileno(), 1 << 20)
            if not piece:
                return None
            self._text += piece
        line, self._text = self._text.split(b"\n", 1)
        return json.loads(line)

    def hang_up(self):
        self.process.stdin.close()
        self.process.stdin = None

    def end(self, timeout=PATIENCE_S):
        """Exit status once it has ended by itself; its standard error is in errors."""
        if self.errors is not None:
            return self.process.returncode
        try:
            _, text = self.process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            self.kill()
            raise
        self.errors = text.decode().splitlines()
        return self.process.returncode

    def kill(self):
        if self.process.poll() is None:
            self.process.kill()
        _, text = self.process.communicate()
        self.errors = text.decode().splitlines()


class Job:
    """A rank a stage. `where`: where the ranks' namespaces and addresses are, one
    (namespace, address it listens at) a stage; a hop's peer connects there."""

    def __init__(self, stages, where=None, **options):
        self.n = stages
        self.where = where or [(None, "127.0.0.1")] * stages
        self.options = options
        self.n_hops = stages if options.get("schedule") == "interleaved-1f1b" else stages - 1
        self.ports = {}
        self.ranks = []

    def _hop(self, hop, stage):
        h = {"hop": hop, "kind": self.options.get("kind", "tcp"), "bytes": self.options.get("bytes", 100000)}
        frm, to = hop, (hop + 1) % self.n
        h["role"] = "internal" if frm == to else "connect" if frm == stage else "listen"
        h["addr"] = self.where[stage][1]
        if frm == to:
            h["kind"] = "local"
        if h["kind"] == "local" or "rate_bps" in self.options:
            h["rate_bps"] = self.options.get("rate_bps", 0)
            h["latency_ns"] = self.options.get("latency_ns", 0)
        if h["kind"] == "tcp" and "rate_bps" in self.options:
            h["reverse_rate_bps"] = h["rate_bps"]
        return h

    def spec(self, stage):
        o = self.options
        hops = [h for h in range(self.n_hops) if stage in (h, (h + 1) % self.n)]
        return {"mode": "pipeline", "job": o.get("job", 0), "name": "j", "schedule": o.get("schedule", "1f1b"),
                "chunks": o.get("chunks", 1), "micro_batches": o.get("micro_batches", 4), "n_stages": self.n,
                "overlap": o.get("overlap", True), "sockets": o.get("sockets", 1),
                "compute": o.get("compute", "timed"), "timeline": o.get("timeline", "ops"), "peer_timeout_ms": o.get("peer_timeout_ms", 3000),
                "stages": [{"stage": stage, "fwd_ns": o.get("fwd_ns", 1000000), "bwd_ns": o.get("bwd_ns", 2000000),
                            "w_ns": o.get("w_ns", 0)}],
                "hops": [self._hop(h, stage) for h in hops], "warmup_steps": o.get("warmup_steps", 1),
                "steps": o.get("steps", 2), "congestion_control": o.get("congestion_control", ""),
                "connect_timeout_ms": o.get("connect_timeout_ms", 20000), **{k: o[k] for k in ("host", "token", "hidden") if k in o},
                **({"steady": o["steady"]} if "steady" in o else {}),
                "step_timeout_ms": o.get("step_timeout_ms", 20000)}

    def start(self):
        """Starts all, and learns the ports; {hop: (address, port)} in ports."""
        self.ranks = [Worker(self.spec(s), self.where[s][0]) for s in range(self.n)]
        for s, rank in enumerate(self.ranks):
            for h in self.spec(s)["hops"]:
                if h["role"] == "listen":
                    e = rank.event()
                    self.ports[e["hop"]] = (h["addr"], e["port"])
        return self

    def connect(self, only=None):
        for s, rank in enumerate(self.ranks):
            hops = [{"hop": h["hop"], "addr": self.ports[h["hop"]][0], "port": self.ports[h["hop"]][1]}
                    for h in self.spec(s)["hops"] if h["role"] == "connect"]
            if only is None or s in only:
                rank.tell({"cmd": "connect", "hops": hops})
        return self

    def ready(self):
        for s, rank in enumerate(self.ranks):
            e = rank.event()
            if not e or e["event"] != "ready":
                raise AssertionError(f"rank {s}: {e}")
        return self

    def go(self):
        at = time.monotonic_ns() + 50000000
        for rank in self.ranks:
            rank.tell({"cmd": "go", "at_ns": at})
        return self

    def begin(self):
        return self.start().connect().ready().go()

    def done(self):
        """The reports, of a job that ends as it should."""
        reports = [rank.event(120) for rank in self.ranks]
        for s, rank in enumerate(self.ranks):
            status = rank.end()
            if status or not reports[s] or reports[s]["event"] != "done":
                raise AssertionError(f"rank {s}: status {status}, {str(reports[s])[:300]}, {rank.errors}")
        return reports

    def kill(self):
        for rank in self.ranks:
            rank.kill()
