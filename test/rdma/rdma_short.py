#!/usr/bin/python3
"""The short form: one or two of each kind of case, in guests that boot once."""
import sys

import rdma_faults  # noqa: F401  its cases are borrowed
import rdma_hostile  # noqa: F401
import rdma_programs  # noqa: F401
import rdma_streams  # noqa: F401
from rdmalab import borrow, main

borrow("rdma_streams", "request_response", "flat_out_edge", "closed_with_much_under_way",
       "next_stream", "ipv6", "one_side_only",
       "no_rsockd")
borrow("rdma_faults", "roce_lost_for_a_while", "shut_while_roce_is_lost", "killed_under_load",
       "outsiders", "registration_fails", "rsockd_restarts",
       "refused_at_first")
borrow("rdma_hostile", "others_keys")
borrow("rdma_programs", "iperf3_upload", "redis", "forking_server", "exec_with_a_stream")

if __name__ == "__main__":
    sys.exit(main())
