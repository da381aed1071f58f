# Options for the parts that are built besides librsock.so, and the libraries that each of them
# needs. librsock.so itself needs a C compiler and the headers of xxHash and uthash.
#
#   RSOCK_BUILD_VERBS   librsock-verbs.so: libibverbs, librdmacm
#   RSOCK_BUILD_DAEMON  rsockd: libcyaml, yaml-0.1, libmnl, libevent, jansson, libseccomp, and the
#                       headers of libcurl and OpenSSL
#   RSOCK_BUILD_TOOLS   rsock, rsperf and the other programs of bench/: libcyaml, yaml-0.1, libmnl,
#                       jansson, ncurses
#   RSOCK_BUILD_TESTS   the tests of all of these: criterion, and all three parts above
option(RSOCK_BUILD_VERBS
	"build librsock-verbs.so, the fabric between hosts (needs libibverbs, librdmacm)" ON)
option(RSOCK_BUILD_DAEMON
	"build rsockd (needs libcyaml, libmnl, libevent, jansson, libseccomp, curl, OpenSSL)"
	ON)
option(RSOCK_BUILD_TOOLS
	"build rsock and the benchmarks (needs libcyaml, libmnl, jansson, ncurses)" ON)

set(every_part OFF)
if(RSOCK_BUILD_VERBS AND RSOCK_BUILD_DAEMON AND RSOCK_BUILD_TOOLS)
	set(every_part ON)
endif()
option(RSOCK_BUILD_TESTS
	"build the tests (needs criterion, and the three parts above)" ${every_part})
if(RSOCK_BUILD_TESTS AND NOT every_part)
	message(FATAL_ERROR "The tests cover all parts. "
		"Add -DRSOCK_BUILD_TESTS=OFF, or build VERBS, DAEMON and TOOLS.")
endif()

# The folders of RSK_MODULES_service (Rsock.cmake) are part of rsockd and of rsock.
set(RSOCK_BUILD_SERVICE OFF)
if(RSOCK_BUILD_DAEMON OR RSOCK_BUILD_TOOLS)
	set(RSOCK_BUILD_SERVICE ON)
endif()

find_path(RSOCK_XXHASH_INCLUDE_DIR xxhash.h)
find_path(RSOCK_UTHASH_INCLUDE_DIR uthash.h)
mark_as_advanced(RSOCK_XXHASH_INCLUDE_DIR RSOCK_UTHASH_INCLUDE_DIR)
if(NOT RSOCK_XXHASH_INCLUDE_DIR OR NOT RSOCK_UTHASH_INCLUDE_DIR)
	message(FATAL_ERROR "librsock needs the headers xxhash.h and uthash.h "
		"(Debian: libxxhash-dev, uthash-dev).")
endif()
# For headers in a prefix of the user's own (CMAKE_PREFIX_PATH); CMake omits folders that the
# compiler searches by default.
include_directories(SYSTEM ${RSOCK_XXHASH_INCLUDE_DIR} ${RSOCK_UTHASH_INCLUDE_DIR})

if(RSOCK_BUILD_SERVICE OR RSOCK_BUILD_VERBS)
	find_package(PkgConfig REQUIRED)
endif()
if(RSOCK_BUILD_SERVICE)
	pkg_check_modules(CYAML REQUIRED IMPORTED_TARGET libcyaml yaml-0.1)
	pkg_check_modules(MNL REQUIRED IMPORTED_TARGET libmnl)
endif()
if(RSOCK_BUILD_VERBS)
	pkg_check_modules(RDMA REQUIRED IMPORTED_TARGET libibverbs librdmacm)
endif()
