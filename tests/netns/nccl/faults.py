#!/usr/bin/env python3
"""Whatever happens to a rank of an NCCL job, every rank ends by its deadline, with
one line that says where it was, a status that is not 0, and nothing left running."""
import signal
import time
import unittest

from ranks import Ranks, driver

PAIR = [("bwk-0", "10.99.0.1"), ("bwk-1", "10.99.0.2")]
SLOW = {"fwd_ns": 60000000, "bwd_ns": 120000000, "micro_batches": 2, "warmup_steps": 0, "steps": 20}


class Fault(unittest.TestCase):
    def setUp(self):
        self.cleanup = []

    def tearDown(self):
        for undo in reversed(self.cleanup):
            undo()
        self.assertEqual(driver.left_running(), [], "something is left running")

    def job(self, stages, **options):
        job = Ranks(stages, **options)
        self.cleanup.append(job.kill)
        return job

    def network(self):
        driver.network(2)
        self.cleanup.append(lambda: driver.remove_network(2))

    def everywhere(self, stages, **standin):
        value = ",".join(f"{k}={v}" for k, v in standin.items())
        return {s: {"BACE_STANDIN": value} for s in range(stages)}

    def fails(self, worker, pattern, cause, status=1):
        e = worker.event()
        self.assertIsNotNone(e, "no event")
        self.assertEqual(e["event"], "error", e)
        self.assertRegex(e["text"], pattern)
        self.assertNotIn("\n", e["text"])
        self.assertIn(e["cause"], cause if isinstance(cause, tuple) else (cause,))
        self.assertIsNone(worker.event())
        self.assertEqual(worker.end(), status)
        return e["text"]


class Setup(Fault):
    def test_a_rank_never_comes(self):
        job = self.job(3, connect_timeout_ms=2500).start().connect(only=(0, 2))
        # The end of rank 0, which they meet at, may be seen before the deadline.
        late, gone = r"NCCL: not all 3 ranks had come within 2\.5 s", r"join the communicator: NCCL: "
        self.fails(job.ranks[0], rf"^j rank 0 on h0: {late}", "timeout")
        self.fails(job.ranks[2], rf"^j rank 2 on h2: ({late}|{gone})", ("timeout", "peer", "system"))
        self.fails(job.ranks[1], r"the agent did not say within 2\.5 s what to connect to", "timeout")

    def test_a_rank_dies_first(self):
        job = self.job(2, connect_timeout_ms=2500).start()
        job.ranks[1].kill()
        job.connect(only=(0,))
        self.fails(job.ranks[0], r"^j rank 0 on h0: NCCL: not all 2 ranks had come", "timeout")

    def test_no_gpu(self):
        job = Ranks(2, environment=self.everywhere(1, gpus=0))
        worker = driver.Worker
        rank = None
        try:
            job.start()
        except AssertionError as e:
            self.assertIn("no GPU: no CUDA-capable device is detected", str(e))
            rank = job.ranks[0]
        self.assertIsNotNone(rank, worker)
        self.assertEqual(rank.end(), 1)
        job.kill()

    def test_a_gpu_twice_in_one_host(self):
        """Ranks that say that they are the same host are refused by NCCL: the worker says it is another each."""
        self.job(2).begin().done()

    def test_an_id_that_is_none(self):
        job = self.job(2).start()
        for wrong in (None, "", "00", "zz" * 128, job.id + "0"):
            with self.subTest(id=wrong):
                other = self.job(2).start()
                other.id = wrong
                other.connect()
                self.fails(other.ranks[1], r"connect: `nccl_id' must be the 256 hexadecimal digits", "input", 2)
                other.kill()

    def test_a_peer_without_an_address(self):
        job = self.job(2).start()
        job.ranks[0].tell({"cmd": "connect", "hops": [], "nccl_id": job.id})
        self.fails(job.ranks[0], r"`nccl_peers' does not say where the other end of hop 0 is", "input", 2)

    def test_no_such_interface(self):
        worker = driver.Worker({**Ranks(2).spec(0), "nccl": {"addr": "192.0.2.1"}})
        self.cleanup.append(worker.kill)
        self.fails(worker, r"^j rank 0 on h0: nccl: no interface here has the address 192\.0\.2\.1$", "system")

    def test_black_hole_before_the_start(self):
        self.network()
        job = self.job(2, where=PAIR, connect_timeout_ms=2500).start()
        driver.run("ip netns exec bwk-1 iptables -A INPUT -p tcp -j DROP")
        job.connect()
        for rank in (0, 1):
            self.fails(job.ranks[rank], rf"^j rank {rank} on h{rank}: (NCCL: not all 2 ranks had come within 2\.5 s|"
                       r"join the communicator: NCCL: )", ("timeout", "peer", "system"))


class Running(Fault):
    def test_killed_in_step_1(self):
        job = self.job(3, **SLOW).begin()
        time.sleep(1.4 * 4 * 0.18)
        job.ranks[1].kill()
        for rank in (0, 2):
            self.fails(job.ranks[rank], rf"^j rank {rank} on h{rank}: hop {rank // 2} step \d+: .*remote process exited.*"
                       r"NCCL's log: .*closed", "peer")

    def test_hangs_in_step_1(self):
        job = self.job(2, step_timeout_ms=2500, **SLOW).begin()
        time.sleep(1.4 * 3 * 0.18)
        job.ranks[1].process.send_signal(signal.SIGSTOP)
        self.fails(job.ranks[0], r"^j rank 0 on h0: hop 0 step \d+: no gradient of micro-batch \d for stage 0 within 2\.5 s",
                   "timeout")

    def test_black_hole(self):
        """NCCL itself says nothing about it, ever."""
        self.network()
        job = self.job(2, where=PAIR, step_timeout_ms=2500, **SLOW).begin()
        time.sleep(0.4)
        driver.run("ip netns exec bwk-1 iptables -A INPUT -p tcp -j DROP")
        driver.run("ip netns exec bwk-0 iptables -A INPUT -p tcp -j DROP")
        for rank in (0, 1):
            self.fails(job.ranks[rank], rf"^j rank {rank} on h{rank}: hop 0 step \d+: no (activation|gradient) of micro-batch "
                       r"\d for stage \d within 2\.5 s", "timeout")

    def test_link_goes_down(self):
        self.network()
        job = self.job(2, where=PAIR, step_timeout_ms=2500, **SLOW).begin()
        time.sleep(0.4)
        driver.run("ip -n bwk-0 link set eth-up down")
        for rank in (0, 1):
            self.fails(job.ranks[rank], rf"^j rank {rank} on h{rank}: hop 0 step \d+: ", ("timeout", "peer"))

    def test_agent_is_gone(self):
        job = self.job(2, **SLOW).begin()
        time.sleep(0.2)
        job.ranks[1].hang_up()
        self.fails(job.ranks[1], r"^j rank 1 on h1: the agent is gone$", "system")
        self.fails(job.ranks[0], r"^j rank 0 on h0: hop 0 step \d+: .*remote process exited", "peer")

    def test_nccl_does_not_abort(self):
        """The error is said at once, and the process ends all the same."""
        job = self.job(2, step_timeout_ms=2500, environment=self.everywhere(1, abort="hang"), **SLOW).begin()
        time.sleep(0.3)
        job.ranks[1].process.send_signal(signal.SIGSTOP)
        self.fails(job.ranks[0], r"^j rank 0 on h0: hop 0 step \d+: no gradient", "timeout")

    def test_nccl_does_not_end(self):
        job = self.job(2, step_timeout_ms=2500, environment=self.everywhere(1, finalize="hang")).begin()
        self.assertEqual(job.ranks[1].event(60)["event"], "done")
        self.fails(job.ranks[0], r"^j rank 0 on h0: NCCL: the communicator did not end within 2\.5 s", "timeout")

    def test_another_size(self):
        """What a receiver wants must be what the sender has."""
        job = self.job(2, connect_timeout_ms=5000)
        spec = job.spec
        job.spec = lambda stage: {**spec(stage), "hops": [{**spec(stage)["hops"][0], "bytes": 5000 + stage}]}
        job.start().connect()
        texts = [job.ranks[rank].event()["text"] for rank in (0, 1)]
        self.assertRegex("\n".join(texts), r"first messages: .*NCCL: internal error.*message truncated")


class OtherWays(Fault):
    def refused(self, pattern, **standin):
        job = self.job(2, environment=self.everywhere(2, **standin)).start().connect()
        for rank in (0, 1):
            self.fails(job.ranks[rank], rf"^j rank {rank} on h{rank}: {pattern}", "protocol")

    def test_shared_memory(self):
        self.refused(r"NCCL's log says that rank \d reaches rank \d via SHM/direct/direct, not over kernel sockets",
                     path="SHM/direct/direct")

    def test_infiniband(self):
        self.refused(r"NCCL's log says that rank \d reaches rank \d via NET/IB/0/GDRDMA", path="NET/IB/0/GDRDMA")

    def test_another_network(self):
        self.refused(r"NCCL's log says that it uses the network `AWS', not Socket", network="AWS")

    def test_the_environment_has_no_say(self):
        """What is set for NCCL is what the worker sets."""
        own = {"NCCL_NET": "IB", "NCCL_SOCKET_IFNAME": "nosuch0", "NCCL_HOSTID": "one", "NCCL_DEBUG": "WARN"}
        job = self.job(2, environment={s: own for s in range(2)}).begin()
        job.done()
        self.assertRegex("\n".join(job.ranks[0].errors), r"NCCL_NET=IB of the environment is dropped")


class Refused(Fault):
    def refused(self, change, pattern, stages=2, **options):
        worker = driver.Worker({**Ranks(stages, **options).spec(0), **change})
        self.cleanup.append(worker.kill)
        self.fails(worker, pattern, "input", 2)

    def test_specs(self):
        nccl = {"addr": "127.0.0.1"}
        self.refused({"nccl": {}}, r"spec: `nccl': .*addr")
        self.refused({"nccl": {**nccl, "lanes": 1}}, r"spec: `nccl': .*lanes")
        self.refused({"nccl": {"addr": "nowhere"}}, r"nccl: address `nowhere': not IPv4 or IPv6")
        self.refused({"nccl": {**nccl, "gpu": -1}}, r"nccl: `gpu' = -1: must be 0 to")
        self.refused({"nccl": {**nccl, "threads": 17}}, r"`threads' = 17")
        self.refused({"nccl": {**nccl, "threads": 16, "sockets": 5}}, r"64 sockets in all")
        self.refused({"nccl": {**nccl, "channels": 33}}, r"`channels' = 33")
        self.refused({}, r"interleaved-1f1b cannot run over NCCL", 3, schedule="interleaved-1f1b", chunks=2,
                     micro_batches=3)
        spec = Ranks(2).spec(0)
        del spec["nccl"]
        worker = driver.Worker(spec)
        self.cleanup.append(worker.kill)
        self.fails(worker, r"hop 0: of kind nccl, and the spec has no `nccl'", "input", 2)


if __name__ == "__main__":
    driver.main()
