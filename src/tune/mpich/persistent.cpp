#include "tune/mpich/persistent.hpp"

namespace nearfield::tune {

std::optional<int> Persistent::of(MPI_Request request) const {
  const auto found = bytes_.find(request);
  return found == bytes_.end() ? std::nullopt : std::optional(found->second);
}

Persistent::Run Persistent::first_run(const MPI_Request* requests, int count) const {
  std::optional<int> common;
  for (int i = 0; i < count; ++i) {
    const auto bytes = of(requests[i]);
    if (bytes && common && *bytes != *common) return {i, common};
    if (bytes) common = bytes;
  }
  return {count, common};
}

}  // namespace nearfield::tune
