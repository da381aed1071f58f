#!/usr/bin/python3
"""The shortest form, part of make test: one boot, and one case of each script."""
import sys

import rdma_faults  # noqa: F401  its cases are borrowed
import rdma_programs  # noqa: F401
import rdma_streams  # noqa: F401
from rdmalab import borrow, main

borrow("rdma_streams", "request_response", "one_side_only")
borrow("rdma_faults", "roce_lost_for_a_while", "killed_under_load", "registration_fails")
borrow("rdma_programs", "redis")

if __name__ == "__main__":
    sys.exit(main())
