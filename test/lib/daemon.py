"""What a test case asks the rsockd of a host, on whatever kind of host (netlab.py,
test/rdma/guest.py).
"""
from .processes import Failure


class Daemon:
    """Base class of a host that has ask(method, path, body) -> status and body, and number."""

    def get(self, path):
        status, body = self.ask("GET", path)
        if status != 200:
            raise Failure(f"GET {path} of host {self.number}: {status} {body}")
        return body

    def post(self, path, body, status=200):
        got, answer = self.ask("POST", path, body)
        if got != status:
            raise Failure(f"POST {path} {body} of host {self.number}: got {got}, wanted {status} "
                          f"({answer})")
        return answer

    def metrics(self):
        """{name with labels: value} of all lines of /metrics."""
        lines = [line.rsplit(" ", 1) for line in self.get("/metrics").splitlines()
                 if not line.startswith("#")]
        return {name: float(value) for name, value in lines}

    def figure(self, name):
        return self.metrics().get(f"rsockd_{name}", 0)

    def streams(self, mode=None, reason=None):
        """How many streams are open, of that mode, for that reason."""
        return sum(int(value) for name, value in self.metrics().items()
                   if name.startswith("rsockd_streams{") and
                   (not mode or f'mode="{mode}"' in name)
                   and (not reason or f'reason="{reason}"' in name))

    def map(self, to, port, **more):
        """Asks, as a PM client, for the RDMA address of a service of a host, or of an address."""
        return self.post("/v1/map",
                         {"ip": to.ip if isinstance(to, Daemon) else to, "port": port, **more})

    def counts(self, machine="pmsp"):
        return self.get("/v1/status")[machine]

    def asked(self):
        """How many PMReq came, less those that came again since an answer was late."""
        counts = self.counts()
        return counts["requests"] - counts["duplicates"]

    def device(self, name):
        return next(device for device in self.get("/v1/devices")["devices"]
                    if device["name"] == name)
