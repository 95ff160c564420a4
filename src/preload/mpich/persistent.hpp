// Records the thresholds of persistent sends, from MPI_Send_init to MPI_Request_free. Does not cover partitioned sends.
#pragma once

#include <mpi.h>

#include <optional>
#include <unordered_map>

namespace nearfield::tune {

class PersistentSendThresholds {
 public:
  void record_threshold(MPI_Request request, int bytes) { threshold_by_request_[request] = bytes; }
  void remove_request(MPI_Request request) { threshold_by_request_.erase(request); }

  // Returns the threshold of a persistent send in bytes; nullopt for any other request.
  std::optional<int> threshold_of(MPI_Request request) const {
    const auto found = threshold_by_request_.find(request);
    return found == threshold_by_request_.end() ? std::nullopt : std::optional(found->second);
  }

  // Returns the number of requests, from the first one on, that can start under the same threshold, and this threshold
  // in bytes: nullopt if all of them are receives, which can start under any threshold.
  struct SameThresholdRequests {
    int num_requests;
    std::optional<int> threshold_bytes;
  };
  SameThresholdRequests find_leading_requests(const MPI_Request* requests, int count) const {
    std::optional<int> common_threshold;
    for (int i = 0; i < count; ++i) {
      const auto bytes = threshold_of(requests[i]);
      if (bytes && common_threshold && *bytes != *common_threshold) return {i, common_threshold};
      if (bytes) common_threshold = bytes;
    }
    return {count, common_threshold};
  }

 private:
  std::unordered_map<MPI_Request, int> threshold_by_request_;
};

}  // namespace nearfield::tune
