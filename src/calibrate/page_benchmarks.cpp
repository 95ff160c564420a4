// The benchmarks of copying, in this process and by the kernel, and of the kernel's pages.
#include <sys/uio.h>
#include <unistd.h>

#include <cstring>
#include <stdexcept>

#include "base/copy.hpp"
#include "calibrate/benchmarks.hpp"
#include "calibrate/timing.hpp"

namespace nearfield::calibrate {
namespace {

constexpr double min_sample_ns = 4000;

bool copy_by_kernel(void* to, const void* from, std::size_t bytes) {
  const iovec local{to, bytes}, remote{const_cast<void*>(from), bytes};
  return process_vm_readv(getpid(), &local, 1, &remote, 1, 0) == static_cast<ssize_t>(bytes);
}

bool copy_once(std::byte* to, const std::byte* from, std::size_t bytes, CopyRoutine routine) {
  switch (routine) {
    case CopyRoutine::memcpy:
      std::memcpy(to, from, bytes);
      break;
    case CopyRoutine::streaming: {
      static const Copy copy = streaming_copy();
      copy(to, from, bytes);
      break;
    }
    case CopyRoutine::other_processes:
      return copy_by_kernel(to, from, bytes);
  }
  hide(to);
  return true;
}

}  // namespace

Samples copy_ns(const Block& to, const Block& from, std::size_t bytes, CopyRoutine routine, int samples) {
  if (bytes > to.size() || bytes > from.size()) throw std::invalid_argument("a block is too small");
  const auto time_copies = [&](std::size_t copies) {
    const Ticks start = now();
    for (std::size_t i = 0; i < copies; ++i) copy_once(to.data(), from.data(), bytes, routine);
    return static_cast<double>(now() - start) * ns_per_tick() / static_cast<double>(copies);
  };
  if (!copy_once(to.data(), from.data(), bytes, routine)) return {};
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
