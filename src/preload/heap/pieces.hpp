// A position in the memory that a list of iovec describes.
#pragma once

#include <sys/uio.h>

#include <cstddef>

namespace nearfield::heap {

// Reads each element of the list only once, before its memory is copied, because the copy may overwrite the list
// itself, as when UCX tests whether it may read a process.
class IovecPosition {
 public:
  IovecPosition(const iovec* list, unsigned long count) : elements_(list), remaining_elements_(count) { skip_empty(); }
  bool is_at_end() const { return remaining_elements_ == 0; }
  char* address() const { return address_; }
  std::size_t contiguous_bytes() const { return contiguous_bytes_; }
  unsigned long remaining_elements() const { return remaining_elements_; }
  void advance(std::size_t bytes) {
    address_ += bytes;
    contiguous_bytes_ -= bytes;
    if (contiguous_bytes_ || !remaining_elements_) return;
    ++elements_;
    --remaining_elements_;
    skip_empty();
  }

 private:
  void skip_empty() {
    for (; remaining_elements_; ++elements_, --remaining_elements_) {
      address_ = static_cast<char*>(elements_->iov_base);
      contiguous_bytes_ = elements_->iov_len;
      if (contiguous_bytes_) return;
    }
  }

  const iovec* elements_;
  unsigned long remaining_elements_;
  char* address_ = nullptr;
  std::size_t contiguous_bytes_ = 0;
};

// Returns how many bytes are contiguous at both positions.
inline std::size_t min_contiguous_bytes(const IovecPosition& a, const IovecPosition& b) {
  return a.contiguous_bytes() < b.contiguous_bytes() ? a.contiguous_bytes() : b.contiguous_bytes();
}

}  // namespace nearfield::heap
