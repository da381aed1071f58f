"""redis-server and its clients as test/real and test/fault run them."""
import re
import socket

SERVER_OPTIONS = ["--save", "", "--appendonly", "no", "--daemonize", "no", "--enable-debug-command",
                  "yes"]


class Control:
    """A RESP client inside the harness, never preloaded: a plain-TCP client beside direct ones."""

    def __init__(self, port, stats):
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=20)
        stats.plain_ports.add(self.socket.getsockname()[1])
        self.file = self.socket.makefile("rb")

    def __call__(self, *words):
        parts = [f"*{len(words)}\r\n".encode()]
        for word in words:
            data = word if isinstance(word, bytes) else str(word).encode()
            parts.append(b"$%d\r\n%s\r\n" % (len(data), data))
        self.socket.sendall(b"".join(parts))
        return self.reply()

    def reply(self):
        line = self.file.readline()
        kind, rest = line[:1], line[1:].strip()
        if kind == b"-":
            raise RuntimeError(rest.decode())
        if kind == b":":
            return int(rest)
        if kind == b"$":
            return None if rest == b"-1" else self.file.read(int(rest) + 2)[:-2]
        if kind == b"*":
            return [self.reply() for _ in range(int(rest))]
        return rest

    def info(self, field):
        return re.search(rf"^{field}:(.*?)\r?$", self("INFO").decode(), re.M).group(1)


def start_server(t, *options, preload=True, port=None):
    port = port or t.free_port()
    server = t.spawn(["redis-server", "--port", port, "--dir", t.tmp, *SERVER_OPTIONS, *options],
                     name="server", preload=preload)
    t.listening(server, port)
    return server, port


def benchmark(t, port, *options, preload=True, seconds=100):
    text = t.run(["redis-benchmark", "-h", "127.0.0.1", "-p", port, "--csv", *options],
                 preload=preload, seconds=seconds)
    t.check("rror" not in text, f"redis-benchmark: {text[-400:]}")
    rows = re.findall(r'^"([^"]+)","([\d.]+)"', text, re.M)
    t.check(rows and all(float(rate) > 0 for _name, rate in rows),
            f"redis-benchmark gave no figures: {text[-400:]}")


def cli(port, *words):
    return ["redis-cli", "-h", "127.0.0.1", "-p", port, *words]
