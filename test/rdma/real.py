"""A real host in place of a guest: reached by a command that runs a line of shell on it as root,
usually ssh.

The tests do to it what they do to a guest, by the same agent (inside/agent.py), except booting it
anew and pulling its cable.
"""
import base64
import os
import shlex
import socket
import subprocess

from lib.harness import Failure
from machine import Gone

HERE = os.path.dirname(os.path.abspath(__file__))
AGENT = os.path.join(HERE, "inside", "agent.py")
KEYS = {"reach", "ip", "ip6", "netdev", "rnic"}


class RealMachine:
    """reach: words of a command; the last one, the line of shell, is appended."""

    share, emulated, devices, wedged = False, False, "", False

    def __init__(self, folder, number, reach):
        self.folder, self.number, self.reach = folder, number, reach
        self.popen = None

    def path(self, name):
        return os.path.join(self.folder, f"host{self.number}.{name}")

    def pid(self):
        return self.popen.pid if self.popen and self.popen.poll() is None else 0

    def check(self):
        if self.popen and self.popen.poll() is not None:
            self.wedged = True
            raise Gone(f"host {self.number}: {shlex.join(self.reach)} ended with "
                       f"{self.popen.returncode}\n{self.console_tail()}")

    def console_tail(self, lines=30):
        try:
            with open(self.path("said"), errors="replace") as file:
                return "".join(file.readlines()[-lines:])
        except FileNotFoundError:
            return ""

    def port(self):
        """Starts an agent of our own there; returns a connection to it."""
        self.stop()
        with open(AGENT, "rb") as file:
            source = base64.b64encode(file.read()).decode()
        program = f"import base64; exec(base64.b64decode('{source}'))"
        line = "exec " + shlex.join(["python3", "-B", "-S", "-E", "-c", program, "--stdio"])
        ours, theirs = socket.socketpair()
        with theirs, open(self.path("said"), "wb") as said:
            self.popen = subprocess.Popen([*self.reach, line], stdin=theirs, stdout=theirs,
                                          stderr=said, start_new_session=True)
        return ours

    def stop(self):
        """The agent ends with its session, which the channel has closed."""
        if self.popen:
            try:
                self.popen.wait(20)
            except subprocess.TimeoutExpired:
                self.popen.kill()
                self.popen.wait()
            self.popen = None

    def reset(self):
        raise Failure(f"host {self.number} is not booted anew by a test")

    def settled(self):
        pass

    def cable(self, _plugged, _link=0):
        raise Failure(f"host {self.number}: only a guest's cable can be pulled by a test")


def checked(hosts):
    """The hosts of a file: a list of two objects with reach (a list of words), ip, ip6, netdev and
    rnic.
    """
    if not isinstance(hosts, list) or len(hosts) not in (1, 2):
        raise Failure("one host or two are wanted: a list of objects")
    for host in hosts:
        if not isinstance(host, dict) or set(host) != KEYS:
            raise Failure(f"a host has {sorted(KEYS)}: {host}")
        if not isinstance(host["reach"],
                          list) or not all(isinstance(host[key], str) for key in KEYS - {"reach"}):
            raise Failure(f"reach is a list of words, all else is text: {host}")
    return hosts
