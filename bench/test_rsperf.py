#!/usr/bin/env python3
"""Tests of rsperf on kernel TCP and Unix sockets: every way to wait at either end, every test, both
IP versions; what it must refuse; and that it notices wrong bytes. RSPERF names the program."""
import contextlib
import json
import os
import socket
import subprocess
import sys
import tempfile
import threading
import unittest

RSPERF = os.environ["RSPERF"]
LIMIT_S = 30


def client(*args):
    return subprocess.run([RSPERF, "client", *map(str, args)], capture_output=True, text=True,
                          timeout=LIMIT_S,
                          check=False)


class Server:
    def __init__(self, *args):
        self.process = subprocess.Popen([RSPERF, "server", *args], stdout=subprocess.PIPE,
                                        text=True)
        self.address = self.process.stdout.readline().split()[-1]
        self.port = self.address.rsplit(":", 1)[1]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.status = self.process.wait(LIMIT_S)
        self.process.stdout.close()


class Tests(unittest.TestCase):
    def run_json(self, *args):
        done = client(*args, "--json", "--warmup", "0.02")
        self.assertEqual(done.returncode, 0, f"{args}: {done.stderr}")
        return json.loads(done.stdout)

    def matrix(self, where, client_wait, nonblock):
        wait = ["--wait", client_wait, *nonblock]
        threads = 4 if client_wait == "recv" else 2
        r = self.run_json("--lat", *where, *wait, "-n", 50, "-c", 4, "-T", threads)
        self.assertEqual(r["count"], 200)
        self.assertLessEqual(r["rtt_ns"]["min"], r["rtt_ns"]["p50"])
        self.assertLessEqual(r["rtt_ns"]["p50"], r["rtt_ns"]["max"])
        # More than both sockets' buffers hold: it must be sent message by message, or both sides
        # would hang in send().
        r = self.run_json("--lat", *where, *wait, "-n", 2, "-s", "12M")
        self.assertEqual(r["count"], 2)
        r = self.run_json("--lat", *where, *wait, "-n", 20, "-s", 1)
        self.assertEqual(r["count"], 20)
        r = self.run_json("--bw", *where, *wait, "-n", 40, "--bidir", "-c", 2)
        self.assertGreaterEqual(r["out"]["bytes"], 2 * 40 * 128 * 1024)
        self.assertGreater(r["in"]["bytes"], 0)
        r = self.run_json("--bw", *where, *wait, "-n", 40, "--bidir", "-s", "70001", "--verify")
        self.assertGreaterEqual(r["out"]["bytes"], 40 * 70001)
        r = self.run_json("--bw", *where, *wait, "-n", 40, "--reverse", "-s", 5001)
        self.assertGreaterEqual(r["in"]["bytes"], 40 * 5001)
        self.assertNotIn("out", r)
        r = self.run_json("--rate", *where, *wait, "-n", 500, "-s", 7)
        self.assertGreaterEqual(r["out"]["bytes"], 500 * 7)
        r = self.run_json("--conn", *where, *wait, "-n", 50, "-c", 2)
        self.assertEqual(r["count"], 100)

    def test_every_wait_at_both_ends(self):
        for kind in ("recv", "poll", "select", "epoll"):
            for nonblock in ([], ["--nonblock"]):
                with self.subTest(wait=kind, nonblock=bool(nonblock)):
                    with Server("-p", "0", "-a", "127.0.0.1", "--wait", kind, *nonblock) as srv:
                        self.matrix(["-p", srv.port], kind, nonblock)
                    self.assertEqual(srv.status, 0)

    def test_ends_that_wait_differently(self):
        with Server("-p", "0", "-a", "127.0.0.1", "--wait", "epoll", "-T", "2") as srv:
            self.matrix(["-p", srv.port], "recv", [])

    def test_streams_at_rest(self):
        """Opened and used before the load, and used again after it; a server that loses them
        reports that."""
        for kind in ("poll", "epoll"):
            for nonblock in ([], ["--nonblock"]):
                with Server("-p", "0", "-a", "127.0.0.1", "--wait", kind, *nonblock) as srv:
                    done = client("--lat", "-p", srv.port, "--wait", kind, *nonblock, "-n", 50,
                                  "-c", 3, "-i", 200,
                                  "--warmup", 0, "--json")
                    self.assertEqual(done.returncode, 0, done.stderr)
                    self.assertIn("200 streams rest", done.stderr)
                    result = json.loads(done.stdout)
                    self.assertEqual((result["count"], result["idle"]), (150, 200))
                self.assertEqual(srv.status, 0)

    def test_ip_versions(self):
        with Server("-p", "0") as srv:
            for version in ("-4", "-6"):
                self.assertEqual(self.run_json("--lat", version, "-p", srv.port, "-n", 5)["count"],
                                 5)

    def test_unix_socket(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "s")
            with Server("--unix", path, "--wait", "epoll") as srv:
                self.assertEqual(srv.address, f"unix:{path}")
                self.matrix(["--unix", path], "epoll", [])
            self.assertFalse(os.path.exists(path))

    def test_one_off(self):
        with Server("-p", "0", "--one-off") as srv:
            self.run_json("--lat", "-p", srv.port, "-n", 5)
            self.assertEqual(srv.process.wait(LIMIT_S), 0)

    def test_refusals(self):
        with Server("-p", "0", "-a", "127.0.0.1") as srv:
            for args, status, says in (
                    (["--lat", "-p", "1"], 1, "refused"),
                    (["--lat", "-p", "70000"], 1, "no port"),
                    (["--lat", "-4", "-a", "::1"], 1, "::1"),
                    ([], 2, "--lat, --bw"),
                    (["--lat", "--bw"], 2, "contradicts"),
                    (["--lat", "--bidir"], 2, "--bidir"),
                    (["--lat", "-s", "0"], 2, "--size"),
                    (["--lat", "-s", "65M"], 2, "--size"),
                    (["--lat", "-s", "-1"], 2, "--size"),
                    (["--lat", "-t", "nan"], 2, "--time"),
                    (["--lat", "-t", "0"], 2, "--time"),
                    (["--lat", "-t"], 2, "needs a value"),
                    (["--lat", "-n", "99999999999999999999"], 2, "--count"),
                    (["--lat", "--wait", "kqueue"], 2, "--wait"),
                    (["--lat", "-c", "16385"], 2, "--conns"),
                    (["--lat", "-c", "4", "-T", "2"], 2, "thread"),
                    (["--lat", "--pin", "0,"], 2, "--pin"),
                    (["--lat", "--idle", "5"], 2, "--idle"),
                    (["--bw", "--idle", "5", "--wait", "epoll"], 2, "--idle"),
                    (["--lat", "-x"], 2, "-x"),
                    (["--lat", "more"], 2, "more"),
                    (["--conn", "-s", "1"], 2, "--conn"),
                    (["--lat", "-p", srv.port, "--pin", "4000"], 1, "cpu 4000")):
                with self.subTest(args=args):
                    done = client(*args)
                    self.assertEqual(done.returncode, status, done.stderr)
                    self.assertIn(says, done.stderr)

    def through(self, srv, change, *test):
        """Runs a client behind a relay that changes what the server sends after some bytes; returns
        the client's result."""
        with socket.create_server(("127.0.0.1", 0)) as listener:
            done = []
            runs = threading.Thread(target=lambda: done.append(
                client(*test, "-p", listener.getsockname()[1], "-t", 1)))
            runs.start()
            near = listener.accept()[0]
            with near, socket.create_connection(("127.0.0.1", int(srv.port))) as far:
                up = threading.Thread(target=self.relay, args=(near, far, lambda _, data: data))
                up.start()
                self.relay(far, near, change)
                with contextlib.suppress(OSError):
                    far.shutdown(socket.SHUT_RDWR)
                    near.shutdown(socket.SHUT_RDWR)
                up.join()
            runs.join()
            return done[0]

    @staticmethod
    def relay(source, sink, change):
        passed = 0
        try:
            while data := source.recv(1 << 16):
                sink.sendall(change(passed, data))
                passed += len(data)
            sink.shutdown(socket.SHUT_WR)
        except OSError:
            pass

    def test_wrong_bytes_are_noticed(self):
        def flip(passed, data):
            return data if passed < 10000 else bytes([data[0] ^ 1]) + data[1:]

        def lose(passed, data):
            return data if passed < 10000 else data[1:]

        with Server("-p", "0", "-a", "127.0.0.1") as srv:
            same = self.through(srv, lambda _, data: data, "--bw", "--reverse")
            self.assertEqual(same.returncode, 0, same.stderr)
            for change, test in ((flip, ["--lat"]), (flip, ["--bw", "--reverse", "--verify"]),
                                 (lose, ["--bw", "--reverse"]), (lose, ["--bw", "--bidir"])):
                with self.subTest(change=change.__name__, test=test):
                    done = self.through(srv, change, *test)
                    self.assertEqual(done.returncode, 1)
                    self.assertIn("wrong bytes", done.stderr)

    def test_limits(self):
        for limit in ("--futex", "--eventfd", "--eventfd-epoll"):
            done = subprocess.run([RSPERF, "limit", limit, "-n", "100", "--warmup", "0", "--json"],
                                  capture_output=True, text=True, timeout=LIMIT_S, check=True)
            self.assertEqual(json.loads(done.stdout)["count"], 100)
        done = subprocess.run([RSPERF, "limit", "--cacheline", "-t", "0.2", "--warmup", "0",
                               "--json"],
                              capture_output=True, text=True, timeout=LIMIT_S, check=True)
        self.assertGreater(json.loads(done.stdout)["count"], 0)
        done = subprocess.run([RSPERF, "limit", "--copy", "-n", "20", "-s", "70001", "--warmup",
                               "0", "--json"],
                              capture_output=True, text=True, timeout=LIMIT_S, check=True)
        self.assertEqual((json.loads(done.stdout)["count"], json.loads(done.stdout)["size_bytes"]),
                         (20, 70001))
        done = subprocess.run([RSPERF, "limit", "--copy", "--hash", "-t", "0.2", "-s", "70001",
                               "--warmup", "0", "--json"],
                              capture_output=True, text=True, timeout=LIMIT_S, check=True)
        self.assertGreater(json.loads(done.stdout)["count"], 0)
        self.assertTrue(json.loads(done.stdout)["hash"])
        for size in 1, 64, 241, 16384:
            done = subprocess.run([RSPERF, "limit", "--slots", "-n", "9000", "-s", str(size),
                                   "--warmup", "0", "--json"],
                                  capture_output=True, text=True, timeout=LIMIT_S, check=True)
            self.assertEqual(json.loads(done.stdout)["out"]["bytes"], 9 * 1024 * size)
            self.assertGreater(json.loads(done.stdout)["out"]["messages_per_s"], 0)
        done = subprocess.run([RSPERF, "limit", "--slots", "-s", "16385"], capture_output=True,
                              text=True, timeout=LIMIT_S,
                              check=False)
        self.assertIn("at most", done.stderr)
        done = subprocess.run([RSPERF, "limit", "--futex", "--hash"], capture_output=True,
                              text=True,
                              timeout=LIMIT_S, check=False)
        self.assertIn("--hash goes with --copy", done.stderr)

    def test_calls(self):
        for kind in ("udp", "local", "file"):
            done = subprocess.run([RSPERF, "calls", f"--{kind}", "-n", "1000", "--warmup", "0",
                                   "--json"],
                                  capture_output=True, text=True, timeout=LIMIT_S, check=True)
            result = json.loads(done.stdout)
            self.assertGreaterEqual(result["count"], 2000)
            self.assertGreater(result["ns_per_call"], 0)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
