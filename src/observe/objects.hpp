// The executable and the shared libraries of this process: which one an address of code is in.
#pragma once

#include <cstdint>

namespace nearfield::observe {

struct Place {
  std::uint64_t object = 0, offset = 0;
};

// Returns the object's number and the offset in its file, as addr2line takes it. `found` is called for an object that
// was not asked for before, with its number and path; its number is the next one, from 0 on.
Place place_of(std::uint64_t code, void (*found)(std::uint64_t object, const char* path));

// Returns what is to be added to an offset in the executable's file for an address of its code.
std::uint64_t executable_base();
// Returns how many objects were found so far, and the path of one of them.
std::uint64_t found_objects();
const char* path_of(std::uint64_t object);

}  // namespace nearfield::observe
