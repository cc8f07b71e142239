#!/usr/bin/env python3
"""Whatever happens to a rank's peers, its network or its agent, it ends by its
deadline, with one line that says where it was, and a status that is not 0."""
import os
import re
import resource
import signal
import socket
import subprocess
import threading
import time
import unittest

import driver
from driver import Job, Worker

PAIR = [("bwk-0", "10.99.0.1"), ("bwk-1", "10.99.0.2")]


class Fault(unittest.TestCase):
    def setUp(self):
        self.cleanup = []

    def tearDown(self):
        for undo in reversed(self.cleanup):
            undo()
        self.assertEqual(driver.left_running(), [], "something is left running")

    def job(self, stages, **options):
        job = Job(stages, **options)
        self.cleanup.append(job.kill)
        return job

    def worker(self, *args):
        worker = Worker(*args)
        self.cleanup.append(worker.kill)
        return worker

    def network(self):
        driver.network(2)
        self.cleanup.append(lambda: driver.remove_network(2))

    def slow(self, stages, **options):
        """p stages, 2 micro-batches: a step is p + 1 forwards and backwards of 0.18 s."""
        options = {"fwd_ns": 60000000, "bwd_ns": 120000000, "micro_batches": 2, "warmup_steps": 0, "steps": 4,
                   **options}
        return self.job(stages, **options)

    def hurt(self, job, step, hurt, expect):
        """Hurts the job once the first activation of that step has come over hop 0, by the kernel's count of its
        bytes; its ranks then name that step, or one that may have passed meanwhile. expect: (rank, pattern, cause)."""
        ns, port, size = job.where[1][0], job.ports[0][1], job.options.get("bytes", 100000)
        look = (f"ip netns exec {ns} " if ns else "") + f"ss -tinHO state established '( sport = :{port} )'"
        until = time.monotonic() + 60
        # One to warm the connection, two a step.
        while True:
            reached = time.monotonic()
            if (seen := sum(map(int, re.findall(r"bytes_received:(\d+)", driver.output(look)))) // size) >= 2 + 2 * step:
                break
            self.assertLess(time.monotonic(), until, "the step did not come")
            time.sleep(0.01)
        hurt()
        last = (seen - 2) // 2 + 1 + int((time.monotonic() - reached) / ((job.n + 1) * 0.18))
        for rank, pattern, cause in expect:
            text = self.fails(job.ranks[rank], pattern, cause)
            self.assertIn(int(re.search(r" step (\d+):", text).group(1)), range(step, last + 1), text)

    def fails(self, worker, pattern, cause, status=1):
        """One error event, and one line that says the same; nothing else."""
        e = worker.event()
        self.assertIsNotNone(e, "no event")
        self.assertEqual(e["event"], "error", e)
        self.assertRegex(e["text"], pattern)
        self.assertNotIn("\n", e["text"])
        self.assertIn(e["cause"], cause if isinstance(cause, tuple) else (cause,))
        self.assertIsNone(worker.event())
        self.assertEqual(worker.end(), status)
        errors = [line for line in worker.errors if "is refused" not in line]
        self.assertEqual(len(errors), 1, worker.errors)
        self.assertIn(e["text"], errors[0])
        return e["text"]


class Peers(Fault):
    def test_never_connects(self):
        job = self.job(2, connect_timeout_ms=2000).start()
        job.connect(only=[1])
        self.fails(job.ranks[1], r"^j rank 1: hop 0: stage 0 did not connect within 2\.0 s$", "timeout")
        self.fails(job.ranks[0], r"^j rank 0: the agent did not say within 2\.0 s what to connect to$", "timeout")

    def test_not_there(self):
        job = self.job(2).start()
        job.ranks[1].kill()
        job.connect(only=[0])
        self.fails(job.ranks[0], r"^j rank 0: hop 0: 127\.0\.0\.1:\d+: connect: Connection refused$", "peer")

    def test_address_without_an_answer(self):
        self.network()
        driver.run("ip netns exec bwk-1 iptables -A INPUT -p tcp -j DROP")
        job = self.job(2, where=PAIR, connect_timeout_ms=2000).start().connect()
        self.fails(job.ranks[0], r"^j rank 0: hop 0: connect 10\.99\.0\.2:\d+: no answer within 2\.0 s$", "timeout")
        self.fails(job.ranks[1], r"^j rank 1: hop 0: stage 0 did not connect within 2\.0 s$", "timeout")

    def test_killed_in_step_1(self):
        job = self.slow(3, steps=8).begin()
        self.hurt(job, 1, job.ranks[1].kill,
                  [(rank, rf"^j rank {rank}: hop {hop} step \d+: .*(the peer closed|reset by peer)", "peer")
                   for rank, hop in ((0, 0), (2, 1))])

    def test_dies_in_step_3(self):
        """The line names rank, host, hop and step."""
        job = self.slow(2, steps=9, host="tokyo-0").begin()
        self.hurt(job, 3, job.ranks[1].kill,
                  [(0, r"^j rank 0 on tokyo-0: hop 0 step \d+: .*(the peer closed|reset by peer)", "peer")])

    def test_hangs_in_step_1(self):
        job = self.slow(2, steps=8, step_timeout_ms=2500).begin()
        self.hurt(job, 1, lambda: job.ranks[1].process.send_signal(signal.SIGSTOP),
                  [(0, r"^j rank 0: hop 0 step \d+: no gradient of micro-batch \d for stage 0 within 2\.5 s$", "timeout")])

    def test_is_done_long_before(self):
        """Stage 1 ends its part of the last step and waits for stage 0, which needs much longer."""
        job = self.job(2, micro_batches=4, steps=1, warmup_steps=0, step_timeout_ms=8000)
        slow, fast = job.spec(0), job.spec(1)
        slow["stages"][0]["bwd_ns"] = 700000000
        job.ranks = [Worker(slow), Worker(fast)]
        job.ports[0] = ("127.0.0.1", job.ranks[1].event()["port"])
        job.connect().ready().go().done()

    def test_another_number_of_sockets(self):
        job = self.job(2, connect_timeout_ms=2000, sockets=2).start()
        other = self.worker({**job.spec(0), "sockets": 3})
        other.tell({"cmd": "connect", "hops": [{"hop": 0, "addr": "127.0.0.1", "port": job.ports[0][1]}]})
        job.connect(only=[1])
        self.fails(job.ranks[1], r"^j rank 1: hop 0: stage 0 did not connect within 2\.0 s$", "timeout")
        self.assertRegex("\n".join(job.ranks[1].errors), r"is part \d of 3, wanted one of 2: the number of sockets differs")
        self.fails(other, r"^j rank 0: hop 0: 127\.0\.0\.1:\d+: (the peer closed|.*Connection reset|.*Broken pipe)", "peer")

    def test_another_job(self):
        job = self.job(2, connect_timeout_ms=2000).start()
        other = self.worker({**job.spec(0), "job": 7})
        other.tell({"cmd": "connect", "hops": [{"hop": 0, "addr": "127.0.0.1", "port": job.ports[0][1]}]})
        job.connect(only=[1])
        self.fails(job.ranks[1], r"^j rank 1: hop 0: stage 0 did not connect within 2\.0 s$", "timeout")
        self.assertRegex("\n".join(job.ranks[1].errors), r"is refused: a message of job 7 hop 0, wanted job 0 hop 0")
        self.fails(other, r"^j rank 0: hop 0: 127\.0\.0\.1:\d+: (the peer closed|receive: Connection reset)", "peer")

    def test_another_cell(self):
        """The same job, hop and stage: a straggler of the cell before."""
        job = self.job(2, connect_timeout_ms=2000, token=4711).start()
        other = self.worker({**job.spec(0), "token": 4712})
        other.tell({"cmd": "connect", "hops": [{"hop": 0, "addr": "127.0.0.1", "port": job.ports[0][1]}]})
        job.connect(only=[1])
        self.fails(job.ranks[1], r"^j rank 1: hop 0: stage 0 did not connect within 2\.0 s$", "timeout")
        self.assertRegex("\n".join(job.ranks[1].errors), r"is refused: a damaged message, or one of another cell")
        self.fails(other, r"^j rank 0: hop 0: 127\.0\.0\.1:\d+: (the peer closed|receive: Connection reset)", "peer")


class Strangers(Fault):
    def connect(self, port, data=b""):
        s = socket.create_connection(("127.0.0.1", port))
        self.cleanup.append(s.close)
        if data:
            s.sendall(data)
        return s

    def test_garbage_on_the_port(self):
        job = self.job(2).start()
        for data in (b"GET / HTTP/1.1\r\n\r\n" + b"x" * 100, b"\0" * 64, os.urandom(5000), b"short"):
            self.connect(job.ports[0][1], data)
        job.connect().ready().go().done()
        self.assertRegex("\n".join(job.ranks[1].errors), r"hop 0: a connection from 127\.0\.0\.1:\d+ is refused: "
                         r"a damaged message")

    def test_garbage_and_no_peer(self):
        job = self.job(2, connect_timeout_ms=2000).start()
        self.connect(job.ports[0][1], os.urandom(300))
        job.connect(only=[1])
        self.fails(job.ranks[1], r"^j rank 1: hop 0: stage 0 did not connect within 2\.0 s$", "timeout")

    def test_many_silent_ones(self):
        job = self.job(2).start()
        for _ in range(100):
            self.connect(job.ports[0][1])
        job.connect().ready().go().done()

    def test_more_than_there_are_files_for(self):
        job = self.job(2, token=4711).start()
        pid = job.ranks[1].process.pid
        files = len(os.listdir(f"/proc/{pid}/fd")) + 20
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (files, files))
        for _ in range(40):
            self.connect(job.ports[0][1])
        job.connect().ready().go().done()
        self.assertRegex("\n".join(job.ranks[1].errors), r"hop 0: accept: Too many open files")

    def test_of_a_probe(self):
        """One that leaves, one with garbage, one of another cell; then the client."""
        server = self.worker({"mode": "probe-server", "addr": "127.0.0.1", "token": 4711})
        port = server.event()["port"]
        ask = {"mode": "probe-client", "addr": "127.0.0.1", "port": port, "rtt_samples": 3, "goodput_s": 0,
               "congestion_control": "", "timeout_ms": 20000}
        self.connect(port).close()
        self.connect(port, b"P" * 64)
        self.fails(self.worker({**ask, "token": 4712}), r"(peer closed|reset by peer|Broken pipe)", "peer")
        client = self.worker({**ask, "token": 4711})
        self.assertEqual(len(client.event()["rtt_ns"]), 3)
        self.assertEqual(server.event(), {"event": "done"})
        self.assertEqual((client.end(), server.end()), (0, 0))
        self.assertEqual("\n".join(server.errors).count("a stranger is refused"), 3)


class Relay(threading.Thread):
    """Between two ranks: passes all on but what `change` does to the stream towards the listener."""

    def __init__(self, port, change):
        super().__init__(daemon=True)
        self.change = change
        self.to = port
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.start()

    def run(self):
        near, _ = self.listener.accept()
        far = socket.create_connection(("127.0.0.1", self.to))
        back = threading.Thread(target=self.copy, args=(far, near, lambda at, data: data), daemon=True)
        back.start()
        self.copy(near, far, self.change)
        back.join()
        for s in (near, far, self.listener):
            s.close()

    @staticmethod
    def copy(frm, to, change):
        at = 0
        try:
            while data := frm.recv(1 << 16):
                changed = change(at, bytearray(data))
                if changed is None:
                    break
                to.sendall(changed)
                at += len(data)
        except OSError:
            pass
        for s in (frm, to):
            try:
                s.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass


class Network(Fault):
    SIZE = 1000		# of a message; the first of a connection is to warm it

    def relayed(self, change, **options):
        job = self.slow(2, bytes=self.SIZE, **options).start()
        relay = Relay(job.ports[0][1], change)
        job.ports[0] = ("127.0.0.1", relay.port)
        job.connect().ready().go()
        return job

    @staticmethod
    def flip(position):
        def change(at, data):
            if at <= position < at + len(data):
                data[position - at] ^= 1
            return data
        return change

    def test_damaged_message(self):
        # Warm, two activations of step 0, then the first of step 1, in its header.
        job = self.relayed(self.flip(3 * self.SIZE + 30))
        self.fails(job.ranks[1], r"^j rank 1: hop 0 step 1: 127\.0\.0\.1:\d+: a damaged message, or one of another cell: its checksum is wrong$",
                   "protocol")
        self.fails(job.ranks[0], r"^j rank 0: hop 0 step 1: .*(the peer closed|reset by peer)", "peer")

    def test_damaged_payload_is_no_matter(self):
        self.relayed(self.flip(2 * self.SIZE + 500)).done()

    def test_lost_message(self):
        lost = range(3 * self.SIZE, 4 * self.SIZE)
        job = self.relayed(lambda at, data: bytes(b for i, b in enumerate(data, at) if i not in lost))
        self.fails(job.ranks[1], r"^j rank 1: hop 0 step 1: stage 1 wanted the activation of step 1 micro-batch 0 chunk "
                   r"0, got step 1 micro-batch 1 chunk 0$", "protocol")

    def test_repeated_message(self):
        """The last of all, once more."""
        last = 8 * self.SIZE		# 4 steps of 2, after the first
        self.kept = b""

        def change(at, data):
            self.kept += bytes(data)
            if at + len(data) == last + self.SIZE:
                data += self.kept[last:]
            return data
        job = self.relayed(change)
        self.fails(job.ranks[1], r"^j rank 1: hop 0 step 3: .*: activation of step 3 micro-batch 1: all messages had "
                   r"come$", "protocol")

    def test_cut_in_the_middle(self):
        job = self.relayed(lambda at, data: data if at + len(data) < 4 * self.SIZE else None)
        for rank in (0, 1):
            self.fails(job.ranks[rank], rf"^j rank {rank}: hop 0 step 1: .*(the peer closed|reset by peer)", "peer")

    def black_hole(self, how):
        self.network()
        job = self.slow(2, where=PAIR, steps=8, step_timeout_ms=2500, peer_timeout_ms=60000, bytes=50000).begin()
        # Without a carrier the kernel may give the connection up first.
        self.hurt(job, 1, lambda: driver.run(how),
                  [(rank, rf"^j rank {rank}: hop 0 step \d+: (no (gradient|activation) of micro-batch \d for stage {rank} "
                    r"within 2\.5 s|.*: (receive|send): Connection timed out)$", "timeout") for rank in (0, 1)])

    def test_packets_are_dropped(self):
        self.black_hole("ip netns exec bwk-1 iptables -A INPUT -p tcp -j DROP;"
                        "ip netns exec bwk-0 iptables -A INPUT -p tcp -j DROP")

    def silence(self, sockets):
        """Noticed long before the step is late, also of a peer that has nothing to send."""
        self.network()
        job = self.slow(2, where=PAIR, steps=8, peer_timeout_ms=1000, bytes=200000, sockets=sockets).begin()
        cut = "; ".join(f"ip netns exec bwk-{i} iptables -A INPUT -p tcp -j DROP" for i in (1, 0))
        self.hurt(job, 1, lambda: driver.run(cut),
                  [(rank, rf"^j rank {rank}: hop 0 step \d+: .*:\d+: (receive|send): Connection timed out$", "timeout")
                   for rank in (0, 1)])

    def test_silence(self):
        self.silence(1)

    def test_silence_on_several_sockets(self):
        self.silence(3)

    def test_link_goes_down(self):
        self.black_hole("ip -n bwk-0 link set eth-up down")

    def test_rejected_by_a_firewall(self):
        self.network()
        job = self.slow(2, where=PAIR, steps=30, step_timeout_ms=2500).begin()
        driver.run("ip netns exec bwk-1 iptables -A INPUT -p tcp -j REJECT --reject-with tcp-reset")
        self.fails(job.ranks[0], r"^j rank 0: hop 0 step \d+: .*(reset by peer|within 2\.5 s)", ("peer", "timeout"))
        job.ranks[1].kill()


class Agent(Fault):
    """Its end is the end of the worker, wherever that is."""

    def gone(self, worker, pattern=r"the agent is gone$"):
        worker.hang_up()
        self.fails(worker, pattern, ("system", "peer"))

    def test_before_the_spec(self):
        self.gone(self.worker(), r"^no spec on stdin$")

    def test_in_the_middle_of_a_line(self):
        worker = self.worker()
        worker.process.stdin.write(b'{"mode": "pipe')
        worker.process.stdin.flush()
        self.gone(worker, r"^no spec on stdin$")

    def test_while_connecting(self):
        job = self.job(2).start()
        for rank in job.ranks:
            self.gone(rank)

    def test_when_ready(self):
        job = self.job(2).start().connect().ready()
        self.gone(job.ranks[0])

    def test_in_a_step(self):
        job = self.slow(2, fwd_ns=30000000000).begin()
        for rank in job.ranks:
            rank.hang_up()
        for rank in job.ranks:
            self.fails(rank, r"(the agent is gone|the peer closed|reset by peer)", ("system", "peer"))

    def test_while_others_finish(self):
        """Stage 1 has ended its part and waits for stage 0."""
        job = self.job(2, micro_batches=1, steps=1, warmup_steps=0)
        slow = job.spec(0)
        slow["stages"][0]["bwd_ns"] = 30000000000
        job.ranks = [Worker(slow), Worker(job.spec(1))]
        job.ports[0] = ("127.0.0.1", job.ranks[1].event()["port"])
        job.connect().ready().go()
        time.sleep(0.5)
        self.gone(job.ranks[1])

    def test_does_not_listen_any_more(self):
        job = self.slow(2).begin()
        job.ranks[0].process.stdout.close()
        job.ranks[0].process.stdout = None
        self.assertEqual(job.ranks[0].end(), 1)

    def probe_server(self, ns=None, addr="127.0.0.1"):
        server = self.worker({"mode": "probe-server", "addr": addr}, ns)
        return server, server.event()["port"]

    def test_probe_server_without_client(self):
        self.gone(self.probe_server()[0])

    def test_probe_server_with_a_silent_client(self):
        server, port = self.probe_server()
        with socket.create_connection(("127.0.0.1", port)):
            time.sleep(0.2)
            self.gone(server)

    def test_probes_while_data_flows(self):
        for which in (0, 1):
            with self.subTest(which=which):
                server, port = self.probe_server()
                client = self.worker({"mode": "probe-client", "addr": "127.0.0.1", "port": port, "rtt_samples": 1,
                                      "goodput_s": 60, "congestion_control": "", "timeout_ms": 90000})
                driver.run(f"until ss -Htn state established 'sport = :{port}' | grep -q .; do sleep 0.05; done; sleep 0.5")
                both = [server, client]
                self.gone(both[which])
                self.fails(both[1 - which], r"(peer closed|reset by peer|Broken pipe|client went away)", "peer")

    def test_probe_client_of_a_black_hole(self):
        self.network()
        driver.run("ip netns exec bwk-1 iptables -A INPUT -p tcp -j DROP")
        client = self.worker({"mode": "probe-client", "addr": "10.99.0.2", "port": 9, "rtt_samples": 1, "goodput_s": 0,
                              "congestion_control": "", "timeout_ms": 60000}, "bwk-0")
        time.sleep(0.3)
        self.gone(client)


class Refused(Fault):
    def refused(self, spec, pattern, status=2, cause="input"):
        self.fails(self.worker(spec), pattern, cause, status)

    def test_specs(self):
        good = Job(2).spec(0)
        self.refused({}, r"^`mode' = nothing: must be pipeline")
        self.refused({**good, "micro_batches": 0}, r"`micro_batches' = 0: must be 1 to")
        for size in (0, 63, 4 * 2**30 + 1, 8 * 2**30, 2**63 - 1):
            self.refused({**good, "hops": [{**good["hops"][0], "bytes": size}]},
                         rf"^j rank 0: hop 0: `bytes' = {size}: must be 64 to 4294967296$")
        self.refused({**good, "steady": {"ppm": 0, "steps": 3}}, r"steady: `ppm' = 0: must be 1 to 1000000")
        self.refused({**good, "steady": {"ppm": 1, "steps": 3, "of": 1}}, r"steady: unknown key `of'")
        self.refused({**good, "hops": []}, r"stage 0: its hop 0 is not in the spec")
        self.refused({**good, "overlap": False}, r"hop 0: `overlap' = false needs its `rate_bps'")
        self.refused({**good, "steps": 1000000}, r"timeline of .* at most \d+ in all", 1, "system")
        self.refused({**Job(2).spec(1), "hops": [{**Job(2).spec(1)["hops"][0], "addr": "192.0.2.1"}]},
                     r"^j rank 1: hop 0: listen on 192\.0\.2\.1: Cannot assign requested address$", 1, "system")
        self.refused({**Job(2).spec(1), "hops": [{**Job(2).spec(1)["hops"][0], "addr": "here"}]},
                     r"^j rank 1: hop 0: address `here': not IPv4 or IPv6$")

    def test_no_port_is_free(self):
        """The kernel gives ports of this range; the only one is taken."""
        self.network()
        driver.run("ip netns exec bwk-1 sysctl -qw net.ipv4.ip_local_port_range='40000 40000'")
        first = self.worker({**Job(2, where=PAIR).spec(1)}, "bwk-1")
        self.assertEqual(first.event(), {"event": "listening", "hop": 0, "port": 40000})
        second = self.worker({**Job(2, where=PAIR, host="b").spec(1)}, "bwk-1")
        self.fails(second, r"^j rank 1 on b: hop 0: listen on 10\.99\.0\.2: Address already in use$", "system")

    def test_congestion_control_that_is_not_there(self):
        job = self.job(2).start()
        spec = {**job.spec(0), "congestion_control": "nosuch"}
        worker = self.worker(spec)
        worker.tell({"cmd": "connect", "hops": [{"hop": 0, "addr": "127.0.0.1", "port": job.ports[0][1]}]})
        self.fails(worker, r"^j rank 0: hop 0: .*congestion control nosuch: No such file", "system")

    def test_not_json(self):
        worker = self.worker()
        worker.process.stdin.write(b"hello\n")
        worker.process.stdin.flush()
        self.fails(worker, r"^command is not JSON: ", "protocol")

    def test_commands_out_of_turn(self):
        spec = Job(1).spec(0)
        for commands, pattern in (
                ([{"cmd": "go", "at_ns": 1}], r"^j rank 0: command `go': not now$"),
                ([{"cmd": "connect", "hops": []}] * 2, r"^j rank 0: command `connect': not now$"),
                ([{"cmd": "stop"}], r"^j rank 0: command `stop': not now$"),
                ([[]], r"^j rank 0: command `\?': not now$"),
                ([{"cmd": "connect", "hops": [{"hop": 0, "addr": "127.0.0.1", "port": 1}]}],
                 r"^j rank 0: connect: hop, addr or port is wrong$")):
            with self.subTest(commands=commands):
                worker = self.worker(spec)
                for c in commands:
                    worker.tell(c)
                self.fails(worker, pattern, "input", 2)

    def test_go_at_no_time(self):
        for at in ({}, {"at_ns": "soon"}, {"at_ns": 9223372036854775807}):
            with self.subTest(at=at):
                worker = self.worker(Job(1).spec(0))
                worker.tell({"cmd": "connect", "hops": []})
                self.assertEqual(worker.event()["event"], "ready")
                worker.tell({"cmd": "go", **at})
                self.fails(worker, r"^j rank 0: go: `at_ns' must be a time, at most an hour ahead$", "input", 2)

    def test_from_a_shell(self):
        r = subprocess.run([driver.WORKER, "--help"], capture_output=True, text=True, check=False)
        self.assertEqual(r.returncode, 2)
        self.assertTrue(re.search("started by bace-agent", r.stderr))


if __name__ == "__main__":
    driver.main()
