#!/usr/bin/env python3
"""The include graph: arrows point down only, and to public headers only.

usage: arrows.py SOURCE_ROOT [--draw]     --draw prints the graph for graphviz

A folder that is not in FOLDERS is an error, so that a new one is put in its
place here.
"""
import pathlib
import re
import sys

# Folder: (the folders that it may include from, its public headers). The
# harness never sees the agent, and the pure library (policy, oracle, sim) sees
# no netlink, no sockets and no SQLite.
PURE = {"profiles", "workloads/schedule", "harness/policy", "harness/oracle", "harness/sim"}
FOLDERS = {
    "common": (set(), {"common.h", "json.h"}),
    "profiles": (set(), {"profiles.h", "names.h"}),
    "shaper": ({"profiles"}, {"shaper.h", "inspect.h"}),
    "workloads/schedule": ({"profiles"}, {"schedule.h"}),
    "workloads/worker": ({"workloads/schedule"}, {"worker.h"}),
    "workloads/nccl": ({"workloads/schedule", "workloads/worker"}, set()),
    "agent/wire": ({"shaper", "profiles"}, {"wire.h"}),
    "agent": ({"agent/wire", "shaper", "profiles"}, {"agent.h"}),
    "results": (set(), {"results.h"}),
    "harness/policy": (PURE, {"policy.h"}),
    "harness/oracle": (PURE, {"oracle.h"}),
    "harness/sim": (PURE, {"sim.h", "tracegen.h"}),
    "harness/control": ({"agent/wire", "shaper", "workloads/schedule", "profiles"}, {"control.h"}),
    "harness/lab": ({"agent/wire", "shaper", "profiles", "harness/control"}, {"lab.h"}),
    "harness/launch": ({"agent/wire", "profiles", "harness/control", "harness/lab"}, {"launch.h"}),
    "harness/run": (PURE | {"shaper", "results", "harness/control", "harness/lab", "harness/launch"}, {"run.h", "cell.h"}),
    "harness/overhead": (PURE | {"results", "harness/control", "harness/lab", "harness/run"}, {"overhead.h"}),
    "harness/robust": (PURE, {"robust.h"}),
    "harness/shape": ({"agent/wire", "shaper", "profiles"}, {"shape.h"}),
    "harness/cmd": (PURE | {"agent/wire", "shaper", "workloads/worker", "results", "harness/control",
                            "harness/lab", "harness/launch", "harness/run", "harness/overhead",
                            "harness/robust", "harness/shape"}, {"cmd.h"}),
}
# The same worker with another transport: it may know the inside of the first.
INSIDERS = {("workloads/nccl", "workloads/worker")}
# What of the system a pure folder must not touch.
IMPURE = re.compile(r"^(libmnl|netlink|linux|event2|sqlite3|openssl|netinet)\b")
INCLUDE = re.compile(r'^\s*#\s*include\s+(?:"([^"]+)"|<([^>]+)>)', re.M)


def folder_of(path):
    """The folder of FOLDERS that holds this path, the longest."""
    parts = path.split("/")[:-1]
    while parts:
        if "/".join(parts) in FOLDERS:
            return "/".join(parts)
        parts.pop()
    return None


def main():
    root = pathlib.Path(sys.argv[1])
    tops = {f.split("/")[0] for f in FOLDERS}
    bad, edges, seen = [], {}, 0
    for path in sorted(p for top in tops for p in (root / top).rglob("*.[ch]")):
        name = path.relative_to(root).as_posix()
        own = folder_of(name)
        if own is None:
            bad.append(f"{name}: its folder has no place in the layout")
            continue
        text = path.read_text(encoding="utf-8")
        for m in INCLUDE.finditer(text):
            where = f"{name}:{text[:m.start()].count(chr(10)) + 1}"
            quoted, system = m.groups()
            if system:
                if own in PURE - {"profiles", "workloads/schedule"} and IMPURE.match(system):
                    bad.append(f"{where}: <{system}> in a pure folder")
                continue
            if quoted in ("config.h", "git_revision.h"):
                continue
            seen += 1
            if not (root / quoted).is_file():
                bad.append(f"{where}: \"{quoted}\" is not a path from the root")
                continue
            other = folder_of(quoted)
            if other == own:
                continue
            edges[own, other] = edges.get((own, other), 0) + 1
            below, _ = FOLDERS[own]
            if other != "common" and other not in below:
                bad.append(f"{where}: {own} may not know {other}")
            elif (own, other) not in INSIDERS and quoted[len(other) + 1:] not in FOLDERS[other][1]:
                bad.append(f"{where}: \"{quoted}\" is private to {other}")
    if "--draw" in sys.argv:
        print("digraph bace {")
        for (a, b), n in sorted(edges.items()):
            print(f'  "{a}" -> "{b}" [label={n}];')
        print("}")
    if not seen:
        bad.append("no include found: wrong folder?")
    for line in bad:
        print(line)
    return 1 if bad else 0


sys.exit(main())
