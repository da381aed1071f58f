#!/usr/bin/python3 -B
"""redis-server with redis-benchmark and redis-cli; what is stored is read back and compared."""
import hashlib
import re
import sys

from lib.harness import case, main
from lib.redis import SERVER_OPTIONS, Control, benchmark, cli, start_server


@case(120)
def get_set_one_client(t):
    server, port = start_server(t)
    benchmark(t, port, "-t", "get,set", "-n", 40000, "-c", 1, "-d", 64)
    t.stop(server)
    t.stats.direct(port, to_server=2_000_000, to_client=300_000)


@case(120)
def pipelines(t):
    server, port = start_server(t)
    benchmark(t, port, "-t", "get,set", "-n", 200000, "-P", 16, "-c", 8, "-d", 100)
    t.stop(server)
    t.stats.direct(port, to_server=10_000_000, to_client=1_000_000, streams=16)


@case(150)
def fifty_clients(t):
    server, port = start_server(t)
    benchmark(t, port, "-t", "set,get,lrange_100,mset", "-n", 50000, "-c", 50, "-r", 1000, "-d", 32)
    t.stop(server)
    t.stats.direct(port, to_server=5_000_000, to_client=5_000_000, streams=100)


@case(120)
def threaded_io(t):
    """redis reads and writes with two I/O threads, redis-benchmark with two."""
    server, port = start_server(t, "--io-threads", 2, "--io-threads-do-reads", "yes")
    benchmark(t, port, "-t", "get,set", "-n", 20000, "-c", 40, "--threads", 2, "-d", 512)
    t.stop(server)
    t.stats.direct(port, to_server=10_000_000, to_client=200_000, streams=40)


@case(120)
def contents(t):
    """20,000 keys loaded with redis-cli --pipe, all read back with redis-cli, compared by digest.
    """
    server, port = start_server(t)
    load, ask = t.path("load.txt"), t.path("ask.txt")
    wanted = hashlib.sha256()
    with open(load, "wb") as writes, open(ask, "w") as reads:
        for number in range(20000):
            value = hashlib.sha256(str(number).encode()).hexdigest() * (4 + number % 40)
            writes.write(b"*3\r\n$3\r\nSET\r\n$%d\r\nkey:%d\r\n$%d\r\n%s\r\n" %
                         (len(f"key:{number}"), number, len(value), value.encode()))
            reads.write(f"GET key:{number}\n")
            wanted.update(value.encode() + b"\n")
    text = t.run(cli(port, "--pipe"), stdin=load)
    t.check("errors: 0, replies: 20000" in text, f"redis-cli --pipe: {text}")
    text = t.run(cli(port, "--raw"), stdin=ask)
    t.equal(hashlib.sha256(text.encode()).hexdigest(), wanted.hexdigest(), "values read back")
    t.stop(server)
    # Some megabytes go into the kernel's buffers before the two are paired, more on a busy machine.
    t.stats.direct(port, to_server=20_000_000, to_client=20_000_000, streams=2, share=0.4)


@case(120)
def big_values(t):
    server, port = start_server(t)
    for size in (1, 16 << 10, 1 << 20, 48 << 20):
        value = t.file(f"value-{size}", size, text=True)
        t.equal(t.run(cli(port, "-x", "SET", f"big:{size}"), stdin=value).strip(), "OK",
                f"SET of {size} bytes")
        back = t.path(f"back-{size}")
        t.run(cli(port, "--raw", "GET", f"big:{size}"), stdout=back)
        with open(back, "rb+") as file:
            file.truncate(size)
        t.same_file(back, value, f"value of {size} bytes")
    t.stop(server)
    # Not towards the server: redis-cli writes a value with one call, during which the stream cannot
    # be promoted.
    t.stats.direct(port, to_client=48 << 20, share=0.2)


@case(120)
def publish_subscribe(t):
    """4 subscribers get 20,000 messages each, all, in order."""
    server, port = start_server(t)
    control = Control(port, t.stats)
    subscribers = [t.spawn(cli(port, "--csv", "SUBSCRIBE", "news"), name=f"subscriber{number}")
                   for number in range(4)]
    t.until(lambda: control("PUBSUB", "NUMSUB", "news")[1] == 4, 20, "4 subscribers")
    news = t.path("news.txt")
    with open(news, "w") as file:
        file.writelines(f"PUBLISH news message-{number}\n" for number in range(20000))
    text = t.run(cli(port), stdin=news)
    t.equal(set(text.split()), {"4"}, "number of receivers of each message")
    wanted = [f"message-{number}" for number in range(20000)]
    for subscriber in subscribers:
        t.until(lambda: "message-19999" in subscriber.out(), 30,
                f"{subscriber.name} to get the last message")
        t.equal(re.findall(r'"message","news","([^"]*)"', subscriber.out()), wanted,
                f"messages of {subscriber.name}")
    t.stats.sample()
    t.stop(server)
    # A subscriber that gets no processor for a while fills its ring, and goes on by TCP.
    t.stats.direct(port, to_client=4_000_000, sides=("server",), streams=5, share=0.6)


@case(150)
def bgsave_under_load(t):
    """The snapshot's child has every stream as long as it lives: they go by TCP, and return to the
    ring each time.
    """
    server, port = start_server(t)
    control = Control(port, t.stats)
    load = t.spawn(["redis-benchmark", "-h", "127.0.0.1", "-p", port, "--csv", "-t", "set", "-n",
                    300000, "-c", 20,
                    "-r", 20000, "-d", 400], name="load")
    t.until(lambda: int(control.info("total_commands_processed")) > 20000, 60, "load")
    saves = 0
    while load.popen.poll() is None and saves < 30:
        control("BGSAVE")
        t.until(lambda: control.info("rdb_bgsave_in_progress") == "0", 60, "BGSAVE to end")
        t.equal(control.info("rdb_last_bgsave_status"), "ok", "BGSAVE")
        saves += 1
    t.wait(load, 100)
    t.check("rror" not in load.out() and '"SET"' in load.out(), f"redis-benchmark: {load.out()}")
    t.check(saves >= 3, f"only {saves} snapshots while the load lasted")
    control("SAVE")
    before = control("DEBUG", "DIGEST")
    t.check("RDB looks OK" in t.run(["redis-check-rdb", t.path("dump.rdb")], preload=False),
            "redis-check-rdb")
    t.stop(server)
    # How much depends on how long the snapshots took.
    t.stats.direct(port, to_server=300000 * 400, to_client=1_000_000, streams=20, share=0.2)
    t.stats.shared_for_a_while(port)
    again, port = start_server(t)
    control = Control(port, t.stats)
    t.until(lambda: control.info("loading") == "0", 30, "redis to load the snapshot")
    t.equal(control("DEBUG", "DIGEST"), before,
            "digest of the data set after a restart from the snapshot")
    t.stop(again)


@case(90)
def replication(t):
    """A second server as replica: full synchronisation (child and parent write), then a live
    stream.
    """
    first, port = start_server(t, "--repl-diskless-sync-delay", 0)
    benchmark(t, port, "-t", "set", "-n", 50000, "-c", 8, "-r", 20000, "-d", 300)
    second_port = t.free_port()
    second = t.spawn(["redis-server", "--port", second_port, "--dir", t.tmp, "--dbfilename",
                      "second.rdb",
                      "--replicaof", "127.0.0.1", port, *SERVER_OPTIONS], name="replica")
    t.listening(second, second_port)
    replica, control = Control(second_port, t.stats), Control(port, t.stats)
    t.until(lambda: replica.info("master_link_status") == "up", 40, "the replica to be in step")
    benchmark(t, port, "-t", "set", "-n", 50000, "-c", 8, "-r", 20000, "-d", 300)
    t.equal(control("WAIT", 1, 20000), 1, "replicas that acknowledged")
    t.equal(replica("DEBUG", "DIGEST"), control("DEBUG", "DIGEST"), "data set of the replica")
    t.stop(second)
    t.stop(first)
    t.stats.direct(port, to_server=20_000_000, streams=8)


if __name__ == "__main__":
    sys.exit(main())
