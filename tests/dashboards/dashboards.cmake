# Dashboards and rules of deploy/ with real daemons, Prometheus, Alertmanager and Redis (deploy/install-deps --tests).
if(TARGET uopd AND TARGET uopctl AND NOT UOPD_SANITIZE)
  add_test(NAME dashboards COMMAND /usr/bin/python3 ${CMAKE_CURRENT_LIST_DIR}/check_dashboards.py ${CMAKE_SOURCE_DIR} $<TARGET_FILE:uopd>
           $<TARGET_FILE:uopctl>)
  set_tests_properties(dashboards PROPERTIES LABELS e2e TIMEOUT 180)
endif()
