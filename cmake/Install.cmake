# Defines what `cmake --install` puts where. Each component is a Debian package (debian/rules):
# library, tool, bench, daemon.
function(rsk_install target component)
	if(TARGET ${target})
		install(TARGETS ${target}
			LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT ${component}
			RUNTIME DESTINATION ${ARGN} COMPONENT ${component})
	endif()
endfunction()

rsk_install(librsock library ${CMAKE_INSTALL_BINDIR})
rsk_install(librsock_verbs library ${CMAKE_INSTALL_BINDIR})
rsk_install(rsock_tool tool ${CMAKE_INSTALL_BINDIR})
rsk_install(rsperf bench ${CMAKE_INSTALL_BINDIR})
rsk_install(rsockd daemon ${CMAKE_INSTALL_SBINDIR})

# For each manual page: its component, and the target without which it is not installed.
set(component_of_librsock library)
set(component_of_rsock tool)
set(component_of_rsperf bench)
set(component_of_rsockd daemon)
set(target_of_librsock librsock)
set(target_of_rsock rsock_tool)
set(target_of_rsperf rsperf)
set(target_of_rsockd rsockd)
file(GLOB pages CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/docs/man/*.[1-8])
foreach(page ${pages})
	get_filename_component(name ${page} NAME)
	string(REGEX REPLACE "\\..*" "" owner ${name})
	string(REGEX REPLACE ".*\\." "" section ${name})
	if(NOT component_of_${owner})
		message(FATAL_ERROR "docs/man/${name}: of which component?")
	endif()
	if(TARGET ${target_of_${owner}})
		install(FILES ${page} DESTINATION ${CMAKE_INSTALL_MANDIR}/man${section}
			COMPONENT ${component_of_${owner}})
	endif()
endforeach()

if(TARGET rsock_tool)
	file(GLOB completions CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tools/completion/*.bash)
	foreach(completion ${completions})
		get_filename_component(name ${completion} NAME_WE)
		install(FILES ${completion} RENAME ${name} COMPONENT tool
			DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions)
	endforeach()

	install(FILES ${PROJECT_SOURCE_DIR}/tools/wireshark/rsock_pm.lua COMPONENT tool
		DESTINATION ${CMAKE_INSTALL_DATADIR}/rsock)
endif()

if(TARGET rsockd)
	# Below the prefix the path stays relative, so that `cmake --install --prefix` moves it,
	# too. With the prefix /usr it is /etc (GNUInstallDirs), which no other prefix moves.
	cmake_path(IS_PREFIX CMAKE_INSTALL_PREFIX "${CMAKE_INSTALL_FULL_SYSCONFDIR}"
		NORMALIZE below)
	if(below AND NOT IS_ABSOLUTE "${CMAKE_INSTALL_SYSCONFDIR}")
		set(sysconfdir ${CMAKE_INSTALL_SYSCONFDIR})
	else()
		set(sysconfdir ${CMAKE_INSTALL_FULL_SYSCONFDIR})
	endif()
	install(FILES ${PROJECT_SOURCE_DIR}/packaging/rsockd.conf COMPONENT daemon
		DESTINATION ${sysconfdir}/rsock)
endif()
