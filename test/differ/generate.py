"""Makes the random program of a seed (differ.py)."""
import random

import model
from model import (EPOLLET, EPOLLONESHOT, MSG_DONTWAIT, MSG_NOSIGNAL, MSG_PEEK, MSG_TRUNC,
                   MSG_WAITALL, POLLIN, POLLOUT,
                   POLLPRI, POLLRDHUP, IPPROTO_TCP, SO_ERROR, SO_KEEPALIVE, SO_TYPE, SOL_SOCKET)

WEIGHTS = {
    "send": 26, "recv": 26, "poll": 8, "epoll": 9, "sleep": 5, "bulk": 3, "brecv": 4, "close": 3,
    "dup": 4, "shutdown": 2,
    "plain": 5, "nonblock": 3, "lowat": 1, "timeo": 1, "linger": 0.5, "fork": 2, "exec": 1.5,
    "child": 4, "pass": 2,
    "kill": 0.7, "stop": 2, "cont": 4, "operator": 6, "splicein": 2, "stdio": 1.5, "file": 2,
    "pair": 1, "other": 3,
    "connect": 1.5, "warm": 4,
}
PLAIN = ["inq $", "outq $", "getfl $", "copyrange $", f"getopt $ {SOL_SOCKET} {SO_ERROR}",
         f"getopt $ {SOL_SOCKET} {SO_TYPE}",
         f"setopt $ {SOL_SOCKET} {SO_KEEPALIVE} 1 1", f"getopt $ {SOL_SOCKET} 18",
         f"getopt $ {IPPROTO_TCP} 1",
         f"setopt $ {IPPROTO_TCP} 1 1 1", f"getopt $ {SOL_SOCKET} 30"]


class Generator:
    def __init__(self, seed, known):
        self.dice = random.Random(seed)
        self.model = model.Model(known, seed)
        self.next = 2
        self.program = []

    def handle(self):
        self.next += 1
        return self.next - 1

    def size(self):
        return self.dice.choice((1, 1, 5, 100, 100, 700, 1400, 3000, 4096, 9000,
                                 self.dice.randrange(0, 20000)))

    def an_end(self):
        ends = self.model.ends()
        return self.dice.choice(ends) if ends else (None, None)

    def a_proc(self):
        return self.dice.choice(sorted(self.model.procs))

    def take(self, step):
        if step[1] is None or self.model.lower(step) is None:
            return False
        self.program.append(step)
        return True

    def step_of(self, kind):
        dice = self.dice
        proc, handle = self.an_end()
        if kind == "connect":
            return ("connect", self.a_proc(), self.handle(), dice.choice("AB"), self.handle(),
                    dice.choice((0, 3, 8, 12)))
        if kind == "warm":
            if proc is None:
                return ("warm", None)
            peer = self.model.end(proc, handle).peer
            others = [(p, h) for p, h in self.model.ends() if self.model.end(p, h) is peer]
            if not others:
                return ("warm", None)
            return ("warm", proc, handle, *dice.choice(others), dice.choice((2, 4, 8)))
        if kind == "send":
            return ("send", proc, handle, dice.randrange(model.SEND_FORMS), self.size(),
                    dice.choice((0, 0, MSG_NOSIGNAL, MSG_DONTWAIT, MSG_NOSIGNAL | MSG_DONTWAIT)))
        if kind == "recv":
            flags = 0
            for flag, chance in ((MSG_PEEK, 0.15), (MSG_WAITALL, 0.2), (MSG_DONTWAIT, 0.3),
                                 (MSG_TRUNC, 0.05)):
                flags |= flag if dice.random() < chance else 0
            return ("recv", proc, handle, dice.randrange(model.RECV_FORMS), max(3, self.size()),
                    flags)
        if kind == "poll":
            p = self.a_proc()
            own = sorted(self.model.procs[p].handles)
            items = tuple((h, dice.choice((POLLIN, POLLIN | POLLOUT,
                                           POLLIN | POLLOUT | POLLRDHUP | POLLPRI, POLLRDHUP, 0)))
                          for h in dice.sample(own, min(len(own), dice.randrange(1, 5))))
            return ("poll", p, dice.randrange(6), items)
        if kind == "epoll":
            return self.epoll_step(proc, handle)
        if kind == "sleep":
            return ("sleep", proc, handle, dice.randrange(10), dice.choice((1, 10, 100, 3000)))
        if kind == "bulk":
            return ("bulk", proc, handle, dice.choice((100_000, 300_000, 700_000, 1_500_000)))
        if kind == "brecv":
            return ("brecv", proc, handle, dice.choice((1000, 50_000, 200_000, 2_000_000)))
        if kind == "close":
            p = self.a_proc()
            return ("close", p, dice.choice(sorted(self.model.procs[p].handles)), dice.randrange(7),
                    self.handle())
        if kind == "dup":
            p = self.a_proc()
            return ("dup", p, dice.choice(sorted(self.model.procs[p].handles)), self.handle(),
                    dice.randrange(8))
        if kind == "shutdown":
            return ("shutdown", proc, handle, dice.choice((0, 1, 1, 1, 2)), dice.randrange(2))
        if kind == "plain":
            return ("plain", proc, handle, dice.choice(PLAIN))
        if kind == "nonblock":
            return ("nonblock", proc, handle, dice.randrange(2), dice.randrange(2))
        if kind == "lowat":
            return ("lowat", proc, handle, dice.choice((1, 1, 10, 2000)))
        if kind == "timeo":
            return ("timeo", proc, handle, dice.randrange(2))
        if kind == "child":
            return ("child", proc, handle, dice.randrange(5), dice.randrange(2), dice.choice("rw"),
                    dice.choice((1, 10, 500, 4000)))
        if kind == "fork":
            return ("fork", self.a_proc(), f"P{self.handle()}")
        if kind == "pass":
            return ("pass", proc, handle, self.a_proc(), self.handle())
        if kind in ("kill", "exec", "stop", "cont"):
            return (kind, self.a_proc())
        if kind == "operator":
            return ("operator", proc, handle, dice.choice(("demote", "promote")))
        if kind == "splicein":
            return ("splicein", proc, handle, self.size(), dice.choice((0, 0, 2)))
        if kind == "stdio":
            return ("stdio", proc, handle, dice.choice("rw"))
        if kind == "file":
            return ("file", self.a_proc(), self.handle())
        if kind == "pair":
            return ("pair", self.a_proc(), dice.choice(("pipe", "socketpair")), self.handle(),
                    self.handle())
        if kind == "other":
            p = self.a_proc()
            return ("other", p, dice.choice(sorted(self.model.procs[p].handles)), dice.choice("rw"),
                    self.size())
        return ("linger", proc, handle)

    def epoll_step(self, proc, handle):
        dice = self.dice
        sets = [(p, h) for p in self.model.procs for h in self.model.sets
                if self.model.owns_set(p, h)]
        if not sets or dice.random() < 0.1:
            return ("epnew", self.a_proc(), self.handle())
        p, h = dice.choice(sets)
        if dice.random() < 0.5:
            return ("epwait", p, h, dice.randrange(4))
        own = [x for x, (f, _) in self.model.procs[p].handles.items() if isinstance(f, model.End)]
        if not own:
            return ("epnew", None)
        events = dice.choice((POLLIN, POLLOUT, POLLIN | POLLOUT,
                              POLLIN | POLLRDHUP)) | dice.choice((0, 0, EPOLLET, EPOLLONESHOT))
        return ("epctl", p, h, dice.choice((1, 1, 1, 2, 3, 3)), dice.choice(own), events,
                dice.randrange(2))

    def finish(self):
        """Reads all that is left, so that no lost byte goes unnoticed."""
        for name in sorted(self.model.procs):
            self.take(("cont", name))
        for proc, handle in self.model.ends():
            self.take(("brecv", proc, handle, 10_000_000))
        for proc, handle in self.model.ends():
            self.take(("recv", proc, handle, 2, 50_000, MSG_DONTWAIT))
            self.take(("poll", proc, 0, ((handle, POLLIN | POLLOUT | POLLRDHUP),)))

    def run(self):
        kinds, weights = zip(*WEIGHTS.items())
        for number in range(self.dice.choice((1, 1, 2, 3))):
            self.take(("connect", "AB"[number % 2], self.handle(), "BA"[number % 2], self.handle(),
                       self.dice.choice((0, 6, 12, 12))))
        for _ in range(self.dice.choice((20, 40, 80, 150))):
            self.take(self.step_of(self.dice.choices(kinds, weights)[0]))
        self.finish()
        return self.program


def program_of(seed, known=()):
    return Generator(seed, known).run()
