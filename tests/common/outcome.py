"""How a test in Python ends: busy machines, what cannot run here, parts that were skipped.

A machine that was too busy for a cell is something that bace says itself, when it
marks the cell invalid. Then a test tries again, and after the last try it has
failed: ./test.sh runs what failed once more. What a broken build says as well
("did not connect", "nothing heard") is no excuse.
"""
import re
import subprocess
import sys

TRIES = 3
# harness/control/cell_check.c: what was late. harness/run/run.c: a link that was
# measured just before, which is true of a busy machine's.
BUSY = re.compile(r"the machine is overloaded|out of tolerance: RTT")


class Busy(Exception):
    """The machine could not keep time: try again."""


def busy(text):
    return bool(BUSY.search(text))


def bace(*args, want=0, timeout=240):
    """Runs it. Status 3, this environment cannot: the test is skipped."""
    p = subprocess.run(args, capture_output=True, text=True, check=False, timeout=timeout)
    if p.returncode == 3 and "installation is incomplete" not in p.stderr:
        lines = p.stderr.strip().splitlines()
        print(f"skipped: {lines[-1] if lines else 'no reason given'}")
        sys.exit(77)
    if p.returncode == 1 and want != 1 and busy(p.stderr):
        raise Busy(p.stderr[-1000:])
    assert p.returncode == want, f"status {p.returncode}: {p.stderr[-2000:]}"
    return p


def tried(attempt, tries=TRIES):
    """The test's status: 0 once attempt() comes back, 1 when every try was Busy."""
    for _ in range(tries):
        try:
            attempt()
            return 0
        except Busy as why:
            print(f"too busy: {why}", file=sys.stderr, flush=True)
    return 1


def ended(result, elsewhere=()):
    """The status of a unittest run; what was skipped in it is said, all of it is a skip.
    elsewhere: reasons that only mean that another test of the suite has it."""
    for test, why in result.skipped:
        if why not in elsewhere:
            print(f"skipped in part: {test.id().rsplit('.', 1)[-1]}: {why}")
    if not result.wasSuccessful():
        return 1
    if result.skipped and len(result.skipped) == result.testsRun:
        print(f"skipped: {result.skipped[0][1]}")
        return 77
    return 0
