"""Statistics segments (rsock/stats.h) as any program could write them and hand them to rsockd."""
import fcntl
import os
import struct
import time

MAGIC, VERSION = 0x544154534B434F53, 8
HEADER = struct.Struct("<QIIIIIIQII")
PROCESSES, PROCESS_BYTES = 64, 320
RECORD_BYTES, RECORDS, FIRST_RECORD = 384, 16384, 4096 + PROCESSES * PROCESS_BYTES
BYTES = FIRST_RECORD + RECORDS * RECORD_BYTES
F_ADD_SEALS = 1033
SHRINK, GROW = 2, 4
CLOSED, EVENT_CLOSED = 2, 9


def make(high_water=0xFFFFFFFF, size=BYTES, seals=1 | SHRINK | GROW):
    """A memfd that is empty except for its header."""
    fd = os.memfd_create("rsock-stat", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    os.ftruncate(fd, size)
    os.pwrite(fd, HEADER.pack(MAGIC, VERSION, size, PROCESSES, PROCESS_BYTES, RECORDS,
                              RECORD_BYTES, time.monotonic_ns(), 0, high_water), 0)
    fcntl.fcntl(fd, F_ADD_SEALS, seals)
    return fd


def put_ended(fd, number, *, local_port, peer_port, total, opened_ns=None,
              connecting=1):
    """Writes the record of a stream that ended just now and says that it carried so many bytes."""
    now = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
    record = bytearray(RECORD_BYTES)
    struct.pack_into("<II", record, 0, CLOSED, 1)
    struct.pack_into("<HHBB", record, 40, local_port, peer_port, 2, connecting)
    struct.pack_into("<Q", record, 56, now - 10**9 if opened_ns is None else opened_ns)
    struct.pack_into("<Q", record, 64, total)
    struct.pack_into("<I", record, 184, 1)
    struct.pack_into("<Q", record, 192, now // 1000 << 16 | EVENT_CLOSED << 8)
    os.pwrite(fd, bytes(record), FIRST_RECORD + RECORD_BYTES * number)
