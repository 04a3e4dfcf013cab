# cmake --install BUILD: programs, their manual pages and completions, the systemd unit, an example configuration, the docs, the client library.
# --component daemon: only the programs with their pages, the unit and the example, whose targets are uopd and uopctl.
include(GNUInstallDirs)
if(TARGET uopd_client_cpp AND NOT UOPD_SANITIZE)
  include(${CMAKE_CURRENT_LIST_DIR}/client.cmake)
endif()

if(TARGET uopd AND TARGET uopd-ptxc)
  add_dependencies(uopd uopd-ptxc)  # a part of the daemon: without it this component could not be installed
endif()
foreach(program uopd uopctl uopd-ptxc)
  if(TARGET ${program})
    install(TARGETS ${program} RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT daemon)
  endif()
endforeach()

# The target uopctl makes them (client/client.cmake).
if(TARGET uopctl)
  install(FILES ${CMAKE_BINARY_DIR}/pages/uopctl.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1 COMPONENT daemon)
  install(FILES ${CMAKE_BINARY_DIR}/pages/uopd.8 DESTINATION ${CMAKE_INSTALL_MANDIR}/man8 COMPONENT daemon)
  install(FILES ${CMAKE_BINARY_DIR}/pages/uopctl.bash DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions RENAME uopctl
          COMPONENT daemon)
  install(FILES ${CMAKE_BINARY_DIR}/pages/_uopctl DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/site-functions COMPONENT daemon)
endif()

# The unit names the installed daemon by its full path, which is known when it is installed: `cmake --install --prefix` may name another
# folder than CMAKE_INSTALL_PREFIX does here. "%" begins a specifier of systemd.
set(uopd_unit_code [[
  get_filename_component(prefix "${CMAKE_INSTALL_PREFIX}" ABSOLUTE)
  foreach(name BINDIR DOCDIR)
    get_filename_component(uopd_${name} "${uopd_${name}}" ABSOLUTE BASE_DIR "${prefix}")
  endforeach()
  string(REPLACE "%" "%25" uopd_DOCDIR "${uopd_DOCDIR}")  # of a URL
  string(REPLACE " " "%20" uopd_DOCDIR "${uopd_DOCDIR}")
  foreach(name BINDIR DOCDIR)
    string(REPLACE "%" "%%" uopd_${name} "${uopd_${name}}")
  endforeach()
  set(unit "${prefix}/lib/systemd/system/uopd.service")
  message(STATUS "Installing: $ENV{DESTDIR}${unit}")
  configure_file("${uopd_unit_source}" "$ENV{DESTDIR}${unit}" @ONLY)
  list(APPEND CMAKE_INSTALL_MANIFEST_FILES "${unit}")
]])
install(CODE "set(uopd_BINDIR [[${CMAKE_INSTALL_BINDIR}]])\nset(uopd_DOCDIR [[${CMAKE_INSTALL_DOCDIR}]])
set(uopd_unit_source [[${CMAKE_CURRENT_LIST_DIR}/uopd.service]])\n${uopd_unit_code}" COMPONENT daemon)
install(FILES ${CMAKE_CURRENT_LIST_DIR}/uopd.toml DESTINATION ${CMAKE_INSTALL_DATADIR}/uopd COMPONENT daemon)
# Dashboards, recording rules and alerts (docs/monitoring.md, "Dashboards").
install(DIRECTORY ${CMAKE_CURRENT_LIST_DIR}/grafana ${CMAKE_CURRENT_LIST_DIR}/prometheus DESTINATION ${CMAKE_INSTALL_DATADIR}/uopd
        COMPONENT daemon PATTERN "*.py" EXCLUDE PATTERN "__pycache__" EXCLUDE)
install(FILES ${CMAKE_SOURCE_DIR}/README.md ${CMAKE_SOURCE_DIR}/LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(DIRECTORY ${CMAKE_SOURCE_DIR}/docs DESTINATION ${CMAKE_INSTALL_DOCDIR} FILES_MATCHING PATTERN "*.md" PATTERN "*.uop")
