"""terminal.py BACE: what only a terminal shows: colours, the pager, lines no
wider than it; and how much is said under -q and -v."""
import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import tempfile
import termios

bace = os.path.abspath(sys.argv[1])
tmp = tempfile.TemporaryDirectory(prefix="bace-terminal-")
os.chdir(tmp.name)
base = {k: v for k, v in os.environ.items() if k not in ("NO_COLOR", "PAGER", "LESS")}
base.update(XDG_DATA_HOME=tmp.name + "/data", TERM="xterm")


def check(ok, what):
    if not ok:
        sys.exit(str(what))


def on_terminal(*args, columns=80, **env):
    """What a command writes to a terminal of so many columns."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    child = subprocess.Popen([bace, *args], stdin=subprocess.DEVNULL, stdout=slave, stderr=subprocess.PIPE,
                             env={**base, **env})
    os.close(slave)
    out = b""
    while True:
        try:
            got = os.read(master, 65536)
        except OSError:  # the other side is closed
            break
        if not got:
            break
        out += got
    os.close(master)
    error = child.stderr.read().decode()
    child.stderr.close()
    check(child.wait(60) == 0, f"{args}: {error}")
    return out.decode().replace("\r\n", "\n")


def quiet(*args, want=0):
    done = subprocess.run([bace, *args], capture_output=True, text=True, env=base, stdin=subprocess.DEVNULL)
    check(done.returncode == want, f"{args}: {done.returncode}\n{done.stderr}")
    return done


quiet("init", "--simulate-only", "--cluster", "tiny", "--jobs", "tiny", "s.cfg")
talkative = quiet("run", "s.cfg", "--no-report").stderr
check(quiet("-q", "run", "s.cfg", "--no-report").stderr == "", "-q says something")
check("predicting" in talkative, talkative)
check("predicting" in quiet("-v", "-v", "run", "s.cfg", "--no-report").stderr, "-v -v says less")

# Colours only on a terminal, and not there if they are not wanted.
plain = quiet("show", "last").stdout
shown = on_terminal("show", "last", PAGER="cat", columns=200)
check("\033[1m" in shown and "\033" not in plain, "bold on a terminal alone")
check(re.sub("\033\\[[0-9;]*m", "", shown).split() == plain.split(), "a terminal shows another text than a pipe")
check("\033" not in on_terminal("show", "last", PAGER="cat", NO_COLOR="1"), "NO_COLOR")
check("\033" in on_terminal("show", "last", PAGER="cat", NO_COLOR=""), "an empty NO_COLOR")
check("\033" not in on_terminal("show", "last", "--json", PAGER="cat"), "colours in JSON")
# Placement and policy names are whole words: a narrow terminal wraps, it does not cut.
narrow = on_terminal("runs", PAGER="cat", NO_COLOR="1", columns=60)
check(max(map(len, narrow.splitlines())) <= 60, narrow)

# The pager gets everything, may be left early, and a missing one is no loss.
check(on_terminal("show", "last", PAGER="sed 's/^/> /'", NO_COLOR="1", columns=200) ==
      "".join("> " + line + "\n" for line in plain.splitlines()), "through the pager")
check(on_terminal("show", "last", PAGER="head -n 1", NO_COLOR="1", columns=200) == plain.splitlines()[0] + "\n",
      "a pager that is left early")
check("run " in on_terminal("show", "last", PAGER="", NO_COLOR="1"), "an empty PAGER")

# A run that nothing was measured in is reported for what it is.
quiet("report", "last", "-o", "r.html")
page = open("r.html", encoding="utf-8").read()
check("no valid measured placement" in page and "<svg" in page, "report of a simulated run")
check("no valid measured placement" in quiet("compare", "last", want=2).stderr, "compare of a simulated run")
check("it has: " in quiet("compare", "last", "--policy", "nope", want=2).stderr, "compare of no policy")
check("was not measured" in quiet("trace", "last", "-o", "t.json", want=2).stderr, "trace of a simulated run")
# A run that is not there: the nearest that is, or the word that was meant.
name = quiet("runs", "--json").stdout.split('"id"')[1].split('"')[1]
slip = name[:-2] + ("z" if name[-2] != "z" else "y") + name[-1]
check(f"the nearest one is {name}" in quiet("show", slip, want=2).stderr, quiet("show", slip, want=2).stderr)
check("the nearest one is last" in quiet("report", "lats", "-o", "x.html", want=2).stderr, "a slip of `last'")
check(not os.path.exists("x.html"), "a report of no run was written")
