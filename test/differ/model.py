"""The steps of the differential fuzzer's programs, and a model of TCP that decides which steps may
be taken. generate.py and differ.py use it.

A program is a list of steps; a step is a tuple (kind, arguments). Model.lower() turns a step into
commands for the controller, or into None where kernel TCP would block for ever, or where its answer
would depend on time. The model needs to know only that much: the kernel's answers are found by
running the program on it.
"""
import os

POLLIN, POLLPRI, POLLOUT, POLLERR, POLLHUP, POLLRDHUP = 1, 2, 4, 8, 0x10, 0x2000
MSG_PEEK, MSG_TRUNC, MSG_DONTWAIT, MSG_WAITALL, MSG_NOSIGNAL = 2, 0x20, 0x40, 0x100, 0x4000
EPOLLONESHOT, EPOLLET, EPOLLEXCLUSIVE = 1 << 30, 1 << 31, 1 << 28
SOL_SOCKET, IPPROTO_TCP = 1, 6
SO_TYPE, SO_ERROR, SO_KEEPALIVE, SO_LINGER, SO_RCVLOWAT, SO_RCVTIMEO = 3, 4, 9, 13, 18, 20
# Seeds use these in turn.
CONFIGS = ({}, {"RSOCK_RING_KB": "32"}, {"RSOCK_SPIN_US": "0"},
           {"RSOCK_RING_KB": "32", "RSOCK_SPIN_US": "0"})
PACED = "DIFFER_PACE_MS" in os.environ
RAILS = "DIFFER_HOST" in os.environ  # streams over RDMA devices
MOST_UNREAD = 30000  # far below what the kernel's buffers hold before they have grown
PAIRED_BY = 6        # round trips after which both ends of a connection are paired, if they can be
# of the smallest ring; with more unread a sender may have fallen back from it, or wait for room
RING_HOLDS = 6000
ONE_SEGMENT = 4000   # a sleeping reader gets as much at once
SEND_FORMS, RECV_FORMS = 15, 13
WITH_FLAGS_TX = {2, 3, 4, 5, 12, 13}
WITH_FLAGS_RX = {2, 3, 4, 5, 7, 8, 11, 12}
DPRINTF, UNSEEN = 14, 5
KERNEL_TX = {8, 9, DPRINTF}
AT_ONCE = {0, 1, 2, 3, 4, 10, 11, 12, 13}  # forms that are one call, one segment
RECVMMSG = 5


class File:
    """An open file description, which descriptors of several processes may share."""

    def __init__(self, kind):
        self.kind = kind
        self.refs = 0
        self.nonblock = False
        self.owner = None


class End(File):
    """One end of a connection."""

    def __init__(self, key):
        super().__init__("tcp")
        self.key, self.pos = key, 0
        self.seen = {}        # epoll handle: the state that the last wait there found
        self.rx = 0           # unread bytes
        self.fin = self.rst = self.wr_shut = self.rd_shut = self.closed = False
        self.linger0 = False
        self.lowat, self.timeo = 1, False
        self.moved = False    # its sender may have fallen back to TCP behind unread bytes
        self.alone = False    # the other end was closed without a function of libc
        self.relayed = False  # a relay process may pass its bytes on
        self.dirty = False    # bytes or an end may be under way to it
        self.bulk = 0         # bytes that the peer's bulk sender is still sending
        self.bulk_slot = None
        self.forked = False   # a child of a process that had it has it, too
        self.warmed = 0       # round trips; with few it may be paired later
        self.turned = False   # its path may have changed, or will: edges may be reported again
        self.waits = None     # (process, slot, bytes): a thread that sleeps in a read

    def ended(self):
        return self.fin or self.rst or self.rd_shut


class Proc:
    def __init__(self):
        self.handles = {}     # handle: [File, close on exec]
        self.stopped = False
        self.threads = set()  # slots of threads that have not been joined


class Model:
    def __init__(self, known=(), seed=0):
        self.known = set(known)
        self.narrow = "RSOCK_RING_KB" in CONFIGS[seed % len(CONFIGS)]
        self.procs = {"A": Proc(), "B": Proc()}
        self.sets = {}        # epoll handle: {handle: events}
        self.slots = 0
        self.keys = 0
        for name, handle in (("A", 0), ("B", 1)):
            self.add(name, handle, File("listen"))

    # ---- descriptors -----------------------------------------------------------------------------
    def add(self, proc, handle, file, cloexec=False):
        self.procs[proc].handles[handle] = [file, cloexec]
        file.refs += 1

    def drop(self, proc, handle):
        file, _ = self.procs[proc].handles.pop(handle)
        file.refs -= 1
        if not file.refs and isinstance(file, End):
            self.close_end(file)

    def close_end(self, end):
        end.closed = True
        peer = end.peer
        if peer.closed:
            return
        if end.rx or end.linger0:
            peer.rst = True
        else:
            peer.fin = True
        peer.dirty = True

    def end(self, proc, handle):
        entry = self.procs[proc].handles.get(handle) if self.runs(proc) else None
        return entry[0] if entry and isinstance(entry[0], End) else None

    def runs(self, proc):
        return proc in self.procs and not self.procs[proc].stopped

    def ends(self):
        return [(name, handle) for name, proc in self.procs.items() if not proc.stopped
                for handle, (file, _) in proc.handles.items() if isinstance(file, End)]

    # ---- effects of a change of path ----
    def stuck(self, end):
        """True if bytes are unread that perhaps cannot be returned to the kernel's queue in order.
        """
        if not end.rx:
            end.moved = False
        return end.bulk or end.rx and (end.fin or end.rst or end.moved or end.rx > RING_HOLDS)

    def holders(self, end):
        return sum(any(file is end for file, _ in proc.handles.values())
                   for proc in self.procs.values())

    def leaves(self, proc, ends=None):
        """A call after which streams of the process are on TCP, also with bytes unread."""
        ends = ends or [file for file, _ in self.procs[proc].handles.values()
                        if isinstance(file, End)]
        for end in ends:
            end.relayed = end.relayed or bool(self.stuck(end))
            end.moved, end.peer.moved = (end.moved or bool(end.rx),
                                         end.peer.moved or bool(end.peer.rx))
            end.turned = end.peer.turned = True

    def moves(self, proc):
        """The senders of the process fall back to TCP."""
        for file, _ in self.procs[proc].handles.values():
            if isinstance(file, End):
                file.peer.moved = file.peer.moved or bool(file.peer.rx)
                file.turned = file.peer.turned = True

    def writable_here(self, end, events):
        """The events without POLLOUT for a small ring that is nearly full: it is not writable."""
        full = self.narrow and end.peer.rx > RING_HOLDS
        return events & ~POLLOUT if full and "ring-room" in self.known else events

    # ---- commands --------------------------------------------------------------------------------
    def settle(self, proc, handle):
        end = self.end(proc, handle)
        if end is None or end.bulk or not end.dirty or end.waits:
            return []
        end.dirty = False
        events = (POLLHUP if end.rst else 0) | (POLLRDHUP if end.fin else 0)
        count = -1 if end.rst else end.rx
        return [("op", proc, f"settle {handle} {count} {events}")]

    def woken(self, end):
        """The command that joins a thread that has got what it waited for."""
        if not end.waits:
            return []
        proc, slot, need, take = end.waits
        if end.rx < need and not end.ended():
            return []
        end.waits = None
        end.rx -= min(end.rx, take)
        end.dirty = True
        self.procs[proc].threads.discard(slot)
        return [("op", proc, f"join {slot}")]

    def sent(self, end, count):
        """The effect of bytes that were sent."""
        end.pos += count
        if end.wr_shut or end.rst or not count:
            return
        peer = end.peer
        if peer.closed or (peer.rd_shut and peer.wr_shut):
            end.rst = end.dirty = True
            if not peer.closed:
                peer.rst = peer.dirty = True
        else:
            peer.rx += count
            peer.dirty = True

    def taken(self, end, count):
        end.rx -= min(end.rx, count)

    # ---- steps: each returns a list of commands, or None -----------------------------------------
    def lower(self, step):
        found = getattr(self, "step_" + step[0])(*step[1:])
        if found is None:
            return None
        for proc in list(self.procs.values()):
            for file, _ in proc.handles.values():
                if isinstance(file, End):
                    found += self.woken(file)
        return found

    def fresh(self, proc, *handles):
        return self.runs(proc) and all(handle not in p.handles for handle in handles
                                       for p in self.procs.values())

    def step_connect(self, proc, here, other, there, warm):
        listener = {"A": 0, "B": 1}.get(other)
        if listener is None or not self.fresh(proc, here) or not self.fresh(other, there):
            return None
        one, two = End(self.keys), End(self.keys + 1)
        self.keys += 2
        one.peer, two.peer = two, one
        self.add(proc, here, one)
        self.add(other, there, two)
        commands = [("connect", proc, here, other), ("op", other, f"accept {there} {listener}")]
        return commands + self.step_warm(proc, here, other, there, warm)

    def step_warm(self, proc, here, other, there, count):
        one, two = self.end(proc, here), self.end(other, there)
        if not one or not two or one.peer is not two:
            return None
        for end in (one, two):
            if (end.rx or end.ended() or end.wr_shut or end.waits or end.bulk or end.timeo
                or end.lowat > 1):
                return None
        one.warmed, two.warmed = one.warmed + count, two.warmed + count
        commands = []
        for turn in range(count):
            if PACED:
                commands.append(("pace", proc))
            for a, at, b, bt, e in ((proc, here, other, there, one),
                                    (other, there, proc, here, two)):
                size = 1 + turn * 37 % 200
                commands.append(("op", a, f"send {at} {turn % 5} {size} 0 {e.key} {e.pos}"))
                e.pos += size
                if e.peer.nonblock:
                    commands.append(("op", b, f"settle {bt} {size} 0"))
                commands.append(("op", b, f"recv {bt} 2 {size} {MSG_WAITALL}"))
        return commands

    def step_send(self, proc, handle, form, size, flags):
        end = self.end(proc, handle)
        if not end or end.peer.bulk or (end.wr_shut and size == 0):
            return None
        if end.peer.rx + size > MOST_UNREAD:
            return None
        if end.peer.waits and (form not in AT_ONCE or size > ONE_SEGMENT or size == 0):
            return None
        if end.alone and "unseen-close" in self.known:
            return None
        if form == DPRINTF and (end.peer.closed or end.peer.rd_shut and end.peer.wr_shut):
            # libc decides how many writes it makes, and so whether one of them meets the reset
            return None
        over = end.ended() or end.wr_shut or end.peer.closed or end.peer.rd_shut
        if over and (end.relayed or end.peer.relayed) and "relay" in self.known:
            return None
        before = self.settle(proc, handle) if end.ended() else []
        if form in KERNEL_TX:
            end.peer.moved = end.peer.moved or bool(end.peer.rx)
        flags = flags if form in WITH_FLAGS_TX else 0
        text = f"send {handle} {form} {size} {flags} {end.key} {end.pos}"
        self.sent(end, size)
        return before + [("op", proc, text)]

    def may_read(self, end, need, dontwait):
        """True if a read may be called: it will not sleep for ever."""
        if end.waits or end.bulk:
            return False
        if dontwait or end.nonblock or end.ended() or end.timeo:
            return True
        return end.rx >= max(need, end.lowat)

    def step_recv(self, proc, handle, form, size, flags):
        end = self.end(proc, handle)
        flags = flags if form in WITH_FLAGS_RX else 0
        if not end or not self.may_read(end, size if flags & MSG_WAITALL else 1,
                                        flags & MSG_DONTWAIT):
            return None
        if form == RECVMMSG and flags & MSG_WAITALL:
            return None
        if end.timeo and flags & MSG_PEEK and flags & MSG_WAITALL:
            return None
        commands = self.settle(proc, handle)
        if not flags & MSG_PEEK:
            self.taken(end, size)
        return commands + [("op", proc, f"recv {handle} {form} {size} {flags}")]

    def step_splicein(self, proc, handle, size, flags):
        end = self.end(proc, handle)
        if not end or end.waits or end.bulk or not size:
            return None
        if size > end.rx and not (end.nonblock or end.ended()):
            return None
        if end.rst or end.lowat > 1:
            return None
        commands = self.settle(proc, handle)
        self.taken(end, size)
        return commands + [("op", proc, f"splicein {handle} {size} {flags}")]

    def step_stdio(self, proc, handle, how):
        end = self.end(proc, handle)
        if not end or end.waits or end.bulk or end.peer.bulk or end.peer.waits or end.rst:
            return None
        if self.stuck(end) and self.holders(end) > 1 and "relay" in self.known:
            return None
        self.leaves(proc, [end])
        if how == "r":
            if not end.rx or end.rx < end.lowat or end.rd_shut:
                return None
            commands = self.settle(proc, handle) + [("op", proc, f"stdio {handle} r {end.rx}")]
            end.rx = 0
            return commands
        if end.wr_shut or end.peer.rx + 500 > MOST_UNREAD:
            return None
        text = f"stdio {handle} w 500 {end.key} {end.pos}"
        self.sent(end, 500)
        return [("op", proc, text)]

    def step_child(self, proc, handle, how, preload, what, size):
        if self.torn():
            return None
        end = self.end(proc, handle)
        if not end or self.procs[proc].threads or self.procs[proc].handles[handle][1] or end.waits:
            return None
        if what == "r" and self.stuck(end) and "relay" in self.known:
            return None
        self.leaves(proc)
        if what == "r":
            have = end.bulk or end.rx
            if (not size or size > have or end.lowat > 1 or end.rd_shut
                    or (how == 4 and end.nonblock) or end.rst):
                return None
            commands = self.settle(proc, handle) + [("op", proc,
                                                     f"child {handle} {how} {preload} r {size}")]
            if end.bulk:
                return commands + self.bulk_taken(end, size)
            self.taken(end, size)
            return commands
        if how == 4 or end.wr_shut or end.rst or end.peer.closed or end.peer.bulk or end.peer.waits:
            return None
        if end.peer.rx + size > MOST_UNREAD:
            return None
        text = f"child {handle} {how} {preload} w {size} {end.key} {end.pos}"
        self.sent(end, size)
        return [("op", proc, text)]

    def bulk_taken(self, end, count):
        end.bulk -= count
        if end.bulk:
            return []
        proc, slot = end.bulk_slot
        self.procs[proc].threads.discard(slot)
        end.dirty = True
        return [("op", proc, f"join {slot}")]

    def step_bulk(self, proc, handle, size):
        end = self.end(proc, handle)
        if (not end or end.wr_shut or end.ended() or end.peer.ended() or end.peer.bulk
            or end.peer.waits):
            return None
        if end.peer.rx or end.peer.lowat > 1 or end.peer.timeo or self.slots >= 8:
            return None
        slot, self.slots = self.slots, self.slots + 1
        end.peer.bulk, end.peer.bulk_slot = size, (proc, slot)
        self.procs[proc].threads.add(slot)
        text = f"async {slot} bsend {handle} {size} {end.key} {end.pos}"
        end.pos += size
        return [("async", proc, text)]

    def step_brecv(self, proc, handle, size):
        end = self.end(proc, handle)
        if not end or not end.bulk:
            return None
        size = min(size, end.bulk)
        return [("op", proc, f"brecv {handle} {size}")] + self.bulk_taken(end, size)

    def step_sleep(self, proc, handle, how, size):
        """A thread sleeps in a read of it, or in poll(), until something comes."""
        end = self.end(proc, handle)
        if not end or end.rx or end.ended() or end.waits or end.bulk or self.slots >= 8:
            return None
        if end.lowat > 1 or end.timeo or end.nonblock and how < 4 or end.peer.refs < 1:
            return None
        commands = self.settle(proc, handle)
        slot, self.slots = self.slots, self.slots + 1
        need, take, text = 1, 0, ""
        if how < 4:
            form, flags = ((0, 0), (2, 0), (4, 0), (3, MSG_WAITALL))[how]
            need = size if flags else 1
            take = size
            text = f"recv {handle} {form} {size} {flags}"
        else:
            text = f"poll {how - 4} 8000 {handle} {POLLIN | POLLRDHUP}"
        end.waits = (proc, slot, need, take)
        self.procs[proc].threads.add(slot)
        return commands + [("async", proc, f"async {slot} {text}")]

    def step_file(self, proc, handle):
        if not self.fresh(proc, handle):
            return None
        self.add(proc, handle, File("file"), True)
        return [("op", proc, f"file {handle} {handle * 7}")]

    def step_pair(self, proc, kind, one, two):
        if not self.fresh(proc, one, two):
            return None
        self.add(proc, one, File(kind))
        self.add(proc, two, File(kind))
        return [("op", proc, f"{kind} {one} {two}")]

    def step_other(self, proc, handle, what, size):
        """Reads and writes of what is no TCP socket."""
        entry = self.procs[proc].handles.get(handle) if self.runs(proc) else None
        if not entry or entry[0].kind not in ("pipe", "socketpair", "file"):
            return None
        text = (f"recv {handle} 0 {size} 0" if what == "r"
                else f"send {handle} 0 {size % 500} 0 99 {size}")
        return [("op", proc, text)]

    def step_close(self, proc, handle, form, other):
        if not self.runs(proc) or handle not in self.procs[proc].handles or handle in (0, 1):
            return None
        file = self.procs[proc].handles[handle][0]
        if isinstance(file, End) and (file.waits or file.bulk or file.peer.bulk):
            return None
        if form in (3, 4) and not self.fresh(proc, other):
            return None
        if form == UNSEEN and isinstance(file, End) and "unseen-close" in self.known:
            if file.rx:
                form = 0
            else:
                # it may be the last of several, and the last close must be seen
                file.peer.alone = True
        commands = self.settle(proc, handle)
        self.drop(proc, handle)
        self.sets.pop(handle, None)
        if form in (3, 4):
            self.add(proc, other, File("file"), form == 4)
        return commands + [("op", proc, f"close {handle} {form} {other}")]

    def step_dup(self, proc, handle, to, form):
        entry = self.procs[proc].handles.get(handle) if self.runs(proc) else None
        if not entry or not self.fresh(proc, to) or entry[0].kind == "epoll":
            return None
        if form in (3, 4,
                    6) and any(h % 64 == to % 64 for h in self.procs[proc].handles if h != to):
            return None  # the number might be in use
        self.add(proc, to, entry[0], form in (2, 4))
        return [("op", proc, f"dup {handle} {to} {form}")]

    def step_shutdown(self, proc, handle, how, form):
        end = self.end(proc, handle)
        if not end or end.bulk or end.peer.bulk:
            return None
        commands = self.settle(proc, handle)
        if not end.rst:
            if how in (1, 2) and not end.wr_shut:
                end.wr_shut = True
                if not end.peer.closed:
                    end.peer.fin = end.peer.dirty = True
            if how in (0, 2):
                end.rd_shut = True
        return commands + [("op", proc, f"shutdown {handle} {how} {form}")]

    def step_plain(self, proc, handle, text):
        """Calls that change nothing that the model knows."""
        end = self.end(proc, handle)
        if not end or end.bulk or end.peer.bulk or end.waits:
            return None
        if text.startswith("outq") and (end.ended() or end.wr_shut or end.peer.closed):
            # on a connection that is over the kernel counts what was never acknowledged
            return None
        return self.settle(proc, handle) + [("op", proc, text.replace("$", str(handle)))]

    def step_nonblock(self, proc, handle, on, form):
        end = self.end(proc, handle)
        if not end or end.waits or end.bulk or end.peer.bulk:
            return None
        end.nonblock = bool(on)
        return [("op", proc, f"nonblock {handle} {on} {form}")]

    def step_lowat(self, proc, handle, count):
        end = self.end(proc, handle)
        if not end or end.waits or end.bulk:
            return None
        if count > 1 and self.holders(end) > 1 and "fork-lowat" in self.known:
            return None
        end.lowat = count
        return [("op", proc, f"setopt {handle} {SOL_SOCKET} {SO_RCVLOWAT} 1 {count}")]

    def step_timeo(self, proc, handle, on):
        end = self.end(proc, handle)
        if not end or end.waits or end.bulk:
            return None
        end.timeo = bool(on)
        return [("op", proc,
                 f"setopt {handle} {SOL_SOCKET} {SO_RCVTIMEO} 4 0 0 {30000 if on else 0} 0")]

    def step_linger(self, proc, handle):
        end = self.end(proc, handle)
        if not end or end.bulk or end.peer.bulk:
            return None
        end.linger0 = True
        return [("op", proc, f"setopt {handle} {SOL_SOCKET} {SO_LINGER} 2 1 0")]

    def step_poll(self, proc, form, items):
        commands, text = [], f"poll {form} 0"
        if not self.runs(proc):
            return None
        for handle, events in items:
            end = self.end(proc, handle)
            if handle not in self.procs[proc].handles or (end and (end.bulk or end.peer.bulk
                                                                   or end.waits)):
                continue
            if "edge-again" in self.known and any(self.may_tell_again(proc, *item)
                                                  for item in self.sets.get(handle, {}).items()):
                continue
            if any(self.is_moot(proc, *item) for item in self.sets.get(handle, {}).items()):
                continue
            for member in [handle, *sorted(self.sets.get(handle, {}))]:
                commands += self.settle(proc, member)
            text += f" {handle} {self.writable_here(end, events) if end else events}"
        return commands + [("op", proc, text)]

    def step_epnew(self, proc, handle):
        if not self.fresh(proc, handle):
            return None
        file = File("epoll")
        file.owner = proc
        self.add(proc, handle, file, True)
        self.sets[handle] = {}
        return [("op", proc, f"epnew {handle}")]

    def owns_set(self, proc, handle):
        entry = self.procs[proc].handles.get(handle) if self.runs(proc) else None
        return entry and entry[0].kind == "epoll" and entry[0].owner == proc and handle in self.sets

    def step_epctl(self, proc, handle, what, member, events, form):
        end = self.end(proc, member)
        if not self.owns_set(proc, handle) or not end:
            return None
        if what == 1 or (what == 3 and member in self.sets[handle]):
            self.sets[handle].setdefault(member, 0)
            self.sets[handle][member] |= events
            end.seen[handle] = "registered"
        return [("op", proc, f"epctl {handle} {what} {member} {events} {form}")]

    def is_moot(self, proc, member, events):
        """True if what a set reports of it depends on time, or cannot be waited for."""
        end = self.end(proc, member)
        if end and self.writable_here(end, events) != events:
            return True
        return not end or end.bulk or end.peer.bulk or end.waits

    def step_epwait(self, proc, handle, form):
        if not self.owns_set(proc, handle):
            return None
        commands = []
        for member, events in self.sets[handle].items():
            if self.is_moot(proc, member, events):
                return None
        for member in sorted(self.sets[handle]):
            commands += self.settle(proc, member)
        order = 1 if len(commands) > 1 or not self.order_is_known(proc, handle) else 0
        if "edge-again" in self.known and any(self.may_tell_again(proc, *item)
                                              for item in self.sets[handle].items()):
            order = 2
        return commands + [("op", proc, f"epwait {handle} {form} 16 0 {order}")]

    def order_is_known(self, proc, handle):
        """True if at most one became ready since the last wait, or only such as were registered
        since.
        """
        changed = registered = 0
        known = True
        for member in self.sets[handle]:
            end = self.end(proc, member)
            now = (end.rx, end.fin, end.rst, end.pos, end.peer.pos, end.wr_shut, end.rd_shut,
                   end.peer.closed)
            registered += end.seen.get(handle) == "registered"
            changed += end.seen.get(handle) not in ("registered", now)
            known = known and not end.turned
            end.seen[handle] = now
        if "epoll-order" not in self.known:
            return True
        return known and (not changed or changed + registered == 1)

    def may_tell_again(self, proc, member, events):
        end = self.end(proc, member)
        return (end is not None and (end.turned or end.warmed < PAIRED_BY) and events & EPOLLET
                and (events & POLLOUT or end.rx or end.ended()))

    def torn(self):
        """True if the peer of a fork may be stopped, and so not answer."""
        return RAILS and "fork-stopped" in self.known and any(proc.stopped
                                                              for proc in self.procs.values())

    def step_fork(self, proc, name):
        if self.torn():
            return None
        if (not self.runs(proc) or self.procs[proc].threads or name in self.procs
            or len(self.procs) >= 4):
            return None
        if "fork-lowat" in self.known and any(isinstance(file, End) and file.lowat > 1
                                              for file, _ in self.procs[proc].handles.values()):
            return None
        self.moves(proc)
        child = self.procs[name] = Proc()
        for handle, (file, cloexec) in self.procs[proc].handles.items():
            child.handles[handle] = [file, cloexec]
            file.refs += 1
            if isinstance(file, End):
                file.turned = file.peer.turned = file.forked = True
        return [("fork", proc, name)]

    def step_exec(self, proc):
        if not self.runs(proc) or self.procs[proc].threads:
            return None
        if "relay" in self.known and any(isinstance(file, End) and self.stuck(file)
                                         and self.holders(file) > 1
                                         for file, _ in self.procs[proc].handles.values()):
            return None
        self.leaves(proc)
        for handle, (file, cloexec) in list(self.procs[proc].handles.items()):
            if cloexec:
                if isinstance(file, End) and (file.waits or file.bulk):
                    return None
        commands = []
        for handle, (file, cloexec) in list(self.procs[proc].handles.items()):
            if cloexec:
                commands += self.settle(proc, handle)
                self.drop(proc, handle)
                self.sets.pop(handle, None)
        return commands + [("exec", proc)]

    def step_pass(self, proc, handle, to, there):
        end = self.end(proc, handle)
        if not end or not self.fresh(to, there) or end.waits:
            return None
        if self.stuck(end) and self.holders(end) > 1 and "relay" in self.known:
            return None
        self.leaves(proc, [end])
        self.add(to, there, end)
        return [("op", proc, f"pass {handle} {to}"), ("op", to, f"take {there}")]

    def step_kill(self, proc):
        if proc not in self.procs or len(self.procs) < 3 or self.procs[proc].threads:
            return None
        for file, _ in self.procs[proc].handles.values():
            if isinstance(file,
                          End) and (file.bulk or file.peer.bulk or file.waits) and file.refs < 3:
                return None
            if "kill-forked" in self.known and isinstance(file,
                                                          End) and file.rx and file.peer.forked:
                return None
        commands = []
        for handle in list(self.procs[proc].handles):
            commands += self.settle(proc, handle)
        for handle in list(self.procs[proc].handles):
            self.drop(proc, handle)
        del self.procs[proc]
        return commands + [("kill", proc)]

    def step_stop(self, proc):
        if not self.runs(proc) or sum(self.runs(name)
                                      for name in self.procs) < 2 or self.procs[proc].threads:
            return None
        self.procs[proc].stopped = True
        return [("stop", proc)]

    def step_cont(self, proc):
        if proc not in self.procs or not self.procs[proc].stopped:
            return None
        self.procs[proc].stopped = False
        return [("cont", proc)]

    def step_operator(self, proc, handle, verb):
        end = self.end(proc, handle)
        if not end:
            return None
        for one in (end, end.peer):
            one.moved = one.moved or bool(one.rx)
            one.turned = True
        return [("operator", proc, handle, verb)]
