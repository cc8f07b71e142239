#!/usr/bin/env python3
"""bace-worker-nccl as it was linked with the real CUDA and NCCL."""
import ctypes
import os
import re
import subprocess
import unittest

from ranks import Ranks, driver


class Linked(unittest.TestCase):
    def libraries(self):
        text = driver.output(f"ldd {driver.WORKER}")
        return dict(re.findall(r"(lib(?:nccl|cudart|cublas)\.so[.\d]*) => (\S+)", text))

    def test_libraries(self):
        self.assertEqual(len(self.libraries()), 3, self.libraries())

    def test_unique_id_without_a_gpu(self):
        path = next(p for n, p in self.libraries().items() if n.startswith("libnccl"))
        os.environ.update(NCCL_SOCKET_IFNAME="=lo", NCCL_NET="Socket")
        nccl = ctypes.CDLL(path)
        version = ctypes.c_int()
        self.assertEqual(nccl.ncclGetVersion(ctypes.byref(version)), 0)
        self.assertGreaterEqual(version.value, 22000)
        unique = ctypes.create_string_buffer(128)
        self.assertEqual(nccl.ncclGetUniqueId(unique), 0)
        self.assertNotEqual(unique.raw, bytes(128))

    def test_without_a_gpu(self):
        r = subprocess.run(["sh", "-c", "ls /dev/nvidia0"], capture_output=True, check=False)
        if r.returncode == 0:
            self.skipTest("there is a GPU: tests/gpu/run.sh is for it")
        worker = driver.Worker(Ranks(2).spec(0))
        e = worker.event()
        self.assertEqual(e["event"], "error", e)
        self.assertRegex(e["text"], r"^j rank 0 on h0: no GPU: ")
        self.assertEqual(worker.end(), 1)

    def test_same_interface_as_the_stand_in(self):
        """Compiled with the real headers, it runs with the stand-in: both have the same declarations."""
        options = os.environ.get("ASAN_OPTIONS", "")
        # A sanitizer's library wants to be the first.
        os.environ.update(LD_PRELOAD=os.environ["STANDIN"], ASAN_OPTIONS=options + ":verify_asan_link_order=0")
        try:
            for compute in ("timed", "cuda"):
                job = Ranks(2, compute=compute, fwd_ns=8000000, bwd_ns=16000000).begin()
                for r in job.done():
                    self.assertEqual(len(r["steps"]), 3)
        finally:
            del os.environ["LD_PRELOAD"]
            os.environ["ASAN_OPTIONS"] = options


if __name__ == "__main__":
    driver.main()
