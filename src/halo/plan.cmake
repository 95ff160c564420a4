# The library nearfield_plan: decompositions and their costs.
add_library(nearfield_plan STATIC EXCLUDE_FROM_ALL ${CMAKE_CURRENT_LIST_DIR}/costs.cpp ${CMAKE_CURRENT_LIST_DIR}/defaults.cpp
  ${CMAKE_CURRENT_LIST_DIR}/plan.cpp)
target_include_directories(nearfield_plan PUBLIC ${PROJECT_SOURCE_DIR}/src)
target_compile_options(nearfield_plan PRIVATE -Wall -Wextra)
