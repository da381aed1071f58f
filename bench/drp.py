"""Simulates the protocol of the paper's model (DRP) frame by frame: two nodes and a wire on virtual
time, a write by either method.

Given in "Hardware Accelerated Dynamic RDMA Method for Gigabit Ethernet": gigabit, full duplex,
point to point; 128 KiB in frames of 1,024 bytes; window 8; fast retransmission; requests and
acknowledgements of set-up and of release; no flow or congestion control. What the paper does not
give is a field of Model, below a line that says so. Times are whole nanoseconds. Used by
mechanisms.py and by drp_sweep.py, which varies each field by itself.
"""
import heapq
import random
from dataclasses import dataclass, replace

NS_PER_BYTE = 8  # gigabit
HEADER_BYTES = 18 + 20  # Ethernet header, checksum, preamble and gap
DRP_BYTES = 26  # flags, TID, SN, ACKN, length, addresses
SHORTEST_BYTES = 64 + 20  # shortest frame on the wire
TRADITIONAL, DYNAMIC = "traditional", "dynamic"


@dataclass(frozen=True)
class Model:
    method: str = DYNAMIC
    bytes: int = 128 << 10
    payload: int = 1024
    window: int = 8
    duplicates: int = 3  # duplicate acknowledgements after which the next frame is sent again
    timeouts: int = 2  # of a request, after which a dynamic initiator sends indirectly; 0: at once
    fails: float = 0.0  # probability that a registration fails
    lost: float = 0.0  # probability that a frame of any kind is lost, in either direction
    ns_per_byte: int = NS_PER_BYTE
    # Of a transfer; what the paper's hardware has. The sender waits when it is full (ours).
    buffer_bytes: int = 48 << 10
    # ---- not given in the paper ----
    register_ns: int = 20_000
    request_ns: int = 1_000_000  # after this a request without a valid answer is repeated
    # The same for an initiator that goes on indirectly after an invalid answer.
    again_ns: int = 100_000
    repeat_ns: int = 200_000  # after this unacknowledged data are sent again
    wire_ns: int = 500  # propagation, plus a node's time to respond
    keeps: bool = True  # the responder keeps frames after a gap, since each frame names its place
    move_ns_per_kib: int = 300  # copying from the indirect buffer, done in one go
    # A bus request: one for each frame that goes straight to memory, one for the whole indirect
    # buffer. 0: hidden behind the wire.
    bus_ns: int = 0
    drp_bytes: int = DRP_BYTES
    ack_every: int = 1  # frames in order for which there is one acknowledgement
    burst: float = 1.0  # frames that are lost in a row, on average; 1: each by itself
    spared: str = ""  # "data" (and their acknowledgements) or "control": never lost

    @property
    def frames(self):
        return -(-self.bytes // self.payload)


@dataclass
class Outcome:
    ns: int = 0  # from the first request to the answer to the release
    acked_ns: int = 0  # from the first request to the acknowledgement of the last data frame
    requests: int = 0
    refused: int = 0  # registrations that failed
    sent: int = 0  # data frames, including repeated ones
    lost: int = 0  # frames of any kind
    indirect: int = 0  # data frames that arrived before the ring was registered
    placed: int = 0  # bytes in their place, each counted once


class Direction:
    """One direction of the wire. Frames are sent one after the other; a lost frame takes its time,
    too."""

    def __init__(self, model, dice, data_dice, outcome):
        self.model, self.outcome, self.free, self.losing = model, outcome, 0, False
        self.dice = {"control": dice, "data": data_dice}

    def loses(self, kind):
        """Whether the next frame is lost. Losses in a row have the same share of all frames."""
        m = self.model
        if not m.lost or m.spared == kind:
            return False
        chance = m.lost
        if m.burst > 1:
            chance = 1 - 1 / m.burst if self.losing else m.lost / (m.burst * (1 - m.lost))
        self.losing = self.dice[kind].random() < chance
        return self.losing

    def send(self, now, payload, kind="control"):
        """Sends a frame. Returns its time of arrival, or None if it is lost."""
        wire = max(payload + HEADER_BYTES + self.model.drp_bytes, SHORTEST_BYTES)
        self.free = max(self.free, now) + wire * self.model.ns_per_byte
        if self.loses(kind):
            self.outcome.lost += 1
            return None
        return self.free + self.model.wire_ns


class Transfer:
    """One write, from the first request to the release. run() returns its Outcome.

    dice decides what happens to registrations, requests, answers and releases; data_dice, what
    happens to data and their acknowledgements (the same one where none is given).
    """

    def __init__(self, model, dice, data_dice=None):
        self.m, self.dice, self.outcome = model, dice, Outcome()
        self.there, self.back = (Direction(model, dice, data_dice or dice, self.outcome)
                                 for _ in range(2))
        self.queue, self.order = [], 0
        # State of the initiator.
        self.valid = False  # a valid answer has come
        self.timeouts = 0  # of the request, while there was no answer
        self.mode = None  # "direct", "indirect"
        self.base = self.next = 0  # first unacknowledged frame; first frame that was never sent
        self.repeats = 0
        self.repeated_at = -1  # base for which frames were sent again after duplicates
        # Generation of the newest timers; older ones are ignored.
        self.request_timer = self.data_timer = 0
        self.released = False
        # State of the responder.
        self.registered_ns = None  # time of registration; its answer may still be lost
        self.registering = False
        self.have = bytearray(model.frames)
        self.expected = 0  # all frames before it have arrived
        self.buffered = 0  # frames in the indirect buffer
        self.bus_free = 0  # time when everything that has arrived is in its place

    # ---- virtual time ----
    def at(self, when, what, *args):
        self.order += 1
        heapq.heappush(self.queue, (when, self.order, what, args))

    def send(self, direction, now, payload, what, *args):
        data = what in (self.on_data, self.on_ack)
        arrives = direction.send(now, payload, "data" if data else "control")
        if arrives is not None:
            self.at(arrives, what, *args)

    def run(self):
        self.request(0)
        if self.m.method == DYNAMIC and not self.m.timeouts:
            self.begin(0, "indirect")
        while not self.released:
            now, _order, what, args = heapq.heappop(self.queue)
            what(now, *args)
        self.outcome.ns = now
        return self.outcome

    # ---- the initiator: set-up ----
    def request(self, now):
        self.outcome.requests += 1
        self.send(self.there, now, 0, self.on_request)
        self.arm_request(now)

    def arm_request(self, now, ns=None):
        self.request_timer += 1
        self.at(now + (ns or self.m.request_ns), self.on_request_timer, self.request_timer)

    def on_request_timer(self, now, which):
        if which != self.request_timer or self.valid:
            return
        self.timeouts += 1
        if self.m.method == DYNAMIC and self.mode is None and self.timeouts >= self.m.timeouts:
            self.begin(now, "indirect")
        self.request(now)

    def on_answer(self, now, good):
        if self.valid:
            return
        if good:
            self.valid = True
            if self.mode is None:
                self.begin(now, "direct")
            elif self.base == self.m.frames:
                self.release(now)
            else:
                self.fill(now)
        elif self.m.method == TRADITIONAL:
            self.arm_request(now)  # it restarts its timer, and waits before it requests again
        else:
            if self.mode is None:
                self.begin(now, "indirect")
            self.arm_request(now, self.m.again_ns)

    # ---- the initiator: data ----
    def begin(self, now, mode):
        self.mode = mode
        self.fill(now)
        self.arm_data(now)

    def arm_data(self, now):
        self.data_timer += 1
        self.at(now + self.m.repeat_ns, self.on_data_timer, self.data_timer)

    def send_frame(self, now, number):
        self.outcome.sent += 1
        size = min(self.m.payload, self.m.bytes - number * self.m.payload)
        self.send(self.there, now, size, self.on_data, number, self.mode)

    def fill(self, now):
        """Sends what the window has room for, and without a valid answer the indirect buffer."""
        end = min(self.m.frames, self.base + self.m.window)
        if not self.valid:
            end = min(end, self.m.buffer_bytes // self.m.payload)
        while self.next < end:
            self.send_frame(now, self.next)
            self.next += 1

    def on_data_timer(self, now, which):
        if which != self.data_timer or self.base == self.m.frames:
            return
        for number in range(self.base, self.next):
            self.send_frame(now, number)
        self.repeats = 0
        self.repeated_at = -1
        self.arm_data(now)

    def on_ack(self, now, expected):
        if expected > self.base:
            self.base, self.repeats = expected, 0
            if self.base == self.m.frames:
                self.outcome.acked_ns = now
                if self.valid:
                    self.release(now)
                return
            self.arm_data(now)
            self.fill(now)
        elif expected == self.base and self.base < self.m.frames:
            self.repeats += 1
            if self.repeats == self.m.duplicates and self.repeated_at != self.base:
                self.repeated_at = self.base
                for number in range(self.base, self.base + 1 if self.m.keeps else self.next):
                    self.send_frame(now, number)
                self.arm_data(now)

    # ---- the initiator: release ----
    def release(self, now, which=0):
        if which != self.request_timer and which:
            return
        self.request_timer += 1
        self.send(self.there, now, 0, self.on_release)
        self.at(now + self.m.request_ns, self.release, self.request_timer)

    def on_released(self, now):
        self.released = True

    # ---- the responder ----
    def answer(self, now, good):
        self.send(self.back, now, 0, self.on_answer, good)

    def on_request(self, now):
        if self.registered_ns is not None:
            self.answer(now, True)
        elif not self.registering:
            self.registering = True
            self.at(now + self.m.register_ns, self.on_registered)

    def on_registered(self, now):
        self.registering = False
        if self.m.fails and self.dice.random() < self.m.fails:
            self.outcome.refused += 1
            self.answer(now, False)
            return
        self.registered_ns = now
        if self.buffered:
            moved = self.buffered * self.m.payload * self.m.move_ns_per_kib // 1024
            self.write(now, moved)
        self.answer(now, True)

    def write(self, now, ns=0):
        """Asks the bus for a write to memory, after those before it."""
        self.bus_free = max(now, self.bus_free) + self.m.bus_ns + ns

    def on_data(self, now, number, mode):
        in_order, placed = number == self.expected, now
        if in_order or self.m.keeps:
            if not self.have[number]:
                self.have[number] = 1
                self.outcome.placed += min(self.m.payload, self.m.bytes - number * self.m.payload)
                if mode != "direct" and self.registered_ns is None:
                    self.buffered += 1
                    self.outcome.indirect += 1
                else:
                    self.write(now)
                    placed = self.bus_free
            while self.expected < self.m.frames and self.have[self.expected]:
                self.expected += 1
        if not in_order or self.expected % self.m.ack_every == 0 or self.expected == self.m.frames:
            self.at(placed, self.acknowledge, self.expected)

    def acknowledge(self, now, expected):
        self.send(self.back, now, 0, self.on_ack, expected)

    def on_release(self, now):
        self.at(max(now, self.bus_free), self.say_released)

    def say_released(self, now):
        self.send(self.back, now, 0, self.on_released)


def transfer(model, seed, number):
    """Runs a transfer. Set-up and data have random generators of their own, so that by either
    method, and with any size of frames, the same requests, answers and registrations fail."""
    return Transfer(model, random.Random(seed << 32 | number),
                    random.Random(seed << 32 | number | 1 << 63)).run()


def transfers(model, count, seed):
    """Runs count transfers in sequence; returns their Outcomes."""
    return [transfer(model, seed, number) for number in range(count)]


def both(model, seed, number):
    """Outcomes of a transfer by the traditional and by the dynamic method. Where no registration
    failed and the timeouts were too few to send indirectly, they are the same run."""
    slow = transfer(replace(model, method=TRADITIONAL), seed, number)
    if slow.requests <= model.timeouts and not slow.refused:
        return slow, slow
    return slow, transfer(replace(model, method=DYNAMIC), seed, number)
