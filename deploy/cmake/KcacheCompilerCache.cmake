# Compiles through ccache when it is there. Several checkouts share hits: paths below the source
# tree are made relative (base_dir), the working directory is not hashed, and precompiled headers
# are allowed (their timestamps differ between checkouts, their content does not).
find_program(KCACHE_CCACHE ccache)
mark_as_advanced(KCACHE_CCACHE)
if(KCACHE_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(launcher "${CMAKE_COMMAND}" -E env
      "CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime"
      "CCACHE_BASEDIR=${CMAKE_SOURCE_DIR}" CCACHE_NOHASHDIR=1 "${KCACHE_CCACHE}")
  set(CMAKE_C_COMPILER_LAUNCHER ${launcher})
  set(CMAKE_CXX_COMPILER_LAUNCHER ${launcher})
endif()
