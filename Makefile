# Thin: CMake builds (into build/), scripts do the rest. All of it works as root on a fresh Debian 12.
SHELL := /bin/bash
.DEFAULT_GOAL := build
export LIBRSOCK := $(CURDIR)/build/lib/librsock.so
export RSOCK_TOOL := $(CURDIR)/build/bin/rsock

.PHONY: build deps demo test test-rdma test-rdma-short test-configs bench bench-quick picture bench-mapper bench-rdma bench-rdma-quick bench-rdma-paper bench-rdma-cost bench-rdma-failover bench-mechanisms check format model fuzz fuzz-long differ differ-long soak soak-long test-all chaos-long mutants guard sanitize deb test-deb clean

deps:
	@scripts/install-deps.sh

build: deps ## librsock.so, rsock, rsperf and the tests, into build/
	@scripts/build.sh build -DCMAKE_C_COMPILER=gcc

demo: build ## iperf3, redis, nginx with and without librsock
	@scripts/demo.sh

test: ## what everybody runs; 12 minutes on 2 cores with the build
	@scripts/test.sh

test-all: ## everything: all configurations, all of test-rdma, sanitizers, fuzz targets, models, soak; some 2 hours
	@scripts/test.sh --all

test-rdma: build ## two hosts with RDMA devices (Soft-RoCE, in QEMU guests)
	@scripts/test-rdma.sh

test-rdma-short: build ## a few of those cases, in one boot (4 minutes)
	@scripts/test-rdma.sh --short

test-configs: build ## real programs and faults without spinning, then with small rings (the app tests always run so)
	@RSOCK_SPIN_US=0 scripts/ctest.sh build -L 'real|fault' -j $$((2 * $$(nproc)))
	@RSOCK_RING_KB=32 scripts/ctest.sh build -L 'real|fault' -j $$((2 * $$(nproc)))

bench: build ## all measurements of one host, some 20 minutes
	@bench/run.sh

bench-quick: build
	@bench/run.sh --quick

picture: ## docs/gains.svg, of what make bench measured last
	@python3 -B bench/gains.py build/bench/bench.json

bench-mechanisms: build ## locked access, order, mailboxes; the paper's model of the dynamic transfer; some 4 minutes
	@python3 -B bench/mechanisms.py

bench-mapper: build ## the port mapper's service: transactions, memory, connections, a fabric of 10,000 hosts
	@python3 -B bench/mapper.py

bench-rdma: build ## TCP, rsocket, SMC-R, rsock and bare verbs between two guests with RDMA devices; about 10 minutes
	@bench/rdma.sh

bench-rdma-quick: build ## the same with fewer rows; some 5 minutes
	@bench/rdma.sh --quick

bench-rdma-paper: build ## dynamic against traditional transfers, failed registration and lost packets; 20 minutes
	@bench/rdma.sh paper

bench-rdma-cost: build ## memory, registrations and set-up of a stream and of a link between two guests; 10 minutes
	@bench/rdma.sh cost

bench-rdma-failover: build ## how long a stream stands still when one of its two rails dies, between two guests; some 8 minutes
	@bench/rdma.sh failover

check: deps ## format, clang-tidy, both compilers, includes, symbols
	@scripts/check.sh

format: deps ## rewrites the sources in the project's format
	@scripts/check-format.sh --fix

model: deps ## spin over test/model/*.pml
	@test/model/run.sh

fuzz: deps ## every fuzz target for 60 s
	@scripts/fuzz.sh 60

fuzz-long: deps
	@scripts/fuzz.sh 3600

differ: build ## 200 random programs, on kernel TCP and with the library: every call answers alike
	@RSOCK_TEST_BIN=$(CURDIR)/build/bin python3 -B test/differ/differ.py --seeds 1..200

differ-long: build ## the same until it is ended
	@RSOCK_TEST_BIN=$(CURDIR)/build/bin python3 -B test/differ/differ.py --seeds $$(date +%s)..

soak: build ## ten minutes of pairs that fork, exec, pass descriptors, are stopped, killed and demoted
	@RSOCK_TEST_BIN=$(CURDIR)/build/bin python3 -B test/soak/soak.py --minutes 10

soak-long: build ## an hour of that
	@RSOCK_TEST_BIN=$(CURDIR)/build/bin python3 -B test/soak/soak.py --minutes 60

chaos-long: build ## a hundred times the faults of one test run
	@RSK_CHAOS_FAULTS=10000000 scripts/ctest.sh build -L '^chaos$$' --timeout 14400

mutants: deps ## breaks single lines of the sources, and sees that the tests notice
	@scripts/mutants.sh

guard: build ## instructions per call against their bounds; scripts/guard.sh --update sets these
	@scripts/guard.sh

sanitize: deps ## units and threaded tests under ASan+UBSan, then TSan
	@scripts/sanitize.sh address
	@scripts/sanitize.sh thread

deb: deps ## Debian packages, into build/deb/
	@scripts/install-deps.sh scripts/packages-deb.txt
	@scripts/deb.sh

test-deb: deb ## lintian, then installed, run and purged in a root of their own; as root, some minutes
	@python3 -B test/deb/test_deb.py

clean:
	rm -rf build
