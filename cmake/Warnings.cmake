# Warning flags for gcc 12 and clang 14, as strict as is practical for low-level code. Off on
# purpose: unused parameters (hooks and callbacks have given prototypes), missing initializers (=
# {0} and designated ones are the idiom), and gcc's maybe-uninitialized, which wrongly applies
# libc's "this call only writes to the buffer" to the hook's own use of it; clang's conditional form
# stays on.
set(RSK_WARNINGS
	-Wall
	-Wextra
	-Wno-unused-parameter
	-Wno-missing-field-initializers
	-Wshadow
	-Wstrict-prototypes
	-Wold-style-definition
	-Wmissing-prototypes
	-Wnested-externs
	-Wvla
	-Wcast-align
	-Wpointer-arith
	-Wundef
	-Wformat=2
	-Wwrite-strings
	-Wimplicit-fallthrough
	-Wdate-time
	-Winit-self
	-Wstack-usage=32768
)
if(CMAKE_C_COMPILER_ID STREQUAL "GNU")
	list(APPEND RSK_WARNINGS
		-Wno-maybe-uninitialized
		-Wlogical-op
		-Wduplicated-cond
		-Wtrampolines
		-Walloca
		-Wshift-overflow=2
		-Wstringop-overflow=4
		-Warith-conversion)
elseif(CMAKE_C_COMPILER_ID STREQUAL "Clang")
	list(REMOVE_ITEM RSK_WARNINGS -Wstack-usage=32768)
	list(APPEND RSK_WARNINGS
		-Wframe-larger-than=32768
		-Wcomma
		-Wunreachable-code
		-Wconditional-uninitialized
		-Wmissing-variable-declarations
		-Wthread-safety)
endif()
if(RSK_WERROR)
	list(APPEND RSK_WARNINGS -Werror)
endif()

# Criterion's macros define globals and functions of their own; tests also keep large tables on the
# stack.
set(RSK_TEST_WARNINGS -Wno-missing-prototypes -Wno-strict-prototypes)
if(CMAKE_C_COMPILER_ID STREQUAL "Clang")
	list(APPEND RSK_TEST_WARNINGS -Wno-missing-variable-declarations -Wno-frame-larger-than)
else()
	list(APPEND RSK_TEST_WARNINGS -Wno-stack-usage)
endif()
