#!/usr/bin/env python3
"""Jobs over the NCCL transport, against the stand-in, run to their end with the
messages that the schedule has; the bytes that they say are those of tc."""
import collections
import unittest

from ranks import Ranks, driver

RING = [(f"bwk-{i}", f"10.99.{i - 1 if i else 3}.2") for i in range(4)]
TOLERANCE = 0.02
# Connections of the communicator itself, and ARP.
UNCOUNTED = 20000


class Complete(unittest.TestCase):
    def check(self, job, reports):
        o = job.options
        steps, warmup, m = o.get("steps", 2), o.get("warmup_steps", 1), o.get("micro_batches", 4)
        for stage, r in enumerate(reports):
            self.assertEqual([s[:2] for s in r["steps"]], [[stage, k] for k in range(-warmup, steps)])
            kinds = collections.Counter(op[3] for op in r["ops"] if op[1] == 0)
            self.assertEqual(kinds[0], m)
            self.assertEqual(kinds[1], m)
            self.assertEqual(kinds[2], m if o.get("schedule") == "zb-h1" else 0)
            self.assertEqual(kinds[3], m if stage > 0 else 0)
            self.assertEqual(kinds[4], m if stage < job.n - 1 else 0)

    def finish(self, stages, **options):
        job = Ranks(stages, **options).begin()
        reports = job.done()
        self.check(job, reports)
        return reports

    def test_every_schedule(self):
        for schedule in ("gpipe", "1f1b", "eager-1f1b", "zb-h1"):
            with self.subTest(schedule=schedule):
                self.finish(3, schedule=schedule, w_ns=1000000 if schedule == "zb-h1" else 0)

    def test_beside_local_hops(self):
        for local in ((0,), (1,), (0, 2)):
            with self.subTest(local=local):
                self.finish(4, local=local)

    def test_one_rank_alone(self):
        self.finish(1)

    def test_smallest_messages_and_many(self):
        self.finish(2, bytes=64, micro_batches=64, schedule="gpipe")

    def test_ipv6(self):
        self.finish(2, where=[(None, "::1")] * 2)

    def test_every_send_in_the_timeline(self):
        job = Ranks(2)
        specs = job.spec
        job.spec = lambda stage: {**specs(stage), "timeline": "full"}
        for r, kind in zip(job.begin().done(), (5, 6)):
            self.assertEqual(sum(op[3] == kind and op[1] == 0 for op in r["ops"]), 4)

    def test_what_the_report_says(self):
        for r in self.finish(2, bytes=5000):
            flow, nccl = r["flows"][0], r["nccl"]
            self.assertEqual([s[0] for s in flow["steps"]], [-1, 0, 1])
            self.assertGreater(sum(s[1] for s in flow["steps"]), 2 * 4 * 5000)
            # One to warm up, 3 steps of 4; tokens go to stage 0.
            self.assertEqual(flow["payload_bytes"], 13 * 5000 + (0 if flow["forward"] else 3 * 64))
            self.assertEqual(nccl["interface"], "lo:127.0.0.1")
            self.assertEqual(len(nccl["paths"]), 2)
            for path in nccl["paths"]:
                self.assertRegex(path, r"^[01] -> [01] (send|receive) via NET/Socket/0$")
            # The stand-in's GPU always draws 100 W.
            self.assertAlmostEqual(nccl["gpu"]["energy_j"], 100 * nccl["gpu"]["seconds"], delta=1)

    def test_products_instead_of_timers(self):
        for r in self.finish(2, compute="cuda", fwd_ns=8000000, bwd_ns=16000000):
            c = r["compute"]
            self.assertGreater(c["gemm_n"], 0)
            self.assertAlmostEqual(c["flops"], 2 * c["gemm_n"] ** 3 / c["gemm_s"], delta=1e-6 * c["flops"])
            for op in r["ops"]:
                if op[3] == 0:
                    # As many products as come nearest to 8 ms, each of 2 n^3 operations at 2 TFLOP/s or slower.
                    products = round(8e-3 / c["gemm_s"])
                    self.assertGreater(op[5] - op[4], 0.99 * products * c["gemm_n"] ** 3 / 1e3)

    def test_products_are_as_large_as_the_model(self):
        """32 of them go into an operation of 80 ms many times over; of 8192 x 8192 not one does."""
        for hidden, wanted in ((320, (320,)), (100, (100,)), (8192, (256, 384, 512, 768, 1024))):
            with self.subTest(hidden=hidden):
                for r in self.finish(2, compute="cuda", hidden=hidden, fwd_ns=80000000, bwd_ns=80000000, micro_batches=1,
                                     steps=1, warmup_steps=0):
                    self.assertIn(r["compute"]["gemm_n"], wanted)

    def test_products_fit_into_the_memory(self):
        """768 x 768 are 1.2 MB, 512 x 512 half of one."""
        little = {s: {"BACE_STANDIN": "largest=1000000"} for s in range(2)}
        for r in self.finish(2, compute="cuda", hidden=2048, fwd_ns=80000000, bwd_ns=80000000, micro_batches=1, steps=1,
                             warmup_steps=0, environment=little):
            self.assertIn(r["compute"]["gemm_n"], (256, 384, 512))

    def test_long_operations_are_launched_in_portions(self):
        """2 ms say the size of a product, and 300 ms are more of them, on an idle machine thousands, than may wait."""
        small = {s: {"BACE_STANDIN": "tflops=0.5,queue=700"} for s in range(2)}
        self.finish(2, compute="cuda", fwd_ns=2000000, bwd_ns=300000000, micro_batches=2, steps=1, warmup_steps=0,
                    environment=small)

    def test_several_gpus(self):
        reports = self.finish(2, environment={s: {"BACE_STANDIN": "gpus=2"} for s in range(2)}, nccl={"gpu": 3})
        self.assertEqual([r["nccl"]["gpu"]["device"] for r in reports], [1, 1])


class Counted(unittest.TestCase):
    def setUp(self):
        driver.network(4)
        # The communicator's root is rank 0's process, which all must reach.
        for i in range(4):
            driver.run(f"ip netns exec bwk-{i} sysctl -qw net.ipv4.ip_forward=1;"
                       f"ip -n bwk-{i} route add default via 10.99.{i}.2")

    def tearDown(self):
        driver.remove_network(4)

    def test_bytes_are_those_of_tc(self):
        size, steps, m = 200000, 2, 8
        job = Ranks(4, where=RING, bytes=size, micro_batches=m, steps=steps).start()
        before = self.count()
        reports = job.connect().ready().go().done()
        after = self.count()
        payload = wire = 0
        for r in reports:
            for f in r["flows"]:
                self.assertEqual(f["payload_bytes"],
                                 (1 + (1 + steps) * m) * size + (0 if f["forward"] else (1 + steps) * 64))
                payload += f["payload_bytes"]
                wire += f["wire_bytes"]
        # From i + 1 to i they go around the ring, over three links.
        counted = after - before
        self.assertGreater(counted, payload)
        self.assertGreater(wire, payload)
        forward = sum(f["wire_bytes"] * (1 if f["forward"] else 3) for r in reports for f in r["flows"])
        print(f"payload {payload}, on the wire {wire}, over the links {forward}, tc {counted}, "
              f"{100 * (forward / counted - 1):+.2f} %")
        self.assertAlmostEqual(forward, counted, delta=TOLERANCE * counted + UNCOUNTED)

    @staticmethod
    def count():
        return sum(driver.counted_bytes(f"bwk-{i}", dev) for i in range(4) for dev in ("eth-up", "eth-down"))


if __name__ == "__main__":
    driver.main()
