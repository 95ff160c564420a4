// A table of the sizes of pending requests, by which the time of a wait is attributed to message sizes. The table is
// lock-free and lossy: a new request may overwrite another with the same hash, which then counts as a request of
// unknown size.
#pragma once

#include <atomic>
#include <cstdint>

#include "preload/forecast/format.hpp"

namespace nearfield::forecast {

// The category, the place and the size of a pending request. `bytes` is rounded to a relative precision of 1/64 in the
// table.
struct PendingRequest {
  Category category = Category::completion;
  Place place = Place::node;
  bool is_send = false;
  std::uint64_t bytes = 0;
};

namespace requests {

constexpr int max_entries = 1 << 14;
inline std::atomic<std::uint64_t> table[max_entries];

// Packs a request into the lower bits of a word of the table. A word consists of 36 bits of the handle's hash, an
// occupied bit, and the packed request.
constexpr std::uint64_t pack_request(const PendingRequest& one) {
  int shift = one.bytes < 64 ? 0 : 58 - __builtin_clzll(one.bytes);
  return 1ull << 27 | std::uint64_t{one.is_send} << 26 | std::uint64_t(one.place) << 24 |
         std::uint64_t(one.category) << 20 | std::uint64_t(shift) << 6 | one.bytes >> shift;
}
constexpr PendingRequest unpack_request(std::uint64_t word) {
  return {static_cast<Category>(word >> 20 & 15), static_cast<Place>(word >> 24 & 3), (word >> 26 & 1) != 0,
          (word & 63) << (word >> 6 & 63)};
}
static_assert(unpack_request(pack_request({Category::collective, Place::both, true, 63})).bytes == 63);
static_assert(unpack_request(pack_request({Category::collective, Place::both, true, 1 << 20})).bytes == 1 << 20);

inline std::uint64_t hash_handle(std::uint64_t handle) { return handle * 0x9e3779b97f4a7c15; }

inline void add(std::uint64_t handle, const PendingRequest& one) {
  const std::uint64_t mixed = hash_handle(handle);
  table[mixed >> 50].store((mixed << 14 & ~std::uint64_t{0} << 28) | pack_request(one), std::memory_order_relaxed);
}

// Looks up a pending request. Returns whether the table contains the request.
inline bool find(std::uint64_t handle, PendingRequest& one) {
  const std::uint64_t mixed = hash_handle(handle), word = table[mixed >> 50].load(std::memory_order_relaxed);
  if (!(word & 1 << 27) || (word ^ mixed << 14) >> 28) return false;
  one = unpack_request(word);
  return true;
}

}  // namespace requests
}  // namespace nearfield::forecast
