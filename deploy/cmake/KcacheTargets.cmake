# Helpers to declare directories and targets.

# Adds each of the named subdirectories that has a CMakeLists.txt.
function(kcache_add_subdirectories)
  foreach(directory IN LISTS ARGN)
    if(EXISTS "${CMAKE_CURRENT_SOURCE_DIR}/${directory}/CMakeLists.txt")
      add_subdirectory("${directory}")
    endif()
  endforeach()
endfunction()

# Gives `target` the precompiled gRPC headers of kcache_grpc_pch. The target must not change
# language options; extra definitions are fine as long as gRPC's headers do not read them.
function(kcache_use_grpc_pch target)
  target_link_libraries(${target} PRIVATE gRPC::grpc++)
  target_precompile_headers(${target} REUSE_FROM kcache_grpc_pch)
endfunction()
