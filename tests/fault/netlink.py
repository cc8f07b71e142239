#!/usr/bin/env python3
"""A netlink message that cannot be sent or read, one after the other, in `bace shape`
and in the bace-shaperd that it starts: the command fails in words, the interface is as
it was before, and the same again works.

usage: netlink.py FAULT.SO      BACE=PROGRAM
"""
import errno
import os
import random
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "netns", "shape"))
from sites import PATIENCE_S, network, output, run, until  # noqa: E402

BACE = os.environ.get("BACE", "bace")
FAULT = os.path.abspath(sys.argv[1])
INSIDE = "BACE_FAULT_TEST_INSIDE"
FIRST, GROWTH = 5, 1.6
ERRORS = (errno.EPERM, errno.ENOBUFS, errno.ENOMEM)
SHAPE = """
delay = "nfqueue";
regions = ( { name = "a"; prefixes = [ "10.16.0.0/16" ]; }, { name = "b"; prefixes = [ "10.17.0.0/16", "fd00:11::/32" ]; } );
hosts = ( { name = "ga"; region = "a"; egress = "wan0"; ingress = "lan0"; } );
links = ( { from = "a"; to = "b"; both_ways = true; rate = "%s"; latency = "20ms"; } );
"""
SAID = "/run/said"
APPLY = ("apply", "--detach", "--replace", "--host", "ga", "/run/s.cfg")


def shape(*args, fault=None, who=None, ok=None):
    env = dict(os.environ)
    if fault:
        env.update(LD_PRELOAD=FAULT, BACE_FAULT=fault, BACE_FAULT_SAID=SAID)
        env.update({"BACE_FAULT_IN": who} if who else {})
    p = subprocess.run(["ip", "netns", "exec", "ga", BACE, "shape", *args], capture_output=True, text=True, env=env,
                       timeout=PATIENCE_S, check=False)
    if ok is not None and p.returncode != ok:
        raise AssertionError(f"bace shape {' '.join(args)}: exit {p.returncode}, not {ok}\n{p.stdout}{p.stderr}")
    return p


def state():
    """Without what the kernel numbers and counts by itself."""
    text = "".join(output(f"tc -n ga qdisc show dev {d}; tc -n ga class show dev {d}; tc -n ga filter show dev {d}")
                   for d in ("wan0", "lan0"))
    rules = output("ip netns exec ga sh -c 'iptables-legacy-save -t mangle; ip6tables-legacy-save -t mangle' 2>/dev/null | "
                   "grep -e ^-A || true")
    left = output("ls /run/bace 2>/dev/null | grep -v lock || true")
    return text, rules, left


def reached():
    found = os.path.exists(SAID)
    if found:
        os.remove(SAID)
    return found


def numbers(r):
    n = 0
    while True:
        n = n + 1 if n < FIRST else max(n + 1, int(n * (GROWTH + r.random() / 2)))
        yield n


def what_is_wrong(p, before):
    """After a command that met the fault."""
    if p.returncode not in (0, 1, 2, 3, 4):
        return f"status {p.returncode}"
    if p.returncode in (1, 2, 3) and not p.stderr.strip():
        return "it failed without a word"
    if p.returncode in (1, 2, 3) and state() != before:
        try:
            until(lambda: state() == before, "")
        except AssertionError:
            return f"not as before: {before} and then {state()}"
    return None


def sweep(title, who, prepare, command, r):
    """prepare() leaves what the command finds; the clean up is clear."""
    bad, statuses, n = [], {}, 0
    for n in numbers(r):
        prepare()
        before = state()
        error = r.choice(ERRORS)
        p = shape(*command, fault=f"netlink:{n}:{error}", who=who)
        met = reached()
        why = what_is_wrong(p, before) if met else None
        if why:
            bad.append(f"{title}, message {n} of {who}, {errno.errorcode[error]}: {why}\n  {p.stderr.strip()[-400:]}")
        statuses[p.returncode] = statuses.get(p.returncode, 0) + 1
        # Whatever it was, the same again works, and is taken back whole; a daemon that was started
        # with the fault may meet it only now.
        for again in (APPLY, ("diff", "--host", "ga", "/run/s.cfg"), ("clear",)):
            if shape(*again).returncode:
                if not reached():
                    shape(*again, ok=0)
                shape(*APPLY, ok=0)
                shape(*again, ok=0)
        reached()
        if not met:
            break
    print(f"{title}: up to {n} messages of {who}, status {statuses}", flush=True)
    return bad


def main():
    seed = int(os.environ.get("SEED", random.randrange(1 << 30)))
    print(f"SEED={seed}")
    r = random.Random(seed)
    network()
    for name, rate in (("s", "20mbit"), ("other", "30mbit")):
        with open(f"/run/{name}.cfg", "w", encoding="utf-8") as f:
            f.write(SHAPE % rate)
    run("tc -n ga qdisc add dev wan0 root fq_codel limit 777 2>/dev/null || tc -n ga qdisc add dev wan0 root pfifo limit 77")
    nothing = state()

    def unshaped():
        if state() != nothing:
            raise AssertionError(f"left behind: {state()}")

    def shaped():
        unshaped()
        shape(*APPLY, ok=0)

    bad = []
    for who in ("bace-shaperd", "bace"):
        bad += sweep("apply", who, unshaped, APPLY, r)
    for what in ("show", "diff --host ga /run/s.cfg", "plan --host ga /run/s.cfg"):
        bad += sweep(what.split()[0], "bace", shaped, tuple(what.split()), r)
    unshaped()
    print("\n".join(bad))
    return 1 if bad else 0


def enter():
    command = ["unshare", "--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
    if os.geteuid() != 0:
        command += ["--user", "--map-root-user"]
    refused = subprocess.run(command + ["true"], capture_output=True, text=True, check=False)
    if refused.returncode:
        print("skipped: namespaces are refused here:", refused.stderr.strip())
        sys.exit(77)
    os.environ[INSIDE] = "1"
    os.environ["PATH"] = "/usr/local/sbin:/usr/sbin:/sbin:" + os.environ["PATH"]
    os.execvp(command[0], command + [sys.executable] + sys.argv)


if __name__ == "__main__":
    if not os.environ.get(INSIDE):
        enter()
    run("mount -t tmpfs tmpfs /run; mkdir /run/netns")
    os.environ["XTABLES_LOCKFILE"] = "/run/xtables.lock"
    sys.exit(main())
