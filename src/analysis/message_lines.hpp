// The cache lines of message buffers. Each line records when it was last accessed and written, which code location
// wrote to it, and which receive stored data into it that has not been accessed yet.
//
// The pages of message buffers are added first, in a separate pass over the stream. If there are more than `max_pages`,
// pages are sampled by a hash of their numbers; lines of pages that are not sampled are unknown.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "analysis/reuse_distance.hpp"

namespace nearfield::advise {

constexpr unsigned line_bytes = 64;
constexpr std::uint32_t no_site = ~std::uint32_t{0};

struct MessageLine {
  static constexpr Moment never = ~Moment{0};
  Moment touched = never, written = never;
  std::uint32_t writer = no_site;  // code location of the last store
  // Index in AnalysisResult::messages of the receive whose data has not been accessed since `touched`.
  std::uint32_t received = no_site;
  std::uint64_t sent = never;  // the phase in which the line was last sent (analysis.cpp)
};

class MessageLines {
 public:
  static constexpr std::size_t default_max_pages = 1 << 14;

  explicit MessageLines(std::size_t max_pages = default_max_pages)
      : max_pages_(max_pages), maybe_(maybe_bits / 64, 0) {}

  // Adds the pages of the lines `first` to `last` of a message. All pages must be added before the first find().
  void add(std::uint64_t first, std::uint64_t last);
  // Returns the record of a line on a (sampled) page of a message buffer; nullptr for other lines.
  MessageLine* find(std::uint64_t line) {
    const std::uint64_t page = line / lines_per_page;
    const std::uint64_t bit = hash_of(page) % maybe_bits;
    if (!(maybe_[bit / 64] >> bit % 64 & 1)) return nullptr;
    return find_in(page, line);
  }
  bool empty() const { return pages_.empty(); }

 private:
  static constexpr std::uint64_t lines_per_page = 4096 / line_bytes, maybe_bits = 1 << 16;
  static std::uint64_t hash_of(std::uint64_t page) { return page * 0x9E3779B97F4A7C15ULL >> 32; }
  MessageLine* find_in(std::uint64_t page, std::uint64_t line);
  void drop_half();

  std::size_t max_pages_;
  std::uint64_t threshold_ = 1ULL << 32;
  std::vector<std::uint64_t> maybe_;                      // filter: a bit for each hash of a page in `pages_`
  std::unordered_map<std::uint64_t, std::size_t> pages_;  // page number -> index of the page's first line in `lines_`
  std::vector<MessageLine> lines_;                        // the lines of all pages; allocated by find()
  std::uint64_t last_page_ = ~0ULL;
  MessageLine* last_lines_ = nullptr;
};

}  // namespace nearfield::advise
