#!/usr/bin/env python3
"""make.py BACE AGENT SHAPERD BODIES OUT-FOLDER: man pages and shell completion.

The one source is what the programs say of themselves: `bace --json help` has
name, summary and usage of every command and subcommand, the daemons have --help. BODIES adds
sections to a page: a line `# COMMAND`, then mdoc. Writes bace.1,
bace-COMMAND.1, bace-agent.1, bace-shaperd.8, bace.bash and _bace.
"""
import json
import os
import re
import subprocess
import sys
import textwrap

DATE = "November 30, 2026"  # of the text, so that two builds are alike
GLOBALS = [("--json", "for machines"), ("--store", "store to use"), ("-q", "only errors"),
           ("-v", "debugging messages too"), ("--help", "usage"), ("--version", "version")]


def escape(text):
    """Text as roff takes it."""
    text = text.replace("\\", "\\e").replace("-", "\\-").replace("`", "\\(ga")
    return re.sub(r"(?m)^(['.])", r"\\&\1", text)


def read_bodies(path):
    bodies, name = {}, None
    for line in open(path, encoding="utf-8"):
        if line.startswith("# "):
            name = line[2:].strip()
            bodies[name] = ""
        elif name:
            bodies[name] += line
    return bodies


def blocks(usage):
    """(synopsis, [(is_table, lines)]): paragraphs are set, indented lines stay as they are."""
    synopsis, _, rest = usage.partition("\n\n")
    synopsis = re.sub(r"(?m)^ {7}", "", synopsis)
    out = []
    for line in rest.split("\n"):
        table = line.startswith(" ") or bool(re.match(r"\S+  +\S", line))
        if not line.strip():
            out.append(None)
        elif out and out[-1] and out[-1][0] == table:
            out[-1][1].append(line)
        else:
            out.append((table, [line]))
    return synopsis, [b for b in out if b]


def prose(lines):
    """A sentence begins a line, as roff wants it; lines stay short after escaping."""
    out = []
    for sentence in re.split(r"(?<=[.!?;:]) +", " ".join(x.strip() for x in lines)):
        out += textwrap.wrap(sentence, 62, break_long_words=False, break_on_hyphens=False)
    return "\n".join(escape(x) for x in out) + "\n"


def literal(text):
    return ".Bd -literal\n" + escape(text) + "\n.Ed\n"


COMMON = """.Sh EXIT STATUS
0 done, 1 the run failed, 2 bad input and nothing was changed, 3 the environment
cannot (and what to install), 4 negative verdict.
"""

ENVIRONMENT = """.Sh ENVIRONMENT
.Bl -tag -width Ds
.It Ev BACE_PROFILES
Folder of the profiles that experiments name.
.It Ev NO_COLOR
If it is not empty, nothing is coloured.
.It Ev PAGER
What tables are shown with on a terminal; default less.
.It Ev XDG_DATA_HOME
Holds bace/bace.db, the default store outside a source checkout.
.El
"""


def head(name, section, summary):
    return (f".Dd {DATE}\n.Dt {name.upper()} {section}\n.Os\n.Sh NAME\n.Nm {name}\n"
            f".Nd {escape(summary)}\n")


def sentences(summary, rest):
    """What follows a synopsis."""
    out = "" if rest else escape(summary[0].upper() + summary[1:]) + ".\n"
    for i, (table, lines) in enumerate(rest):
        if table:
            out += literal("\n".join(lines))
        else:
            out += (".Pp\n" if i else "") + prose(lines)
    return out


def described(name, section, summary, usage):
    """A page up to its DESCRIPTION, from a usage text."""
    synopsis, rest = blocks(usage)
    return (head(name, section, summary) + ".Sh SYNOPSIS\n" + literal(synopsis) + ".Sh DESCRIPTION\n" +
            sentences(summary, rest))


def subsections(command):
    out = ""
    for c in command["subcommands"]:
        synopsis, rest = blocks(c["usage"])
        out += f".Ss {escape('bace ' + c['name'])}\n" + literal(synopsis) + sentences(c["summary"], rest)
    return out


def page(command, bodies):
    return (described("bace-" + command["name"], 1, command["summary"], command["usage"]) + subsections(command) + COMMON +
            bodies.get(command["name"], "") + ".Sh SEE ALSO\n.Xr bace 1\n")


def daemon_page(program, section, summary, bodies):
    name = os.path.basename(program)
    usage = subprocess.run([program, "--help"], check=True, capture_output=True, text=True).stdout
    return (described(name, section, summary, usage.removeprefix("usage: ").rstrip("\n")) +
            bodies.get(name, "") + ".Sh SEE ALSO\n.Xr bace 1\n")


def main_page(commands, bodies):
    out = head("bace", 1, "judge schedulers of geo-distributed training on shaped links") + """.Sh SYNOPSIS
.Nm
.Op Fl \\-store Ar file
.Op Fl \\-json
.Op Fl q
.Op Fl v
.Ar command
.Op Ar arguments
.Sh DESCRIPTION
Runs placements of geo\\-distributed training on hosts whose links are shaped to
look like links between cloud regions, and sets what was measured against what
simulation predicted.
.Bl -tag -width Ds
.It Fl \\-store Ar file
The store; default results/bace.db in a source checkout, else bace/bace.db under
.Ev XDG_DATA_HOME .
.It Fl \\-json
For machines.
.It Fl q
Only errors.
.It Fl v
Log debugging messages too.
.El
.Ss Commands
.Bl -tag -width Ds
"""
    for c in commands:
        out += f".It Xr bace-{c['name']} 1\n{escape(c['summary'])}\n"
    return out + ".El\n" + ENVIRONMENT + COMMON + bodies.get("bace", "")


def words_of(command):
    """The words that follow a command with subcommands."""
    return [c["name"].split(" ", 1)[1] for c in command["subcommands"]]


def options_of(command):
    """Option -> what it is said to be, from the usage; of subcommands, all of theirs."""
    found = {}
    for c in command["subcommands"]:
        found.update(options_of(c))
    for option in re.findall(r"(?<![\w-])(--?[a-z][a-z-]*)", command["usage"]):
        if not option.endswith("-"):
            found.setdefault(option, "")
    for option, text in re.findall(r"(?m)^ +(--?[a-z][a-z-]*)(?:, --?[a-z-]+)?(?: [A-Z]\S*)*  +(.*)$",
                                   command["usage"]):
        if option in found:
            found[option] = text.strip()
    return found


def bash(commands):
    words = " ".join(c["name"] for c in commands)
    out = ["# bash completion of bace", "_bace() {",
           "\tlocal cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} command= sub= i",
           "\tfor ((i = 1; i < COMP_CWORD; i++)); do",
           "\t\tcase ${COMP_WORDS[i]} in", "\t\t--store) i=$((i + 1)) ;;", "\t\t-*) ;;",
           "\t\t*) [ -n \"$command\" ] && { sub=${COMP_WORDS[i]}; break; }; command=${COMP_WORDS[i]} ;;", "\t\tesac", "\tdone",
           "\tcase $prev in", "\t-o|--output|--report|--store) COMPREPLY=($(compgen -f -- \"$cur\")); return ;;",
           "\t--backend) COMPREPLY=($(compgen -W 'auto netem nfqueue uml' -- \"$cur\")); return ;;",
           "\t--format) COMPREPLY=($(compgen -W 'csv json ndjson' -- \"$cur\")); return ;;", "\tesac",
           "\tlocal options=", "\tcase $command in",
           f"\t'') COMPREPLY=($(compgen -W '{words} help {' '.join(g for g, _ in GLOBALS)}' -- \"$cur\")); return ;;",
           f"\thelp) COMPREPLY=($(compgen -W '{words}' -- \"$cur\")); return ;;"]
    for c in commands:
        if c["subcommands"]:
            out += [f"\t{c['name']})", "\t\tcase $sub in",
                    f"\t\t'') COMPREPLY=($(compgen -W '{' '.join(words_of(c))}' -- \"$cur\")); return ;;"]
            out += [f"\t\t{word}) options='{' '.join(options_of(s))}' ;;" for word, s in zip(words_of(c), c["subcommands"])]
            out += ["\t\tesac ;;"]
        else:
            out.append(f"\t{c['name']}) options='{' '.join(options_of(c))}' ;;")
    out += ["\tesac", "\tif [[ $cur == -* ]]; then",
            "\t\tCOMPREPLY=($(compgen -W \"$options --json --store --help\" -- \"$cur\"))", "\telse",
            "\t\tCOMPREPLY=($(compgen -f -- \"$cur\"))", "\tfi", "}",
            "complete -o filenames -F _bace bace", ""]
    return "\n".join(out)


def zsh_text(text):
    return text.replace("'", "'\\''").replace("[", "(").replace("]", ")").replace(":", "\\:")


def zsh(commands):
    out = ["#compdef bace", "_bace() {", "\tlocal -a commands", "\tcommands=("]
    out += [f"\t\t'{c['name']}:{zsh_text(c['summary'])}'" for c in commands]
    out += ["\t)", "\tlocal context state line", "\t_arguments -C \\"]
    out += [f"\t\t'{g}[{t}]{':file:_files' if g == '--store' else ''}' \\" for g, t in GLOBALS]
    out += ["\t\t'1:command:->command' '*::argument:->argument'", "\tcase $state in",
            "\tcommand) _describe command commands ;;", "\targument)", "\t\tcase $line[1] in"]
    for c in commands:
        specs = " ".join(f"'{o}[{zsh_text(t)}]'" for o, t in options_of(c).items())
        first = f"'1:subcommand:({' '.join(words_of(c))})' " if c["subcommands"] else ""
        out.append(f"\t\t{c['name']}) _arguments {specs} {first}'*:file:_files' ;;")
    out += ["\t\tesac ;;", "\tesac", "}", "_bace \"$@\"", ""]
    return "\n".join(out)


def main():
    bace, agent, shaperd, bodies_path, folder = sys.argv[1:6]
    commands = json.loads(subprocess.run([bace, "--json", "help"], check=True, capture_output=True).stdout)
    bodies = read_bodies(bodies_path)
    unknown = set(bodies) - {c["name"] for c in commands} - {"bace", "bace-agent", "bace-shaperd"}
    if unknown:
        sys.exit(f"{bodies_path}: no command {', '.join(sorted(unknown))}")
    files = {"bace.1": main_page(commands, bodies), "bace.bash": bash(commands), "_bace": zsh(commands)}
    files.update((f"bace-{c['name']}.1", page(c, bodies)) for c in commands)
    files["bace-agent.1"] = daemon_page(agent, 1, "does on a host what the controller of bace asks", bodies)
    files["bace-shaperd.8"] = daemon_page(shaperd, 8, "shapes links of a host for bace, by lease", bodies)
    os.makedirs(folder, exist_ok=True)
    for old in os.listdir(folder):
        if old.endswith((".1", ".8")) and old not in files:
            os.unlink(os.path.join(folder, old))
    for name, text in files.items():
        with open(os.path.join(folder, name), "w", encoding="utf-8") as f:
            f.write(text)


main()
