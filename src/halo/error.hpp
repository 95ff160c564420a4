// The exception of the halo library, with the error code that the C interface returns.
#pragma once

#include <stdexcept>
#include <string>

namespace nearfield::halo {

enum class ErrorCode { ok = 0, argument = 1, memory = 2, lost = 3, late = 4, unavailable = 5, order = 6, internal = 7 };

class Error : public std::runtime_error {
 public:
  Error(ErrorCode code, const std::string& text) : std::runtime_error(text), code(code) {}
  ErrorCode code;
};

}  // namespace nearfield::halo
