// Maps pages of virtual memory to frames of physical memory. A kernel gives a page any free frame, so that
// neighbouring pages need not map to neighbouring sets of a cache. With PagePlacement::random each page has a
// pseudo-random frame, the same one in every run. A frame is in the same memory (of 8 GiB) as its page.
#pragma once

#include <bit>

#include "machine/machine.hpp"
#include "sim/memory/access.hpp"

namespace nearfield::sim {

class PageFrames {
 public:
  explicit PageFrames(const Pages& pages)
      : page_shift_(std::countr_zero(pages.page_bytes)),
        bits_(home_shift - page_shift_),
        random_(pages.placement == PagePlacement::random && bits_ > 1) {}

  bool are_random() const { return random_; }
  Address physical_address(Address address) const {
    if (!random_) [[likely]]
      return address;
    const Address home = address >> home_shift, inside = address & ((Address{1} << page_shift_) - 1);
    return home << home_shift | permute_page_number(address >> page_shift_ & frame_number_mask()) << page_shift_ |
           inside;
  }

 private:
  Address frame_number_mask() const { return (Address{1} << bits_) - 1; }
  // Returns the page number under a fixed permutation of all numbers of `bits_` bits. Each step is invertible.
  Address permute_page_number(Address page) const {
    for (const Address odd : {0x9E3779B97F4A7C15ULL, 0xBF58476D1CE4E5B9ULL, 0x94D049BB133111EBULL}) {
      page = page * odd & frame_number_mask();
      page ^= page >> (bits_ / 2);
    }
    return page;
  }

  int page_shift_;
  int bits_;  // the number of bits of a frame number within its memory
  bool random_;
};

}  // namespace nearfield::sim
