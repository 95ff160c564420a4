// The halo library's exception, with the code that its C interface returns.
#pragma once

#include <stdexcept>
#include <string>

namespace nearfield::halo {

enum class Code { ok = 0, argument = 1, memory = 2, lost = 3, late = 4, unavailable = 5, order = 6, internal = 7 };

class Error : public std::runtime_error {
 public:
  Error(Code code, const std::string& text) : std::runtime_error(text), code(code) {}
  Code code;
};

}  // namespace nearfield::halo
