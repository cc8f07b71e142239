"""commands.py BACE: the everyday use, without a testbed: a run, its store, a
second run from its record, output that goes where it is told."""
import json
import os
import re
import sqlite3
import stat
import subprocess
import sys
import tempfile
import threading

bace = os.path.abspath(sys.argv[1])
tmp = tempfile.TemporaryDirectory(prefix="bace-commands-")
os.chdir(tmp.name)
env = dict(os.environ, XDG_DATA_HOME=tmp.name + "/data", NO_COLOR="")


def run(*args, want=0, **kw):
    done = subprocess.run([bace, *args], capture_output=True, text=True, env=env, stdin=subprocess.DEVNULL, **kw)
    if done.returncode != want:
        sys.exit(f"bace {' '.join(args)}: status {done.returncode}, not {want}\n{done.stdout}{done.stderr}")
    return done


def check(ok, what):
    if not ok:
        sys.exit(what)


# getopt's own errors, too, begin with who says it.
check(run("shape", "plan", "--nope", want=2).stderr.startswith("bace shape plan: "), "who says it")

# An experiment that check accepts, whatever is asked for; never over a file.
run("init", "--cluster", "tiny", "--jobs", "tiny", "--policies", "bace,ldf", "m.cfg")
run("check", "m.cfg")
check("measured" in open("m.cfg").read(), "no testbed in m.cfg")
check("name another FILE" in run("init", "m.cfg", want=2).stderr, "init over a file")
# What `run' would refuse, `check' says: for machines as JSON, and nothing else.
open("scale.cfg", "w").write(re.sub(r"bytes = [0-9.e-]+", "bytes = 1e-7", open("m.cfg").read()))
said = run("check", "scale.cfg", "--json", want=2)
check("testbed.scale.bytes" in json.loads(said.stdout)["errors"][0]["message"] and not said.stderr, said)
# What is allowed and more than this machine carries: a note, with what fits.
notes = json.loads(run("check", "m.cfg", "--json").stdout)["notes"]
check(not any("packets a second" in n["message"] for n in notes), notes)
open("fast.cfg", "w").write(re.sub(r"bytes = [0-9.e-]+", "bytes = 1000", open("m.cfg").read()))
check(re.search(r"^note: where .* packets a second.*testbed.scale.time = .* fits$", run("check", "fast.cfg").stdout, re.M), "packets")
run("init", "--simulate-only", "--cluster", "tiny", "--jobs", "tiny", "s.cfg")
check("testbed" not in open("s.cfg").read(), "a testbed in s.cfg")
for bad, word in ((("--cluster", "tinny"), "tiny"), (("--policies", "ldff"), "ldff"), (("--schedule", "2f2b"), "1f1b")):
    check(word in run("init", "x.cfg", *bad, want=2).stderr, f"init {bad}")
    check(not os.path.exists("x.cfg"), f"init {bad} left a file")

# No store yet; then the default one, under XDG_DATA_HOME.
for command in (("runs",), ("show", "last"), ("store", "check"), ("rerun", "last")):
    check("no store at" in run(*command, want=2).stderr, command)
run("run", "s.cfg", "--no-report")
store = tmp.name + "/data/bace/bace.db"
first = json.loads(run("runs", "--json").stdout)[0]["id"]
db = sqlite3.connect(store)
revision, config = db.execute("SELECT git_revision, config_text FROM run").fetchone()
db.close()
git = run("--version").stdout
check(revision is None or revision in git, f"{revision} is not in {git}")
check(config.startswith("#### s.cfg, ") and "#### clusters/tiny.cfg, " in config, "the config is not whole")

# From its record alone: the file may be gone or be another.
open("s.cfg", "w").write("nonsense")
out = run("rerun", "last", "--no-report").stdout
check("came about in the same way" in out and "No placement was measured" in out, out)
again = json.loads(run("runs", "--json").stdout)
check(len(again) == 2, "rerun made no run")
diff = json.loads(run("diff", first, "last", "--json").stdout)
check(diff["origin"] == [] and diff["n"] == 0, diff)
check({(p["difference_jct"], p["difference_cost"]) for p in diff["policies"]} == {(0, 0)}, diff["policies"])
check("was measured in both" in run("diff", first, "last", "--fail-above", "1", want=4).stderr, "diff's verdict")
check("nearest" in run("diff", first, first[:-1] + "x", want=2).stderr, "diff of no run")
run("--store", store, "show", "last", "--policy", "ldf", "--job", "gpt2-a")
for said in (run("show", "last", "--policy", "ldff", want=2), run("show", "last", "--job", "gpt", "--json", want=2),
             run("runs", "--status", "finished", want=2)):
    check(re.search("ldf$|gpt2-a, gpt2-b|interrupted or killed", said.stderr, re.M), said.stderr)
full = subprocess.run([bace, "runs"], stdout=open("/dev/full", "w"), stderr=subprocess.PIPE, text=True, env=env)
check(full.returncode == 1 and len(full.stderr.splitlines()) == 1, f"onto a full disk: {full}")

# The store: whole, then damaged; smaller when told.
check(json.loads(run("store", "check", "--json").stdout)["rows"]["run"] == 2, "store check")
check(run("store", "gc").stdout.count("removed") == 0, "gc without options removed a run")
check(first in run("store", "gc", "--run", first, "-n").stdout, "gc -n")
check("removed run " + first in run("store", "gc", "--run", first).stdout, "gc --run")
check(len(json.loads(run("runs", "--json").stdout)) == 1, "gc left it")
check(json.loads(run("store", "gc", "--older", "1d", "--json").stdout)["runs"] == [], "gc --older")
check("whose?" in run("store", "gc", "--timelines", want=2).stderr, "gc --timelines alone")
check("did you mean" in run("stroe", want=2).stderr, "a command with a slip")
tables = {t["table"] for t in json.loads(run("store", "dictionary", "--json").stdout)}
check({"run", "placement", "step", "op", "sim_op"} <= tables, tables)
data = bytearray(open(store, "rb").read())
data[4096 * 3:4096 * 4] = os.urandom(4096)
open("damaged.db", "wb").write(data)
done = subprocess.run([bace, "--store", "damaged.db", "store", "check"], capture_output=True, text=True, env=env)
check(done.returncode in (1, 2) and (done.stdout + done.stderr).strip(), f"a damaged store: {done}")

# A store of something else is bad input to a run, too, and stays as it is.
run("init", "--simulate-only", "--cluster", "tiny", "--jobs", "tiny", "other.cfg")
open("text.db", "w").write("not a store\n" * 100)
for command in (("run", "other.cfg", "--no-report"), ("runs",)):
    said = run("--store", "text.db", *command, want=2).stderr
    check("not a store of bace; it was not touched" in said, said)
check(open("text.db").read() == "not a store\n" * 100, "the text was touched")

# Output into a pipe that has a name: written into, never replaced.
os.mkfifo("pipe")
got = []
reader = threading.Thread(target=lambda: got.append(open("pipe").read()))
reader.start()
run("sim", "m.cfg", "-o", "pipe", timeout=60)
reader.join(60)
check(json.loads(got[0])["format"].startswith("bace-sweep"), "sim -o into a pipe")
check(stat.S_ISFIFO(os.stat("pipe").st_mode), "the pipe was replaced")
os.mkdir("folder")
for command in (("report", "last", "-o", "folder"), ("trace", "last", "-o", "folder"), ("sim", "m.cfg", "-o", "folder")):
    check("folder" in run(*command, want=1 if command[0] != "trace" else 1).stderr, command)
check(os.listdir("folder") == [], "something was left in the folder")

# Where things go if nobody says: beside the store, named after the run.
last = json.loads(run("runs", "--json").stdout)[0]["id"]
beside = f"{tmp.name}/data/bace/{last}"
check(run("report", "last").stdout == f"report: {beside}.html\n" and "<svg" in open(beside + ".html").read(), "report")
check("-o FILE.html is needed for more" in run("report", "last", last, want=2).stderr, "report of several runs")
check("was not measured" in run("trace", "last", want=2).stderr and not os.path.exists(beside + ".trace.json"), "trace")
check(run("export", "last", "--format", "csv").stdout == f"rows: {beside}\n", "export")
check({"run.csv", "job_outcome.csv"} <= set(os.listdir(beside)), os.listdir(beside))
check(json.loads(run("export", "last", "--format", "csv", "--json").stdout) == {"rows": beside}, "export --json")
os.makedirs("other")
run("--store", "other/s.db", "run", "other.cfg", "--no-report")
check(os.path.dirname(json.loads(run("--store", "other/s.db", "report", "last", "--json").stdout)["report"]) == "other", "store")
check("nearest" in run("report", last[:-1] + "x", want=2).stderr, "report of no run")

# Names that JSON must escape; and the names of what was written.
name = 'a "quote" \\ and more'
for command, key in (("report", "report"), ("trace", "trace")):
    said = run(command, "last", "-o", name, "--json", want=0 if command == "report" else 2).stdout
    check(command == "trace" or json.loads(said) == {key: name}, f"{command}: {said}")
check(json.loads(run("keygen", name + ".key", "--json").stdout) == {"key": name + ".key"}, "keygen")
made = json.loads(run("trace-gen", "--jobs", "5", "-o", "jobs.cfg", "--json").stdout)
check(made["jobs"] == 5 and made["left_out"] == {"no_gpu": 0, "never_ran": 0, "not_completed": 0}, made)
open("t.csv", "w").write("name,arrival_s,gpus,duration_s\na,0,1,9000\nb,1,0,9000\nc,2,2,0\n")
made = run("trace-gen", "--import", "t.csv", "--columns", "name=name,arrival=arrival_s,gpus=gpus,duration=duration_s",
           "-o", "jobs.cfg", "--json").stdout
check(json.loads(made)["left_out"] == {"no_gpu": 1, "never_ran": 1, "not_completed": 0}, made)
check("-o FILE" in run("trace-gen", "--jobs", "5", "--json", want=2).stderr, "trace-gen --json without a file")
check("does not judge" in run("robust", "--testbed", "1h:0", "--verdict", want=2).stderr, "a verdict of a testbed")
check(json.loads(run("init", "--simulate-only", name + ".cfg", "--json").stdout) == {"experiment": name + ".cfg"}, "init")

# What works here, for people and machines alike.
done = subprocess.run([bace, "doctor", "--json"], capture_output=True, text=True, env=env)
doctor = json.loads(done.stdout)
check(done.returncode == (0 if doctor["can_run"] else 3), f"doctor: status {done.returncode}")
check({"netem", "nfqueue", "uml", "gnuplot", "store"} <= {f["what"] for f in doctor["findings"]}, "doctor's findings")
for f in doctor["findings"]:
    check(f["state"] == "works" or f["fixes"].get("Debian"), f"doctor has no remedy for {f['what']}")
check("\033" not in run("runs").stdout, "colours in a pipe")
