// A position in the memory that a list of iovec describes.
#pragma once

#include <sys/uio.h>

#include <cstddef>

namespace nearfield::heap {

// Reads each element of the list only once, before its memory is copied, because the copy may overwrite the list
// itself, as when UCX tests whether it may read a process.
class IovecPosition {
 public:
  IovecPosition(const iovec* list, unsigned long count) : list_(list), left_(count) { skip_empty(); }
  bool is_at_end() const { return left_ == 0; }
  char* at() const { return at_; }
  std::size_t length() const { return length_; }
  unsigned long remaining_elements() const { return left_; }
  void advance(std::size_t bytes) {
    at_ += bytes;
    length_ -= bytes;
    if (length_ || !left_) return;
    ++list_;
    --left_;
    skip_empty();
  }

 private:
  void skip_empty() {
    for (; left_; ++list_, --left_) {
      at_ = static_cast<char*>(list_->iov_base);
      length_ = list_->iov_len;
      if (length_) return;
    }
  }

  const iovec* list_;
  unsigned long left_;
  char* at_ = nullptr;
  std::size_t length_ = 0;
};

// Returns how many bytes are contiguous at both positions.
inline std::size_t min_contiguous_bytes(const IovecPosition& a, const IovecPosition& b) {
  return a.length() < b.length() ? a.length() : b.length();
}

}  // namespace nearfield::heap
