#include "analysis/message_lines.hpp"

namespace nearfield::advise {

void MessageLines::add(std::uint64_t first, std::uint64_t last) {
  for (std::uint64_t page = first / lines_per_page; page <= last / lines_per_page; ++page) {
    const std::uint64_t hash = hash_of(page);
    if (hash >= threshold_ || !pages_.try_emplace(page, pages_.size() * lines_per_page).second) continue;
    maybe_[hash % maybe_bits / 64] |= 1ULL << hash % 64;
    if (pages_.size() > max_pages_) drop_half();
  }
}

void MessageLines::drop_half() {
  threshold_ /= 2;
  std::erase_if(pages_, [this](const auto& page) { return hash_of(page.first) >= threshold_; });
  std::size_t place = 0;
  for (auto& page : pages_) page.second = lines_per_page * place++;
}

MessageLine* MessageLines::find_in(std::uint64_t page, std::uint64_t line) {
  if (page != last_page_) {
    const auto found = pages_.find(page);
    if (lines_.size() < pages_.size() * lines_per_page) lines_.resize(pages_.size() * lines_per_page);
    last_page_ = page;
    last_lines_ = found == pages_.end() ? nullptr : lines_.data() + found->second;
  }
  return last_lines_ ? last_lines_ + line % lines_per_page : nullptr;
}

}  // namespace nearfield::advise
