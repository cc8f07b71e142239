"""man.py BACE MADE: pages and completion against what bace says of itself."""
import json
import os
import re
import shutil
import subprocess
import sys

bace, made = sys.argv[1:3]
commands = json.loads(subprocess.run([bace, "--json", "help"], check=True, capture_output=True).stdout)
names = [c["name"] for c in commands]
OPTION = r"(?<![\w-])--[a-z][a-z-]*[a-z](?![a-z-])"


def check(ok, what):
    if not ok:
        sys.exit(what)


# The list for machines is the list for people.
listed = re.findall(r"(?m)^  ([a-z][a-z0-9-]*) +\S", subprocess.run([bace, "--help"], check=True, capture_output=True,
                                                                 text=True).stdout)
check(listed == names, f"--help lists {listed}, --json help {names}")
for c in commands:
    check(c["usage"].startswith("bace " + c["name"]), f"usage of {c['name']}")
    page = open(os.path.join(made, f"bace-{c['name']}.1"), encoding="utf-8").read()
    for s in c["subcommands"]:
        check(s["usage"].startswith("bace " + s["name"]), f"usage of {s['name']}")
        check(f".Ss bace {s['name']}\n" in page, f"bace-{c['name']}.1 lacks {s['name']}")
    for option in set(re.findall(OPTION, " ".join(x["usage"] for x in [c] + c["subcommands"]))):
        check(option.replace("-", "\\-") in page, f"bace-{c['name']}.1 lacks {option}")
pages = sorted(n for n in os.listdir(made) if n.endswith((".1", ".8")))
check(len(pages) == len(names) + 3, "a page too many or too few")
for page, option in ("bace-agent.1", "--leash"), ("bace-shaperd.8", "--lease-timeout"):
    text = open(os.path.join(made, page), encoding="utf-8").read()
    check(option.replace("-", "\\-") in text, f"{page} lacks {option}")
for ask in (("shape", "apply", "--help"), ("help", "shape", "apply")):
    text = subprocess.run([bace, *ask], check=True, capture_output=True, text=True).stdout
    check("--measure-path" in text, f"bace {' '.join(ask)}: {text}")


def complete(*words):
    script = ('. "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMPREPLY=(); _bace; '
              'printf "%s\\n" "${COMPREPLY[@]}"')
    done = subprocess.run(["bash", "-c", script, "x", os.path.join(made, "bace.bash"), *words], check=True,
                          capture_output=True, text=True)
    return done.stdout.split()


check(set(names) <= set(complete("bace", "")), "bash does not complete every command")
check(complete("bace", "rer") == ["rerun"], "bash: rer")
check(complete("bace", "--store", "x.db", "dif") == ["diff"], "bash: behind --store")
check(complete("bace", "help", "ke") == ["keygen"], "bash: help")
check(complete("bace", "shape", "ap") == ["apply"], "bash: a subcommand")
check("--measure-path" in complete("bace", "shape", "apply", "--m"), "bash: a subcommand's option")
check("--fail-above" in complete("bace", "diff", "a", "--f"), "bash: an option")
check(complete("bace", "run", "x", "--backend", "n") == ["netem", "nfqueue"], "bash: a value")
for c in [x for c in commands for x in c["subcommands"] or [c]]:
    lacks = set(re.findall(OPTION, c["usage"])) - set(complete("bace", *c["name"].split(), "--"))
    check(not lacks, f"bash: {c['name']} {lacks}")

if shutil.which("zsh"):
    subprocess.run(["zsh", "-n", os.path.join(made, "_bace")], check=True)
else:
    print("zsh is not here: its completion was not read")
if not shutil.which("mandoc"):
    print("skipped: no mandoc (Debian package mandoc)")
    sys.exit(77)
lint = subprocess.run(["mandoc", "-Tlint"] + [os.path.join(made, n) for n in pages], capture_output=True, text=True)
# It looks for other pages where pages are installed.
faults = [x for x in (lint.stdout + lint.stderr).splitlines() if "referenced manual not found" not in x]
check(not faults, "\n".join(faults))
print(f"{len(pages)} pages clean")
