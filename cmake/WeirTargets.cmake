# One target a folder. The DEPS of each weir_library() are the arrows of docs/architecture.md.

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)

add_library(weir_flags INTERFACE)
target_compile_options(weir_flags INTERFACE -Wall -Wextra -Wshadow -Wnon-virtual-dtor -Werror)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # g++ 12 reports false overlaps inside libstdc++'s std::string at -O2.
  target_compile_options(weir_flags INTERFACE -Wno-restrict)
endif()
target_include_directories(weir_flags INTERFACE $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/src>)
if(WEIR_SANITIZE)
  target_compile_options(weir_flags INTERFACE -fsanitize=${WEIR_SANITIZE} -fno-omit-frame-pointer -g1)
  target_link_options(weir_flags INTERFACE -fsanitize=${WEIR_SANITIZE})
  if(WEIR_SANITIZE MATCHES "undefined")
    target_compile_options(weir_flags INTERFACE -fno-sanitize-recover=all)
  endif()
endif()

# weir_library(NAME SOURCES a.cc ... [DEPS weir_x ...] [PRIVATE_DEPS lib ...])
function(weir_library name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPS;PRIVATE_DEPS" ${ARGN})
  add_library(${name} STATIC ${ARG_SOURCES})
  target_link_libraries(${name} PUBLIC $<BUILD_INTERFACE:weir_flags> ${ARG_DEPS}
                                PRIVATE $<BUILD_INTERFACE:${ARG_PRIVATE_DEPS}>)
endfunction()

# weir_test(NAME SOURCES a_test.cc ... [DEPS ...] [TIMEOUT seconds] [LABELS ...]): one gtest binary, each case a ctest test.
function(weir_test name)
  if(NOT WEIR_BUILD_TESTS)
    return()
  endif()
  cmake_parse_arguments(ARG "" "TIMEOUT" "SOURCES;DEPS;LABELS" ${ARGN})
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 120)
  endif()
  find_package(GTest REQUIRED)
  include(GoogleTest)
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE weir_flags ${ARG_DEPS} GTest::gtest GTest::gmock GTest::gtest_main)
  gtest_discover_tests(${name} DISCOVERY_MODE PRE_TEST
                       PROPERTIES TIMEOUT ${ARG_TIMEOUT} LABELS "${ARG_LABELS}")
endfunction()
