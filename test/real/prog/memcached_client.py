"""Sets and gets values in memcached from eight threads, and compares each (real_memcached.py);
prints "right BYTES".
"""
import random
import socket
import sys
import threading

PORT = int(sys.argv[1])
SIZES = [1, 10, 100, 1000, 5000, 20000, 100_000, 1_000_000, 3_000_000]
ROUNDS = 300
moved = []


def talk(number):
    source = random.Random(number)
    connection = socket.create_connection(("127.0.0.1", PORT), timeout=60)
    file = connection.makefile("rb")
    total = 0
    for turn in range(ROUNDS):
        values = {f"t{number}-{turn}-{k}": source.randbytes(source.choice(SIZES[:7]))
                  for k in range(4)}
        if turn % 50 == 49:
            values[f"t{number}-{turn}-big"] = source.randbytes(SIZES[7 + turn % 2])
        connection.sendall(b"".join(b"set %s 0 0 %d\r\n%s\r\n" % (key.encode(), len(value), value)
                                    for key, value in values.items()))
        for key in values:
            line = file.readline()
            if line != b"STORED\r\n":
                sys.exit(f"{key}: {line!r}")
        connection.sendall(b"get " + " ".join(values).encode() + b"\r\n")
        for _ in values:
            word, key, _flags, size = file.readline().split()
            data = file.read(int(size) + 2)
            if word != b"VALUE" or data != values[key.decode()] + b"\r\n":
                sys.exit(f"{key!r}: wrong value")
            total += int(size)
        if file.readline() != b"END\r\n":
            sys.exit("no END")
    moved.append(total)


threads = [threading.Thread(target=talk, args=(number,)) for number in range(8)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
if len(moved) != 8:
    sys.exit("a thread failed")
print("right", sum(moved))
