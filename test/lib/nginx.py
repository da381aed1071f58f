"""nginx as test/real and test/fault run it: two workers, of the clients' user."""
import os
import re
import signal

SIZES = (1, 2, 100, 612, 4095, 16384, 65537, 1 << 20, 10_000_000, 100 << 20)
CONFIG = """
user root;
daemon off;
worker_processes 2;
pid {tmp}/nginx-{port}.pid;
error_log {tmp}/nginx-error.log;
events {{ worker_connections 1024; {events} }}
http {{
	access_log off;
	default_type application/octet-stream;
	sendfile {sendfile};
	tcp_nopush {nopush};
	keepalive_timeout {keepalive};
	keepalive_requests 1000000;
	client_max_body_size 1g;
	client_body_temp_path {tmp}/body;
	proxy_temp_path {tmp}/proxy;
	fastcgi_temp_path {tmp}/fastcgi;
	uwsgi_temp_path {tmp}/uwsgi;
	scgi_temp_path {tmp}/scgi;
	{upstream}
	server {{
		listen 127.0.0.1:{port} {listen};
		listen [::1]:{port} {listen};
		root {tmp}/www;
		location /up/ {{ dav_methods PUT; create_full_put_path on; }}
		{location}
	}}
}}
"""


def start_server(t, *, sendfile="on", keepalive=75, listen="", events="", upstream="", location="",
                 preload=True):
    port = t.free_port()
    os.makedirs(t.path("www"), exist_ok=True)
    config = t.path(f"nginx-{port}.conf")
    with open(config, "w") as file:
        file.write(CONFIG.format(tmp=t.tmp, port=port, sendfile=sendfile, keepalive=keepalive,
                                 listen=listen,
                                 nopush=sendfile, events=events, upstream=upstream,
                                 location=location))
    server = t.spawn(["nginx", "-p", t.tmp, "-c", config, "-e", t.path("nginx-error.log")],
                     name="nginx", preload=preload)
    return t.listening(server, port), port


def stop(t, server):
    """Stops nginx by SIGQUIT, on which it ends each worker once its connections are done."""
    t.stop(server, signal.SIGQUIT)
    with open(t.path("nginx-error.log")) as file:
        bad = re.findall(r".*\[(?:error|crit|alert|emerg)\].*", file.read())
    t.check(not bad, f"nginx complains: {bad[:5]}")


def fetch_all(t, port, *options, host="127.0.0.1", sizes=SIZES):
    """Fetches all files by one curl (one kept-alive connection where the server allows), and
    compares their digests.
    """
    words = []
    for size in sizes:
        t.file(f"www/{size}", size)
        words += ["-o", t.path(f"got-{size}"), f"http://{host}:{port}/{size}"]
    t.run(["curl", "-sS", "-f", "-g", *options, *words], name="curl")
    for size in sizes:
        t.same_file(t.path(f"got-{size}"), t.path("www", str(size)), f"file of {size} bytes")
    return sum(sizes)


def established(port):
    """Number of connections to a server's port, as seen from the server."""
    with open("/proc/net/tcp") as file:
        return sum(line.split()[1].endswith(f":{port:04X}") and line.split()[3] == "01"
                   for line in file)
