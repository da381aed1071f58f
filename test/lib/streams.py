"""What librsock says about streams: the lines that `rsock stat --json` prints, and that a program
leaves in RSOCK_STAT_FILE when it ends. stats.py demands something of it, bench/stages.py shows it.
"""
import json


def streams_of(line):
    """The records of a line; ValueError, KeyError or TypeError if it is not the promised JSON."""
    return json.loads(line)["streams"]


def ring_bytes(record):
    return record["tx_ring_bytes"] + record["rx_ring_bytes"]


def tcp_bytes(record):
    return record["tx_tcp_bytes"] + record["rx_tcp_bytes"]
