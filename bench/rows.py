"""All runs of compare.py, in the order of the table."""
from rows_containers import CONTAINERS
from rows_programs import PROGRAMS
from rows_rsperf import ALONE, CONNECTIONS, CPU, LATENCIES, MANY, SLOTS_ALONE, SWEEPS, THROUGHPUT
from rows_system import SYSTEM

RUNS = (LATENCIES + THROUGHPUT + PROGRAMS + CONTAINERS + CONNECTIONS + MANY + CPU + SYSTEM + ALONE
        + (SLOTS_ALONE,) + SWEEPS)
