# Dashboards and rules of deploy/ with real daemons, Prometheus, Alertmanager and Redis (deploy/install-deps --tests).
# No other test runs beside them: they also see that no alert fires without a cause, and requests that wait for a processor are one.
if(TARGET uopd AND TARGET uopctl AND NOT UOPD_SANITIZE)
  add_test(NAME dashboards COMMAND /usr/bin/python3 ${CMAKE_CURRENT_LIST_DIR}/check_dashboards.py ${CMAKE_SOURCE_DIR} $<TARGET_FILE:uopd>
           $<TARGET_FILE:uopctl>)
  set_tests_properties(dashboards PROPERTIES LABELS e2e TIMEOUT 180 RUN_SERIAL ON)
  add_test(NAME alerts COMMAND /usr/bin/python3 ${CMAKE_CURRENT_LIST_DIR}/check_alerts.py ${CMAKE_SOURCE_DIR} $<TARGET_FILE:uopd>
           $<TARGET_FILE:uopctl> $<TARGET_FILE_DIR:uopd_fake_libcuda>)
  set_tests_properties(alerts PROPERTIES LABELS e2e TIMEOUT 400 RUN_SERIAL ON)
  add_test(NAME first_alert COMMAND /usr/bin/python3 ${CMAKE_CURRENT_LIST_DIR}/check_first_alert.py ${CMAKE_SOURCE_DIR} ${CMAKE_BINARY_DIR})
  set_tests_properties(first_alert PROPERTIES LABELS e2e TIMEOUT 200 RUN_SERIAL ON)
endif()
