#include "calibrate/block.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <fstream>
#include <new>
#include <string>

#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25  // Linux 6.1; older kernels reject it, but khugepaged may collapse the pages later
#endif

namespace nearfield::calibrate {
namespace {

std::size_t round_up_to_huge_pages(std::size_t bytes) {
  return (bytes + huge_page_bytes - 1) / huge_page_bytes * huge_page_bytes;
}

}  // namespace

std::byte* map_pages(std::size_t bytes, PageKind page_kind) {
  const std::size_t rounded_bytes = round_up_to_huge_pages(bytes), reserved = rounded_bytes + huge_page_bytes;
  void* const mapped = mmap(nullptr, reserved, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) throw std::bad_alloc();
  auto* const begin = static_cast<std::byte*>(mapped);
  const auto misaligned = reinterpret_cast<std::uintptr_t>(begin) % huge_page_bytes;
  const std::size_t padding_bytes = misaligned ? huge_page_bytes - misaligned : 0;
  if (padding_bytes > 0) munmap(begin, padding_bytes);
  if (padding_bytes < huge_page_bytes) munmap(begin + padding_bytes + rounded_bytes, huge_page_bytes - padding_bytes);
  madvise(begin + padding_bytes, rounded_bytes, page_kind == PageKind::huge ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
  return begin + padding_bytes;
}

void unmap_pages(std::byte* data, std::size_t bytes) { munmap(data, round_up_to_huge_pages(bytes)); }

MemoryBlock::MemoryBlock(std::size_t bytes, PageKind page_kind) : data_(map_pages(bytes, page_kind)), bytes_(bytes) {
  std::memset(data_, 1, bytes_);
  if (page_kind == PageKind::huge) madvise(data_, round_up_to_huge_pages(bytes_), MADV_COLLAPSE);
}

MemoryBlock::~MemoryBlock() { unmap_pages(data_, bytes_); }

std::size_t MemoryBlock::bytes_in_huge_pages() const {
  std::ifstream file("/proc/self/smaps");
  const auto begin = reinterpret_cast<std::uintptr_t>(data_), end = begin + bytes_;
  std::size_t bytes = 0;
  bool is_inside = false;
  for (std::string line; std::getline(file, line);) {
    unsigned long first = 0, last = 0, kilobytes = 0;
    if (std::sscanf(line.c_str(), "%lx-%lx ", &first, &last) == 2)
      is_inside = first < end && last > begin;
    else if (is_inside && std::sscanf(line.c_str(), "AnonHugePages: %lu kB", &kilobytes) == 1)
      bytes += kilobytes * 1024;
  }
  return bytes < bytes_ ? bytes : bytes_;
}

}  // namespace nearfield::calibrate
