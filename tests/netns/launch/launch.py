#!/usr/bin/env python3
"""An experiment on two "machines", network namespaces, by the launcher ssh: as in
a lab, and nothing is left of it, however it ends. (docs.py types what the
launcher manual prints.)

usage: launch.py BACE AGENT WORKER SHAPERD PROFILES

ssh is a stand-in that enters a namespace, and, where openssh-server is
installed, the real one.
"""
import contextlib
import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "common"))
import outcome  # noqa: E402

BACE, AGENT, WORKER, SHAPERD, PROFILES = sys.argv[1:6]
del sys.argv[1:6]
PRE = f"bl{os.getpid() % 10000}"
NODES = {"c": "10.77.0.1", "ireland-0": "10.77.1.1", "frankfurt-0": "10.77.2.1"}
HOSTS = [n for n in NODES if n != "c"]
CLUSTER = """
regions_file = "aws"; links_file = "aws-skyplane"; prices_file = "business-tariffs";
gpu = "A6000"; bandwidth = "10gbit";
regions = (
  { name = "ireland";   gpus = 2; prefixes = [ "10.77.1.0/24" ]; },
  { name = "frankfurt"; gpus = 2; prefixes = [ "10.77.2.0/24" ]; }
);
hosts = (
  { name = "ireland-0";   region = "ireland";   address = "10.77.1.1"; egress = "eth0"; shaperd = "%s/ireland-0.sock"; },
  { name = "frankfurt-0"; region = "frankfurt"; address = "10.77.2.1"; egress = "eth0"; shaperd = "%s/frankfurt-0.sock"; }
);
"""
EXPERIMENT = """
cluster = "cluster.cfg"; jobs = "tiny"; k_limit = 4;
oracles = ["closed-form", "event-sim", "measured"];
policies = ( { name = "bace"; } );
testbed = { scale = { bytes = 0.01; time = 0.5; }; warmup_steps = 1; steps = %d; verify_s = 0; };
"""


def sh(*args):
    subprocess.run(args, check=True, capture_output=True)


def ns(node):
    return f"{PRE}-{node}"


def inside(node, *args):
    return ["nsenter", f"--net=/run/netns/{ns(node)}", *args]


def pids(node, program):
    """Processes of that program in that namespace."""
    out = subprocess.run(["ip", "netns", "pids", ns(node)], capture_output=True, text=True).stdout.split()
    found = []
    for pid in out:
        try:
            with open(f"/proc/{pid}/comm") as f:
                if f.read().strip() == program[:15]:
                    found.append(int(pid))
        except OSError:
            pass
    return found


def shaped(node):
    out = subprocess.run(inside(node, "tc", "qdisc", "show", "dev", "eth0"), capture_output=True, text=True).stdout
    return "bace:" in out


def foreign(node):
    """What somebody made, as tc shows it; "": nothing."""
    out = subprocess.run(inside(node, "tc", "qdisc", "show", "dev", "eth0"), capture_output=True, text=True).stdout
    return out if "pfifo 7: root" in out else ""


def wait_until(what, seconds):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if what():
            return True
        time.sleep(0.05)
    return what()


class Launch(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.dir = tempfile.mkdtemp(prefix="bace-launch-")
        cls.daemons = []
        sh("ip", "netns", "add", ns("x"))
        sh("ip", "-n", ns("x"), "link", "add", "br0", "type", "bridge")
        sh("ip", "-n", ns("x"), "link", "set", "br0", "up")
        for i, (node, addr) in enumerate(NODES.items()):
            sh("ip", "netns", "add", ns(node))
            sh("ip", "link", "add", f"{PRE}p{i}", "netns", ns("x"), "type", "veth", "peer", "name", "eth0",
               "netns", ns(node))
            sh("ip", "-n", ns("x"), "link", "set", f"{PRE}p{i}", "master", "br0", "up")
            sh("ip", "-n", ns(node), "addr", "add", f"{addr}/16", "dev", "eth0")
            sh("ip", "-n", ns(node), "link", "set", "eth0", "up")
            sh("ip", "-n", ns(node), "link", "set", "lo", "up")
        cls.start_daemons()
        with open(f"{cls.dir}/cluster.cfg", "w") as f:
            f.write(CLUSTER % (cls.dir, cls.dir))
        for name, steps in (("e", 2), ("some", 6), ("long", 400)):
            with open(f"{cls.dir}/{name}.cfg", "w") as f:
                f.write(EXPERIMENT % steps)
        sh(BACE, "-q", "keygen", f"{cls.dir}/key")
        # an agent starts what is installed beside it
        os.mkdir(f"{cls.dir}/prog")
        shutil.copy(AGENT, f"{cls.dir}/prog/bace-agent")
        shutil.copy(WORKER, f"{cls.dir}/prog/bace-worker")
        os.mkdir(f"{cls.dir}/bin")
        with open(f"{cls.dir}/bin/ssh", "w") as f:
            f.write("#!/bin/bash\nwhile [ \"$1\" != -- ]; do shift; done\nt=$2; shift 2\n"
                    f"exec nsenter --net=/run/netns/{PRE}-$t sh -c \"$*\"\n")
        os.chmod(f"{cls.dir}/bin/ssh", 0o755)

    @classmethod
    def start_daemons(cls):
        for node in HOSTS:
            with open(f"{cls.dir}/{node}.log", "w") as log:
                cls.daemons.append(subprocess.Popen(inside(node, SHAPERD, "--socket", f"{cls.dir}/{node}.sock",
                                                           "--iface", "eth0", "--state", f"{cls.dir}/{node}.state",
                                                           "--guard", "yes"),
                                                    stderr=log))

    @classmethod
    def tearDownClass(cls):
        for d in cls.daemons:
            d.terminate()
            d.wait()
        for node in [*NODES, "x"]:
            subprocess.run(["ip", "netns", "del", ns(node)], capture_output=True)
        shutil.rmtree(cls.dir)

    def start(self, launcher="ssh", experiment="e", path="", store=None, more=(), port=7611):
        """bace run, in the controller's namespace."""
        env = dict(os.environ, BACE_PROFILES=PROFILES, PATH=f"{path}:{os.environ['PATH']}" if path else os.environ["PATH"])
        store = store or f"{self.dir}/{self.id().rsplit('.')[-1]}.db"
        p = subprocess.Popen(inside("c", BACE, "--store", store, "--json", "run", f"{self.dir}/{experiment}.cfg",
                                       "--no-report", "--launcher", launcher, "--controller", f"10.77.0.1:{port}",
                                       "--key", f"{self.dir}/key", "--agent", f"{self.dir}/prog/bace-agent", *more),
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env)
        self.addCleanup(self.end, p)
        return p

    @staticmethod
    def end(p):
        if p.poll() is None:
            p.kill()
        p.communicate()

    def nothing_left(self):
        for node in HOSTS:
            self.assertTrue(wait_until(lambda: not pids(node, "bace-agent") and not pids(node, "bace-worker"), 8),
                            f"left on {node}")
            self.assertTrue(wait_until(lambda: not shaped(node), 8), f"{node} is still shaped")

    def measured(self, p, out, err):
        """False: bace says itself that the machine was too busy."""
        self.nothing_left()
        busy = p.returncode == 1 and outcome.busy(err)
        if not busy:
            self.assertEqual(p.returncode, 0, err[-3000:])
        # a cell that came back invalid was run again
        rows = [r for r in json.loads(out or '{"placements": []}')["placements"] if r["valid"]]
        for r in rows:
            # 12 %: the bound that whole runs are held to
            if abs(r["measured_median_s"] / r["event_sim_s"] - 1) > 0.12:
                print("not as predicted:", r, file=sys.stderr)
                return False
        whole = {"gpt2-a", "gpt2-b"} == {r["job"] for r in rows if ">" in r["placement"]}
        self.assertTrue(whole or busy, "not every job crossed a link")
        return whole

    def until_idle(self, attempt):
        outcome.begin()
        for k in range(outcome.TRIES):
            if k:
                outcome.pause(k)
            if attempt():
                return
        self.fail(f"the machine was too busy to measure, {outcome.TRIES} times")

    def counter_of_energy(self):
        """One that stands still, instead of this machine's."""
        zone = f"{self.dir}/powercap/intel-rapl:0"
        os.makedirs(zone, exist_ok=True)
        for name, text in (("name", "package-0"), ("energy_uj", "5000000")):
            with open(f"{zone}/{name}", "w") as f:
                f.write(text + "\n")
        os.environ["BACE_POWERCAP"] = f"{self.dir}/powercap"
        self.addCleanup(os.environ.pop, "BACE_POWERCAP")

    def test_ssh(self):
        self.counter_of_energy()

        sh("ip", "netns", "exec", ns("frankfurt-0"), "tc", "qdisc", "add", "dev", "eth0", "root", "handle", "7:",
           "pfifo", "limit", "321")
        self.addCleanup(sh, "ip", "netns", "exec", ns("frankfurt-0"), "tc", "qdisc", "del", "dev", "eth0", "root")
        before = foreign("frankfurt-0")
        # one host has all that steady wants, as far as anybody can tell
        for name, value in (("tcp_slow_start_after_idle", 0), ("tcp_no_metrics_save", 1)):
            sh(*inside("frankfurt-0", "sh", "-c", f"echo {value} > /proc/sys/net/ipv4/{name}"))
        sh("ip", "-n", ns("frankfurt-0"), "route", "add", "10.77.1.0/24", "dev", "eth0", "initcwnd", "4000", "initrwnd", "4000")
        self.assertIn("limit 321p", before)
        p = self.start("ssh", path=f"{self.dir}/bin")
        _, err = p.communicate(timeout=60)
        self.assertEqual(p.returncode, 2, err)
        self.assertRegex(err, r"frankfurt-0: .*a qdisc that somebody made \(pfifo\): --replace saves it")

        def attempt():
            p = self.start("ssh", path=f"{self.dir}/bin", more=("--replace",))
            out, err = p.communicate(timeout=120)
            self.assertTrue(wait_until(lambda: foreign("frankfurt-0") == before, 8), "what --replace saved is not back")
            self.assertIn("2 hosts by ssh", err)
            # a namespace has the kernel's defaults; nobody has set up anything
            self.assertRegex(err, "ireland-0: for wan = .steady., as root: sysctl -w net.ipv4.tcp_slow_start_after_idle=0")
            self.assertRegex(err, "towards frankfurt: ip route ... initcwnd [1-9][0-9]*")
            self.assertNotIn("frankfurt-0: for wan", err)
            self.assertIn("ireland-0: eth0, which it shapes, carries its connection with the controller", err)
            return self.measured(p, out, err)

        self.until_idle(attempt)
        with contextlib.closing(sqlite3.connect(f"{self.dir}/test_ssh.db")) as db:
            rows = db.execute("SELECT host, source, device, energy_j, end_s > start_s FROM energy").fetchall()
            lacks = db.execute("SELECT why FROM skip WHERE what = 'wan = steady is not in force'").fetchall()
            inventory, = db.execute("SELECT inventory_json FROM run WHERE inventory_json IS NOT NULL").fetchone()
        self.assertEqual({why.split(":")[0] for why, in lacks}, {"ireland-0"})
        self.assertEqual(json.loads(inventory)["frankfurt-0"]["routes"]["to"]["ireland"]["initcwnd"], 4000)
        self.assertEqual({r[0] for r in rows}, set(HOSTS), "measured energy")
        self.assertEqual({r[1:] for r in rows}, {("rapl", "intel-rapl:0 package-0", 0.0, 1)})

    def test_agent_killed(self):
        """The cell is invalid, the agent is started again, the cell is run again."""
        self.until_idle(self.kill_an_agent)

    def kill_an_agent(self):
        p = self.start("ssh", path=f"{self.dir}/bin")
        # two stages: the probes before have one worker a host
        self.assertTrue(wait_until(lambda: len(pids("ireland-0", "bace-worker")) == 2, 60), "no cell came")
        for pid in pids("ireland-0", "bace-agent"):
            os.kill(pid, signal.SIGKILL)
        out, err = p.communicate(timeout=120)
        self.assertIn("starting it again", err)
        return self.measured(p, out, err)

    def test_bace_killed(self):
        """Agents are on a leash: they end with bace, workers and shaping with them."""
        p = self.start("ssh", "long", path=f"{self.dir}/bin")
        self.assertTrue(wait_until(lambda: pids("ireland-0", "bace-worker"), 60), "no worker came")
        self.assertTrue(shaped("ireland-0") and shaped("frankfurt-0"))
        p.kill()
        p.communicate()
        self.nothing_left()

    def test_agent_not_there(self):
        """What ssh says is the error, at once."""
        os.makedirs(f"{self.dir}/bin2", exist_ok=True)
        with open(f"{self.dir}/bin2/ssh", "w") as f:
            f.write("#!/bin/sh\necho 'Permission denied (publickey).' >&2\nexit 255\n")
        os.chmod(f"{self.dir}/bin2/ssh", 0o755)
        p = self.start("ssh", path=f"{self.dir}/bin2")
        _, err = p.communicate(timeout=60)
        self.assertEqual(p.returncode, 1)
        self.assertIn("ssh ended with status 255: Permission denied (publickey).", err)
        self.nothing_left()

    def test_real_ssh(self):
        sshd = shutil.which("sshd") or "/usr/sbin/sshd"
        if not os.path.exists(sshd) or not shutil.which("ssh"):
            self.skipTest("openssh-server is not installed")
        os.makedirs("/run/sshd", exist_ok=True)
        sh("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", f"{self.dir}/id")
        shutil.copy(f"{self.dir}/id.pub", f"{self.dir}/authorized")
        daemons = []
        with open(f"{self.dir}/ssh.cfg", "w") as f:
            for node in HOSTS:
                f.write(f"Host {node}\n HostName {NODES[node]}\n Port 7722\n IdentityFile {self.dir}/id\n"
                        f" UserKnownHostsFile {self.dir}/known\n StrictHostKeyChecking no\n")
                daemons.append(subprocess.Popen(inside(node, sshd, "-D", "-e", "-f", "/dev/null", "-h", f"{self.dir}/id",
                                                       "-p", "7722", "-o", "PidFile=none", "-o", "StrictModes=no",
                                                       "-o", f"AuthorizedKeysFile={self.dir}/authorized",
                                                       "-o", "UsePAM=no", "-o", "PermitRootLogin=yes"),
                                                stderr=subprocess.DEVNULL))
        os.mkdir(f"{self.dir}/bin3")
        with open(f"{self.dir}/bin3/ssh", "w") as f:
            f.write(f"#!/bin/sh\nexec {shutil.which('ssh')} -F {self.dir}/ssh.cfg \"$@\"\n")
        os.chmod(f"{self.dir}/bin3/ssh", 0o755)
        try:
            def attempt():
                p = self.start("ssh", path=f"{self.dir}/bin3")
                out, err = p.communicate(timeout=120)
                return self.measured(p, out, err)

            self.until_idle(attempt)
        finally:
            for d in daemons:
                d.terminate()
                d.wait()

    def test_resume(self):
        """What the store has is not run again; another experiment's run is refused."""
        store = f"{self.dir}/resume.db"

        def attempt():
            p = self.start("ssh", path=f"{self.dir}/bin", store=store)
            return self.measured(p, *p.communicate(timeout=120))

        def resumed():
            p = self.start("ssh", path=f"{self.dir}/bin", store=store, more=("--resume", "last"))
            out, err = p.communicate(timeout=120)
            self.assertNotIn("cell 1", err)
            # its links are verified again
            good = outcome.good(p.returncode, err)
            self.assertTrue(good or (p.returncode == 1 and outcome.busy(err)), err)
            self.assertTrue(json.loads(out)["placements"])
            return good

        self.until_idle(attempt)
        self.until_idle(resumed)
        p = self.start("ssh", "long", path=f"{self.dir}/bin", store=store, more=("--resume", "last"))
        _, err = p.communicate(timeout=60)
        self.assertEqual(p.returncode, 2, err)
        self.assertIn("is of another experiment", err)
        p = self.start("ssh", path=f"{self.dir}/bin", store=store, more=("--resume", "nosuch"))
        _, err = p.communicate(timeout=60)
        self.assertEqual(p.returncode, 2, err)

    def test_bad_input(self):
        def refused(text, *args):
            p = subprocess.run([BACE, "run", *args], capture_output=True, text=True,
                               env=dict(os.environ, BACE_PROFILES=PROFILES))
            self.assertEqual(p.returncode, 2, p.stderr)
            self.assertIn(text, p.stderr)

        here = f"{self.dir}/e.cfg"
        refused("must be lab, manual, ssh or slurm", here, "--launcher", "telnet")
        refused("--controller ADDR:PORT and --key FILE are needed", here, "--launcher", "ssh", "--agent", "x")
        refused("only with --launcher", here, "--key", "x")
        refused("names no `hosts'", "tiny", "--launcher", "ssh", "--controller", "1.2.3.4:5", "--key",
                f"{self.dir}/key", "--agent", "x")
        refused("must be above 0", here, "--launcher", "ssh", "--wait", "0s")
        refused("only with --launcher", here, "--replace")


def main(suite=None):
    if os.geteuid():
        print("skipped: makes named network namespaces, needs root")
        return 77
    try:
        sh("ip", "netns", "add", f"{PRE}-probe")
        sh("ip", "netns", "del", f"{PRE}-probe")
    except subprocess.CalledProcessError as e:
        print(f"skipped: no network namespaces here: {e.stderr.decode().strip()}")
        return 77
    if suite:
        return outcome.ended(unittest.TextTestRunner().run(suite))
    return outcome.ended(unittest.main(exit=False).result)


if __name__ == "__main__":
    sys.exit(main())
