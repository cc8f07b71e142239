#!/usr/bin/env python3
"""No file of over 500 lines, no function of over 60.

usage: sizes.py SOURCE
"""
import glob
import os
import sys

LINES, FUNCTION = 500, 60
FOLDERS = ("common", "profiles", "shaper", "workloads", "agent", "harness", "results", "tests")


def functions(lines):
    """(first line, lines) of every function: from `{` to `}`, both alone in the first column."""
    begin = None
    for i, line in enumerate(lines):
        if line == "{":
            begin = i
        elif line == "}" and begin is not None:
            yield begin, i - begin + 1
            begin = None


def main():
    os.chdir(sys.argv[1])
    bad, seen = [], 0
    for folder in FOLDERS:
        for path in glob.glob(f"{folder}/**/*.[ch]", recursive=True) + glob.glob(f"{folder}/**/*.py", recursive=True):
            with open(path, encoding="utf-8") as f:
                lines = f.read().splitlines()
            if len(lines) > LINES:
                bad.append(f"{path}: {len(lines)} lines")
            for at, n in functions(lines) if path.endswith(".c") else ():
                seen += 1
                if n > FUNCTION:
                    bad.append(f"{path}:{at}: {lines[at - 1].strip()}: {n} lines")
    print("\n".join(bad) or f"{seen} functions, none of over {FUNCTION} lines")
    assert seen > 1000, seen
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
