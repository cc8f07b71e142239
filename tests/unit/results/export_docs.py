"""export_docs.py LANGUAGE MAKE-STORE BACE DOCS: the example of docs/export.md, run as it stands."""
import os
import re
import shutil
import subprocess
import sys
import tempfile

language, make_store, bace, docs = sys.argv[1:5]
make_store, bace = os.path.abspath(make_store), os.path.abspath(bace)
text = open(docs, encoding="utf-8").read()


def interpreter():
    if language == "r":
        found = shutil.which("Rscript")
        return [found] if found else None
    # The system's python3 has the system's pandas; another may come first on the PATH.
    for python in ("/usr/bin/python3", shutil.which("python3")):
        if python and not subprocess.run([python, "-c", "import pandas"], capture_output=True).returncode:
            return [python]
    return None


run = interpreter()
if not run:
    print("skipped:", "no R (Debian package r-base-core)" if language == "r" else "no pandas (Debian package python3-pandas)")
    sys.exit(77)
example = re.search(r"```%s\n(.*?)```" % language, text, re.S).group(1)
if len(example.splitlines()) > 10:
    sys.exit("the example is longer than ten lines")
with tempfile.TemporaryDirectory(prefix="bace-export-") as tmp:
    os.chdir(tmp)
    subprocess.run([make_store, "store.db", "4", "3"], check=True, stdout=subprocess.DEVNULL)
    subprocess.run([bace, "--store", "store.db", "export", "last", "--format", "csv", "-o", "rows"], check=True)
    name = "example.r" if language == "r" else "example.py"
    open(name, "w").write(example)
    done = subprocess.run(run + [name], capture_output=True, text=True)
    print(done.stdout, done.stderr)
    if done.returncode:
        sys.exit("the example fails")
    # Every policy and job that was measured, three steps each.
    rows = [line for line in done.stdout.splitlines() if re.search(r"\b3(\.0+(e\+00)?)?\b", line)]
    if len(rows) < 4 or "bace" not in done.stdout or "ldf" not in done.stdout:
        sys.exit("the example does not print what it should")
