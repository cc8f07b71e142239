"""How a test in Python ends: busy machines, what cannot run here, parts that were skipped.

A machine that was too busy for a cell is something that bace says itself, when it
marks the cell invalid. Then a test tries again after a pause, for noise comes in bursts,
and after the last try it has failed: ./test.sh runs what failed up to twice more. What a
broken build says as well ("did not connect", "nothing heard") is no excuse.
"""
import re
import subprocess
import sys
import time

TRIES = 5
PAUSES_S = (1, 3, 10)		# before the second try, the third, all others
# harness/control/cell_check.c: what was late. harness/run/run.c: a link that was
# measured just before, which is true of a busy machine's; it is never early.
BUSY = re.compile(r"the machine is overloaded|out of tolerance: RTT (\+|-0\.)")
LATE = re.compile(r"out of tolerance: RTT \+([\d.]+) %, goodput ([+-][\d.]+) %")
FAILED = re.compile(r"(\d+) of the (?:cells, )?links or policies failed")
# A delay that is applied twice is late by 100 %.
LATE_MAX, GOODPUT_OFF = 60, 5
late_runs = 0


class Busy(Exception):
    """The machine could not keep time: try again."""


def busy(text):
    return bool(BUSY.search(text))


def late_alone(text):
    """All that was wrong with a run is that links were measured late, as where every timer is: its rows are whole."""
    links, failed = LATE.findall(text), FAILED.search(text)
    return bool(links and failed and int(failed[1]) == len(links) and "did not finish" not in text and
                all(float(rtt) < LATE_MAX and abs(float(goodput)) <= GOODPUT_OFF for rtt, goodput in links))


def good(status, text):
    """Of a run of links, that ended so and said this: as it should, or late alone, and not for the first time."""
    global late_runs
    if status != 1 or not late_alone(text):
        return status == 0
    late_runs += 1
    print(f"links are late, run {late_runs}: {LATE.findall(text)}", file=sys.stderr, flush=True)
    return late_runs > 1


def begin():
    """Of the tries of one thing: what was late before is not its."""
    global late_runs
    late_runs = 0


def pause(tried_n):
    """After so many tries."""
    time.sleep(PAUSES_S[min(tried_n, len(PAUSES_S)) - 1])


def bace(*args, want=0, timeout=240):
    """Runs it. Status 3, this environment cannot: the test is skipped."""
    p = subprocess.run(args, capture_output=True, text=True, check=False, timeout=timeout)
    if p.returncode == 3 and "installation is incomplete" not in p.stderr:
        lines = p.stderr.strip().splitlines()
        print(f"skipped: {lines[-1] if lines else 'no reason given'}")
        sys.exit(77)
    if want == 0 and good(p.returncode, p.stderr):
        return p
    if p.returncode == 1 and want != 1 and busy(p.stderr):
        raise Busy(p.stderr[-1000:])
    assert p.returncode == want, f"status {p.returncode}: {p.stderr[-2000:]}"
    return p


def tried(attempt, tries=TRIES):
    """The test's status: 0 once attempt() comes back, 1 when every try was Busy."""
    begin()
    for k in range(tries):
        if k:
            pause(k)
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
