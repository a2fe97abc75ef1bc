# The language, warnings, sanitizers and linker of every target.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)

if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release)
endif()

# The same code model and threading flags for programs and libraries (CMake would choose -fPIE and
# -fPIC), so that one precompiled header fits all and objects can go into a shared library.
add_compile_options(-fPIC -pthread)

add_compile_options(-Wall -Wextra $<$<CXX_COMPILER_ID:Clang>:-Wthread-safety>)
if(KCACHE_WERROR)
  add_compile_options(-Werror)
endif()

# No path of the building machine in binaries, and the same object from every checkout.
add_compile_options("-ffile-prefix-map=${CMAKE_SOURCE_DIR}/=")

if(KCACHE_SANITIZE)
  add_compile_options("-fsanitize=${KCACHE_SANITIZE}" -fno-omit-frame-pointer)
  add_link_options("-fsanitize=${KCACHE_SANITIZE}")
  # GCC's flow analysis does not see through the sanitizers' checks and finds uninitialized members
  # in std::function and std::regex.
  add_compile_options($<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized>)
  if(KCACHE_SANITIZE MATCHES "undefined")
    add_compile_options(-fno-sanitize-recover=undefined)
  endif()
  if(KCACHE_SANITIZE MATCHES "thread")
    # GCC's -Wtsan warns about std::atomic_thread_fence in system headers.
    add_compile_options($<$<CXX_COMPILER_ID:GNU>:-Wno-tsan>)
  endif()
endif()
if(KCACHE_COVERAGE)
  add_compile_options(--coverage -fprofile-update=atomic)
  add_link_options(--coverage)
endif()
if(KCACHE_FUZZ)
  if(NOT CMAKE_CXX_COMPILER_ID MATCHES "Clang")
    message(FATAL_ERROR "KCACHE_FUZZ needs clang, the compiler is ${CMAKE_CXX_COMPILER_ID}")
  endif()
  add_compile_options(-fsanitize=fuzzer-no-link)
endif()

# lld links several times faster than the default linker.
find_program(KCACHE_LLD ld.lld)
mark_as_advanced(KCACHE_LLD)
if(KCACHE_LLD)
  add_link_options(-fuse-ld=lld)
endif()
add_link_options(-Wl,--as-needed)
