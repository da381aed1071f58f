#!/usr/bin/python3
"""Containers made by podman, each with a root file system and all namespaces of its own, and rsockd
on the host: what is mounted into them is what docs/containers.md says, and nothing else of the
host's. The same by bare namespaces, with more cases: net_apart.py.
"""
import itertools
import json
import os
import sys

from lib.harness import case, main
from net_apart import PORT, PUBLISHED, ROOTS, connect, stays_out
from net_local import ALICE, host_with, told, until_direct
from netlab import HERE, Host

ROOT = os.path.join(HERE, "../../build/roots/container")  # scripts/container-root.sh
# A mount namespace for podman: it knows cgroups in one hierarchy, and what it keeps in /run and in
# /var/lib/cni (addresses that are taken) ends with the case.
ENGINE = """
set -e
mount --make-rshared /
umount -R /sys/fs/cgroup 2>/dev/null || true
mount -t cgroup2 cgroup2 /sys/fs/cgroup
mount -t tmpfs run /run
mkdir -p /run/pod /var/lib/cni
chown "$2" /run/pod
mount -t tmpfs cni /var/lib/cni
for file in passwd subuid subgid; do
	[ ! -e "$1/$file" ] || mount --bind "$1/$file" /etc/$file
done
echo ready
exec sleep infinity
"""


class Engine:
    """podman on a host. user: who runs it; in its containers, root is that user."""

    def __init__(self, host, user=None):
        self.host, self.t, self.user = host, host.t, user
        self.numbers = itertools.count(2)
        self.dir = self.t.path("podman")
        os.mkdir(self.dir)
        if user is not None:
            self.make_known(user)
        self.holder = host.run(["unshare", "--mount", "sh", "-c", ENGINE, "sh", self.dir,
                                user or 0], name="engine", stdout="pipe")
        self.t.equal(self.holder.stdout.readline(), b"ready\n", "the engine's mounts")

    def make_known(self, user):
        """To the system, in the engine's mount namespace."""
        os.chown(self.dir, user, user)
        with open("/etc/passwd") as file:
            known = file.read()
        for name, text in (("passwd", f"{known}pod:x:{user}:{user}::{self.dir}:/bin/sh\n"),
                           ("subuid", "pod:300000:65536\n"), ("subgid", "pod:300000:65536\n")):
            with open(os.path.join(self.dir, name), "w") as file:
                file.write(text)

    def words(self, *command):
        """The program "ip" has replaced itself: its pid is in the namespaces."""
        words = ["nsenter", "--target", self.holder.pid, "--mount", "--net"]
        if self.user is not None:
            words += ["setpriv", "--reuid", self.user, "--regid", self.user, "--clear-groups"]
        return [*words, "env", f"HOME={self.dir}", "XDG_RUNTIME_DIR=/run/pod", "podman",
                "--cgroup-manager", "cgroupfs", "--events-backend", "none", "--storage-driver",
                "vfs", "--root", f"{self.dir}/root", "--runroot", "/run/pod/root", *command]

    def container(self, *options):
        return Container(self, *options)


class Container(Host):
    """Starts one container for each program."""

    def __init__(self, engine, *options):
        super().__init__(engine.host.lab, engine.host.number)
        self.engine, self.options = engine, options
        self.ip = f"10.88.0.{next(engine.numbers)}"
        self.local = "/run/rsock/local.sock"
        self.mounts = {os.path.dirname(engine.host.local): "/run/rsock:ro",
                       self.lab.reachable(os.path.join(HERE, "prog", "peer.py")): "/peer.py:ro",
                       self.t.library: "/usr/lib/librsock.so:ro", self.t.tool: "/bin/rsock:ro"}

    def run(self, argv, *, preload=False, user=None, env=None, within=(), **options):
        words = ["run", "--rm", "-i", "--cgroups", "disabled"]
        if not any(word.startswith("--network") for word in self.options):
            words += ["--ip", self.ip]
        for name in "nofile", "nproc":  # podman's own are above what a host may allow
            words += ["--ulimit", f"{name}=4096:4096"]
        for path, at in self.mounts.items():
            words += ["-v", f"{os.path.realpath(path)}:{at}"]
        if user is not None:
            words += ["--user", f"{user}:{user}"]
        if preload:
            words += ["-e", "LD_PRELOAD=/usr/lib/librsock.so", "-e", "RSOCK_DAEMON=" + self.local]
        argv = [word if word != self.lab.reachable(os.path.join(HERE, "prog", "peer.py"))
                else "/peer.py" for word in argv]
        proc = self.t.spawn(self.engine.words(*words, *self.options, "--rootfs", ROOT + ":O",
                                              *argv), preload=False, **options)
        proc.preloaded = preload
        return proc


def engine(t, user=None, **config):
    os.makedirs(t.path("run"))
    host = host_with(t, **{"local": t.path("run", "local.sock"), "vouch": ROOTS, **config})
    host.local = host.config["local"]
    return host, Engine(host, user)


def meet(t, host, server, client, **options):
    """Both are started; the client connects, and all streams become direct."""
    server.listen(PORT)
    if options:
        connect(client, server, options["to"], options["port"])
    else:
        client.connect(server, n=4)
    until_direct(t, host, client, server, 8)
    client.exchange(server, 30 << 20)
    t.check(host.figure("local_apart_total") >= 4, "not found by their first segments")


@case(timeout=120)
def two_containers(t):
    host, pod = engine(t)
    meet(t, host, pod.container().peer(), pod.container().peer())


@case(timeout=120)
def not_root(t):
    """A user that the image does not know."""
    host, pod = engine(t)
    meet(t, host, pod.container().peer(user=60001), pod.container().peer(user=60001))


@case(timeout=120)
def a_published_port(t):
    """From another container, and from the host."""
    host, pod = engine(t)
    server = pod.container("-p", f"{PUBLISHED}:{PORT}").peer()
    meet(t, host, server, pod.container().peer(), to="10.88.0.1", port=PUBLISHED)
    near = host.peer()
    connect(near, server, host.ip, PUBLISHED, group="near")
    until_direct(t, host, near, server, 16, "near")


@case(timeout=120)
def user_namespaces(t):
    """Two of one mapping are one user; with another mapping, root is another user."""
    host, pod = engine(t)
    mapped = ["--uidmap", "0:100000:65536", "--gidmap", "0:100000:65536"]
    server = pod.container(*mapped).peer()
    meet(t, host, server, pod.container(*mapped).peer())
    mapped = ["--uidmap", "0:200000:65536", "--gidmap", "0:200000:65536"]
    stays_out(t, host, server, pod.container(*mapped).peer())


@case(timeout=120)
def one_pod(t):
    """They share the network namespace, and nothing else."""
    host, pod = engine(t)
    server = pod.container("--name", "first").peer().listen(PORT)
    client = pod.container("--network", "container:first").peer()
    connect(client, server, "127.0.0.1", PORT)
    until_direct(t, host, client, server, 8)


@case(timeout=120)
def one_pod_without_root(t):
    """The same by an engine that a user runs: root in the containers is that user."""
    host, pod = engine(t, user=ALICE)
    server = pod.container("--name", "first", "--network", "none").peer().listen(PORT)
    client = pod.container("--network", "container:first").peer()
    connect(client, server, "127.0.0.1", PORT)
    until_direct(t, host, client, server, 8)
    t.stats.sample()
    t.equal({os.stat(f"/proc/{stream.pid}").st_uid for stream in t.stats.streams.values()}, {ALICE},
            "users")


@case(timeout=120)
def what_the_tool_says(t):
    """why, on the host and in a container; check, from one container to another."""
    host, pod = engine(t)
    server = pod.container().peer().listen(PORT)
    client = pod.container("--name", "client").peer()
    client.connect(server)
    until_direct(t, host, client, server, 2)
    within = t.run(pod.words("exec", "client", "rsock", "why", "--json", 1), preload=False)
    t.equal([stream["end"]["reason"] for stream in json.loads(within)["streams"]], ["direct"],
            "why, in the client's container")
    t.stats.sample()
    for pid in {stream.pid for stream in t.stats.streams.values()}:
        status, why = told(t, host, "why", pid)
        t.equal((status, [stream["end"]["reason"] for stream in why["streams"]]), (0, ["direct"]),
                f"why, on the host: {why}")

    serving = pod.container()
    serve = serving.run(["rsock", "check", "--serve", "--bind", "0.0.0.0", PORT], name="serve",
                        preload=True)
    t.until(lambda: "echo on" in serve.out(), 20, "rsock check --serve to listen")
    for words, expected in ((["--echo"], 0), ([], 3)):
        check = pod.container().run(["rsock", "check", "--json", *words, serving.ip, PORT],
                                    name="check", preload=True)
        t.wait(check, 30, expected)
        t.equal(json.loads(check.out())["accelerated"], True if words else None, f"{words}")


if __name__ == "__main__":
    sys.exit(main())
