"""Jobs whose hops are carried by NCCL: the worker's driver, and what NCCL adds to it."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "worker"))
import driver			# noqa: E402  pylint: disable=wrong-import-position


class Ranks(driver.Job):
    """local: hops that stay sockets of the workers; nccl: further members of the spec's."""

    def _is_local(self, hop):
        return hop in self.options.get("local", ())

    def _hop(self, hop, stage):
        h = super()._hop(hop, stage)
        if self._is_local(hop):
            h.update(kind="local", rate_bps=0, latency_ns=0)
        elif h["role"] != "internal":
            h["kind"] = "nccl"
            del h["addr"]
        return h

    def spec(self, stage):
        return {**super().spec(stage), "nccl": {"addr": self.where[stage][1], **self.options.get("nccl", {})},
                "host": f"h{stage}", "compute": self.options.get("compute", "timed")}

    def environment(self, stage):
        return self.options.get("environment", {}).get(stage, {})

    def start(self):
        for s in range(self.n):
            old = dict(os.environ)
            os.environ.update(self.environment(s))
            self.ranks.append(driver.Worker(self.spec(s), self.where[s][0]))
            os.environ.clear()
            os.environ.update(old)
        self.id = None
        for s, rank in enumerate(self.ranks):
            for h in self.spec(s)["hops"]:
                if h["role"] == "listen" and h["kind"] != "nccl":
                    e = rank.event()
                    self.ports[e["hop"]] = (h["addr"], e["port"])
                    if e["event"] != "listening":
                        raise AssertionError(e)
            if s == 0:
                e = rank.event()
                if not e or e["event"] != "nccl-id":
                    raise AssertionError(f"rank 0: {e}")
                self.id = e["id"]
        return self

    def connect_command(self, stage):
        hops = self.spec(stage)["hops"]
        peers = [{"hop": h["hop"], "addr": self.where[(h["hop"] + 1) % self.n if h["hop"] == stage else h["hop"]][1]}
                 for h in hops if h["kind"] == "nccl"]
        return {"cmd": "connect", "nccl_id": self.id, "nccl_peers": peers,
                "hops": [{"hop": h["hop"], "addr": self.ports[h["hop"]][0], "port": self.ports[h["hop"]][1]}
                         for h in hops if h["role"] == "connect" and h["kind"] != "nccl"]}

    def connect(self, only=None):
        for s, rank in enumerate(self.ranks):
            if only is None or s in only:
                rank.tell(self.connect_command(s))
        return self
