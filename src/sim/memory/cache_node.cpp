#include "sim/memory/cache_node.hpp"

namespace nearfield::sim {

std::optional<Directory::Sharers> CoherencePoint::add_sharer(const CacheNode& requester_cache, Address address) {
  if (!directory) {
    if (only_user == nullptr) only_user = &requester_cache;
    if (only_user == &requester_cache) return std::nullopt;
    directory = std::make_unique<Directory>(caches.size());
    add_lines(only_user->number, *only_user);
  }
  if (directory->is_full()) [[unlikely]]
    directory->rebuild([&] {
      for (const auto* cache : caches) add_lines(cache->number, *cache);
    });
  auto sharers = directory->sharers_of(address >> granule_shift);
  sharers.add(requester_cache.number);
  return sharers;
}

// Adds all granules that `node` or a cache inside it holds, wholly or in part, to the directory, with the sharer
// `number`.
void CoherencePoint::add_lines(int number, const CacheNode& node) {
  if (node.is_used)
    node.array.for_each_line([&](Address address) { directory->sharers_of(address >> granule_shift).add(number); });
  for (const auto* cache : node.inner.caches) add_lines(number, *cache);
}

void CoherencePoint::copy_directory(const CoherencePoint& other) {
  if (other.only_user) only_user = caches[static_cast<std::size_t>(other.only_user->number)];
  if (!other.directory) return;
  directory = std::make_unique<Directory>(caches.size());
  for (const auto* cache : caches) add_lines(cache->number, *cache);
}

void CoherencePoint::drop_directory() {
  only_user = nullptr;
  directory.reset();
}

}  // namespace nearfield::sim
