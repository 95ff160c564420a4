// The benchmarks of copies inside this process, and of the first touch of pages.
#include <unistd.h>

#include <cstring>
#include <stdexcept>

#include "base/copy.hpp"
#include "calibrate/benchmarks.hpp"
#include "calibrate/timing.hpp"

namespace nearfield::calibrate {
namespace {

constexpr double min_sample_ns = 4000;

void copy_once(std::byte* to, const std::byte* from, std::size_t bytes, CopyRoutine routine) {
  switch (routine) {
    case CopyRoutine::memcpy:
      std::memcpy(to, from, bytes);
      break;
    case CopyRoutine::streaming: {
      static const Copy copy = streaming_copy();
      copy(to, from, bytes);
      break;
    }
  }
  hide_from_compiler(to);
}

}  // namespace

Samples copy_ns(const MemoryBlock& to, const MemoryBlock& from, std::size_t bytes, CopyRoutine routine, int samples) {
  if (bytes > to.size() || bytes > from.size()) throw std::invalid_argument("a block is too small");
  const auto time_copies = [&](std::size_t copies) {
    const Ticks start = now();
    for (std::size_t i = 0; i < copies; ++i) copy_once(to.data(), from.data(), bytes, routine);
    return static_cast<double>(now() - start) * ns_per_tick() / static_cast<double>(copies);
  };
  copy_once(to.data(), from.data(), bytes, routine);
  const double first_ns = time_copies(2);
  const auto copies = static_cast<std::size_t>(std::clamp(min_sample_ns / std::max(first_ns, 1.0), 1.0, 1e4));
  Samples all;
  for (int i = 0; i < samples; ++i) all.push_back(time_copies(copies));
  return all;
}

Samples first_touch_ns(std::size_t pages_per_sample, PageKind pages, int samples) {
  const std::size_t page = pages == PageKind::huge ? huge_page_bytes : static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  const std::size_t bytes = pages_per_sample * page;
  Samples all;
  for (int i = 0; i < samples; ++i) {
    std::byte* const memory = map_pages(bytes, pages);
    const Ticks start = now();
    for (std::size_t at = 0; at < bytes; at += page) *reinterpret_cast<volatile char*>(memory + at) = 1;
    all.push_back(static_cast<double>(now() - start) * ns_per_tick() / static_cast<double>(pages_per_sample));
    unmap_pages(memory, bytes);
  }
  return all;
}

}  // namespace nearfield::calibrate
