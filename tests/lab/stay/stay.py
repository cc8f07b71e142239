#!/usr/bin/env python3
"""`bace lab`: a lab that stays up, is looked into, and leaves nothing; as root and
as an ordinary user, ended by `down`, by its time, and by kill -9 of its holder.

usage: stay.py BACE
"""
import json
import os
import signal
import subprocess
import sys
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "common"))
import outcome  # noqa: E402

BACE = os.path.abspath(sys.argv.pop(1))
NAME = f"t{os.getpid()}"
PATIENCE_S = 60
AS = []			# before the command: as whom
ANYBODY = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups", "env", "-u", "XDG_RUNTIME_DIR"]


def bace(*args, want=0):
    return outcome.bace(*AS, BACE, *args, want=want)


def up(*more, name=NAME):
    return json.loads(bace("--json", "lab", "up", "tiny", "--name", name, *more).stdout)


def inside(*command, host="ireland-0", want=0):
    return bace("lab", "exec", "--name", NAME, host, "--", *command, want=want)


def names():
    return [s["name"] for s in json.loads(bace("--json", "lab", "list").stdout) if s["name"].startswith(NAME)]


def until(condition, what):
    end = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < end, f"not within {PATIENCE_S} s: {what}"
        time.sleep(0.05)


def processes(token):
    """Who has it in its environment, and is no zombie."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/environ", "rb") as f:
                if token.encode() in f.read() and int(pid) != os.getpid():
                    found.append(int(pid))
        except OSError:
            pass
    return found


class Stay(unittest.TestCase):
    def setUp(self):
        self.token = os.environ["BACE_STAY_TEST"] = f"{NAME}-{self.id()}"

    def tearDown(self):
        if names():
            bace("lab", "down", NAME)
        until(lambda: not processes(self.token), "its processes are gone")

    def test_look_into_it(self):
        state = up()
        self.assertEqual([h["name"] for h in state["hosts"]], ["ireland-gw", "frankfurt-gw", "ireland-0", "frankfurt-0"])
        self.assertEqual(names(), [NAME])
        # Names resolve, and the link between the regions is there both ways: 23.7 ms, time x 0.5.
        ping = inside("ping", "-c", "5", "-i", "0.2", "-q", "frankfurt-0").stdout
        self.assertIn(" 0% packet loss", ping)
        least = float(ping.split("rtt ")[1].split("=")[1].split("/")[0])
        self.assertTrue(10 < least < 30, ping)
        self.assertIn("bace:", inside("tc", "class", "show", "dev", "wan0", host="ireland-gw").stdout)
        self.assertIn("97.44 Mbit/s", inside(BACE, "shape", "show", host="ireland-gw").stdout)
        # The command's status, folder, environment and processes are as one expects.
        inside("sh", "-c", "exit 7", want=7)
        inside("sh", "-c", "kill -9 $$", want=128 + signal.SIGKILL)
        inside("/no/such/command", want=127)
        self.assertEqual(inside("pwd").stdout.strip(), os.getcwd())
        self.assertEqual(inside("sh", "-c", "echo $BACE_LAB_HOST; uname -n; getent hosts $(uname -n)").stdout.split(),
                         ["ireland-0", "ireland-0", "10.16.0.10", "ireland-0"])
        # NCCL reads what is there.
        self.assertEqual(inside("ls", "/sys/class/net").stdout.split(), ["eth0", "lo", "mgmt0"])
        # Options that bace has, too, are the command's; who ignores a signal goes on.
        self.assertEqual(inside("echo", "--json", "--store", "x").stdout, "--json --store x\n")
        p = subprocess.run(["sh", "-c", 'trap "" HUP; exec "$@"', "sh", *AS, BACE, "lab", "exec", "--name", NAME, "ireland-0", "--",
                            "sh", "-c", "kill -HUP $$; echo goes on"], capture_output=True, text=True, check=False)
        self.assertEqual(p.stdout, "goes on\n", p.stderr)
        self.assertIn("bace-agent", inside("sh", "-c", "cat /proc/[0-9]*/comm").stdout)
        # Nothing of it is out here.
        named = subprocess.run(["ip", "netns"], capture_output=True, text=True, check=False).stdout.split()
        self.assertFalse({"ireland-0", "ireland-gw"} & set(named), named)
        bace("lab", "down", NAME)
        self.assertEqual(names(), [])

    def test_bad_input(self):
        for args, says in (
                (("up", "tiny", "--name", "a/b"), "letters, digits"),
                (("up", "tiny", "--for", "0s"), "--for"),
                (("up", "no-such-file.cfg"), "no-such-file"),
                (("up", "tiny", "tiny"), "one experiment"),
                (("exec", "--name", NAME), "a host is needed"),
                (("exec", "--name", NAME, "ireland-0", "true"), "put -- before"),
                (("exec", "--name", NAME, "ireland-0"), f"no lab `{NAME}' is up"),
                (("down", NAME), f"no lab `{NAME}' is up"),
                (("dwon",), "did you mean `down'")):
            p = bace("lab", *args, want=2)
            self.assertIn(says, p.stderr)
            self.assertEqual(names(), [])
        up()
        self.assertIn("is up already", bace("lab", "up", "tiny", "--name", NAME, want=2).stderr)
        p = bace("lab", "exec", "--name", NAME, "ireland-1", "--", "true", want=2)
        self.assertIn("did you mean `ireland-0'", p.stderr)
        p = subprocess.run([*AS, BACE, "lab", "up", "tiny", "--name", NAME + "u", "--backend", "uml"], capture_output=True,
                           text=True, timeout=PATIENCE_S, check=False)
        self.assertEqual(p.returncode, 3, p.stderr)
        self.assertRegex(p.stderr, "cannot be entered|install")

    def test_it_ends_by_itself(self):
        up("--for", "300ms")
        until(lambda: not names(), "its time is over")

    def test_its_holder_is_killed(self):
        holder = up()["holder"]
        with subprocess.Popen([*AS, BACE, "lab", "exec", "--name", NAME, "ireland-0", "--", "sleep", "1000"]) as p:
            until(lambda: len([x for x in processes(self.token) if b"sleep" in command_of(x)]) > 1, "a command runs in it")
            os.kill(holder, signal.SIGKILL)
            self.assertEqual(p.wait(PATIENCE_S), 128 + signal.SIGKILL)
        until(lambda: not names(), "it is known to be gone")
        # The name is free again.
        up()

    def test_what_dies_in_it_is_started_again(self):
        up()
        shaperds = lambda: [x for x in processes(self.token) if command_of(x).split(b"\0")[0].endswith(b"bace-shaperd")]
        before = shaperds()
        self.assertEqual(len(before), 4)
        os.kill(before[0], signal.SIGKILL)
        until(lambda: len(shaperds()) == 4 and before[0] not in shaperds(), "its shaperd is there again")
        until(lambda: "bace:" in inside("tc", "qdisc", "show", "dev", "wan0", host="ireland-gw").stdout and
              "bace:" in inside("tc", "qdisc", "show", "dev", "wan0", host="frankfurt-gw").stdout, "its links are, too")

    def test_nothing_of_the_caller_is_kept(self):
        r, w = os.pipe()
        subprocess.run([*AS, BACE, "-q", "lab", "up", "tiny", "--name", NAME], pass_fds=(w,), stdout=subprocess.DEVNULL, check=True,
                       timeout=PATIENCE_S)
        os.close(w)
        self.assertEqual(os.read(r, 1), b"")    # would wait for who has its other end
        os.close(r)

    def test_interrupted_while_it_comes_up(self):
        with subprocess.Popen([*AS, BACE, "lab", "up", "six-regions", "--name", NAME], stderr=subprocess.PIPE, text=True,
                              stdout=subprocess.DEVNULL) as p:
            self.assertIn("regions", p.stderr.readline())
            p.send_signal(signal.SIGINT)
            said = p.stderr.read()
            # Unless it was up already.
            self.assertTrue(p.wait(PATIENCE_S) == 0 or "interrupted" in said, said)


def command_of(pid):
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as f:
            return f.read()
    except OSError:
        return b""


class AsAnybody(Stay):
    """The same without root: in a user namespace of its own."""
    test_bad_input = test_it_ends_by_itself = test_interrupted_while_it_comes_up = test_nothing_of_the_caller_is_kept = None

    @classmethod
    def setUpClass(cls):
        if os.geteuid() != 0:
            raise unittest.SkipTest("nobody else can be had: the other tests are this user's")
        for why, command in (("setpriv is not installed", ["setpriv", "true"]),
                             ("an ordinary user cannot read the build tree", [*ANYBODY, BACE, "--version"]),
                             ("user namespaces are refused to ordinary users", [*ANYBODY, "unshare", "--user", "--map-root-user", "--net", "true"])):
            if subprocess.run(["sh", "-c", 'exec "$@"', "sh", *command], capture_output=True, check=False).returncode:
                raise unittest.SkipTest(why)
        AS[:] = ANYBODY

    @classmethod
    def tearDownClass(cls):
        AS.clear()


done = unittest.main(verbosity=2, exit=False)
sys.exit(outcome.ended(done.result))
