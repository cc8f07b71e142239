"""found.py BACE: what robust and claims find is kept, listed, shown and
reported as they said it, and is not taken for a run that could be repeated."""
import json
import os
import re
import subprocess
import sys
import tempfile

bace = os.path.abspath(sys.argv[1])
tmp = tempfile.TemporaryDirectory(prefix="bace-found-")
os.chdir(tmp.name)
env = dict(os.environ, NO_COLOR="1")


def run(*args, want=0):
    done = subprocess.run([bace, "--store", "s.db", *args], capture_output=True, text=True, env=env, timeout=110)
    if done.returncode != want:
        sys.exit(f"bace {' '.join(args)}: status {done.returncode}, not {want}\n{done.stdout}{done.stderr}")
    return done


def check(ok, what):
    if not ok:
        sys.exit(str(what))


def page(name):
    run("report", "last", "-o", name)
    text = open(name, encoding="utf-8").read()
    check("prediction alone" not in text, "a warning that fits only a run")
    return [[re.sub("<[^>]*>", "", cell).replace("\u2212", "-") for cell in re.findall("<t[hd][ >].*?</t[hd]>", row)]
            for row in re.findall("<tr>.*?</tr>", text)]


def percent(fraction):
    text = f"{100 * fraction:+.1f}"
    return "+0.0" if text == "-0.0" else text


# The figures of claims are its JSON's.
said = json.loads(run("--json", "claims", "--scenarios", "12").stdout)
check(json.loads(run("runs", "--json").stdout)[0]["kind"] == "claims", "kind of claims")
rows = page("c.html")
for figure in said["figures"]:
    for arm, spread in figure["arms"].items():
        if not spread["n"]:
            continue
        want = [percent(spread[k]) for k in ("q05", "q50", "q95", "mean", "mean_lo", "mean_hi")]
        got = [row for row in rows if row[:3] == [figure["figure"], figure["detail"], arm]]
        check(len(got) == 1 and got[0][3:9] == want, (want, got))
verdicts = {v["figure"]: v["verdict"] for v in said["verdicts"]}
check({row[0]: row[1] for row in rows if len(row) == 9 and row[0] in verdicts} == verdicts, "the verdicts")
shown = run("show", "last").stdout
check("direction only" in shown and "Nothing was skipped" not in shown and "No valid measured" not in shown, shown)

# So are robust's.
run("robust", "tiny", "--seeds", "4", "--delays", "0,1h", "--noise", "0,30", "--bias", "10",
    "--kinds", "once", "--regimes", "given", "--links", "static", "--prices", "flat")
kept = json.loads(run("show", "last", "--json").stdout)
check(kept["run"]["experiment"] == "tiny" and len(kept["comparisons"]) >= 8, kept["run"])
rows = page("r.html")
summary = [row for row in rows if len(row) == 12 and row[:4] == ["bace", "ldf", "as given, links static, prices flat", "JCT"]]
check(len(summary) == 1, rows[:3])
exact = [c for c in kept["comparisons"] if c["metric"] == "jct_gain" and c["x"] == 0 and c["y"] == 0]
plain = [c["value"] for c in kept["comparisons"] if c["metric"] == "jct_gain"]
check(len(exact) == 1 and len(plain) == 4, kept["comparisons"])
check(abs(float(summary[0][4]) - 100 * exact[0]["value"]) < 0.051, summary)
check(abs(float(summary[0][7]) - 100 * min(plain)) < 0.051, summary)

# Neither can be repeated as a run, and both say what can be done.
for row in json.loads(run("runs", "--json").stdout):
    check("type its command again" in run("rerun", row["id"], want=2).stderr, row)
check(len(json.loads(run("runs", "--json").stdout)) == 2, "rerun made a run")
for row in json.loads(run("export", "last", "--format", "json", "--table", "run").stdout)["run"]:
    check(row["git_revision"] is None or row["git_revision"] in run("--version").stdout, row["git_revision"])
