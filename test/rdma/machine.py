"""One QEMU: an emulated x86_64 (no KVM) whose root file system is this machine's, read-only.
rdmalab.py starts it, and it is ended by its pid.
"""
import fcntl
import json
import os
import re
import signal
import socket
import subprocess
import time

from lib.processes import Failure, dies_with_parent

PORTS = 6  # number of simultaneous sessions
# QEMU 7.2 leaves flags after CMPXCHG16B that no processor has (README.md); without that instruction
# Linux's allocator takes another way.
CPU = "max,-cx16"
DEAD = re.compile(rb"Kernel panic - not syncing|^GUEST-FAILED|Oops: |BUG: unable to handle|general "
                  rb"protection fault", re.M)


class Gone(Failure):
    """A guest's kernel, or its QEMU, has ended."""


def escaped(path):
    """Escapes a value in an option of QEMU."""
    return str(path).replace(",", ",,")


# Clears the kernel's log, which belongs to an earlier case. An RDMA device by which no connection
# succeeds any more (README.md), or which was removed, is made anew.
DEVICES = """
dmesg -C
! rdma resource show qp 2>/dev/null | grep -q 'type GSI state ERR' || for rnic in rxe0 rxe1; do
	[ ! -e /sys/class/infiniband/$rnic ] || rdma link del $rnic
done
shopt -s nullglob
for netdev in /sys/class/net/eth*; do
	n=${netdev##*eth}
	[ -e /sys/class/infiniband/rxe$n ] || rdma link add rxe$n type rxe netdev eth$n
done
"""


class Machine:
    """folder: the lab's; the machine's files in it are guestN.*. wedged: a case found that the
    guest does not work.
    """

    share, emulated, devices = True, True, DEVICES

    def __init__(self, folder, number):
        self.folder, self.number = folder, number
        self.popen, self.wedged, self.lock = None, False, None
        self.seen = b""
        try:
            with open(self.path("since")) as file:
                self.looked = int(file.read())
        except FileNotFoundError:
            self.looked = 0

    def path(self, name):
        return os.path.join(self.folder, f"guest{self.number}.{name}")

    def start(self, kernel, *, vcpus, memory, links, guests, stays, ends):
        """Starts QEMU. stays: it outlives this process; otherwise it ends with this process,
        however that ends. ends: of its links, sockets.
        """
        network = []
        for link in range(links):
            if guests == 2:
                network += ["-netdev",
                            f"stream,id=n{link},server=off,"
                            f"addr.type=fd,addr.str={ends[link].fileno()}"]
            else:
                network += ["-netdev", f"hubport,id=n{link},hubid={link}"]
            network += ["-device", f"virtio-net-pci,netdev=n{link},id=eth{link},romfile=,"
                        f"mac=52:54:00:00:{link:02x}:{self.number:02x}"]
        ports = []
        for port in range(PORTS):
            ports += ["-chardev",
                      f"socket,id=p{port},"
                      f"path={escaped(self.path(f'port{port}'))},server=on,wait=off",
                      "-device", f"virtserialport,chardev=p{port},name=rsock.{port}"]
        argv = ["qemu-system-x86_64", "-name", f"rsock-guest{self.number}", "-accel",
                "tcg,thread=multi", "-cpu", CPU,
                "-smp", str(vcpus), "-m", str(memory), "-nodefaults", "-no-user-config",
                "-no-reboot", "-display", "none",
                "-serial", f"file:{self.path('console')}",
                "-kernel", f"{kernel}/vmlinuz", "-initrd", f"{kernel}/initrd.gz",
                "-append", "console=ttyS0 quiet oops=panic panic=0 mitigations=off nokaslr "
                           "tsc=reliable audit=0 apparmor=0 "
                "init_on_alloc=0 cryptomgr.notests rcupdate.rcu_expedited=1 "
                f"8250.nr_uarts=1 node={self.number} links={links} ports={PORTS}",
                "-qmp", f"unix:{escaped(self.path('qmp'))},server=on,wait=off",
                "-device", f"virtio-serial-pci,max_ports={PORTS + 1}", *ports, *network]
        for name, path, more in (("hostroot", "/", ",readonly=on,multidevs=remap"),
                                 ("lab", self.folder, ""),
                                 ("modules", f"{kernel}/modules", ",readonly=on")):
            argv += ["-fsdev", f"local,id={name},path={escaped(path)},security_model=none{more}",
                     "-device", f"virtio-9p-pci,fsdev={name},mount_tag={name}"]
        open(self.path("console"), "wb").close()
        with open(self.path("qemu"), "wb") as said:
            self.popen = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=said, stderr=said,
                                          start_new_session=True,
                                          preexec_fn=None if stays else dies_with_parent(),
                                          pass_fds=[end.fileno() for end in ends])
        with open(self.path("pid"), "w") as file:
            file.write(f"{self.popen.pid}\n")
        self.booted(0)

    def booted(self, since):
        """Forgets what the console said before: it is of an earlier boot. The offset is kept in a
        file for other processes, too.
        """
        with open(self.path("since"), "w") as file:
            file.write(str(since))
        self.looked, self.seen, self.wedged = since, b"", False

    def pid(self):
        """Its pid; 0 if it is not running. A pid that belongs to another program by now does not
        count.
        """
        try:
            with open(self.path("pid")) as file:
                pid = int(file.read())
            with open(f"/proc/{pid}/cmdline", "rb") as file:
                return pid if os.fsencode(escaped(self.path("qmp"))) in file.read() else 0
        except (OSError, ValueError):
            return 0

    def stop(self):
        pid = self.pid()
        if pid:
            os.kill(pid, signal.SIGKILL)
        if self.popen:
            self.popen.wait()
        else:
            while self.pid():
                time.sleep(0.01)
        if self.lock:
            self.lock.close()
            self.lock = None

    # ---- is it well? ---------------------------------------------------------------------------
    def check(self):
        """Raises Gone if QEMU has ended, or the guest's kernel has died."""
        ended = (self.popen.poll() is not None) if self.popen else not self.pid()
        try:
            with open(self.path("console"), "rb") as file:
                file.seek(self.looked)
                self.seen = (self.seen + file.read())[-65536:]
                self.looked = file.tell()
        except FileNotFoundError:
            pass
        found = DEAD.search(self.seen)
        if found or ended:
            self.wedged = True
            what = f"its console says {found.group().decode()!r}" if found else "its QEMU ended"
            with open(self.path("qemu"), errors="replace") as file:
                raise Gone(f"guest {self.number} is gone: "
                           f"{what}\n{self.console_tail()}\n{file.read()}")

    def console_tail(self, lines=30):
        try:
            with open(self.path("console"), errors="replace") as file:
                kept = [line.rstrip() for line in file if "speed is unknown" not in line]
        except FileNotFoundError:
            return ""
        return "\n".join(kept[-lines:])

    # ---- ways to it ----------------------------------------------------------------------------
    def port(self):
        """Connects to the agent by a port that no other session has; the port is ours until the
        lock is closed.
        """
        if self.lock:
            self.lock.close()
        for number in range(PORTS):
            lock = open(self.path(f"port{number}.lock"), "w")
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                lock.close()
                continue
            self.lock = lock
            return self.dial(f"port{number}")
        raise Failure(f"guest {self.number}: all {PORTS} ports of its agent are taken")

    def dial(self, name, seconds=20):
        deadline = time.monotonic() + seconds
        while True:
            client = socket.socket(socket.AF_UNIX)
            try:
                client.connect(self.path(name))
                return client
            except OSError:
                client.close()
            self.check()
            if time.monotonic() > deadline:
                raise Failure(f"guest {self.number}: no {name} after {seconds} s")
            time.sleep(0.01)

    def qmp(self, *commands):
        """Sends commands to QEMU itself: (name, arguments)."""
        with self.dial("qmp") as client:
            client.settimeout(20)
            lines = client.makefile("rb")
            json.loads(lines.readline())
            for name, arguments in (("qmp_capabilities", {}), *commands):
                client.sendall(json.dumps({"execute": name, "arguments": arguments}).encode() +
                               b"\n")
                while True:
                    answer = json.loads(lines.readline() or b"{}")
                    if "return" in answer:
                        break
                    if "event" not in answer:
                        raise Failure(f"guest {self.number}: {name}: {answer}")

    def reset(self):
        """Boots the guest anew, whatever it is doing."""
        self.qmp(("set-action", {"reboot": "reset"}), ("system_reset", {}))
        self.booted(os.path.getsize(self.path("console")))

    def settled(self):
        """The guest has booted: from now on a reboot that it does itself ends QEMU."""
        self.qmp(("set-action", {"reboot": "shutdown"}))

    def cable(self, plugged, link=0):
        self.qmp(("set_link", {"name": f"eth{link}", "up": plugged}))
