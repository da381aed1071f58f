# Thin: CMake builds (into build/), scripts do the rest. All of it works as root on a fresh
# Debian 12.
SHELL := /bin/bash
.DEFAULT_GOAL := build
export LIBRSOCK := $(CURDIR)/build/lib/librsock.so
export RSOCK_TOOL := $(CURDIR)/build/bin/rsock

.PHONY: build deps demo demo-cluster test test-rdma test-rdma-short test-configs bench bench-quick \
	picture bench-mapper bench-cluster bench-rdma bench-rdma-quick bench-rdma-paper \
	bench-rdma-cost bench-rdma-counts bench-rdma-failover bench-mechanisms \
	bench-promotion check check-text format model fuzz fuzz-long \
	differ differ-long soak soak-long test-all chaos-long mutants guard sanitize deb \
	test-deb arm64 debian-next clean

deps:
	@scripts/install-deps.sh

# librsock.so, rsock, rsperf and the tests, into build/
build: deps
	@scripts/build.sh build -DCMAKE_C_COMPILER=gcc

# iperf3, redis, nginx with and without librsock
demo: build
	@scripts/demo.sh

# three hosts with etcd: a policy is pushed, a service is drained, a host is killed; a few seconds
demo-cluster: build
	@RSOCK_TEST_BIN=$(CURDIR)/build/bin python3 -B test/net/net_demo.py cluster

# what everybody runs; 11 minutes on 2 cores with the build
test:
	@scripts/test.sh

# everything: all configurations, all of test-rdma, sanitizers, fuzz targets, models, soak;
# some 2 hours
test-all:
	@scripts/test.sh --all

# two hosts with RDMA devices (Soft-RoCE, in QEMU guests)
test-rdma: build
	@scripts/test-rdma.sh

# a few of those cases, in one boot (4 minutes)
test-rdma-short: build
	@scripts/test-rdma.sh --short

# real programs and faults without spinning, then with small rings (the app tests always run so)
test-configs: build
	@RSOCK_SPIN_US=0 scripts/ctest.sh build -L 'real|fault' -j $$((2 * $$(nproc)))
	@RSOCK_RING_KB=32 scripts/ctest.sh build -L 'real|fault' -j $$((2 * $$(nproc)))

# all measurements of one host, some 20 minutes
bench: build
	@bench/run.sh

bench-quick: build
	@bench/run.sh --quick

# docs/gains.svg, of what make bench measured last
picture:
	@python3 -B bench/gains.py build/bench/bench.json

# locked access, order, mailboxes; the paper's model of the dynamic transfer; some 4 minutes
bench-mechanisms: build
	@python3 -B bench/mechanisms.py

# bytes by TCP until a stream is on the ring, on one host and between containers, as root; a minute
bench-promotion: build
	@python3 -B bench/promotion.py

# the port mapper's service: transactions, memory, connections, a fabric of 10,000 hosts
bench-mapper: build
	@python3 -B bench/mapper.py

# 1,000 rsockds on one etcd of three nodes, as root: what it costs, by their number; 10 minutes
bench-cluster: build
	@python3 -B bench/cluster.py

# TCP, rsocket, SMC-R, rsock and bare verbs between two guests with RDMA devices; about 10 minutes
bench-rdma: build
	@bench/rdma.sh

# the same with fewer rows; some 5 minutes
bench-rdma-quick: build
	@bench/rdma.sh --quick

# dynamic against traditional transfers, failed registration and lost packets; 20 minutes
bench-rdma-paper: build
	@bench/rdma.sh paper

# memory, registrations and set-up of a stream and of a link between two guests; 10 minutes
bench-rdma-cost: build
	@bench/rdma.sh cost

# work requests, system calls and instructions of a message between two guests; 5 minutes
bench-rdma-counts: build
	@bench/rdma.sh counts

# how long a stream stands still when one of its two rails dies, between two guests; some 8 minutes
bench-rdma-failover: build
	@bench/rdma.sh failover

# format, clang-tidy, both compilers, includes, symbols
check: deps
	@scripts/check.sh

# those of them that need no build; some 15 seconds, before each commit
check-text: deps
	@scripts/check.sh --text

# rewrites the sources in the project's format
format: deps
	@scripts/check-format.sh --fix

# spin over test/model/*.pml
model: deps
	@test/model/run.sh

# every fuzz target for 60 s
fuzz: deps
	@scripts/fuzz.sh 60

fuzz-long: deps
	@scripts/fuzz.sh 3600

# 200 random programs, on kernel TCP and with the library: every call answers alike
differ: build
	@RSOCK_TEST_BIN=$(CURDIR)/build/bin python3 -B test/differ/differ.py --seeds 1..200

# the same until it is ended
differ-long: build
	@RSOCK_TEST_BIN=$(CURDIR)/build/bin python3 -B test/differ/differ.py --seeds $$(date +%s)..

# ten minutes of pairs that fork, exec, pass descriptors, are stopped, killed and demoted
soak: build
	@RSOCK_TEST_BIN=$(CURDIR)/build/bin python3 -B test/soak/soak.py --minutes 10

# an hour of that
soak-long: build
	@RSOCK_TEST_BIN=$(CURDIR)/build/bin python3 -B test/soak/soak.py --minutes 60

# a hundred times the faults of one test run
chaos-long: build
	@RSK_CHAOS_FAULTS=10000000 scripts/ctest.sh build -L '^chaos$$' --timeout 14400

# breaks single lines of the sources, and sees that the tests notice
mutants: deps
	@scripts/mutants.sh

# instructions per call against their bounds; scripts/guard.sh --update sets these
guard: build
	@scripts/guard.sh

# units and threaded tests under ASan+UBSan, then TSan
sanitize: deps
	@scripts/sanitize.sh address
	@scripts/sanitize.sh thread

# Debian packages, into build/deb/
deb: deps
	@scripts/install-deps.sh scripts/packages-deb.txt
	@scripts/deb.sh

# lintian, then installed, run and purged in a root of their own; as root, some minutes
test-deb: deb
	@python3 -B test/deb/test_deb.py

# all parts for arm64; its unit tests and app cases, by qemu-aarch64; as root
arm64:
	@scripts/arm64.sh

# all parts on a later Debian (RELEASE=trixie) with its gcc and libc; its unit tests and app cases,
# in a root of its own; as root
debian-next:
	@scripts/debian-next.sh $(RELEASE)

clean:
	rm -rf build
