// Memory shared by the ranks of a node, on huge pages if possible (S1, section IV.C). Each rank's part is first touched
// by that rank, so it lies in that rank's NUMA node. A page that contains the border of two parts belongs to the rank
// with the larger share. After creation it has no name in the file system, so nothing remains if processes are killed.
#pragma once

#include <cstddef>
#include <string>

#include "halo/node.hpp"

namespace nearfield::halo {

inline constexpr std::size_t huge_page = 2 << 20;

enum class Backing {
  own,    ///< a memfd, else an unlinked file in /dev/shm; huge pages by the first method that works
  window  ///< MPI_Win_allocate_shared: S1's own method; base pages
};

/// Construction and destruction are collective over all ranks.
class Segment {
 public:
  /// Allocates zeroed memory. This rank's bytes are `part_begin` to `part_end`; the parts together cover all bytes.
  /// Throws Error(memory), on all ranks of the node alike, if there is not enough.
  Segment(const Node& node, std::size_t bytes, std::size_t part_begin, std::size_t part_end, Backing backing);
  ~Segment();
  Segment(const Segment&) = delete;
  Segment& operator=(const Segment&) = delete;

  std::byte* data() const { return data_; }
  std::size_t bytes() const { return bytes_; }
  /// Returns the kind of memory, "64.0 MiB in a memfd, huge pages (collapsed)", and why it is not a better one.
  std::string explain() const;
  /// Returns the page size of the backing; the huge page size if transparent huge pages may apply.
  std::size_t page_bytes() const { return page_bytes_; }
  /// Returns how many bytes are mapped by huge pages in this process, according to the kernel.
  std::size_t huge_bytes() const;

 private:
  void release();
  void allocate_own(const Node& node, std::size_t begin, std::size_t end);
  bool try_hugetlb(const Node& node);
  void open_plain(const Node& node);
  void share(const Node& node, const std::string& path, int file);
  bool map(int file);
  void prefault_mapped(std::size_t begin, std::size_t end);
  void prefault(const Node& node, std::size_t begin, std::size_t end);
  void allocate_window(const Node& node, std::size_t begin, std::size_t end);

  std::byte* data_ = nullptr;
  std::size_t bytes_ = 0, mapped_ = 0, page_bytes_ = 4096;
  int file_ = -1;
  MPI_Win window_ = MPI_WIN_NULL;
  std::string kind_, pages_;
};

}  // namespace nearfield::halo
