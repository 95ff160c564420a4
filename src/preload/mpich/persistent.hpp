// Records the thresholds of persistent sends, from MPI_Send_init to MPI_Request_free. Does not cover partitioned sends.
#pragma once

#include <mpi.h>

#include <optional>
#include <unordered_map>

namespace nearfield::tune {

class PersistentSends {
 public:
  void remember(MPI_Request request, int bytes) { bytes_[request] = bytes; }
  void forget(MPI_Request request) { bytes_.erase(request); }

  // Returns the threshold of a persistent send in bytes; nullopt for any other request.
  std::optional<int> threshold_of(MPI_Request request) const {
    const auto found = bytes_.find(request);
    return found == bytes_.end() ? std::nullopt : std::optional(found->second);
  }

  // Returns how many requests, from the first on, can start under the same threshold, and this threshold in bytes:
  // nullopt if all of them are receives, which can start under any threshold.
  struct Run {
    int length;
    std::optional<int> bytes;
  };
  Run first_run(const MPI_Request* requests, int count) const {
    std::optional<int> common;
    for (int i = 0; i < count; ++i) {
      const auto bytes = threshold_of(requests[i]);
      if (bytes && common && *bytes != *common) return {i, common};
      if (bytes) common = bytes;
    }
    return {count, common};
  }

 private:
  std::unordered_map<MPI_Request, int> bytes_;
};

}  // namespace nearfield::tune
