# cmake --install BUILD: programs, the systemd unit, an example configuration, the docs, the client library.
# --component daemon: only the programs, the unit and the example, whose targets are uopd and uopctl.
include(GNUInstallDirs)
if(TARGET uopd_client_cpp AND NOT UOPD_SANITIZE)
  include(${CMAKE_CURRENT_LIST_DIR}/client.cmake)
endif()

foreach(program uopd uopctl uopd-ptxc)
  if(TARGET ${program})
    install(TARGETS ${program} RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT daemon)
  endif()
endforeach()

# The unit names the installed daemon by its full path: give -DCMAKE_INSTALL_PREFIX when configuring, not --prefix.
configure_file(${CMAKE_CURRENT_LIST_DIR}/uopd.service ${CMAKE_BINARY_DIR}/deploy/uopd.service @ONLY)
install(FILES ${CMAKE_BINARY_DIR}/deploy/uopd.service DESTINATION lib/systemd/system COMPONENT daemon)
install(FILES ${CMAKE_CURRENT_LIST_DIR}/uopd.toml DESTINATION ${CMAKE_INSTALL_DATADIR}/uopd COMPONENT daemon)
# Dashboards, recording rules and alerts (docs/operations.md, "Dashboards").
install(DIRECTORY ${CMAKE_CURRENT_LIST_DIR}/grafana ${CMAKE_CURRENT_LIST_DIR}/prometheus DESTINATION ${CMAKE_INSTALL_DATADIR}/uopd
        COMPONENT daemon PATTERN "*.py" EXCLUDE PATTERN "__pycache__" EXCLUDE)
install(FILES ${CMAKE_SOURCE_DIR}/README.md ${CMAKE_SOURCE_DIR}/LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(DIRECTORY ${CMAKE_SOURCE_DIR}/docs DESTINATION ${CMAKE_INSTALL_DOCDIR} FILES_MATCHING PATTERN "*.md")
