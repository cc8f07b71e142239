"""metrics.py BACE AGENT: what an agent says of itself to Prometheus, read by its own checker."""
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request

bace, agent = sys.argv[1:3]
tmp = tempfile.TemporaryDirectory(prefix="bace-metrics-")
master, key = os.path.join(tmp.name, "master"), os.path.join(tmp.name, "key")
subprocess.run([bace, "-q", "keygen", master], check=True)
subprocess.run([bace, "-q", "keygen", "--host", "h-1", "--from", master, key], check=True)
# A port of the loopback that nobody listens on: the agent goes on trying.
quiet = socket.socket()
quiet.bind(("127.0.0.1", 0))


def start(metrics):
    return subprocess.Popen([agent, "--controller", "127.0.0.1:%d" % quiet.getsockname()[1], "--key", key, "--name", "h-1",
                             "--metrics", metrics], stderr=subprocess.PIPE, text=True)


def check(ok, what):
    if not ok:
        sys.exit(what)


def status(url, **kw):
    try:
        return urllib.request.urlopen(urllib.request.Request(url, **kw), timeout=20).status
    except urllib.error.HTTPError as e:
        return e.code


for bad in ("x", "70000", "nowhere:1", ":", "127.0.0.1:", "-1"):
    p = start(bad)
    check("--metrics" in p.communicate(timeout=20)[1] and p.returncode == 2, f"--metrics {bad}: {p.returncode}")

p = start("0")
try:
    url = None
    while url is None:
        line = p.stderr.readline()
        check(line, "the agent ended")
        found = re.search(r"http://127\.0\.0\.1:\d+/metrics", line)
        url = found and found.group(0)
    answer = urllib.request.urlopen(url, timeout=20)
    text = answer.read().decode()
    check(answer.headers["Content-Type"].startswith("text/plain; version=0.0.4"), answer.headers)
    check('bace_agent_info{host="h-1",version="' in text, text)
    check("\nbace_agent_connected 0\n" in text and "\nbace_agent_workers 0\n" in text, text)
    check('bace_interface_transmit_bytes_total{interface="lo"} ' in text, text)
    check(float(re.search(r"\nprocess_resident_memory_bytes (\S+)", text).group(1)) > 1e6, "resident memory")
    check(status(url.replace("metrics", "other")) == 404, "another path")
    check(status(url, data=b"x") in (405, 501), "POST")
    check(status(url + "?" + "x" * 5000) in (400, 413, 414), "a request of any length")
    check(status(url) == 200, "again")
    # The same port twice: said, and the end.
    other = start(url.split("/")[2])
    check("metrics on 127.0.0.1" in other.communicate(timeout=20)[1] and other.returncode == 1, "a port that is taken")
finally:
    p.terminate()
    p.communicate(timeout=30)
check(p.returncode == 0, f"the agent ended with {p.returncode}")
if not shutil.which("promtool"):
    print("skipped: no promtool (Debian package prometheus)")
    sys.exit(77)
lint = subprocess.run(["promtool", "check", "metrics"], input=text, capture_output=True, text=True)
check(lint.returncode == 0 and not lint.stderr.strip(), lint.stdout + lint.stderr)
print(len(text.splitlines()), "lines, clean")
