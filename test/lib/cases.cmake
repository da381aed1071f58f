# rsk_python_cases(<label> <script> [ALONE] [LOCK name] [MORE case ...] [WAITS case ...]
#                  [SUITE label] [ENVIRONMENT name=value ...])
#
# Registers each case of a script (its --list prints them, and how long each may take) as a ctest of
# that label. Cases run beside others: each has its own folder, free ports, and namespaces or a
# /dev/shm of its own where it needs them; deadlines are generous. COST: where several run at once,
# those that may take long begin.
#   ALONE   nothing else runs meanwhile: for cases that measure time, rates or how much was direct
#   LOCK    one at a time of the cases that give the same name
#   MORE    the label of these cases (ALL: of each) is <label>-more, or the one that SUITE names,
#           which make test leaves to make test-all
#   WAITS   these cases spend their time in waiting: each counts as one of ctest's -j, every other
#           case as two. So -j with twice the number of processors runs as many others at once as
#           there are processors, and these beside them
find_program(RSK_PYTHON3 python3 PATHS /usr/bin NO_DEFAULT_PATH REQUIRED DOC "Debian's own Python")

function(rsk_python_cases label script)
	cmake_parse_arguments(PARSE_ARGV 2 arg "ALONE" "LOCK;SUITE" "MORE;WAITS;ENVIRONMENT")
	set(path ${CMAKE_CURRENT_SOURCE_DIR}/${script}.py)
	set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${path})
	execute_process(COMMAND ${RSK_PYTHON3} -B ${path} --list
		OUTPUT_VARIABLE cases COMMAND_ERROR_IS_FATAL ANY OUTPUT_STRIP_TRAILING_WHITESPACE)
	string(REPLACE "\n" ";" cases "${cases}")
	string(REGEX REPLACE "^[a-z]+_(.*)$" "\\1" family ${script})
	set(more ${arg_MORE})
	foreach(line IN LISTS cases)
		string(REPLACE " " ";" words ${line})
		list(GET words 0 case)
		list(GET words 1 limit_s)
		# The script ends a case that takes too long itself, with a message; ctest is the
		# second safeguard.
		math(EXPR hard_s "${limit_s} + 30")
		add_test(NAME ${label}.${family}.${case} COMMAND ${RSK_PYTHON3} -B ${path} ${case})
		set(suite ${label})
		if(case IN_LIST arg_MORE OR arg_MORE STREQUAL "ALL")
			set(suite ${label}-more)
			if(arg_SUITE)
				set(suite ${arg_SUITE})
			endif()
			list(REMOVE_ITEM more ${case})
		endif()
		set(processors 2)
		if(case IN_LIST arg_WAITS)
			set(processors 1)
			list(REMOVE_ITEM arg_WAITS ${case})
		endif()
		set_tests_properties(${label}.${family}.${case} PROPERTIES
			PROCESSORS ${processors} LABELS ${suite}
			TIMEOUT ${hard_s} COST ${limit_s}
			RUN_SERIAL ${arg_ALONE} RESOURCE_LOCK "${arg_LOCK}"
			ENVIRONMENT "${RSK_TEST_ENV};${arg_ENVIRONMENT}")
	endforeach()
	list(REMOVE_ITEM more ALL)
	if(arg_WAITS OR more)
		message(FATAL_ERROR "${script}: no such cases: ${arg_WAITS} ${more}")
	endif()
endfunction()

# Registers the case once more without the library: it must fail for this reason alone (exit status
# 3), which shows that its demands can fail.
function(rsk_python_teeth label script case)
	cmake_parse_arguments(PARSE_ARGV 3 arg "" "" "ENVIRONMENT")
	set(name ${label}.teeth.${case})
	add_test(NAME ${name}
		COMMAND ${RSK_PYTHON3} -B ${CMAKE_CURRENT_SOURCE_DIR}/${script}.py --tcp
			--expect 3 ${case})
	set_tests_properties(${name} PROPERTIES LABELS ${label} TIMEOUT 150 RUN_SERIAL TRUE
		ENVIRONMENT "${arg_ENVIRONMENT}")
endfunction()
