#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""The packages of make deb, as an operator uses them: lintian, then a Debian root of their own in
which they are installed, used, upgraded under running programs, removed and purged; nothing may be
left behind.

Needs root. All of it happens in namespaces of its own (mounts, processes, later the network):
however it ends, nothing stays mounted or running. Packages come from the sources that the machine's
own come from.
"""
import ctypes
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

TREE = Path(__file__).resolve().parents[2]
DEBS = TREE / "build/deb"
ROOT = TREE / "build/deb-root"
CACHE = TREE / "build/deb-cache"
CODENAME = "bookworm"
PORT = 6390
DEADLINE_S = 60
CLONE_NEWNET = 0x40000000
# Paths that apt, dpkg and running programs write besides the packages' files.
NOT_PACKAGES = re.compile(
    r"/(proc|sys|dev|run|tmp|debs|var/cache|var/log|var/lib/apt)(/|$)"
    r"|/var/lib/dpkg/([^/]*-old|triggers/.*)$"
    r"|/var/lib/dpkg/info/format-new$"
    r"|/etc/(passwd|group|shadow|gshadow)-$|/etc/\.pwd\.lock$")


def say(text):
    print(f"test-deb: {text}", flush=True)


def demand(truth, text):
    if not truth:
        sys.exit(f"test-deb: FAILED: {text}")


def run(*command, **how):
    done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True,
                          check=False, **how)
    demand(done.returncode == 0,
           f"{' '.join(map(str, command))}: status {done.returncode}\n{done.stdout}")
    return done.stdout


def in_root(*command, user=None):
    env = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C.UTF-8",
           "DEBIAN_FRONTEND": "noninteractive"}
    userspec = [f"--userspec={user}"] if user else []
    return run("chroot", *userspec, ROOT, *command, env=env)


def apt(*words):
    return in_root("apt-get", "-q", "-y", "-o", "APT::Install-Recommends=false", *words)


# ---- the root ----

def mirror():
    """The mirror that this machine's Debian packages come from."""
    out = run("apt-get", "indextargets", "--format",
              "$(ORIGIN) $(CODENAME) $(COMPONENT) $(REPO_URI)", "Created-By: Packages")
    places = [line.split()[3] for line in out.splitlines()
              if line.split()[:3] == ["Debian", CODENAME, "main"]]
    demand(places, f"apt knows no place of Debian's {CODENAME} main (apt-get update)")
    return places[0]


def make_root():
    shutil.rmtree(ROOT, ignore_errors=True)
    CACHE.mkdir(exist_ok=True)
    run("debootstrap", "--variant=minbase", f"--cache-dir={CACHE}",
        "--keyring=/usr/share/keyrings/debian-archive-keyring.gpg", CODENAME, ROOT, mirror())
    proxies = [line for line in run("apt-config", "dump", "Acquire").splitlines()
               if "::proxy" in line.lower()]
    (ROOT / "etc/apt/apt.conf.d/99proxy").write_text("".join(line + "\n" for line in proxies),
                                                     encoding="utf-8")
    run("mount", "-t", "proc", "proc", ROOT / "proc")
    run("mount", "-t", "tmpfs", "-o", "mode=1777", "shm", ROOT / "dev/shm")
    (ROOT / "debs").mkdir()
    for deb in packages().values():
        shutil.copy(deb, ROOT / "debs")
    apt("update")
    apt("install", "systemd-sysv", "dbus", "jq", "redis-server", "redis-tools")


def no_network():
    """From here on there is only a loopback device."""
    demand(ctypes.CDLL(None, use_errno=True).unshare(CLONE_NEWNET) == 0, "no network namespace")
    run("ip", "link", "set", "lo", "up")


def files():
    return {"/" + str(p.relative_to(ROOT)) for folder, below, names in os.walk(ROOT)
            for p in map(Path(folder).joinpath, below + names)
            if not NOT_PACKAGES.search("/" + str(p.relative_to(ROOT)))}


# ---- the packages ----

def packages():
    """{name: file}, without debug symbols."""
    found = {p.name.split("_")[0]: p for p in sorted(DEBS.glob("*.deb"))
             if "-dbgsym_" not in p.name}
    demand({"librsock", "rsock", "rsock-bench", "rsockd"} == set(found),
           f"make deb has made {sorted(found)}")
    return found


def check_lintian():
    changes = list(DEBS.glob("*.changes"))
    demand(len(changes) == 1, "no .changes file")
    # There is no Debian bug that asks for these packages.
    print(run("lintian", "--allow-root", "--fail-on", "error", "--suppress-tags",
              "initial-upload-closes-no-bugs",
              changes[0]), end="")


def check_contents():
    """Everything that CMake installs is in exactly one package."""
    whole = TREE / "build/deb/whole"
    build = next((DEBS / "source").glob("obj-*"))
    run("cmake", "--install", build, env={**os.environ, "DESTDIR": str(whole)})
    wanted = {"/" + str(p.relative_to(whole)) for p in whole.rglob("*") if not p.is_dir()}
    owners = {}
    for name in packages():
        for path in in_root("dpkg", "-L", name).splitlines():
            if not (ROOT / path[1:]).is_dir():
                owners.setdefault(path.removesuffix(".gz"), []).append(name)
    demand(wanted and wanted <= set(owners), f"in no package: {sorted(wanted - set(owners))}")
    demand(all(len(names) == 1 for names in owners.values()), "a file of two packages")
    for page in wanted:
        if "/man/" in page:
            done = subprocess.run(["man", "--warnings", "-E", "UTF-8", "-l", "-Tutf8", "-Z",
                                   f"{ROOT}{page}.gz"],
                                  capture_output=True, text=True, check=False)
            demand(done.stdout and not done.stderr and done.returncode == 0,
                   f"{page}: {done.stderr}")
    changes = run("zcat", ROOT / "usr/share/doc/librsock/changelog.gz")
    demand(changes == (TREE / "CHANGELOG.md").read_text(encoding="utf-8"),
           "librsock ships another CHANGELOG.md")
    completion = ROOT / "usr/share/bash-completion/completions/rsock"
    run("bash", "-n", completion)
    out = run("tshark", "-G", "protocols", "-X", f"lua_script:{ROOT}/usr/share/rsock/rsock_pm.lua")
    demand("rsockpm" in out, "the dissector is not found")


class Pair:
    """redis-server and redis-benchmark with the library by its bare name, as the manual describes.
    """

    def __init__(self):
        self.started = []
        self.start("redis-server", "--port", str(PORT), "--save", "", "--bind", "127.0.0.1",
                   "--dir", "/tmp")
        end = time.monotonic() + DEADLINE_S
        while not self.answers():
            demand(time.monotonic() < end, "redis-server does not listen")
        self.start("redis-benchmark", "-p", str(PORT), "-c", "2", "-n", "1000000000", "-t", "get")

    def start(self, *command):
        env = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C.UTF-8"}
        self.started.append(subprocess.Popen(
            ["chroot", "--userspec=redis:redis", ROOT, "env", "LD_PRELOAD=librsock.so", *command],
            env=env,
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL))

    def answers(self):
        demand(self.started[0].poll() is None, "redis-server has ended")
        with socket.socket() as s:
            return s.connect_ex(("127.0.0.1", PORT)) == 0

    def direct(self):
        """By rsock stat: ends of open streams that are direct, and the bytes that went over rings.
        """
        for process in self.started:
            demand(process.poll() is None, f"{process.args} has ended: {process.returncode}")
        stat = json.loads(in_root("rsock", "stat", "--json", user="redis:redis"))
        ends = [s for s in stat["streams"] if s["open"] and s["reason"] == "direct"
                and s["tx"] == s["rx"] == "ring"]
        return len(ends), sum(s["tx_ring_bytes"] for s in ends)

    def wait_direct(self, more_than=0):
        end = time.monotonic() + DEADLINE_S
        while True:
            ends, ring_bytes = self.direct()
            if ends == 4 and ring_bytes > more_than:
                return ring_bytes
            demand(time.monotonic() < end,
                   f"{ends} of 4 ends are direct, {ring_bytes} bytes over rings:\n"
                   + in_root("rsock", "stat", user="redis:redis"))

    def stop(self):
        for process in reversed(self.started):
            process.kill()
            process.wait()


def check_use():
    version = run("dpkg-parsechangelog", "-S", "Version", cwd=TREE).strip().split("-")[0]
    demand(version in in_root("rsock", "--version"), "rsock --version says another version")
    demand("not-earned" in in_root("rsock", "reasons"), "rsock reasons")
    in_root("rsperf", "--help")
    pair = Pair()
    before = pair.wait_direct()
    say(f"streams are direct, {before} bytes over rings; now the packages once more, under the "
        f"running programs")
    apt("install", "--reinstall", *debs())
    pair.wait_direct(more_than=before)
    pair.stop()


def syscall_sets():
    """{@set: calls} of systemd's sets; sets within sets are resolved."""
    sets, name = {}, None
    for line in run("systemd-analyze", "syscall-filter").splitlines():
        if line.startswith("@"):
            name = line.strip()
            sets[name] = set()
        elif not line.strip():
            name = None
        elif name and not line.strip().startswith("#"):
            sets[name].add(line.strip())

    def whole(names):
        return set().union(*(whole(sets[n]) if n.startswith("@") else {n}
                             for n in names)) if names else set()
    return {name: whole(names) for name, names in sets.items()}


def check_syscalls(unit):
    """The unit's filter allows the daemon everything that its own filter (sandbox.c) allows,
    and the calls by which libseccomp puts that filter into force.
    """
    sets = syscall_sets()
    allowed = set()
    for line in unit.read_text(encoding="utf-8").splitlines():
        if line.startswith("SystemCallFilter="):
            words = line.split("=", 1)[1]
            calls = set().union(*(sets.get(w, {w}) for w in words.lstrip("~").split()))
            allowed = allowed - calls if words.startswith("~") else allowed | calls
    sandbox = (TREE / "mapper/rsockd/base/sandbox.c").read_text(encoding="utf-8")
    needed = set(re.findall(r"SCMP_SYS\((\w+)\)", sandbox)) | {"capset", "seccomp", "prctl"}
    demand(len(needed) > 40 and needed <= allowed, f"the unit forbids {sorted(needed - allowed)}")


def check_daemon():
    """The daemon can be started with what the package sets up: unit, user, configuration."""
    unit = ROOT / "lib/systemd/system/rsockd.service"
    demand(unit.exists(), "no unit")
    check_syscalls(unit)
    run("systemd-analyze", "verify", "--man=no", f"--root={ROOT}", "rsockd.service")
    run("systemd-analyze", "security", "--offline=yes", "--threshold=20", f"--root={ROOT}",
        "rsockd.service")
    demand("nologin" in in_root("getent", "passwd", "rsockd"), "the user rsockd")
    demand(in_root("getent", "group", "rsock").strip().endswith(":"), "the group rsock, empty")
    in_root("rsockd", "--test", "--config", "/etc/rsock/rsockd.conf")
    in_root("install", "-d", "-o", "rsockd", "-g", "rsockd", "/run/rsockd", "/run/rsock",
            "/var/lib/rsockd")
    ready = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    ready.bind(str(ROOT / "run/notify"))
    ready.settimeout(DEADLINE_S)
    os.chmod(ROOT / "run/notify", 0o666)
    daemon = subprocess.Popen(["chroot", "--userspec=rsockd:rsockd", ROOT, "env",
                               "NOTIFY_SOCKET=/run/notify",
                               "/usr/sbin/rsockd", "--config", "/etc/rsock/rsockd.conf"])
    demand(b"READY=1" in ready.recv(4096), "rsockd is not ready")
    demand((ROOT / "run/rsockd/control.sock").is_socket(), "no control socket")
    daemon.send_signal(signal.SIGTERM)
    demand(daemon.wait(DEADLINE_S) == 0, "rsockd ended with a failure")


# A script that runs in the booted root; its output is the result.
ON_BOOT = """[Unit]
After=rsockd.service redis-server.service
[Service]
Type=oneshot
StandardOutput=file:/result/out
StandardError=file:/result/err
ExecStart=/bin/bash /result/script
ExecStopPost=/bin/systemctl --force poweroff
"""
SCRIPT = """set -e
systemctl is-active rsockd redis-server
grep -E '^Cap(Inh|Prm|Eff|Bnd|Amb):' /proc/$(systemctl show -P MainPID rsockd)/status
systemctl reload rsockd
systemctl is-active rsockd
coproc runuser -u redis -- env LD_PRELOAD=librsock.so \
	redis-benchmark -c 1 -n 1000000000 -t get >/dev/null 2>&1
for attempt in {1..200}; do
	streams=$(runuser -u redis -- rsock stat --json |
		jq -c '[.streams[] | select(.open and .reason == "direct")] | length')
	[ "$streams" -lt 2 ] || break
done
echo "direct $streams"
runuser -u redis -- rsock stat >&2
"""


def check_booted():
    """The root with systemd as its first process: the daemon by its unit, redis by the manual's
    drop-in, the client preloaded.
    """
    page = (TREE / "docs/man/librsock.7").read_text(encoding="utf-8")
    result = DEBS / "booted"  # not in the root, which the overlay hides
    result.mkdir()
    (result / "on-boot.service").write_text(ON_BOOT, encoding="utf-8")
    (result / "script").write_text(SCRIPT, encoding="utf-8")
    (result / "librsock.conf").write_text(re.search(r"^\.nf\n(\[Service\]\n.*?)^\.fi", page,
                                                    re.M | re.S)[1], encoding="utf-8")
    units = "/etc/systemd/system"
    # Nothing that is written stays.
    booted = run("timeout", "-k", "10", "120", "systemd-nspawn", "-q", "-D", ROOT,
                 "--volatile=overlay", "--register=no",
                 "--keep-unit", "--private-network", f"--bind={result}:/result",
                 f"--bind-ro={result}/on-boot.service:{units}/on-boot.service",
                 f"--bind-ro={result}/librsock.conf:{units}/redis-server.service.d/librsock.conf",
                 "--boot", "systemd.wants=on-boot.service")
    out, err = ((result / name).read_text(encoding="utf-8") if (result / name).exists() else ""
                for name in ("out", "err"))
    lines = out.split("\n")
    demand(lines[:2] == ["active", "active"], f"units do not run: {out}{err}{booted}")
    caps = [line.split()[1] for line in lines if line.startswith("Cap")]
    demand(len(caps) == 5 and not any(int(c, 16) for c in caps), f"rsockd has capabilities: {out}")
    demand(lines[7:9] == ["active", "direct 2"],
           f"not direct with the manual's drop-in, or no reload: {out}{err}")


def debs():
    return [f"/debs/{p.name}" for p in packages().values()]


def main():
    demand(not os.environ.get("RSOCK_TEST_FAIL"), "RSOCK_TEST_FAIL is set")
    say("lintian")
    check_lintian()
    say(f"a root with Debian {CODENAME}, and what the packages depend on")
    make_root()
    apt("install", "--download-only", *debs())
    no_network()
    before = files()
    say("install")
    apt("install", *debs())
    added = files() - before
    check_contents()
    check_use()
    say("the daemon")
    check_daemon()
    say("systemd: the unit, and a service preloaded as the manual says")
    check_booted()
    say("remove, then purge")
    apt("remove", *packages())
    conffiles = {p for p in files() - before if p.startswith("/etc/rsock")}
    demand(conffiles == {"/etc/rsock", "/etc/rsock/rsockd.conf"},
           f"what is configured must outlive removal: {conffiles}")
    in_root("dpkg", "--purge", *packages())
    apt("autoremove", "--purge")
    left, lost = files() - before, before - files()
    demand(not left and not lost, f"left behind: {sorted(left)}; lost: {sorted(lost)}")
    demand(len(added) > 10, "nothing was installed")
    shutil.rmtree(ROOT / "debs")
    say(f"passed: {', '.join(packages())}; {len(added)} files and folders came, and went")


if __name__ == "__main__":
    demand(os.geteuid() == 0, "needs root: it makes a root folder and namespaces")
    if sys.argv[1:] == ["--inside"]:
        main()
    else:
        done = subprocess.run(["unshare", "--mount", "--propagation", "private", "--pid", "--fork",
                               "--kill-child",
                               "--mount-proc", sys.executable, "-B", __file__, "--inside"],
                              check=False)
        shutil.rmtree(ROOT, ignore_errors=True)
        sys.exit(done.returncode)
