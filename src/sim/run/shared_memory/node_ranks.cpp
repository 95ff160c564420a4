#include "sim/run/shared_memory/node_ranks.hpp"

#include <algorithm>
#include <stdexcept>

namespace nearfield::sim {

using collectives::cache_line_bytes;
using collectives::Counter;

NodeRanks::NodeRanks(Node& node, int ranks, int cores_per_group, FetchModel fetch_model)
    : node_(node),
      cores_per_group_(std::max(cores_per_group, 1)),
      fetch_model_(fetch_model),
      fibers_(ranks),
      waits_by_rank_(static_cast<std::size_t>(ranks)),
      page_remainders_(static_cast<std::size_t>(ranks)) {}

ConfigClock NodeRanks::run(const std::function<void(int rank)>& body) {
  ConfigClock begin = node_.now(0);
  for (int rank = 0; rank < num_ranks(); ++rank) {
    node_.drain(rank);
    begin = later(begin, node_.now(rank));
  }
  for (int rank = 0; rank < num_ranks(); ++rank) {
    node_.wait_until(rank, begin);
    fibers_.start(rank, [&body, rank] { body(rank); });
    add_ready_rank(rank);
  }
  while (!ready_ranks_.empty()) {
    const int rank = ready_ranks_.top().second;
    ready_ranks_.pop();
    fibers_.resume(rank);
  }
  ConfigClock end = begin;
  for (int rank = 0; rank < num_ranks(); ++rank) {
    if (!fibers_.has_ended(rank)) throw std::logic_error("ranks wait for each other");
    node_.drain(rank);
    end = later(end, node_.now(rank));
  }
  published_numbers_.clear();
  return end - begin;
}

void NodeRanks::yield_to_earlier_ranks(int rank) {
  if (ready_ranks_.empty() || ready_ranks_.top() > std::pair(node_.first(rank), rank)) return;
  add_ready_rank(rank);
  fibers_.suspend();
}

NodeRanks::HostPage& NodeRanks::page_of(int rank, const void* pointer) {
  const auto number = reinterpret_cast<std::uintptr_t>(pointer) / page_bytes;
  const auto [match, is_new] = pages_.try_emplace(number);
  if (is_new) {
    PageRemainder& remainder = page_remainders_[static_cast<std::size_t>(rank)];
    if (remainder.begin == remainder.end) {
      const std::uint64_t bytes = std::max<std::uint64_t>(page_bytes, node_.page_bytes());
      remainder.begin = node_.allocate(rank, bytes);
      remainder.end = remainder.begin + bytes;
    }
    match->second = {remainder.begin, rank};
    remainder.begin += page_bytes;
  }
  return match->second;
}

Address NodeRanks::address_of(int rank, const void* pointer) {
  return page_of(rank, pointer).address + reinterpret_cast<std::uintptr_t>(pointer) % page_bytes;
}

template <class AccessFunction>
void NodeRanks::fetch_shared(int rank, FetchArrivals& fetches, AccessFunction access) {
  if (fetch_model_ == FetchModel::at_once) return access();
  if (fetches.arrival.empty()) {
    fetches.last_arrival = ConfigClock(node_.num_variants());
    fetches.arrival.assign(static_cast<std::size_t>(num_ranks() / cores_per_group_) + 1, fetches.last_arrival);
  }
  ConfigClock& arrival = fetches.arrival[static_cast<std::size_t>(rank / cores_per_group_)];
  const auto is_first_of_group = [&] { return arrival.first() <= node_.first(rank); };
  while (is_first_of_group() && fetches.last_arrival.first() > node_.first(rank)) {
    node_.wait_until(rank, fetches.last_arrival);
    yield_to_earlier_ranks(rank);
  }
  const bool is_first = is_first_of_group();
  access();
  node_.drain(rank);
  node_.wait_until(rank, arrival);
  arrival = later(arrival, node_.now(rank));
  if (is_first) fetches.last_arrival = later(fetches.last_arrival, node_.now(rank));
}

template <class AccessFunction>
void NodeRanks::read_each_page(int rank, const void* from, std::size_t bytes, AccessFunction access) {
  const auto* position = static_cast<const unsigned char*>(from);
  while (bytes > 0) {
    const auto address = reinterpret_cast<std::uintptr_t>(position);
    const std::size_t length = std::min(bytes, page_bytes - address % page_bytes);
    if (page_of(rank, position).owner == rank)
      access(position, length);
    else
      fetch_shared(rank, fetches_[address / cache_line_bytes * cache_line_bytes], [&] { access(position, length); });
    position += length;
    bytes -= length;
  }
}

void NodeRanks::access_vectors(int rank, Access kind, Address address, std::size_t bytes) {
  const std::size_t vectors = bytes / vector_bytes, remainder = bytes % vector_bytes;
  if (vectors > 0) node_.sweep(rank, kind, address, vectors, vector_bytes, vector_bytes);
  if (remainder > 0) node_.touch(rank, kind, address + bytes - remainder, remainder);
}

void NodeRanks::load(int rank, const void* from, std::size_t bytes) {
  yield_to_earlier_ranks(rank);
  read_each_page(rank, from, bytes, [&](const unsigned char* position, std::size_t length) {
    access_vectors(rank, Access::load, address_of(rank, position), length);
  });
}

void NodeRanks::store(int rank, void* to, std::size_t bytes) {
  auto* position = static_cast<unsigned char*>(to);
  while (bytes > 0) {
    const std::size_t length = std::min(bytes, page_bytes - reinterpret_cast<std::uintptr_t>(position) % page_bytes);
    access_vectors(rank, Access::store, address_of(rank, position), length);
    position += length;
    bytes -= length;
  }
}

void NodeRanks::copy(int rank, void* to, const void* from, std::size_t bytes) {
  yield_to_earlier_ranks(rank);
  auto* target = static_cast<unsigned char*>(to);
  read_each_page(rank, from, bytes, [&](const unsigned char* position, std::size_t length) {
    while (length > 0) {
      const std::size_t part = std::min(length, page_bytes - reinterpret_cast<std::uintptr_t>(target) % page_bytes);
      const Address destination = address_of(rank, target), source = address_of(rank, position);
      for (std::size_t done = 0; done < part; done += cache_line_bytes) {
        const std::size_t piece = std::min(cache_line_bytes, part - done);
        access_vectors(rank, Access::load, source + done, piece);
        access_vectors(rank, Access::store, destination + done, piece);
      }
      target += part;
      position += part;
      length -= part;
    }
  });
}

void NodeRanks::compute(int rank, Ps duration) { node_.advance(rank, duration); }

// Other cores see the stores of a core in program order. So they see the new number only when all earlier stores of the
// publishing core have completed.
void NodeRanks::publish(int rank, Counter& counter, std::uint64_t number) {
  yield_to_earlier_ranks(rank);
  node_.access(rank, Access::store, address_of(rank, &counter), sizeof counter);
  node_.drain(rank);
  counter.store(number, std::memory_order_relaxed);
  published_numbers_[&counter].push_back({number, node_.now(rank)});
  for (int other = 0; other < num_ranks(); ++other) {
    CounterWait& waiting = waits_by_rank_[static_cast<std::size_t>(other)];
    if (waiting.counter != &counter || waiting.number > number) continue;
    waiting = {};
    node_.wait_until(other, node_.now(rank));
    add_ready_rank(other);
  }
}

// While a rank waits, the counter's line is in its cache, until the publisher's store invalidates the line.
void NodeRanks::wait(int rank, const Counter& counter, std::uint64_t number) {
  yield_to_earlier_ranks(rank);
  load_counter(rank, counter);
  if (counter.load(std::memory_order_relaxed) < number) {
    waits_by_rank_[static_cast<std::size_t>(rank)] = {&counter, number};
    fibers_.suspend();
    load_counter(rank, counter);
    return;
  }
  const PublishedNumber* const match = find_published(counter, number);  // nullptr: published before this run
  if (!match || match->visible_time.first() <= node_.first(rank)) return;
  node_.wait_until(rank, match->visible_time);
  yield_to_earlier_ranks(rank);
  load_counter(rank, counter);
}

void NodeRanks::load_counter(int rank, const Counter& counter) {
  // The key is the counter's address plus one: a counter at the start of a page would otherwise share the page's entry.
  fetch_shared(rank, fetches_[reinterpret_cast<std::uintptr_t>(&counter) + 1],
               [&] { node_.access(rank, Access::load, address_of(rank, &counter), sizeof counter); });
}

const NodeRanks::PublishedNumber* NodeRanks::find_published(const Counter& counter, std::uint64_t number) const {
  const auto list = published_numbers_.find(&counter);
  if (list == published_numbers_.end()) return nullptr;
  const auto match =
      std::ranges::find_if(list->second, [&](const PublishedNumber& one) { return one.number >= number; });
  return match == list->second.end() ? nullptr : &*match;
}

}  // namespace nearfield::sim
