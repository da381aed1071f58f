# Reads floors.txt, the table of which folder may include which, into lists:
#   RSK_FLOORS            all folders, in the order of the file
#   RSK_SEES_<folder>     what the folder may include besides itself and include/: the folders that
#                         its line names, and all that those may include
set(RSK_FLOORS "")
set_property(DIRECTORY APPEND PROPERTY
	CMAKE_CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/cmake/floors.txt)
file(STRINGS ${PROJECT_SOURCE_DIR}/cmake/floors.txt rsk_lines REGEX "^[a-z]")
foreach(line ${rsk_lines})
	string(REGEX MATCH "^([a-z/]+):(.*)$" _ "${line}")
	set(folder ${CMAKE_MATCH_1})
	separate_arguments(below UNIX_COMMAND "${CMAKE_MATCH_2}")
	set(sees "")
	foreach(one ${below})
		# A folder that is named must have its line above, so there is no circle.
		if(NOT one IN_LIST RSK_FLOORS)
			message(FATAL_ERROR
				"cmake/floors.txt: "
				"${folder} sees ${one}, which has no line above it")
		endif()
		list(APPEND sees ${one} ${RSK_SEES_${one}})
	endforeach()
	list(REMOVE_DUPLICATES sees)
	set(RSK_SEES_${folder} ${sees})
	list(APPEND RSK_FLOORS ${folder})
endforeach()
