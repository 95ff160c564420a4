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
      static const CopyFunction copy = streaming_copy();
      copy(to, from, bytes);
      break;
    }
  }
  hide_from_compiler(to);
}

}  // namespace

Samples measure_copy_ns(const MemoryBlock& to, const MemoryBlock& from, std::size_t bytes, CopyRoutine routine,
                        int num_samples) {
  if (bytes > to.size() || bytes > from.size()) throw std::invalid_argument("a block is too small");
  const auto time_copies = [&](std::size_t copies) {
    const Ticks start = now();
    for (std::size_t i = 0; i < copies; ++i) copy_once(to.data(), from.data(), bytes, routine);
    return static_cast<double>(now() - start) * ns_per_tick() / static_cast<double>(copies);
  };
  copy_once(to.data(), from.data(), bytes, routine);
  const double first_ns = time_copies(2);
  const auto copies = static_cast<std::size_t>(std::clamp(min_sample_ns / std::max(first_ns, 1.0), 1.0, 1e4));
  Samples samples;
  for (int i = 0; i < num_samples; ++i) samples.push_back(time_copies(copies));
  return samples;
}

Samples measure_first_touch_ns(std::size_t pages_per_sample, PageKind page_kind, int num_samples) {
  const std::size_t page =
      page_kind == PageKind::huge ? huge_page_bytes : static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  const std::size_t bytes = pages_per_sample * page;
  Samples samples;
  for (int i = 0; i < num_samples; ++i) {
    std::byte* const memory = map_pages(bytes, page_kind);
    const Ticks start = now();
    for (std::size_t at = 0; at < bytes; at += page) *reinterpret_cast<volatile char*>(memory + at) = 1;
    samples.push_back(static_cast<double>(now() - start) * ns_per_tick() / static_cast<double>(pages_per_sample));
    unmap_pages(memory, bytes);
  }
  return samples;
}

}  // namespace nearfield::calibrate
