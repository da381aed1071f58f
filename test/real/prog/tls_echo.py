"""Echo over TLS (real_tls.py); the client compares, and prints "right BYTES"."""
import random
import socket
import ssl
import sys

ROLE, PORT, PEM = sys.argv[1], int(sys.argv[2]), sys.argv[3]


def serve():
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(PEM)
    with socket.create_server(("127.0.0.1", PORT)) as listener:
        while True:
            raw, _address = listener.accept()
            with context.wrap_socket(raw, server_side=True) as peer:
                while data := peer.recv(65536):
                    peer.sendall(data)


def ask():
    context = ssl.create_default_context(cafile=PEM)
    source = random.Random(5)
    moved = 0
    with socket.create_connection(("127.0.0.1", PORT), timeout=40) as raw:
        with context.wrap_socket(raw, server_hostname="127.0.0.1") as peer:
            for _turn in range(3000):
                message = source.randbytes(source.choice((1, 50, 1400, 16384, 60000)))
                peer.sendall(message)
                back = bytearray()
                while len(back) < len(message):
                    data = peer.recv(len(message) - len(back))
                    if not data:
                        sys.exit(f"EOF after {moved} bytes")
                    back += data
                if back != message:
                    sys.exit(f"wrong bytes after {moved}")
                moved += len(message)
    print("right", moved)


try:
    serve() if ROLE == "server" else ask()
except KeyboardInterrupt:
    pass
