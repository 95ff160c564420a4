# Makes the list of the variants in a folder: policies, protocols, scenarios ... Each .cpp file there exports one object
# named after it, so that a new variant is a new file and nothing else; a file beside which a header of its name stands
# is a helper of the variants and exports none.
#
#   nearfield_variants(SOURCES FOLDER nic/policies FIRST memory NAMESPACE nearfield::sim HEADER sim/nic/policy.hpp
#                      TYPE PolicySpec SUFFIX _policy FUNCTION all_policies)
#
# defines `const std::vector<const PolicySpec*>& all_policies()` and sets SOURCES to all files of the folder and the one
# with that function. The variants of FIRST lead the list; the others follow by name.
function(nearfield_variants sources)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "FOLDER;NAMESPACE;HEADER;TYPE;SUFFIX;FUNCTION" "FIRST")
  file(GLOB files CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/${arg_FOLDER}/*.cpp)
  set(names ${arg_FIRST})
  foreach(file IN LISTS files)
    get_filename_component(name ${file} NAME_WE)
    if(NOT name IN_LIST names AND NOT EXISTS ${CMAKE_CURRENT_SOURCE_DIR}/${arg_FOLDER}/${name}.hpp)
      list(APPEND names ${name})
    endif()
  endforeach()
  set(text "// Generated from the files in ${arg_FOLDER}/.\n#include \"${arg_HEADER}\"\n\nnamespace ${arg_NAMESPACE} {\n\n")
  foreach(name IN LISTS names)
    string(APPEND text "extern const ${arg_TYPE} ${name}${arg_SUFFIX};\n")
    string(APPEND entries "      &${name}${arg_SUFFIX},\n")
  endforeach()
  string(APPEND text "\nconst std::vector<const ${arg_TYPE}*>& ${arg_FUNCTION}() {\n")
  string(APPEND text "  static const std::vector<const ${arg_TYPE}*> list{\n${entries}  };\n  return list;\n}\n\n")
  string(APPEND text "}  // namespace ${arg_NAMESPACE}\n")
  set(list_file ${CMAKE_CURRENT_BINARY_DIR}/${arg_FUNCTION}.cpp)
  file(CONFIGURE OUTPUT ${list_file} CONTENT "${text}" @ONLY)
  set(${sources} ${files} ${list_file} PARENT_SCOPE)
endfunction()
