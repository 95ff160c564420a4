// A table of the sizes of pending requests, by which the time of a wait is attributed to message sizes. The table is
// lock-free and lossy: a new request may overwrite another one with the same hash, whose size is unknown from then on.
#pragma once

#include <atomic>
#include <cstdint>

#include "preload/forecast/format.hpp"

namespace nearfield::forecast {

// The category, the place and the size of a pending request. `bytes` is rounded to a relative precision of 1/64 in the
// table.
struct PendingRequest {
  CallCategory category = CallCategory::completion;
  PeerLocation location = PeerLocation::this_node;
  bool is_send = false;
  std::uint64_t bytes = 0;
};

namespace requests {

constexpr int num_slots = 1 << 14;
inline std::atomic<std::uint64_t> slots[num_slots];

// Packs a request into the lower bits of a word of the table. A word consists of 36 bits of the handle's hash, an
// occupied bit, and the packed request.
constexpr std::uint64_t pack_request(const PendingRequest& request) {
  int shift = request.bytes < 64 ? 0 : 58 - __builtin_clzll(request.bytes);
  return 1ull << 27 | std::uint64_t{request.is_send} << 26 | std::uint64_t(request.location) << 24 |
         std::uint64_t(request.category) << 20 | std::uint64_t(shift) << 6 | request.bytes >> shift;
}
constexpr PendingRequest unpack_request(std::uint64_t word) {
  return {static_cast<CallCategory>(word >> 20 & 15), static_cast<PeerLocation>(word >> 24 & 3), (word >> 26 & 1) != 0,
          (word & 63) << (word >> 6 & 63)};
}
static_assert(unpack_request(pack_request({CallCategory::collective, PeerLocation::both, true, 63})).bytes == 63);
static_assert(unpack_request(pack_request({CallCategory::collective, PeerLocation::both, true, 1 << 20})).bytes ==
              1 << 20);

inline std::uint64_t hash_handle(std::uint64_t handle) { return handle * 0x9e3779b97f4a7c15; }

inline void add_pending_request(std::uint64_t handle, const PendingRequest& request) {
  const std::uint64_t mixed = hash_handle(handle);
  slots[mixed >> 50].store((mixed << 14 & ~std::uint64_t{0} << 28) | pack_request(request), std::memory_order_relaxed);
}

// Looks up a pending request. Returns whether the table contains the request.
inline bool find_pending_request(std::uint64_t handle, PendingRequest& request) {
  const std::uint64_t mixed = hash_handle(handle), word = slots[mixed >> 50].load(std::memory_order_relaxed);
  if (!(word & 1 << 27) || (word ^ mixed << 14) >> 28) return false;
  request = unpack_request(word);
  return true;
}

}  // namespace requests
}  // namespace nearfield::forecast
