"""asyncio streams (real_python.py): each client writes and reads at the same time, and compares;
prints "right BYTES".
"""
import asyncio
import hashlib
import random
import sys

PORT, CLIENTS, LIMIT = int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]) * 1000


async def talk(number):
    source = random.Random(number)
    reader, writer = await asyncio.open_connection("127.0.0.1", PORT)
    sent = hashlib.sha256()
    moved = 0

    async def write():
        nonlocal moved
        while moved < LIMIT:
            message = source.randbytes(source.choice((1, 64, 1400, 40000, 300000)))
            sent.update(message)
            writer.write(message)
            moved += len(message)
            await writer.drain()
        writer.write_eof()

    async def read():
        back = hashlib.sha256()
        while data := await reader.read(100000):
            back.update(data)
        return back.digest()

    _nothing, back = await asyncio.gather(write(), read())
    writer.close()
    await writer.wait_closed()
    if back != sent.digest():
        sys.exit(f"client {number}: the echo differs")
    return moved


async def all_of_them():
    print("right", sum(await asyncio.gather(*(talk(number) for number in range(CLIENTS)))))


asyncio.run(asyncio.wait_for(all_of_them(), 50))
