// The cache lines of message buffers: when each was touched and written last, from where, and which receive put data
// there that nobody has read yet.
//
// Which pages have message buffers is told first, in a pass over the stream of its own. With more than `most_pages` of
// them, pages are sampled by a hash of their addresses; the lines of others are then not known.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "advise/footprint.hpp"

namespace nearfield::advise {

constexpr unsigned line_bytes = 64;
constexpr std::uint32_t nobody = ~std::uint32_t{0};

struct Line {
  static constexpr Moment never = ~Moment{0};
  Moment touched = never, written = never;
  std::uint32_t writer = nobody;    // site of the last store
  std::uint32_t received = nobody;  // the receive whose data lie there, unread; at the moment `touched`
  std::uint64_t sent = never;       // in which burst it was sent last (analysis.cpp)
};

class MessageLines {
 public:
  static constexpr std::size_t usual_pages = 1 << 14;

  explicit MessageLines(std::size_t most_pages = usual_pages) : most_pages_(most_pages), maybe_(maybe_bits / 64, 0) {}

  // Messages have data in lines `first` to `last`. To be called before the first find().
  void add(std::uint64_t first, std::uint64_t last);
  // Returns the line if it is of a message buffer (and sampled), else nullptr.
  Line* find(std::uint64_t line) {
    const std::uint64_t page = line / lines_per_page;
    const std::uint64_t bit = hash_of(page) % maybe_bits;
    if (!(maybe_[bit / 64] >> bit % 64 & 1)) return nullptr;
    return find_in(page, line);
  }
  bool empty() const { return pages_.empty(); }

 private:
  static constexpr std::uint64_t lines_per_page = 4096 / line_bytes, maybe_bits = 1 << 16;
  static std::uint64_t hash_of(std::uint64_t page) { return page * 0x9E3779B97F4A7C15ULL >> 32; }
  Line* find_in(std::uint64_t page, std::uint64_t line);
  void drop_half();

  std::size_t most_pages_;
  std::uint64_t threshold_ = 1ULL << 32;
  std::vector<std::uint64_t> maybe_;                      // by hash of the page: may one be here?
  std::unordered_map<std::uint64_t, std::size_t> pages_;  // place of its first line
  std::vector<Line> lines_;                               // of all pages; made by the first find
  std::uint64_t last_page_ = ~0ULL;
  Line* last_lines_ = nullptr;
};

}  // namespace nearfield::advise
