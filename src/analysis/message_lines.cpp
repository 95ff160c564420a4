#include "analysis/message_lines.hpp"

namespace nearfield::advise {

void MessageLines::add_lines(std::uint64_t first_line, std::uint64_t last_line) {
  for (std::uint64_t page = first_line / lines_per_page; page <= last_line / lines_per_page; ++page) {
    const std::uint64_t hash = hash_of(page);
    if (hash >= sampled_hash_limit_ ||
        !first_line_index_by_page_.try_emplace(page, first_line_index_by_page_.size() * lines_per_page).second)
      continue;
    page_filter_[hash % page_filter_bits / 64] |= 1ULL << hash % 64;
    if (first_line_index_by_page_.size() > max_pages_) halve_sample();
  }
}

void MessageLines::halve_sample() {
  sampled_hash_limit_ /= 2;
  std::erase_if(first_line_index_by_page_,
                [this](const auto& page) { return hash_of(page.first) >= sampled_hash_limit_; });
  std::size_t page_index = 0;
  for (auto& page : first_line_index_by_page_) page.second = lines_per_page * page_index++;
}

MessageLine* MessageLines::find_on_page(std::uint64_t page, std::uint64_t line) {
  if (page != last_page_) {
    const auto found = first_line_index_by_page_.find(page);
    if (lines_.size() < first_line_index_by_page_.size() * lines_per_page)
      lines_.resize(first_line_index_by_page_.size() * lines_per_page);
    last_page_ = page;
    last_lines_ = found == first_line_index_by_page_.end() ? nullptr : lines_.data() + found->second;
  }
  return last_lines_ ? last_lines_ + line % lines_per_page : nullptr;
}

}  // namespace nearfield::advise
