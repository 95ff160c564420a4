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

constexpr unsigned cache_line_bytes = 64;
constexpr std::uint32_t no_site = ~std::uint32_t{0};

struct MessageLine {
  static constexpr Moment never = ~Moment{0};
  Moment last_access = never, last_write = never;
  std::uint32_t last_writer = no_site;  // code location of the last store
  // Index in StreamAnalysisResult::messages of the receive whose data has not been accessed since `last_access`.
  std::uint32_t unread_receive = no_site;
  std::uint64_t sent_in_phase = never;  // number of the phase in which the line was last sent (analysis.cpp)
};

class MessageLines {
 public:
  static constexpr std::size_t default_max_pages = 1 << 14;

  explicit MessageLines(std::size_t max_pages = default_max_pages)
      : max_pages_(max_pages), page_filter_(page_filter_bits / 64, 0) {}

  // Adds the pages of the lines `first_line` to `last_line` of a message. All pages must be added before the first
  // find_line().
  void add_lines(std::uint64_t first_line, std::uint64_t last_line);
  // Returns the record of a line on a (sampled) page of a message buffer; nullptr for other lines.
  MessageLine* find_line(std::uint64_t line) {
    const std::uint64_t page = line / lines_per_page;
    const std::uint64_t bit = hash_of(page) % page_filter_bits;
    if (!(page_filter_[bit / 64] >> bit % 64 & 1)) return nullptr;
    return find_on_page(page, line);
  }
  bool empty() const { return first_line_index_by_page_.empty(); }

 private:
  static constexpr std::uint64_t lines_per_page = 4096 / cache_line_bytes, page_filter_bits = 1 << 16;
  static std::uint64_t hash_of(std::uint64_t page) { return page * 0x9E3779B97F4A7C15ULL >> 32; }
  MessageLine* find_on_page(std::uint64_t page, std::uint64_t line);
  void halve_sample();

  std::size_t max_pages_;
  std::uint64_t sampled_hash_limit_ = 1ULL << 32;
  // filter: a bit for each hash of a page in `first_line_index_by_page_`
  std::vector<std::uint64_t> page_filter_;
  // page number -> index of the page's first line in `lines_`
  std::unordered_map<std::uint64_t, std::size_t> first_line_index_by_page_;
  std::vector<MessageLine> lines_;  // the lines of all pages; allocated by find_line()
  std::uint64_t last_page_ = ~0ULL;
  MessageLine* last_lines_ = nullptr;
};

}  // namespace nearfield::advise
