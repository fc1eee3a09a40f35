# Installs the engine for embedders: static libraries, headers, and the CMake package `weir`.
# Component "engine", so that it can be installed without the rest.
include(CMakePackageConfigHelpers)

set(WEIR_INCLUDE ${CMAKE_INSTALL_INCLUDEDIR}/weir)
set(WEIR_CMAKE ${CMAKE_INSTALL_LIBDIR}/cmake/weir)

set_target_properties(weir_base PROPERTIES EXPORT_NAME base)
set_target_properties(weir_core PROPERTIES EXPORT_NAME core)
set_target_properties(weir_uring PROPERTIES EXPORT_NAME engine)
add_library(weir::engine ALIAS weir_uring)

# Headers include each other by their path under src/, applications <weir/engine.h>.
install(TARGETS weir_base weir_core weir_uring EXPORT weir-targets
        ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT engine
        INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} ${WEIR_INCLUDE})
install(EXPORT weir-targets NAMESPACE weir:: DESTINATION ${WEIR_CMAKE} COMPONENT engine)

# What engine.h includes, and what an embedder wants beside it.
set(WEIR_HEADERS
  base/histogram.h base/monotonic_clock.h base/resource_params.h base/result.h base/time.h
  base/units.h
  core/cost_correction.h core/cost_model.h core/depth_controller.h core/depth_meter.h core/request.h core/scheduler.h
  datapath/uring/engine.h)
foreach(header ${WEIR_HEADERS})
  get_filename_component(folder ${header} DIRECTORY)
  install(FILES ${PROJECT_SOURCE_DIR}/src/${header} DESTINATION ${WEIR_INCLUDE}/${folder}
          COMPONENT engine)
endforeach()
file(WRITE ${PROJECT_BINARY_DIR}/package/engine.h
     "// weir::Engine, under the name that applications use.\n#pragma once\n\n"
     "#include \"datapath/uring/engine.h\"\n")
install(FILES ${PROJECT_BINARY_DIR}/package/engine.h DESTINATION ${WEIR_INCLUDE}
        COMPONENT engine)

configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/weir-config.cmake.in
  ${PROJECT_BINARY_DIR}/package/weir-config.cmake INSTALL_DESTINATION ${WEIR_CMAKE})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/package/weir-config-version.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/package/weir-config.cmake
              ${PROJECT_BINARY_DIR}/package/weir-config-version.cmake
        DESTINATION ${WEIR_CMAKE} COMPONENT engine)
