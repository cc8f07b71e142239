#!/usr/bin/env python3
"""The example of docs/cluster.md, "Two namespaces as hosts", typed as it is
there: the block of commands, the two files, the commands that it prints.

usage: docs.py BACE AGENT WORKER SHAPERD PROFILES DOCS/CLUSTER.MD

Runs in namespaces of its own, so that the names of the example are free.
"""
import os
import re
import shutil
import subprocess
import sys
import tempfile
import textwrap
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "common"))
import outcome  # noqa: E402


BUSY, LATE = 75, 76


def blocks(path):
    """Indented blocks of the section, without their indentation."""
    with open(path) as f:
        section = f.read().split("## Two namespaces as hosts\n")[1].split("\n## ")[0]
    found = re.findall(r"(?:^    .*\n(?:\n(?=    ))?)+", section, re.M)
    return [textwrap.dedent(b) for b in found]


def said():
    with open("/tmp/said") as f:
        return f.read()


def typed(commands):
    """Runs the block; types what it prints, each at the host that it is for."""
    env = dict(os.environ, HOME="/tmp", XDG_DATA_HOME="/tmp", PATH=f"/tmp/bin:{os.environ['PATH']}")
    with open("/tmp/block.sh", "w") as f:
        f.write(commands)
    # to a file: what the block leaves running holds its end of a pipe
    with open("/tmp/said", "w") as f:
        p = subprocess.Popen(["bash", "-e", "block.sh"], cwd="/tmp", env=env, stdin=subprocess.DEVNULL, stdout=f,
                             stderr=f)
    while said().count("as a user: ") < 2 or not said().endswith("\n"):
        if p.poll() is not None:
            sys.exit(f"it did not print two commands:\n{said()}")
        time.sleep(0.1)
    for command in re.findall(r"as a user: (.*)", said()):
        host = re.search(r"--name (\S+)", command).group(1)
        subprocess.Popen(["bash", "-c", f"exec nsenter --net=/run/netns/{host} {command}"], cwd="/tmp", env=env,
                         stdin=subprocess.DEVNULL)
    return p.wait(timeout=120)


def main(bace, agent, worker, shaperd, profiles, docs):
    subprocess.run(["mount", "-t", "tmpfs", "tmpfs", "/run"], check=True)
    found = blocks(docs)
    commands = next(b for b in found if b.startswith("for h in "))
    files = next(b for b in found if b.startswith("# cluster.cfg"))
    with tempfile.TemporaryDirectory() as place:
        os.mkdir(f"{place}/bin")
        for program in (bace, agent, worker, shaperd):
            shutil.copy(program, f"{place}/bin/")
        shutil.copytree(profiles, f"{place}/profiles")
        os.environ["BACE_PROFILES"] = "/tmp/profiles"
        # the example has its sockets in /tmp, and this may be there
        subprocess.run(["mount", "--bind", "--make-private", place, "/tmp"], check=True)
        for text in re.split(r"^(?=# \S+\.cfg$)", files, flags=re.M):
            if text:
                with open("/tmp/" + text.split()[1], "w") as f:
                    f.write(text)
        rc = typed(commands)
        print(said())
        if rc == 1 and outcome.busy(said()):
            return LATE if outcome.late_alone(said()) and "step " in said() else BUSY
        if rc or "step " not in said():
            print(f"status {rc}, or nothing was measured")
            return 1
    return 0


def outside():
    """Each try in namespaces of its own."""
    os.environ["BACE_TEST_INSIDE"] = "yes"

    def attempt():
        rc = subprocess.run(["unshare", "-mnp", "--fork", "--kill-child", "--mount-proc", sys.executable, os.path.abspath(__file__),
                             *[os.path.abspath(a) for a in sys.argv[1:]]], check=False).returncode
        late.append(rc == LATE)
        if rc == BUSY or (rc == LATE and sum(late) < 2):
            raise outcome.Busy("a link was late, or a cell did not count")
        sys.exit(0 if rc == LATE else rc)

    late = []
    return outcome.tried(attempt)


if __name__ == "__main__":
    if os.geteuid():
        print("skipped: makes named network namespaces, needs root")
        sys.exit(77)
    if os.environ.get("BACE_TEST_INSIDE") != "yes":
        sys.exit(outside())
    sys.exit(main(*sys.argv[1:]))
