#!/usr/bin/env python3
"""An experiment under a real Slurm: three slurmd, each in a network namespace,
an allocation, agents by srun; the job ends by itself, and by scancel in the
middle. Nothing is left and the shaping is undone.

usage: slurm.py BACE AGENT WORKER SHAPERD PROFILES
"""
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "common"))
import outcome  # noqa: E402

BACE, AGENT, WORKER, SHAPERD, PROFILES = sys.argv[1:6]
del sys.argv[1:6]
PRE = f"bs{os.getpid() % 10000}"
NODES = {"n1": "10.78.1.1", "n2": "10.78.2.1", "n3": "10.78.3.1"}
REGIONS = {"n1": "ireland", "n2": "frankfurt", "n3": "tokyo"}
SWITCH = "10.78.0.254"
EXPERIMENT = """
cluster = "cluster.cfg"; jobs = "tiny"; k_limit = 4;
oracles = ["closed-form", "event-sim", "measured"];
policies = ( { name = "bace"; } );
testbed = { scale = { bytes = 0.01; time = 0.5; }; warmup_steps = 1; steps = %d; verify_s = 0; };
"""
CONF = """ClusterName=%(pre)s
SlurmctldHost=%(host)s(%(switch)s)
SlurmctldPort=26817
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket=%(dir)s/munge.socket
StateSaveLocation=%(dir)s/state
SlurmdSpoolDir=%(dir)s/spool.%%n
SlurmctldPidFile=%(dir)s/slurmctld.pid
SlurmdPidFile=%(dir)s/slurmd.%%n.pid
SlurmctldLogFile=%(dir)s/slurmctld.log
SlurmdLogFile=%(dir)s/slurmd.%%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
MpiDefault=none
SchedulerParameters=sched_interval=1,bf_interval=1,batch_sched_delay=0
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
ReturnToService=2
KillWait=2
SlurmdParameters=config_overrides
"""


def sh(*args):
    subprocess.run(args, check=True, capture_output=True)


def ns(node):
    return f"{PRE}-{node}"


def inside(node, *args):
    return ["nsenter", f"--net=/run/netns/{ns(node)}", *args]


def pids(node, *programs):
    out = subprocess.run(["ip", "netns", "pids", ns(node)], capture_output=True, text=True).stdout.split()
    found = []
    for pid in out:
        try:
            with open(f"/proc/{pid}/comm") as f:
                if f.read().strip() in programs:
                    found.append(int(pid))
        except OSError:
            pass
    return found


def shaped(node):
    return "bace:" in subprocess.run(inside(node, "tc", "qdisc", "show", "dev", "eth0"), capture_output=True,
                                     text=True).stdout


def wait_until(what, seconds):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if what():
            return True
        time.sleep(0.05)
    return what()


class Slurm(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.dir = tempfile.mkdtemp(prefix="bace-slurm-")
        os.chmod(cls.dir, 0o755)
        cls.daemons, cls.pid_files = [], []
        cls.addClassCleanup(cls.tear_down)
        cls.network()
        cls.slurm()
        cls.files()

    @classmethod
    def network(cls):
        # with an address of its own: else it changes with its ports
        sh("ip", "link", "add", f"{PRE}br", "address", "02:00:00:00:00:01", "type", "bridge")
        sh("ip", "addr", "add", f"{SWITCH}/16", "dev", f"{PRE}br")
        sh("ip", "link", "set", f"{PRE}br", "up")
        for node, addr in NODES.items():
            sh("ip", "netns", "add", ns(node))
            sh("ip", "link", "add", f"{PRE}{node}", "type", "veth", "peer", "name", "eth0", "netns", ns(node))
            sh("ip", "link", "set", f"{PRE}{node}", "master", f"{PRE}br", "up")
            sh("ip", "-n", ns(node), "addr", "add", f"{addr}/16", "dev", "eth0")
            sh("ip", "-n", ns(node), "link", "set", "eth0", "up")
            sh("ip", "-n", ns(node), "link", "set", "lo", "up")
            with open(f"{cls.dir}/{node}.log", "w") as log:
                cls.daemons.append(subprocess.Popen(inside(node, SHAPERD, "--socket", f"{cls.dir}/{node}.sock", "--iface",
                                                           "eth0", "--state", f"{cls.dir}/{node}.state"), stderr=log))

    @classmethod
    def slurm(cls):
        host = socket.gethostname().split(".")[0]
        for d in ("state", "munge", *[f"spool.{n}" for n in NODES]):
            os.mkdir(f"{cls.dir}/{d}")
        os.chmod(f"{cls.dir}/munge", 0o700)
        with open(os.open(f"{cls.dir}/munge/key", os.O_WRONLY | os.O_CREAT, 0o600), "wb") as f:
            f.write(os.urandom(128))
        cls.pid_files = [f"{cls.dir}/{p}.pid" for p in ("munged", "slurmctld", *[f"slurmd.{n}" for n in NODES])]
        sh("munged", f"--key-file={cls.dir}/munge/key", f"--socket={cls.dir}/munge.socket",
           f"--pid-file={cls.dir}/munged.pid", f"--log-file={cls.dir}/munge/log", f"--seed-file={cls.dir}/munge/seed",
           "--force")
        with open(f"{cls.dir}/slurm.conf", "w") as f:
            f.write(CONF % {"pre": PRE, "host": host, "switch": SWITCH, "dir": cls.dir})
            for i, (node, addr) in enumerate(NODES.items()):
                f.write(f"NodeName={node} NodeHostname={host} NodeAddr={addr} Port={27001 + i} CPUs=2 "
                        "RealMemory=1000\n")
            f.write(f"PartitionName=lab Nodes={','.join(NODES)} Default=YES MaxTime=INFINITE State=UP\n")
        cls.env = dict(os.environ, SLURM_CONF=f"{cls.dir}/slurm.conf", BACE_PROFILES=PROFILES)
        subprocess.run(["slurmctld", "-f", f"{cls.dir}/slurm.conf"], check=True, capture_output=True)
        for node in NODES:
            sh(*inside(node, "slurmd", "-f", f"{cls.dir}/slurm.conf", "-N", node))
        idle = lambda: subprocess.run(["sinfo", "-h", "-t", "idle", "-o", "%D"], capture_output=True, text=True,
                                      env=cls.env).stdout.split() == ["3"]
        if not wait_until(idle, 60):
            raise RuntimeError("the nodes of Slurm did not come up")

    @classmethod
    def files(cls):
        with open(f"{cls.dir}/cluster.cfg", "w") as f:
            f.write('regions_file = "aws"; links_file = "aws-skyplane"; prices_file = "business-tariffs";\n'
                    'gpu = "A6000"; bandwidth = "10gbit";\nregions = (')
            f.write(",".join(f'{{ name = "{r}"; gpus = 1; prefixes = ["10.78.{n[1]}.0/24"]; }}' for n, r in REGIONS.items()))
            f.write(");\nhosts = (")
            f.write(",".join(f'{{ name = "{n}"; region = "{r}"; address = "{NODES[n]}"; egress = "eth0"; '
                             f'shaperd = "{cls.dir}/{n}.sock"; }}' for n, r in REGIONS.items()))
            f.write(");\n")
        for name, steps in (("e", 2), ("long", 2000)):
            with open(f"{cls.dir}/{name}.cfg", "w") as f:
                f.write(EXPERIMENT % steps)
        sh(BACE, "-q", "keygen", f"{cls.dir}/key")
        os.mkdir(f"{cls.dir}/prog")
        shutil.copy(AGENT, f"{cls.dir}/prog/bace-agent")
        shutil.copy(WORKER, f"{cls.dir}/prog/bace-worker")

    @classmethod
    def tear_down(cls):
        for path in reversed(cls.pid_files):
            try:
                with open(path) as f:
                    os.kill(int(f.read()), signal.SIGTERM)
            except (OSError, ValueError):
                pass
        for d in cls.daemons:
            d.terminate()
            d.wait()
        wait_until(lambda: not any(os.path.exists(p) for p in cls.pid_files), 10)
        for node in NODES:
            subprocess.run(["ip", "netns", "del", ns(node)], capture_output=True)
            subprocess.run(["ip", "link", "del", f"{PRE}{node}"], capture_output=True)
        subprocess.run(["ip", "link", "del", f"{PRE}br"], capture_output=True)
        shutil.rmtree(cls.dir, ignore_errors=True)

    def start(self, experiment, nodes=3):
        return subprocess.Popen(["salloc", "-Q", "-N", str(nodes), "--exclusive", BACE, "--store", f"{self.dir}/{experiment}.db",
                                 "--json", "run", f"{self.dir}/{experiment}.cfg", "--no-report", "--launcher", "slurm",
                                 "--controller", f"{SWITCH}:7613", "--key", f"{self.dir}/key", "--agent",
                                 f"{self.dir}/prog/bace-agent"],
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=self.env)

    def nothing_left(self, seconds=10):
        for node in NODES:
            self.assertTrue(wait_until(lambda: not shaped(node), seconds), f"{node} is still shaped")
            self.assertTrue(wait_until(lambda: not pids(node, "bace-agent", "bace-worker"), seconds), f"left on {node}")

    def test_run(self):
        for k in range(outcome.TRIES):
            if k:
                outcome.pause(k)
            p = self.start("e")
            out, err = p.communicate(timeout=150)
            self.nothing_left()
            good = outcome.good(p.returncode, err)
            if good or not outcome.busy(err):
                break
        self.assertTrue(good, err[-3000:])
        rows = [r for r in json.loads(out)["placements"] if r["valid"]]
        self.assertTrue(any(">" in r["placement"] for r in rows), "no placement crossed a link")

    def test_scancel(self):
        p = self.start("long")
        busy = lambda: sum(len(pids(n, "bace-worker")) for n in NODES) >= 3 and all(shaped(n) for n in NODES)
        self.assertTrue(wait_until(busy, 90), "no cell came")
        job = subprocess.run(["squeue", "-h", "-o", "%i"], capture_output=True, text=True, env=self.env).stdout.split()
        self.assertEqual(len(job), 1, job)
        subprocess.run(["scancel", job[0]], check=True, env=self.env)
        at = time.monotonic()
        for node in NODES:
            self.assertTrue(wait_until(lambda: not shaped(node), 20), f"{node} is still shaped")
        print(f"\nshaping undone {time.monotonic() - at:.2f} s after scancel", file=sys.stderr)
        p.communicate(timeout=60)
        self.nothing_left(20)

    def test_array(self):
        """A sweep as an array job, as docs/cluster.md has it: the parts merged are one run's output."""
        with open(f"{self.dir}/sweep.cfg", "w") as f:
            f.write('cluster = "six-regions-paper"; jobs = "eight-llms";\n'
                    'policies = ( { name = "bace"; }, { name = "random"; }, { name = "lcf"; } );\n'
                    'view = { noise = "additive"; bandwidth_noise = 0.2; };\n')
        with open(f"{self.dir}/sweep.sh", "w") as f:
            f.write(f"#!/bin/sh\ncd {self.dir}\n{BACE} sim sweep.cfg --seeds 7 --shard "
                    "$SLURM_ARRAY_TASK_ID/$SLURM_ARRAY_TASK_COUNT -o part.$SLURM_ARRAY_TASK_ID\n")
        p = subprocess.run(["sbatch", "-Q", "--wait", "--array=1-3", "--exclusive", "-o", f"{self.dir}/sweep.%a.out",
                            f"{self.dir}/sweep.sh"], capture_output=True, text=True, env=self.env, timeout=90)
        said = subprocess.run(["cat", *[f"{self.dir}/sweep.{i}.out" for i in (1, 2, 3)]], capture_output=True,
                              text=True).stdout
        self.assertEqual(p.returncode, 0, p.stderr + said)
        merged = subprocess.run([BACE, "--json", "merge", *[f"{self.dir}/part.{i}" for i in (1, 2, 3)]],
                                capture_output=True, text=True)
        whole = subprocess.run([BACE, "--json", "sim", f"{self.dir}/sweep.cfg", "--seeds", "7"], capture_output=True,
                               text=True, env=self.env)
        self.assertEqual((merged.returncode, whole.returncode), (0, 0), merged.stderr + whole.stderr)
        self.assertEqual(merged.stdout, whole.stdout)
        self.assertIn("random", whole.stdout)

    def test_not_in_allocation(self):
        args = [BACE, "run", f"{self.dir}/e.cfg", "--launcher", "slurm", "--controller", f"{SWITCH}:7613", "--key",
                f"{self.dir}/key", "--agent", "x"]
        p = subprocess.run(args, capture_output=True, text=True, env=self.env)
        self.assertEqual(p.returncode, 3, p.stderr)
        self.assertIn("not inside a Slurm allocation", p.stderr)
        p = subprocess.run(args, capture_output=True, text=True,
                           env=dict(self.env, SLURM_JOB_ID="1", SLURM_JOB_NODELIST="n[1,3]"))
        self.assertEqual(p.returncode, 2, p.stderr)
        self.assertIn("1 of the cluster's hosts are not in this allocation (n[1,3]): n2", p.stderr)


def main():
    if os.geteuid():
        print("skipped: starts Slurm's daemons in network namespaces, needs root")
        return 77
    missing = [p for p in ("slurmctld", "slurmd", "srun", "salloc", "munged", "ip", "tc") if not shutil.which(p)]
    if missing:
        print(f"skipped: not installed: {' '.join(missing)} (packages slurm-wlm munge)")
        return 77
    # meson's timeout: else Slurm's daemons live on, and their ports are taken
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    return outcome.ended(unittest.main(exit=False).result)


sys.exit(main())
