# Test targets. Labels say what a test needs: `unit` (the default), `integration`, `conformance`,
# `regression`, `chaos`; `tsan` and `asan` mark what tests/run.sh --sanitizers runs under each.
if(BUILD_TESTING)
  find_package(GTest REQUIRED)
  include(GoogleTest)
endif()

# kcache_group(NAME TARGET): building NAME builds TARGET, and what else was put into that group.
function(kcache_group group target)
  if(NOT TARGET ${group})
    add_custom_target(${group})
  endif()
  add_dependencies(${group} ${target})
endfunction()

# Sanitizer settings of every test; values are read by the runtimes, not by the tests.
set(KCACHE_TEST_ENVIRONMENT
    "TSAN_OPTIONS=suppressions=${CMAKE_SOURCE_DIR}/tests/support/tsan.supp halt_on_error=1 second_deadlock_stack=1"
    "ASAN_OPTIONS=detect_stack_use_after_return=1 strict_string_checks=1"
    "LSAN_OPTIONS=suppressions=${CMAKE_SOURCE_DIR}/tests/support/lsan.supp print_suppressions=0"
    "UBSAN_OPTIONS=print_stacktrace=1"
    "KCACHE_BINARY_DIR=${CMAKE_BINARY_DIR}"
    "KCACHE_SOURCE_DIR=${CMAKE_SOURCE_DIR}"
    # Where deploy/fetch-nvrtc.sh puts NVRTC; without it, an installed toolkit is found.
    "KCACHE_CUDA_TOOLKIT=${CMAKE_SOURCE_DIR}/build/nvrtc")

# kcache_test(NAME SOURCES file… [LIBS target…] [LABELS label…] [TIMEOUT seconds] [DEPENDS target…]
#             [SERIAL])
# One GoogleTest program; ctest sees each of its cases as `NAME.Suite.Case`. SERIAL keeps its cases
# from running beside any other test. For every label there is a target kcache_tests_LABEL that builds
# just the programs that carry it. A fuzzing build runs no GoogleTest programs.
function(kcache_test name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "SERIAL" "TIMEOUT" "SOURCES;LIBS;LABELS;DEPENDS")
  if(arg_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "kcache_test(${name}): unknown arguments ${arg_UNPARSED_ARGUMENTS}")
  endif()
  if(NOT BUILD_TESTING OR KCACHE_FUZZ)
    # The target exists, for what its folder says about it, but nothing builds or runs it.
    add_executable(${name} EXCLUDE_FROM_ALL ${arg_SOURCES})
    return()
  endif()
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 60)
  endif()
  if(NOT arg_LABELS)
    set(arg_LABELS unit)
  endif()
  add_executable(${name} ${arg_SOURCES})
  target_link_libraries(${name} PRIVATE ${arg_LIBS} GTest::gmock GTest::gtest GTest::gmock_main
                                        Threads::Threads)
  if(arg_DEPENDS)
    add_dependencies(${name} ${arg_DEPENDS})
  endif()
  foreach(label IN LISTS arg_LABELS)
    kcache_group(kcache_tests_${label} ${name})
  endforeach()
  set(properties TIMEOUT ${arg_TIMEOUT})
  if(arg_SERIAL)
    list(APPEND properties RUN_SERIAL ON)
  endif()
  gtest_discover_tests(${name} DISCOVERY_MODE PRE_TEST DISCOVERY_TIMEOUT 60 TEST_PREFIX "${name}."
                       PROPERTIES ${properties} TEST_LIST ${name}_cases)
  # gtest_discover_tests cannot carry a property whose value is a list, so lists are set by a
  # script that ctest reads after the discovery.
  set(script "${CMAKE_CURRENT_BINARY_DIR}/${name}_properties.cmake")
  file(CONFIGURE OUTPUT "${script}" @ONLY CONTENT
"foreach(case IN LISTS @name@_cases)
  set_tests_properties(\"\${case}\" PROPERTIES LABELS \"@arg_LABELS@\"
                       ENVIRONMENT \"@KCACHE_TEST_ENVIRONMENT@\")
endforeach()
")
  set_property(DIRECTORY APPEND PROPERTY TEST_INCLUDE_FILES "${script}")
endfunction()

# kcache_script_test(NAME COMMAND program argument… [LABELS label…] [TIMEOUT seconds] [SERIAL])
# Any program as a test: exit status 0 passes, 77 means skipped.
function(kcache_script_test name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "SERIAL" "TIMEOUT" "COMMAND;LABELS")
  if(NOT BUILD_TESTING)
    return()
  endif()
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 300)
  endif()
  if(NOT arg_LABELS)
    set(arg_LABELS integration)
  endif()
  add_test(NAME ${name} COMMAND ${arg_COMMAND})
  set_tests_properties(${name} PROPERTIES TIMEOUT ${arg_TIMEOUT} LABELS "${arg_LABELS}"
                       SKIP_RETURN_CODE 77 ENVIRONMENT "${KCACHE_TEST_ENVIRONMENT}")
  if(arg_SERIAL)
    set_tests_properties(${name} PROPERTIES RUN_SERIAL ON)
  endif()
endfunction()

# kcache_fuzzer(NAME SOURCES file… [LIBS target…] [CORPUS directory])
# A fuzzer (LLVMFuzzerTestOneInput in one of the sources). With KCACHE_FUZZ a libFuzzer program, which
# ctest lets replay the corpus and then fuzz for ten seconds; the target kcache_fuzzers builds them all.
# Else, where clang's FuzzedDataProvider.h is there, a program that replays the corpus and mutations of it.
function(kcache_fuzzer name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "CORPUS" "SOURCES;LIBS")
  if(NOT KCACHE_FUZZ AND (NOT BUILD_TESTING OR NOT arg_CORPUS OR NOT KCACHE_FUZZER_INCLUDE))
    return()
  endif()
  add_executable(${name} ${arg_SOURCES})
  target_include_directories(${name} PRIVATE "${PROJECT_SOURCE_DIR}")
  target_link_libraries(${name} PRIVATE ${arg_LIBS} Threads::Threads)
  if(KCACHE_FUZZ)
    target_link_options(${name} PRIVATE -fsanitize=fuzzer)
    kcache_group(kcache_fuzzers ${name})
    set(command ${name} -max_total_time=10 -timeout=10 -print_final_stats=1
                "${CMAKE_CURRENT_BINARY_DIR}/${name}_found" "${arg_CORPUS}")
    file(MAKE_DIRECTORY "${CMAKE_CURRENT_BINARY_DIR}/${name}_found")
    set(labels fuzz)
  else()
    target_sources(${name} PRIVATE "${PROJECT_SOURCE_DIR}/tests/fuzz/replay.cc")
    # Last: the folder has a compiler's own headers, too, and this may be another compiler.
    target_compile_options(${name} PRIVATE "-idirafter${KCACHE_FUZZER_INCLUDE}")
    kcache_group(kcache_tests_asan ${name})
    set(command ${name} "${arg_CORPUS}" 2000)
    set(labels fuzz asan)
  endif()
  if(BUILD_TESTING AND arg_CORPUS)
    add_test(NAME ${name} COMMAND ${command})
    set_tests_properties(${name} PROPERTIES TIMEOUT 120 LABELS "${labels}"
                         ENVIRONMENT "${KCACHE_TEST_ENVIRONMENT}")
  endif()
endfunction()
