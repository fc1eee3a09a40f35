# Installs the engine to a scratch prefix, builds this example against it as an application would,
# and runs it. cmake -DBUILD=<Weir's build> -DSOURCE=<this folder> -DWORK=<scratch> -DFLAGS=... -P
file(REMOVE_RECURSE ${WORK})
file(MAKE_DIRECTORY ${WORK})
set(fatal COMMAND_ERROR_IS_FATAL ANY OUTPUT_QUIET)
execute_process(COMMAND ${CMAKE_COMMAND} --install ${BUILD} --prefix ${WORK}/prefix
                        --component engine ${fatal})
execute_process(COMMAND ${CMAKE_COMMAND} -S ${SOURCE} -B ${WORK}/build -G Ninja
                        -DCMAKE_PREFIX_PATH=${WORK}/prefix -DCMAKE_BUILD_TYPE=Release
                        -DCMAKE_CXX_COMPILER=${COMPILER}
                        "-DCMAKE_CXX_FLAGS=${FLAGS} -Wall -Wextra -Werror" ${fatal})
execute_process(COMMAND ${CMAKE_COMMAND} --build ${WORK}/build ${fatal})

# Written, not sparse: reads of holes never reach the device.
execute_process(COMMAND dd if=/dev/zero of=${WORK}/file bs=1M count=32 conv=fsync
                COMMAND_ERROR_IS_FATAL ANY ERROR_QUIET)
# A machine that is busy with others may take its time from one of the two: three tries.
set(held FALSE)
foreach(attempt 1 2 3)
  execute_process(COMMAND ${WORK}/build/embed ${WORK}/file 1 OUTPUT_VARIABLE output
                  COMMAND_ERROR_IS_FATAL ANY)
  message("${output}")
  if(NOT output MATCHES "gold.*silver.*ratio ([0-9.]+)")
    message(FATAL_ERROR "the example printed something else")
  endif()
  if(CMAKE_MATCH_1 GREATER 1.8 AND CMAKE_MATCH_1 LESS 2.2)
    set(held TRUE)
    break()
  endif()
endforeach()
if(NOT held)
  message(FATAL_ERROR "weights 200:100 gave a ratio of ${CMAKE_MATCH_1}")
endif()
execute_process(COMMAND ${WORK}/build/embed ERROR_QUIET RESULT_VARIABLE status)
if(NOT status EQUAL 2)
  message(FATAL_ERROR "without a file the example ended with ${status}, not 2")
endif()
file(REMOVE_RECURSE ${WORK})
