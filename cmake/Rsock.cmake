# Functions and variables for every folder's CMakeLists.txt:
#   rsk_module(<name> SOURCES ...)
#       OBJECT library rsk_<name> (a / becomes _), with the include paths that floors.txt gives its
#       folder
#   rsk_unit_test(<name> SOURCES ... MODULES <modules>)
#       Criterion program unit_<name>, ctest label unit
#   rsk_fuzz(<name> SOURCES ... MODULES <modules>)
#       libFuzzer target fuzz_<name>; its corpus as a test
#   rsk_see(<target> <modules>)
#       the paths of the modules' headers
#   rsk_program(<target> [MODULES <modules>])
#       for an add_executable() that is not part of the library: include/, threads, the modules'
#       objects
#   RSK_TEST_ENV
#       LIBRSOCK=... and RSOCK_TOOL=..., for tests
include(CheckCCompilerFlag)
include(CheckPIESupported)
include(GNUInstallDirs)
include(Warnings)

set(CMAKE_C_STANDARD 17)
set(CMAKE_C_STANDARD_REQUIRED ON)
set(CMAKE_C_EXTENSIONS ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_C_FLAGS_RELWITHDEBINFO "-O2 -g" CACHE STRING "" FORCE)
set(CMAKE_LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/lib)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)
find_package(Threads REQUIRED)

set(RSK_LIBRARY ${CMAKE_BINARY_DIR}/lib/librsock.so)
set(RSK_TOOL ${CMAKE_BINARY_DIR}/bin/rsock)
set(RSK_TEST_ENV "LIBRSOCK=${RSK_LIBRARY}" "RSOCK_TOOL=${RSK_TOOL}")

include(Floors)
# A module is the sources of one folder; modules whose name is not the folder's are listed here.
# stream, mapper, service and tools consist of several modules: mapper is the part of mapper/ that
# is in librsock.so, service the part that only programs have.
set(RSK_FOLDER_verbs fabric/verbs)
set(RSK_FOLDER_chaos fabric)
set(RSK_FOLDER_chaos_locked mechanisms/locked)
set(RSK_MODULES_stream stream/base stream/ring stream/link stream/socket stream/pair stream/remote
	stream/ready stream/epoll stream/poll stream/fallback stream/calls)
set(RSK_MODULES_mapper mapper/wire mapper/peer mapper/stats)
set(RSK_MODULES_service mapper/pm mapper/host mapper/config mapper/policy mapper/local)
set(RSK_MODULES_tools tools/lib tools/launch tools/view tools/commands)
# Libraries with which a program that contains a module's objects is linked.
set(RSK_LIBRARIES_mapper/host PkgConfig::MNL)
set(RSK_LIBRARIES_mapper/config PkgConfig::CYAML)
set(RSK_LIBRARIES_mapper/policy m)
set(RSK_LIBRARIES_verbs PkgConfig::RDMA)

# ---- flags for all targets ----------------------------------------------------------------------
# _GNU_SOURCE is empty, not 1, so that a source which defines it again causes no redefinition.
add_compile_definitions(_GNU_SOURCE=)
# xxHash reads its input with memcpy(). By default it reads words through a pointer of their type,
# and gcc 14 may move these reads before the writes of the struct that is hashed, where xxHash is
# inlined (github.com/Cyan4973/xxHash, pull request 1013).
add_compile_definitions(XXH_FORCE_MEMORY_ACCESS=0)
add_compile_options(${RSK_WARNINGS})
# An initializer sets all bytes of a union, which gcc 15 does not promise by default: messages have
# unions, and are sent as a whole.
check_c_compiler_flag(-fzero-init-padding-bits=unions RSK_ZERO_INIT_UNIONS)
if(RSK_ZERO_INIT_UNIONS)
	add_compile_options(-fzero-init-padding-bits=unions)
endif()

# Hardening with Debian's own flags in every build: docs/adr/hardening.md. Everything that is linked
# has RELRO and no lazy binding, and programs are position independent. Everything that is compiled
# has the other flags (RSK_HARDENED), except the code that a call on a stream passes through, which
# they would slow down by 5 %. The sanitizers have checks of their own.
set(RSK_HARDENED "")
set(RSK_NOT_HARDENED "preload|stream|fabric|mechanisms")
check_pie_supported(LANGUAGES C)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
add_link_options(-Wl,-z,relro -Wl,-z,now)
if(NOT RSK_SANITIZE AND NOT RSK_FUZZ)
	set(RSK_HARDENED -fstack-protector-strong -fstack-clash-protection)
endif()
# Only for programs: the library itself implements the fortified functions (RSK_MODULE_FLAGS).
set(RSK_FORTIFIED ${RSK_HARDENED})
if(RSK_HARDENED)
	list(APPEND RSK_FORTIFIED "SHELL:-U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=2")
endif()

if(RSK_SANITIZE AND RSK_FUZZ)
	message(FATAL_ERROR "RSK_FUZZ has its own sanitizers: leave RSK_SANITIZE empty")
endif()
if(RSK_FUZZ)
	if(NOT CMAKE_C_COMPILER_ID STREQUAL "Clang")
		message(FATAL_ERROR "RSK_FUZZ needs clang: -DCMAKE_C_COMPILER=clang")
	endif()
	set(rsk_san -fsanitize=fuzzer-no-link,address,undefined)
elseif(RSK_SANITIZE STREQUAL "address")
	set(rsk_san -fsanitize=address,undefined)
elseif(RSK_SANITIZE STREQUAL "thread")
	set(rsk_san -fsanitize=thread)
elseif(RSK_SANITIZE)
	message(FATAL_ERROR "RSK_SANITIZE is address, thread or empty, not '${RSK_SANITIZE}'")
endif()
if(rsk_san)
	add_compile_options(${rsk_san} -fno-sanitize-recover=all -fno-omit-frame-pointer)
	add_link_options(${rsk_san})
endif()

# ---- the library --------------------------------------------------------------------------------
#   -fexceptions: cancellation unwinds through hooks, and their cleanups must run.
#   initial-exec: a hook may run in a signal handler, where __tls_get_addr could allocate.
#   -fno-delete-null-pointer-checks: libc's prototypes promise non-null, applications do not.
#   -fno-strict-aliasing: shared memory is read as bytes, words and structs.
#   -U_FORTIFY_SOURCE: our own calls must not become fortified functions, which we hook.
set(RSK_MODULE_FLAGS -fvisibility=hidden -fexceptions -ftls-model=initial-exec
	-fno-delete-null-pointer-checks -fno-strict-aliasing -U_FORTIFY_SOURCE)

# Sets @target to the name of a module's target, and @folder to its folder.
macro(rsk_names name target folder)
	string(REPLACE / _ ${target} rsk_${name})
	set(${folder} ${name})
	if(DEFINED RSK_FOLDER_${name})
		set(${folder} ${RSK_FOLDER_${name}})
	endif()
endmacro()

function(rsk_module name)
	cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "SOURCES")
	rsk_names(${name} target folder)
	if(arg_UNPARSED_ARGUMENTS OR NOT arg_SOURCES)
		message(FATAL_ERROR "rsk_module(${name}): SOURCES a.c ..., of ${folder}/")
	endif()
	if(NOT folder IN_LIST RSK_FLOORS)
		message(FATAL_ERROR
			"rsk_module(${name}): ${folder} has no line in cmake/floors.txt")
	endif()
	list(TRANSFORM arg_SOURCES PREPEND ${PROJECT_SOURCE_DIR}/${folder}/)
	add_library(${target} OBJECT ${arg_SOURCES})
	set_target_properties(${target} PROPERTIES POSITION_INDEPENDENT_CODE ON)
	target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:C>:${RSK_MODULE_FLAGS}>)
	if(name IN_LIST RSK_MODULES_tools OR name IN_LIST RSK_MODULES_service) # only in programs
		target_compile_options(${target} PRIVATE ${RSK_FORTIFIED})
	elseif(NOT folder MATCHES "^(${RSK_NOT_HARDENED})(/|$)" OR name STREQUAL "verbs")
		target_compile_options(${target} PRIVATE ${RSK_HARDENED})
	endif()
	target_include_directories(${target} PRIVATE ${PROJECT_SOURCE_DIR}/include)
	foreach(sees ${folder} ${RSK_SEES_${folder}})
		target_include_directories(${target} PRIVATE ${PROJECT_SOURCE_DIR}/${sees})
	endforeach()
endfunction()

# librsock.so.
#   now:       no lazy binding, which would run the dynamic linker inside a hook or a signal handler
#   nodelete:  hooks stay reachable; dlclose() cannot remove them
#   Bsymbolic: our own calls stay ours whatever else is preloaded
function(rsk_library)
	rsk_link_library(librsock rsock "") # the target "rsock" is the tool
endfunction()

# Links all modules' objects, except those whose path matches @without (a regular expression; "":
# none).
function(rsk_link_library target name without)
	add_library(${target} SHARED)
	set_target_properties(${target} PROPERTIES OUTPUT_NAME ${name})
	foreach(module preload ${RSK_MODULES_stream} fabric ${RSK_MODULES_mapper})
		rsk_names(${module} objects folder)
		if(without)
			target_sources(${target} PRIVATE
				$<FILTER:$<TARGET_OBJECTS:${objects}>,EXCLUDE,${without}>)
		else()
			target_sources(${target} PRIVATE $<TARGET_OBJECTS:${objects}>)
		endif()
	endforeach()
	set_target_properties(${target} PROPERTIES LINKER_LANGUAGE C)
	target_link_options(${target} PRIVATE -Wl,-z,relro -Wl,-z,now -Wl,-z,nodelete
		-Wl,-Bsymbolic -Wl,--version-script,${PROJECT_SOURCE_DIR}/cmake/local.map
		-Wl,--as-needed -Wl,-z,noexecstack)
	# clang links the sanitizers' runtime into the program only, so a library has undefined
	# symbols.
	if(NOT (rsk_san AND CMAKE_C_COMPILER_ID STREQUAL "Clang"))
		target_link_options(${target} PRIVATE -Wl,--no-undefined)
	endif()
endfunction()

# librsock-verbs.so: the fabric between hosts, in a library of its own, so that librsock.so does not
# need libibverbs.
function(rsk_link_verbs)
	rsk_link_verbs_of(librsock_verbs rsock-verbs "segment" $<TARGET_OBJECTS:rsk_verbs>)
endfunction()

# The same with mechanisms/verbs/, for tests: loaded in place of librsock-verbs.so. What it adds
# gets in by the linker's --wrap, so that the objects of librsock-verbs.so know nothing of it.
function(rsk_link_mech_verbs)
	rsk_link_verbs_of(librsock_verbs_mech rsock-verbs-mech "locked|segment|shm_locked"
		$<TARGET_OBJECTS:rsk_verbs> $<TARGET_OBJECTS:rsk_mechanisms_verbs>
		$<TARGET_OBJECTS:rsk_mechanisms_locked>)
	foreach(function rsk_verbs_fetched rsk_mr_drop_all ibv_reg_mr ibv_reg_mr_iova2)
		target_link_options(librsock_verbs_mech PRIVATE -Wl,--wrap=${function})
	endforeach()
endfunction()

# @fabric: a regular expression, the sources of fabric/ that the module contains.
function(rsk_link_verbs_of target name fabric)
	add_library(${target} MODULE ${ARGN}
		"$<FILTER:$<TARGET_OBJECTS:rsk_fabric>,INCLUDE,/(${fabric})\\.c>")
	set_target_properties(${target} PROPERTIES OUTPUT_NAME ${name} PREFIX lib
		LINKER_LANGUAGE C)
	target_link_libraries(${target} PRIVATE PkgConfig::RDMA Threads::Threads)
	target_link_options(${target} PRIVATE -Wl,-z,relro -Wl,-z,now -Wl,-Bsymbolic
		-Wl,--as-needed -Wl,-z,noexecstack)
	if(NOT (rsk_san AND CMAKE_C_COMPILER_ID STREQUAL "Clang"))
		target_link_options(${target} PRIVATE -Wl,--no-undefined)
	endif()
endfunction()

if(RSK_FUZZ)
	add_custom_target(fuzzers)
endif()

# ---- programs and tests -------------------------------------------------------------------------
# Adds the paths of modules' headers, for targets that are not linked with their objects.
function(rsk_see target)
	target_include_directories(${target} PRIVATE ${PROJECT_SOURCE_DIR}/include)
	foreach(name ${ARGN})
		set(modules ${name})
		if(DEFINED RSK_MODULES_${name})
			set(modules ${RSK_MODULES_${name}})
		endif()
		foreach(module ${modules})
			rsk_names(${module} objects folder)
			target_include_directories(${target}
				PRIVATE ${PROJECT_SOURCE_DIR}/${folder})
		endforeach()
	endforeach()
endfunction()

# Adds modules' objects to a program, and the paths of their headers.
function(rsk_link_modules target)
	rsk_see(${target} ${ARGN})
	rsk_link_objects(${target} ${ARGN})
endfunction()

# Adds the objects only.
function(rsk_link_objects target)
	foreach(name ${ARGN})
		set(modules ${name})
		if(DEFINED RSK_MODULES_${name})
			set(modules ${RSK_MODULES_${name}})
		endif()
		foreach(module ${modules})
			rsk_names(${module} objects folder)
			if(NOT TARGET ${objects})
				message(FATAL_ERROR "${target}: no module ${module}")
			endif()
			target_sources(${target} PRIVATE $<TARGET_OBJECTS:${objects}>)
			target_link_libraries(${target} PRIVATE ${RSK_LIBRARIES_${module}})
		endforeach()
	endforeach()
	target_link_libraries(${target} PRIVATE Threads::Threads)
endfunction()

function(rsk_program target)
	cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "MODULES")
	rsk_link_modules(${target} ${arg_MODULES})
endfunction()

function(rsk_unit_test name)
	cmake_parse_arguments(PARSE_ARGV 1 arg "" "TIMEOUT" "SOURCES;MODULES;LABELS")
	if(arg_UNPARSED_ARGUMENTS OR NOT arg_SOURCES)
		message(FATAL_ERROR "rsk_unit_test(${name}): SOURCES test_x.c ... "
			"[MODULES module ...] [TIMEOUT s] [LABELS l]")
	endif()
	if(NOT arg_TIMEOUT)
		set(arg_TIMEOUT 120)
	endif()
	if(RSK_FUZZ)
		return()
	endif()
	add_executable(unit_${name} ${arg_SOURCES})
	if(RSK_SANITIZE STREQUAL "thread")
		target_sources(unit_${name} PRIVATE ${PROJECT_SOURCE_DIR}/test/unit/tsan_main.c)
	endif()
	rsk_link_modules(unit_${name} ${arg_MODULES})
	target_compile_options(unit_${name} PRIVATE ${RSK_TEST_WARNINGS})
	target_link_libraries(unit_${name} PRIVATE criterion)
	# Criterion calls a run without a test a success, mentions skipped tests only when it is
	# verbose, and ignores an assertion that fails in a test's .fini.
	# RSK_UNIT_LEFT_OUT_<name>: a pattern of tests that cannot run (scripts/arm64.sh).
	set(fails "Tested: 0 " "\\[SKIP\\]" ": Assertion [Ff]ailed")
	set(filter "")
	if(RSK_UNIT_LEFT_OUT_${name})
		list(REMOVE_AT fails 1)
		set(filter "--filter=!(${RSK_UNIT_LEFT_OUT_${name}})")
	endif()
	add_test(NAME unit_${name} COMMAND unit_${name} --color=never --verbose ${filter})
	set_tests_properties(unit_${name} PROPERTIES LABELS "unit;${arg_LABELS}"
		TIMEOUT ${arg_TIMEOUT}
		COST ${arg_TIMEOUT} # when several run at once, the longest begin first
		FAIL_REGULAR_EXPRESSION "${fails}"
		ENVIRONMENT "${RSK_TEST_ENV}")
endfunction()

# With RSK_FUZZ: fuzz_<name>. Without: replay_<name>, a ctest (label unit) that runs the corpus in
# git through the same function, so that every compiler and sanitizer processes every saved input.
function(rsk_fuzz name)
	cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "SOURCES;MODULES")
	if(arg_UNPARSED_ARGUMENTS OR NOT arg_SOURCES)
		message(FATAL_ERROR "rsk_fuzz(${name}): SOURCES fuzz_x.c ... [MODULES module ...]")
	endif()
	set(corpus ${PROJECT_SOURCE_DIR}/test/fuzz/corpus/${name})
	file(GLOB inputs ${corpus}/*)
	if(NOT inputs)
		message(FATAL_ERROR "rsk_fuzz(${name}): no corpus in test/fuzz/corpus/${name}/")
	endif()
	if(RSK_FUZZ)
		add_executable(fuzz_${name} ${arg_SOURCES})
		target_link_options(fuzz_${name} PRIVATE -fsanitize=fuzzer)
		rsk_link_modules(fuzz_${name} ${arg_MODULES})
		add_dependencies(fuzzers fuzz_${name})
		target_compile_options(fuzz_${name} PRIVATE ${RSK_TEST_WARNINGS})
	else()
		add_executable(replay_${name} ${arg_SOURCES}
			${PROJECT_SOURCE_DIR}/test/fuzz/replay.c)
		rsk_link_modules(replay_${name} ${arg_MODULES})
		target_compile_options(replay_${name} PRIVATE ${RSK_TEST_WARNINGS})
		add_test(NAME replay_${name} COMMAND replay_${name} ${corpus})
		set_tests_properties(replay_${name} PROPERTIES LABELS unit TIMEOUT 120)
	endif()
endfunction()
