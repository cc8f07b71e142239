#!/usr/bin/env python3
"""Replicas of a pipeline sum their gradients over rings of real workers: they end
as they should, with the bytes that tc counted; and by their deadline if not."""
import signal
import time
import unittest

import driver
from driver import Job, Worker

RING = [(f"bwk-{i}", f"10.99.{i - 1 if i else 2}.2") for i in range(3)]
TOLERANCE = 0.02
UNCOUNTED = 1000		# ARP


class Replicas(Job):
    """D times a rank a stage. `places`: where the ranks are, replica by replica."""

    def __init__(self, stages, replicas, places=None, **options):
        super().__init__(stages, **options)
        self.d = replicas
        self.places = places or [(None, "127.0.0.1")] * (stages * replicas)

    def rank_spec(self, rank):
        replica, stage = divmod(rank, self.n)
        self.where = self.places[replica * self.n:][:self.n]
        spec = {**self.spec(stage), "replicas": self.d, "replica": replica, "rank": rank}
        ring = {"hop": self.n + stage, "kind": self.options.get("ring", "tcp"), "bytes": self.options.get("part", 30000)}
        if ring["kind"] == "local":
            ring.update(rate_bps=self.options.get("ring_bps", 0), latency_ns=0)
        spec["hops"] += [{**ring, "role": "connect"}, {**ring, "role": "listen", "addr": self.where[stage][1]}]
        return spec

    def start(self):
        self.ranks = [Worker(self.rank_spec(i), self.places[i][0]) for i in range(self.n * self.d)]
        for i, rank in enumerate(self.ranks):
            for h in self.rank_spec(i)["hops"]:
                if h["role"] == "listen":
                    e = rank.event()
                    self.ports[(i // self.n, e["hop"])] = (h["addr"], e["port"])
        return self

    def connect(self, only=None):
        for i, rank in enumerate(self.ranks):
            replica = i // self.n
            hops = []
            for h in self.rank_spec(i)["hops"]:
                if h["role"] != "connect":
                    continue
                to = (replica + 1) % self.d if h["hop"] >= self.n else replica
                addr, port = self.ports[(to, h["hop"])]
                hops.append({"hop": h["hop"], "addr": addr, "port": port})
            if only is None or i in only:
                rank.tell({"cmd": "connect", "hops": hops})
        return self


class Complete(unittest.TestCase):
    def check(self, job, reports):
        rounds = 2 * (job.d - 1)
        for i, r in enumerate(reports):
            self.assertEqual([s[:2] for s in r["steps"]], [[i % job.n, k] for k in (-1, 0, 1)])
            got = [op[2] for op in r["ops"] if op[3] == 7]
            self.assertEqual(got, list(range(rounds)) * 3)
            for s in r["steps"]:		# a step ends when its last round has come
                last = max(op[5] for op in r["ops"] if op[3] == 7 and op[1] == s[1])
                self.assertGreaterEqual(s[3], last)

    def test_every_schedule(self):
        for schedule, chunks in (("gpipe", 1), ("1f1b", 1), ("eager-1f1b", 1), ("interleaved-1f1b", 2), ("zb-h1", 1)):
            for ring in ("tcp", "local"):
                with self.subTest(schedule=schedule, ring=ring):
                    job = Replicas(2, 3, schedule=schedule, chunks=chunks, ring=ring).begin()
                    self.check(job, job.done())

    def test_one_stage_each(self):
        """All-reduce alone: nothing but rings."""
        job = Replicas(1, 4, fwd_ns=0, bwd_ns=0, micro_batches=1).begin()
        self.check(job, job.done())

    def test_striped(self):
        job = Replicas(2, 2, sockets=3, part=200000).begin()
        reports = job.done()
        self.check(job, reports)
        for r in reports:
            out = next(f for f in r["flows"] if f["hop"] >= 2 and f["forward"])
            self.assertEqual(out["payload_bytes"], 200000 + 3 * 2 * 200000)

    def test_rounds_are_sent_after_they_were_made(self):
        job = Replicas(2, 3, timeline="full").begin()
        for r in job.done():
            sent = [op for op in r["ops"] if op[3] == 8]
            self.assertEqual([op[2] for op in sent], list(range(4)) * 3)
            for op in r["ops"]:
                self.assertGreaterEqual(op[5], op[4], op)

    def test_paced_ring_takes_its_time(self):
        """1 MB at 100 Mbit/s a round, two rounds."""
        job = Replicas(1, 2, ring="local", part=1000000, ring_bps=100000000, micro_batches=1, fwd_ns=1000000,
                       bwd_ns=1000000).begin()
        for r in job.done():
            for s in r["steps"]:
                self.assertGreaterEqual(s[3] - s[2], 2000000 + 2 * 80000000)


class Counted(unittest.TestCase):
    def test_bytes_are_those_of_tc(self):
        driver.network(3)
        self.addCleanup(driver.remove_network, 3)
        devices = [(i, dev) for i in range(3) for dev in ("eth-up", "eth-down")]
        job = Replicas(1, 3, places=RING, part=200000, micro_batches=1).start()
        before = {d: driver.counted_bytes(f"bwk-{d[0]}", d[1]) for d in devices}
        reports = job.connect().ready().go().done()
        after = {d: driver.counted_bytes(f"bwk-{d[0]}", d[1]) for d in devices}
        for i, r in enumerate(reports):
            for f in r["flows"]:
                dev = (i, "eth-up" if f["forward"] else "eth-down")
                counted = after[dev] - before[dev]
                # 4 rounds of 3 steps and the first; the other way nothing but that.
                self.assertEqual(f["payload_bytes"], (13 if f["forward"] else 1) * 200000)
                self.assertAlmostEqual(f["wire_bytes"], counted, delta=TOLERANCE * counted + UNCOUNTED)


class Faults(unittest.TestCase):
    def begin(self, **options):
        job = Replicas(1, 3, fwd_ns=100000000, bwd_ns=100000000, micro_batches=1, warmup_steps=0, steps=40,
                       step_timeout_ms=2500, **options)
        self.addCleanup(self.end, job)
        return job

    def end(self, job):
        job.kill()
        self.assertEqual(driver.left_running(), [])

    def fails(self, rank, pattern):
        e = rank.event()
        self.assertEqual(e["event"], "error", e)
        self.assertRegex(e["text"], pattern)
        self.assertEqual(rank.end(), 1)
        self.assertEqual(len(rank.errors), 1, rank.errors)

    def test_a_replica_is_killed(self):
        job = self.begin().begin()
        time.sleep(0.6)
        job.ranks[1].kill()
        for i in (0, 2):
            self.fails(job.ranks[i], rf"^j rank {i}: ring 0 step \d+: .*(peer closed|reset by peer|Broken pipe)")

    def test_a_replica_hangs(self):
        job = self.begin().begin()
        time.sleep(0.6)
        job.ranks[1].process.send_signal(signal.SIGSTOP)
        self.fails(job.ranks[2], r"^j rank 2: ring 0 step \d+: (round \d of 4 did not come from replica 1 within 2\.5 s"
                   r"|.*(peer closed|reset by peer))")

    def test_a_replica_never_comes(self):
        job = self.begin(connect_timeout_ms=2000).start().connect(only=[1, 2])
        self.fails(job.ranks[1], r"^j rank 1: ring 0: (replica 0 did not connect within 2\.0 s|.*first message did not)")

    def test_another_replica(self):
        """A peer that says it is the wrong replica is a stranger."""
        job = self.begin(connect_timeout_ms=2000).start()
        job.ports[(1, 1)], job.ports[(2, 1)] = job.ports[(2, 1)], job.ports[(1, 1)]
        job.connect(only=[0])
        job.ranks[2].event(1)
        job.ranks[2].end()
        self.assertRegex("\n".join(job.ranks[2].errors), r"is refused: a message of replica 0, wanted one of replica 1")

    def test_specs(self):
        good = Replicas(2, 2).rank_spec(0)
        for change, says in (({"replica": 2}, "`replica' = 2: must be 0 to 1"), ({"replicas": 257}, "must be 1 to 256"),
                             ({"hops": good["hops"][:-1]}, "both ends of its ring, hop 2, must be in the spec"),
                             ({"hops": good["hops"] + good["hops"][-1:]}, "hop 2: given twice"),
                             ({"replicas": 1}, "`hop' = 2: must be 0 to 1")):
            with self.subTest(change=says):
                worker = Worker({**good, **change})
                self.assertIn(says, worker.event()["text"])
                self.assertEqual(worker.end(), 2)


if __name__ == "__main__":
    driver.main()
