#!/usr/bin/python3
"""One guest with two processors and two RDMA devices that send each other real packets."""
import sys

from rdmalab import SCALE, case, lab, main


@case(400)
def two_devices(t):
    """Packets from one device to the other are on the link between them, where they can be lost."""
    guest = lab(t)[1]
    guest.two_devices()
    t.equal(guest.sh("nproc").strip(), "2", "processors")

    def write():
        words = ["ib_write_bw", "-x", "1", "-F", "-s", "65536", "-n", "50"]
        serving = guest.start([*words, "-d", "rb"])
        guest.listening(18515, handle=serving)
        guest.run([*words, "-d", "ra", "10.5.0.2"], expect=0)
        serving.wait(expect=0)
    before = guest.hw_counters("ra")["sent_pkts"], guest.hw_counters("rb")["out_of_seq_request"]
    write()
    sent = guest.hw_counters("ra")["sent_pkts"] - before[0]
    t.check(sent >= 50 * 16, f"ra sent {sent} packets")
    guest.netem("loss 5%", netdev="v0")
    write()
    t.check(guest.hw_counters("rb")["out_of_seq_request"] > before[1],
            "packets were lost, and nobody noticed")
    guest.netem(None, netdev="v0")
    serving = guest.start(["rping", "-s", "-a", "10.5.0.2", "-C", 10, "-V"])
    guest.until(lambda: guest.run(["rping", "-c", "-I", "10.5.0.1", "-a", "10.5.0.2", "-C", 10,
                                   "-V"]).rc == 0, 20 * SCALE,
                "rping from one device to the other")
    serving.wait(expect=0)


if __name__ == "__main__":
    sys.exit(main(guests=1, vcpus=2))
