"""The network of shape.py, and what its tests run in it."""
import signal
import subprocess
import time

PATIENCE_S = 60


def run(command):
    subprocess.run(["sh", "-ec", command], check=True)


def output(command):
    return subprocess.run(["sh", "-ec", command], check=True, capture_output=True, text=True).stdout


def network():
    run("""
for n in a ga gb b; do ip netns add $n; ip -n $n link set lo up; done
ip link add wan0 netns ga type veth peer name wan0 netns gb
ip link add lan0 netns ga type veth peer name eth0 netns a
ip link add lan0 netns gb type veth peer name eth0 netns b
ip -n ga addr add 10.99.0.1/24 dev wan0; ip -n gb addr add 10.99.0.2/24 dev wan0
ip -n ga addr add 10.16.0.1/16 dev lan0; ip -n a addr add 10.16.0.10/16 dev eth0
ip -n gb addr add 10.17.0.1/16 dev lan0; ip -n b addr add 10.17.0.10/16 dev eth0
for x in ga:wan0 ga:lan0 gb:wan0 gb:lan0 a:eth0 b:eth0; do ip -n ${x%%:*} link set ${x##*:} up; done
ip -n a route add default via 10.16.0.1; ip -n b route add default via 10.17.0.1
ip -n ga route add 10.17.0.0/16 via 10.99.0.2; ip -n gb route add 10.16.0.0/16 via 10.99.0.1
for n in ga gb; do ip netns exec $n sysctl -qw net.ipv4.ip_forward=1; done
""")


def until(condition, what):
    end = time.monotonic() + PATIENCE_S
    while not condition():
        if time.monotonic() > end:
            raise AssertionError(f"not within {PATIENCE_S} s: {what}")
        time.sleep(0.05)


def stopped_while(look, seconds, ns, *command):
    """Its output, where it gets no CPU for so long once `look` prints something."""
    p = subprocess.Popen(["ip", "netns", "exec", ns, *command], stdout=subprocess.PIPE, text=True)
    until(lambda: p.poll() is not None or output(f"ip netns exec {ns} {look}"), look)
    assert p.poll() is None, f"it ended before `{look}' printed anything: {p.communicate()[0]}"
    p.send_signal(signal.SIGSTOP)
    time.sleep(seconds)
    p.send_signal(signal.SIGCONT)
    return p.communicate(timeout=PATIENCE_S)[0]
