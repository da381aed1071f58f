# What every folder's CMakeLists.txt may use:
#   rsk_module(<name> SOURCES ... SEES <modules>)          OBJECT library rsk_<name>
#   rsk_unit_test(<name> SOURCES ... MODULES <modules>)    Criterion program unit_<name>, ctest label unit
#   rsk_fuzz(<name> SOURCES ... MODULES <modules>)         libFuzzer target fuzz_<name>; its corpus as a test
#   rsk_program(<target> [MODULES <modules>])              for an add_executable() that is no part of the library:
#                                                          include/, threads, the modules' objects
#   RSK_TEST_ENV                                           LIBRSOCK=... and RSOCK_TOOL=..., for tests
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

# Who may include whom. Nobody includes upward; scripts/check-includes.py looks at the text as well.
set(RSK_MAY_SEE_fabric "")
set(RSK_MAY_SEE_verbs fabric)
set(RSK_MAY_SEE_mapper "")
set(RSK_MAY_SEE_service mapper)
set(RSK_MAY_SEE_tools service mapper)
set(RSK_MAY_SEE_stream fabric mapper)
set(RSK_MAY_SEE_preload stream)
# What a program that has a module's objects is linked with.
set(RSK_LIBRARIES_service PkgConfig::CYAML PkgConfig::MNL m)
set(RSK_LIBRARIES_verbs PkgConfig::RDMA)

# ---- flags for all -------------------------------------------------------------------------------
# _GNU_SOURCE is empty, not 1, so that a source which defines it once more is no redefinition.
add_compile_definitions(_GNU_SOURCE=)
add_compile_options(${RSK_WARNINGS})

# Hardening, as Debian's own flags have it, whoever builds: docs/adr/hardening.md. All that is linked has RELRO and no lazy
# binding, programs may lie anywhere; what is compiled has the rest (RSK_HARDENED), but what a call on a stream goes
# through, which would pay 5 % for it. The sanitizers have checks of their own.
set(RSK_HARDENED "")
set(RSK_NOT_HARDENED preload stream fabric chaos)
check_pie_supported(LANGUAGES C)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
add_link_options(-Wl,-z,relro -Wl,-z,now)
if(NOT RSK_SANITIZE AND NOT RSK_FUZZ)
	set(RSK_HARDENED -fstack-protector-strong -fstack-clash-protection)
endif()
# For programs: the library itself is what stands for the fortified twins (RSK_MODULE_FLAGS).
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

# ---- the library ---------------------------------------------------------------------------------
# -fexceptions: cancellation unwinds through hooks, their cleanups must run.
# initial-exec: a hook may run in a signal handler, where __tls_get_addr could allocate.
# -fno-delete-null-pointer-checks: libc's prototypes promise non-null, applications do not.
# -fno-strict-aliasing: shared memory is read as bytes, words and structs.
# -U_FORTIFY_SOURCE: our own calls must not turn into the fortified twins, which we hook.
set(RSK_MODULE_FLAGS -fvisibility=hidden -fexceptions -ftls-model=initial-exec
	-fno-delete-null-pointer-checks -fno-strict-aliasing -U_FORTIFY_SOURCE)

function(rsk_module name)
	cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "SOURCES;SEES")
	if(arg_UNPARSED_ARGUMENTS OR NOT arg_SOURCES)
		message(FATAL_ERROR "rsk_module(${name}): SOURCES a.c ... [SEES module ...]")
	endif()
	if(NOT DEFINED RSK_MAY_SEE_${name})
		message(FATAL_ERROR "rsk_module(${name}): not in the picture (RSK_MAY_SEE_* in cmake/Rsock.cmake)")
	endif()
	add_library(rsk_${name} OBJECT ${arg_SOURCES})
	set_target_properties(rsk_${name} PROPERTIES POSITION_INDEPENDENT_CODE ON)
	target_compile_options(rsk_${name} PRIVATE $<$<COMPILE_LANGUAGE:C>:${RSK_MODULE_FLAGS}>)
	if(name MATCHES "^(service|tools)$") # of programs alone
		target_compile_options(rsk_${name} PRIVATE ${RSK_FORTIFIED})
	elseif(NOT name IN_LIST RSK_NOT_HARDENED)
		target_compile_options(rsk_${name} PRIVATE ${RSK_HARDENED})
	endif()
	target_include_directories(rsk_${name} PRIVATE
		${PROJECT_SOURCE_DIR}/include ${CMAKE_CURRENT_SOURCE_DIR})
	foreach(below ${arg_SEES})
		if(NOT below IN_LIST RSK_MAY_SEE_${name})
			message(FATAL_ERROR "rsk_module(${name}): ${name}/ must not see ${below}/")
		endif()
		target_include_directories(rsk_${name} PRIVATE $<TARGET_PROPERTY:rsk_${below},SOURCE_DIR>)
	endforeach()
endfunction()

# librsock.so, of whatever modules there are; linked only when preload/ is among them.
#   now:       no lazy binding, which would run the dynamic linker inside a hook or a signal handler
#   nodelete:  hooks stay reachable; dlclose() cannot take them away
#   Bsymbolic: our own calls stay ours whatever else is preloaded
function(rsk_library)
	if(NOT TARGET rsk_preload)
		message(STATUS "no preload/ yet: librsock.so is not built")
		return()
	endif()
	rsk_link_library(librsock rsock "") # "rsock" is the tool
endfunction()

# All modules' objects, but those whose path matches @without (a regular expression; "": none).
function(rsk_link_library target name without)
	add_library(${target} SHARED)
	set_target_properties(${target} PROPERTIES OUTPUT_NAME ${name})
	foreach(module preload stream fabric mapper)
		if(NOT TARGET rsk_${module})
			continue()
		endif()
		if(without)
			target_sources(${target} PRIVATE $<FILTER:$<TARGET_OBJECTS:rsk_${module}>,EXCLUDE,${without}>)
		else()
			target_sources(${target} PRIVATE $<TARGET_OBJECTS:rsk_${module}>)
		endif()
	endforeach()
	set_target_properties(${target} PROPERTIES LINKER_LANGUAGE C)
	target_link_options(${target} PRIVATE -Wl,-z,relro -Wl,-z,now -Wl,-z,nodelete -Wl,-Bsymbolic -Wl,--version-script,${PROJECT_SOURCE_DIR}/cmake/local.map
		-Wl,--as-needed -Wl,-z,noexecstack)
	# clang keeps the sanitizers' runtime in the program, so a library is left with open ends.
	if(NOT (rsk_san AND CMAKE_C_COMPILER_ID STREQUAL "Clang"))
		target_link_options(${target} PRIVATE -Wl,--no-undefined)
	endif()
endfunction()

# librsock-verbs.so: the fabric between hosts, apart, so that librsock.so itself does not need libibverbs.
function(rsk_link_verbs)
	add_library(librsock_verbs MODULE $<TARGET_OBJECTS:rsk_verbs>
		"$<FILTER:$<TARGET_OBJECTS:rsk_fabric>,INCLUDE,/(locked|segment)\\.c>")
	set_target_properties(librsock_verbs PROPERTIES OUTPUT_NAME rsock-verbs PREFIX lib LINKER_LANGUAGE C)
	target_link_libraries(librsock_verbs PRIVATE PkgConfig::RDMA Threads::Threads)
	target_link_options(librsock_verbs PRIVATE -Wl,-z,relro -Wl,-z,now -Wl,-Bsymbolic
		-Wl,--as-needed -Wl,-z,noexecstack)
	if(NOT (rsk_san AND CMAKE_C_COMPILER_ID STREQUAL "Clang"))
		target_link_options(librsock_verbs PRIVATE -Wl,--no-undefined)
	endif()
endfunction()

if(RSK_FUZZ)
	add_custom_target(fuzzers)
endif()

# ---- programs and tests --------------------------------------------------------------------------
# Links a program with modules' objects. Sets <out> to FALSE when a module is missing and that is allowed.
function(rsk_use_modules target out)
	set(${out} TRUE PARENT_SCOPE)
	foreach(module ${ARGN})
		if(TARGET rsk_${module})
			continue()
		elseif(RSK_PARTIAL)
			message(WARNING "${target} is left out: no module ${module}")
			set(${out} FALSE PARENT_SCOPE)
			return()
		else()
			message(FATAL_ERROR "${target}: no module ${module} (-DRSK_PARTIAL=ON leaves such tests out)")
		endif()
	endforeach()
endfunction()

function(rsk_link_modules target)
	target_include_directories(${target} PRIVATE ${PROJECT_SOURCE_DIR}/include)
	foreach(module ${ARGN})
		target_sources(${target} PRIVATE $<TARGET_OBJECTS:rsk_${module}>)
		target_include_directories(${target} PRIVATE $<TARGET_PROPERTY:rsk_${module},SOURCE_DIR>)
		target_link_libraries(${target} PRIVATE ${RSK_LIBRARIES_${module}})
	endforeach()
	target_link_libraries(${target} PRIVATE Threads::Threads)
endfunction()

function(rsk_program target)
	cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "MODULES")
	rsk_use_modules(${target} complete ${arg_MODULES})
	if(complete)
		rsk_link_modules(${target} ${arg_MODULES})
	endif()
endfunction()

function(rsk_unit_test name)
	cmake_parse_arguments(PARSE_ARGV 1 arg "" "TIMEOUT" "SOURCES;MODULES;LABELS")
	if(arg_UNPARSED_ARGUMENTS OR NOT arg_SOURCES)
		message(FATAL_ERROR "rsk_unit_test(${name}): SOURCES test_x.c ... [MODULES module ...] [TIMEOUT s] [LABELS l]")
	endif()
	if(NOT arg_TIMEOUT)
		set(arg_TIMEOUT 120)
	endif()
	rsk_use_modules(unit_${name} complete ${arg_MODULES})
	if(NOT complete OR RSK_FUZZ)
		return()
	endif()
	add_executable(unit_${name} ${arg_SOURCES})
	if(RSK_SANITIZE STREQUAL "thread")
		target_sources(unit_${name} PRIVATE ${PROJECT_SOURCE_DIR}/test/unit/tsan_main.c)
	endif()
	rsk_link_modules(unit_${name} ${arg_MODULES})
	target_compile_options(unit_${name} PRIVATE ${RSK_TEST_WARNINGS})
	target_link_libraries(unit_${name} PRIVATE criterion)
	# Criterion calls a run without a test a success, mentions what was skipped only when it is verbose, and forgives an
	# assertion that fails in a test's .fini.
	add_test(NAME unit_${name} COMMAND unit_${name} --color=never --verbose)
	set_tests_properties(unit_${name} PROPERTIES LABELS "unit;${arg_LABELS}" TIMEOUT ${arg_TIMEOUT}
		FAIL_REGULAR_EXPRESSION "Tested: 0 ;\\[SKIP\\];: Assertion [Ff]ailed" ENVIRONMENT "${RSK_TEST_ENV}")
endfunction()

# With RSK_FUZZ: fuzz_<name>. Without: replay_<name>, a ctest (label unit) that runs the corpus in git through the
# same function, so that every compiler and sanitizer sees every input that ever mattered.
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
	rsk_use_modules(fuzz_${name} complete ${arg_MODULES})
	if(NOT complete)
		return()
	endif()
	if(RSK_FUZZ)
		add_executable(fuzz_${name} ${arg_SOURCES})
		target_link_options(fuzz_${name} PRIVATE -fsanitize=fuzzer)
		rsk_link_modules(fuzz_${name} ${arg_MODULES})
		add_dependencies(fuzzers fuzz_${name})
		target_compile_options(fuzz_${name} PRIVATE ${RSK_TEST_WARNINGS})
	else()
		add_executable(replay_${name} ${arg_SOURCES} ${PROJECT_SOURCE_DIR}/test/fuzz/replay.c)
		rsk_link_modules(replay_${name} ${arg_MODULES})
		target_compile_options(replay_${name} PRIVATE ${RSK_TEST_WARNINGS})
		add_test(NAME replay_${name} COMMAND replay_${name} ${corpus})
		set_tests_properties(replay_${name} PROPERTIES LABELS unit TIMEOUT 120)
	endif()
endfunction()
