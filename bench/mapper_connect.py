"""Measures a connection between two hosts, each with its rsockd: plain, with a mapping requested in
parallel, and with a mapping awaited first. Called by mapper.py."""
import statistics
import signal
import subprocess
import tempfile

from lib.processes import dies_with_parent, until
from mapper_lab import BIN, Daemon, run, two_hosts
from table import median_interval

SERVICE = 5201
TURNS = {
    "plain": "plain",
    "beside": "a mapping asked at the same time, nothing waited for",
    "first": "a mapping waited for, over the wire (an aggregate address)",
    "remembered": "the same, answered from the PM client's memory",
}


def host_config(host):
    return {"listen": [f"{host.address}:3935"], "pmsp": {"max-open": "200000", "rate": "0"},
            "rnics": [{"name": "rnic0", "addresses": [host.address]}],
            "services": [{"name": "bench", "ports": [str(SERVICE)], "rdma-port": "18000",
                          "pm-time": "254s"}],
            "rules": [{"name": "everything"}]}


def await_server(host):
    def listens():
        return subprocess.run([*host.inside, "ss", "-Hltn", f"sport = :{SERVICE}"],
                              capture_output=True, check=True).stdout
    until(listens, 10, "pmconnect to listen")


def measure(rounds):
    """Returns microseconds from connect() to the acceptor's first byte, by variant; measurements of
    one round are paired."""
    a, b = two_hosts()
    started = []
    with tempfile.TemporaryDirectory() as folder:
        try:
            for host in (a, b):
                started.append(Daemon(folder, host.inside, host.ns, **host_config(host)).popen)
            started.append(subprocess.Popen([*b.inside, str(BIN / "pmconnect"), "serve", b.address,
                                             str(SERVICE)],
                                            preexec_fn=dies_with_parent(signal.SIGTERM)))
            await_server(b)
            return run(*a.inside, BIN / "pmconnect", rounds, f"{folder}/{a.ns}.sock", b.address,
                       SERVICE)
        finally:
            for popen in started:
                popen.terminate()
                popen.wait(10)


def tell(took):
    print("\nFrom connect() to the acceptor's first byte, two hosts on one machine (veth), by "
          "turns; ratio to the plain one "
          "beside it, with its 95 % interval:\n")
    print("| connection | p50 us | p99 us | ratio |\n|---|---|---|---|")
    for name, title in TURNS.items():
        cuts = statistics.quantiles(took[name], n=100)
        ratio = "" if name == "plain" else "{:.3f} ({:.3f} to {:.3f})".format(
            *median_interval([own / plain for plain, own in zip(took["plain"], took[name])]))
        print(f"| {title} | {statistics.median(took[name]):.1f} | {cuts[98]:.1f} | {ratio} |")
