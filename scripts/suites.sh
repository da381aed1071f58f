# shellcheck shell=bash
# Sourced, with steps.sh: the suites of make test, make test-all and .ci/run. Each ctest label
# belongs to one of them (test/teeth/teeth_listed.py). The number is the minutes after which a
# hanging suite is stopped, so that the others still run.
limited() # MINUTES COMMAND...
{
	local minutes=$1
	shift
	timeout -k 20 "${minutes}m" "$@"
}

ctests() # NAME MINUTES LABEL[,LABEL...] JOBS: the tests of these labels
{
	suite "$1" limited "$2" scripts/ctest.sh build -L "^(${3//,/|})\$" -j "$4"
}

suites_prepare()
{
	suite "packages" limited 15 \
		scripts/install-deps.sh scripts/packages.txt scripts/packages-rdma.txt
	suite "guests' kernel" limited 10 test/rdma/guests.sh
	suite "build with gcc" limited 15 scripts/build.sh build -DCMAKE_C_COMPILER=gcc
}

# Behaviours wait more than they compute: twice as many as there are processors run at once. The
# cases of scripts count as two each, except those that only wait (test/lib/cases.cmake). What is
# short, or one long test, runs beside another suite.
suites_short()
{
	local cores
	cores=$(nproc)
	ctests "units; random programs, TCP against preloaded" 10 unit,differ "$cores"
	ctests "behaviours, TCP against preloaded" 10 app $((cores * 2))
	ctests "real programs" 15 real 1
	ctests "faults; hosts as network namespaces; the tool" 20 fault,net,tool $((cores * 2))
	ctests "instructions per call" 10 guard "$cores"
	ctests "two hosts with RDMA devices, one boot" 10 rdma-boot 1
}

suites_long() # SECONDS for each fuzz target
{
	local cores
	cores=$(nproc)
	ctests "those that take longest" 15 slow $((cores * 2))
	ctests "behaviours without spinning, with small rings" 20 configs "$cores"
	ctests "real programs in more ways" 15 real-more 1
	ctests "teeth: what is wrong is noticed" 10 teeth "$cores"
	suite "200 random programs" limited 10 make -s differ
	ctests "two hosts with RDMA devices, a few of all" 15 rdma-short 1
	suite "ASan and UBSan" limited 15 scripts/sanitize.sh address
	suite "TSan" limited 15 scripts/sanitize.sh thread
	suite "fuzz targets, $1 s each" limited $((8 + $1 / 2)) scripts/fuzz.sh "$1"
	suite "models" limited 15 test/model/run.sh
}

suites_containers()
{
	suite "root file system of containers" limited 10 scripts/container-root.sh
	ctests "containers" 10 net-containers $(($(nproc) * 2))
}

suites_clusters()
{
	ctests "clusters on etcd" 20 net-more $(($(nproc) * 2))
}

suites_memory()
{
	ctests "rsockd's memory, by memcheck" 20 net-memory $(($(nproc) * 2))
}

suites_next() # trixie, sid
{
	suite "Debian $1" limited 30 make -s debian-next RELEASE="$1"
}

suites_arm64()
{
	suite "arm64, by qemu" limited 40 make -s arm64
}

suites_longest()
{
	local cores labels='^(real|real-more|fault|slow)$'
	cores=$(nproc)
	suite "real programs and faults without spinning" env RSOCK_SPIN_US=0 \
		timeout -k 20 30m scripts/ctest.sh build -L "$labels" -j $((cores * 2))
	suite "real programs and faults with small rings" env RSOCK_RING_KB=32 \
		timeout -k 20 30m scripts/ctest.sh build -L "$labels" -j $((cores * 2))
	suite "build with clang" limited 15 scripts/build.sh build/clang -DCMAKE_C_COMPILER=clang
	suite "clang-tidy, with the paths of tests" limited 30 \
		scripts/check-tidy.sh --all build/clang
	suite "ten minutes of pairs that fork, exec, are stopped and killed" limited 20 make -s soak
}

# ---- what .ci/run runs in turn -------------------------------------------------------------------
# test/rdma/CMakeLists.txt assigns the scripts to parts, and must agree with this number.
RDMA_SHARDS=8
# .ci/run runs one of the first so many.
RDMA_GATED=7

rdma_shards()
{
	seq 1 "$RDMA_SHARDS"
}

# From 0. In turn, by the number of commits; in a shallow clone, which does not know it, by the
# commit's name.
turn_of_commit() # OF
{
	local number
	if [ "$(git -c safe.directory="$PWD" rev-parse --is-shallow-repository)" = true ]; then
		number=$((16#$(git -c safe.directory="$PWD" rev-parse HEAD | cut -c1-8)))
	else
		number=$(git -c safe.directory="$PWD" rev-list --count HEAD)
	fi
	echo $((number % $1))
}

# RSOCK_RDMA_SHARD selects another one.
rdma_shard_of_commit()
{
	echo "${RSOCK_RDMA_SHARD:-$(($(turn_of_commit "$RDMA_GATED") + 1))}"
}

# Each takes ten to fifteen minutes.
suites_in_turn()
{
	case $(turn_of_commit 8) in
	0 | 4)
		suites_rdma "$(rdma_shard_of_commit)"
		suites_clusters
		;;
	1 | 5)
		suites_rdma "$(rdma_shard_of_commit)"
		suites_memory
		;;
	2)
		suites_next trixie
		;;
	6)
		suites_next sid
		;;
	3 | 7)
		suites_arm64
		;;
	esac
}

suites_rdma() # SHARD
{
	suite "RDMA, part $1 of $RDMA_SHARDS" limited 60 scripts/ctest.sh build -L "^rdma-part-$1\$"
}
