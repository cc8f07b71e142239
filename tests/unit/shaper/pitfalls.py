#!/usr/bin/env python3
"""Every row of tests/pitfalls.md is there, and every test that it names exists."""
import pathlib
import re
import sys

tests = pathlib.Path(__file__).resolve().parents[2]
table = (tests / "pitfalls.md").read_text(encoding="utf-8")
rows = re.findall(r"^\| (\d+) \| (.*?) \| (.*?) \| (.*?) ?\|$", table.split("## Acceptance")[0], re.M)
bad = [] if [int(r[0]) for r in rows] == list(range(1, 41)) else ["rows are not 1 to 40"]
missing = 0
for number, _, names, files in rows:
    if names.startswith("missing"):
        missing += 1
        continue
    text = "".join((tests / f).read_text(encoding="utf-8") for f in files.split(", "))
    for name in re.findall(r"`(\w+)`", names):
        # Defined there, not only spoken of; and a function in C is one that something calls.
        if not re.search(rf"(def|static void|static bool) {name}\(", text):
            bad.append(f"row {number}: no test {name} in {files}")
        elif not re.search(rf"def {name}\(|cmocka_unit_test\w*\({name}\b|\W{name}\([^;{{]*\)[;) &|]", text):
            bad.append(f"row {number}: nothing runs {name} in {files}")
everything = "".join(p.read_text(encoding="utf-8") for p in tests.glob("*/shaper/*.c"))
for name in re.findall(r"`(\w+)`", table.split("## Acceptance")[1]):
    if f"static void {name}(" not in everything:
        bad.append(f"acceptance: no test {name}")
print("\n".join(bad) or f"{len(rows)} rows, {missing} of them without a test")
sys.exit(1 if bad else 0)
