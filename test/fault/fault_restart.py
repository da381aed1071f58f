#!/usr/bin/python3 -B
"""Servers that end and come back, 4-tuples used again at once, real servers and workers killed
under load.
"""
import os
import random
import re
import signal
import sys

from lib import nginx, redis
from lib.harness import case, descendants, main
from peers import Peer, both_ways, connect, pair, warm


@case(60)
def server_restarted(t):
    """One client process, twenty servers on one port one after the other, ended in turn by kill -9
    and in order.
    """
    client, port = Peer(t, "client"), t.free_port()
    size = 1_000_000
    for life in range(20):
        server = Peer(t, "server")
        server.ask("listening", "listen", port)
        for turn in range(2):
            connect(server, client, port, 100 * life + turn)
            warm(server, client)
            both_ways(server, client, size, size)
            t.stats.sample()
            if life % 2 and turn:
                server.kill()
            else:
                server.ask("closed", "close")
            client.ask("closed", "close")
        if not life % 2:
            server.finish()
    client.finish()
    t.stats.direct(port, to_server=40 * size, to_client=40 * size, streams=20, share=0.25,
                   sides=("client",))


@case(60)
def same_ports_again(t):
    """The same 4-tuple again and again, by several processes, by clients with the library and
    without.
    """
    port, source = t.free_port(), t.free_port()
    server = Peer(t, "server")
    server.ask("listening", "listen", port)
    size = 500_000
    direct = 0
    for turn in range(30):
        client = Peer(t, "client", preload=turn % 3 != 2)
        connect(server, client, port, turn, source)
        both_ways(server, client, size, size, chunk=3000)
        direct += turn % 3 != 2
        t.stats.sample()
        # The client resets, so that the ports can be used again at once.
        client.ask("closed", "reset")
        server.flow("block", 0, "endless")
        t.equal(server.result()["rx_end"], "ECONNRESET", "end of a connection that was reset")
        server.ask("closed", "close")
        client.finish()
    t.stats.sample()
    server.finish()
    t.stats.direct(port, to_server=direct * size, to_client=direct * size, streams=direct // 4,
                   share=0.2, sides=("client",))


@case(60)
def client_of_many_servers(t):
    """One client process with links to 20 server processes, which are killed one after the other.
    """
    client = Peer(t, "client")
    ports = []
    for number in range(20):
        server = Peer(t, "server")
        port = t.free_port()
        server.ask("listening", "listen", port)
        connect(server, client, port, number)
        both_ways(server, client, 20_000_000, 20_000_000, ios=("poll", "edge"))
        t.stats.sample()
        server.kill()
        client.flow("edge", "endless", "endless", 65536)
        result = client.result(15)
        t.check(result["tx_end"] in ("EPIPE", "ECONNRESET"), f"after the server's death: {result}")
        client.ask("closed", "close")
        ports.append(port)
    t.stats.sample()
    client.finish()
    for port in ports:
        t.stats.direct(port, sides=("client",))  # promoted at all


@case(90)
def redis_clients_killed(t):
    """redis-benchmark is killed at random moments, 20 times: the server forgets each client and
    leaks nothing.
    """
    random.seed(int(os.environ.get("RSOCK_SEED", "11")))
    server, port = redis.start_server(t)
    control = redis.Control(port, t.stats)
    held = None
    for turn in range(20):
        load = t.spawn(["redis-benchmark", "-h", "127.0.0.1", "-p", port, "-q", "-t", "set", "-n",
                        "100000000",
                        "-c", 20, "-d", 1000, "-P", random.choice((1, 16))], name="load")
        start = int(control.info("total_commands_processed"))
        target = start + random.randrange(1, 40000)
        t.until(lambda: int(control.info("total_commands_processed")) >= target, 30, "load")
        t.stats.sample()
        t.kill(load)
        t.until(lambda: control.info("connected_clients") == "1", 20,
                "redis to notice that its clients have died")
        fds = len(os.listdir(f"/proc/{server.pid}/fd"))
        with open(f"/proc/{server.pid}/maps") as file:
            maps = sum("memfd:" in line for line in file)
        if turn == 2:
            held = fds, maps
    t.check(fds <= held[0] + 1 and maps <= held[1] + 1,
            f"leak in redis-server: (fds, memfd mappings) {held} after 3 clients, {(fds, maps)} "
            f"after 20")
    redis.benchmark(t, port, "-t", "set,get", "-n", 20000, "-c", 10)
    t.stop(server)
    t.stats.direct(port, to_server=10_000_000, sides=("server",), streams=50, share=0.25)


@case(90)
def redis_server_killed(t):
    """The server is killed under load: each benchmark ends by itself with an error, none hangs;
    then a new server.
    """
    ports = []
    for _turn in range(10):
        server, port = redis.start_server(t)
        control = redis.Control(port, t.stats)
        load = t.spawn(["redis-benchmark", "-h", "127.0.0.1", "-p", port, "-q", "-t", "set", "-n",
                        "100000000",
                        "-c", 20, "-d", 1000], name="load")
        t.until(lambda: int(control.info("total_commands_processed")) > 5000, 30, "load")
        t.stats.sample()
        t.kill(server)
        status = t.wait(load, 20, expect=None)
        t.check(status == 1, f"redis-benchmark ended with {status} after the server's death")
        t.check("Server closed" in load.err() + load.out() or "reset" in load.err() + load.out() or
                "Connection refused" in load.err() + load.out(),
                f"redis-benchmark said: {(load.err() + load.out())[-300:]}")
        ports.append(port)
    for port in ports:
        t.stats.direct(port, to_server=2_000_000, sides=("client",), streams=20, share=0.25)


@case(90)
def nginx_workers_killed(t):
    """kill -9 of workers under load: the master starts others, which serve correctly and directly.
    """
    server, port = nginx.start_server(t)
    t.file("www/1000", 1000)
    load = t.spawn(["wrk", "-t", 1, "-c", 16, "-d", "6s", f"http://127.0.0.1:{port}/1000"],
                   name="wrk")
    t.until(lambda: nginx.established(port) >= 16, 20, "16 connections")
    for _ in range(6):
        workers = descendants(server.pid)
        t.equal(len(workers), 2, "workers")
        t.stats.sample()
        os.kill(workers[0], signal.SIGKILL)
        t.until(lambda: len(set(descendants(server.pid)) - set(workers)) == 1, 20, "a new worker")
        total = nginx.fetch_all(t, port, sizes=(1, 612, 5_000_000))
    t.wait(load, 30)
    requests = re.search(r"(\d+) requests in", load.out())
    t.check(requests and int(requests.group(1)) > 1000, f"wrk: {load.out()}")
    t.check("Non-2xx" not in load.out(), f"wrk: {load.out()}")
    t.stats.sample()
    t.stop(server, signal.SIGQUIT)
    t.stats.direct(port, to_client=6 * total, streams=16, sides=("client",), share=0.25)


@case(60)
def many_connections_one_link(t):
    """200 connections between the same two processes, one after the other: memory and fds do not
    grow. (But by a set for each doorbell on which a call sleeps, seven at the most.)
    """
    server, client, port = pair(t)
    both_ways(server, client, 300_000, 300_000)
    held = None
    for turn in range(200):
        client.ask("closed", "close")
        server.ask("closed", "close")
        connect(server, client, port, turn)
        both_ways(server, client, 300_000, 300_000, chunk=4000)
        if turn == 10:
            held = server.holdings(), client.holdings()
    for end, was in zip((server, client), held):
        now = end.holdings()
        for name, more in {"fds": 7, "threads": 0, "memfd mappings": 1, "mappings": 12}.items():
            t.check(now[name] <= was[name] + more, f"{end.proc.name}: {name} {was[name]} after 10 "
                                                   f"connections, {now[name]} after 200")
    t.stats.sample()
    server.finish()
    client.finish()
    t.stats.direct(port, to_server=200 * 300_000, to_client=200 * 300_000, streams=40, share=0.05)


if __name__ == "__main__":
    sys.exit(main())
