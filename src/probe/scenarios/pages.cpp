// Implements scenario/pages.hpp under MPI: private memory and an MPI shared window, with base and huge pages. Without
// root privileges, huge pages in a window require a second, aligned mapping of the window, a first touch of each huge
// page by the owner of its memory, and madvise(MADV_COLLAPSE) by one rank at a time (two concurrent calls fail with
// EAGAIN). The memory kind "field" is that of the halo library: an aligned memfd that its owner reserves and collapses.
// Neighbour ranks, which never touch the pages of a field first, do not map it here.
#include "scenario/pages.hpp"

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <sstream>

#include "base/linux.h"
#include "base/sum_words.hpp"
#include "probe/buffer.hpp"
#include "probe/context.hpp"
#include "probe/scenario.hpp"

namespace nearfield::probe {
namespace {

constexpr std::size_t huge_page_bytes = 2 << 20;

std::int64_t count_page_faults() {
  rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_minflt + usage.ru_majflt;
}

std::byte* align_up(std::byte* address, std::size_t alignment) {
  return reinterpret_cast<std::byte*>((reinterpret_cast<std::uintptr_t>(address) + alignment - 1) / alignment *
                                      alignment);
}

// One line of /proc/self/maps: an address range and its file offset.
struct Mapping {
  std::byte *begin = nullptr, *end = nullptr;
  std::size_t file_offset = 0;
};

Mapping find_mapping(const std::byte* address) {
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    std::istringstream in(line);
    std::uintptr_t begin = 0, end = 0;
    std::size_t offset = 0;
    std::string permissions;
    char dash;
    in >> std::hex >> begin >> dash >> end >> permissions >> offset;
    const auto searched_address = reinterpret_cast<std::uintptr_t>(address);
    if (searched_address >= begin && searched_address < end)
      return {reinterpret_cast<std::byte*>(begin), reinterpret_cast<std::byte*>(end), offset};
  }
  return {};
}

// Returns how many bytes of the mapping that contains `begin` are mapped by huge pages, from /proc/self/smaps.
std::int64_t huge_page_mapped_bytes(const std::byte* begin) {
  std::ifstream smaps("/proc/self/smaps");
  std::int64_t kib = 0;
  bool inside = false;
  for (std::string line; std::getline(smaps, line);) {
    std::uintptr_t from = 0, to = 0;
    if (std::sscanf(line.c_str(), "%lx-%lx ", &from, &to) == 2) {
      const auto searched_address = reinterpret_cast<std::uintptr_t>(begin);
      inside = searched_address >= from && searched_address < to;
    }
    long amount = 0;
    for (const char* key : {"AnonHugePages: %ld", "ShmemPmdMapped: %ld", "FilePmdMapped: %ld"})
      if (inside && std::sscanf(line.c_str(), key, &amount) == 1) kib += amount;
  }
  return kib * 1024;
}

enum class MemoryKind { private_base, private_huge, window, window_huge, field };
constexpr MemoryKind memory_kinds[] = {MemoryKind::private_base, MemoryKind::private_huge, MemoryKind::window,
                                       MemoryKind::window_huge, MemoryKind::field};
constexpr const char* memory_kind_names[] = {"private", "private-huge", "window", "window-huge", "field"};

class PagesScenario final : public Scenario {
 public:
  explicit PagesScenario(Context& ctx) : Scenario(ctx) {
    const std::string window_huge_problem = try_window_huge(), field_problem = try_field();
    for (const auto size : pages_sizes(ctx.size_choice()))
      for (const auto memory : memory_kinds) {
        if (memory == MemoryKind::window && !ctx.synchronized_start->has_shared_memory()) {
          add_unsupported_case(size, memory, "the ranks are on different nodes");
        } else if (memory == MemoryKind::window_huge && !window_huge_problem.empty()) {
          add_unsupported_case(size, memory, window_huge_problem);
        } else if (memory == MemoryKind::field && !field_problem.empty()) {
          add_unsupported_case(size, memory, field_problem);
        } else {
          cases_.push_back(case_parameters(size, memory));
          memory_kind_by_case_.push_back(memory);
        }
      }
  }

  ~PagesScenario() override { free_memory(); }

  std::vector<UnsupportedCase> unsupported_cases() override { return unsupported_cases_; }

  void select_case(std::size_t index) override {
    bytes_ = message_bytes_of(index);
    memory_kind_ = memory_kind_by_case_[index];
  }

  void prepare_repetition() override {
    free_memory();
    allocate_memory();
  }

  // Reads the page fault counters outside the timed intervals. For huge pages in a window and for a field, the time of
  // the first touch includes the collapse into huge pages.
  void run_timed(std::span<double> values) override {
    const std::int64_t faults_before_touch = count_page_faults();
    const Ticks start = now();
    if (memory_kind_ == MemoryKind::window_huge) remap_window_huge();
    if (memory_kind_ == MemoryKind::field) make_field_local_and_huge();
    write_words(seed_);
    const Ticks touch_end = now();
    const std::int64_t faults_after_touch = count_page_faults();
    const Ticks read_start = now();
    sum_ = sum_words(own_part_);
    const Ticks end = now();
    values[0] = static_cast<double>(touch_end - start);
    values[1] = static_cast<double>(end - read_start);
    values[2] = static_cast<double>(faults_after_touch - faults_before_touch);
    values[3] = static_cast<double>(count_page_faults() - faults_after_touch);
    values[4] = static_cast<double>(huge_page_mapped_bytes(own_part_.data()));
  }

  void fill_buffers(unsigned seed) override {
    prepare_repetition();
    seed_ = seed;
  }

  std::string check_received_data(unsigned seed) override {
    std::uint64_t expected = 0;
    for (std::size_t i = 0; i < own_part_.size() / 8; ++i) expected += i * seed + ctx_.rank;
    return expected == sum_ && sum_ == sum_words(own_part_) ? "" : "memory does not hold what was written";
  }

  std::span<std::byte> received_data() override { return own_part_; }

 private:
  static Parameters case_parameters(std::int64_t size, MemoryKind memory) {
    return {{"size_bytes", size}, {"memory", memory_kind_names[static_cast<int>(memory)]}};
  }

  void add_unsupported_case(std::int64_t size, MemoryKind memory, const std::string& reason) {
    for (const char* metric : {"first_touch", "traverse", "first_touch_faults", "traverse_faults", "huge_bytes"})
      unsupported_cases_.push_back({metric, case_parameters(size, memory), reason});
  }

  bool is_in_window() const { return memory_kind_ == MemoryKind::window || memory_kind_ == MemoryKind::window_huge; }

  void allocate_memory() {
    const std::size_t bytes = (bytes_ + huge_page_bytes - 1) / huge_page_bytes * huge_page_bytes;
    if (is_in_window()) {
      // The size is rounded up to whole huge pages, so that no huge page spans the window parts of two ranks.
      void* base = nullptr;
      MPI_Win_allocate_shared(static_cast<MPI_Aint>(bytes), 1, MPI_INFO_NULL, ctx_.timed_comm, &base, &window_);
      own_part_ = {static_cast<std::byte*>(base), bytes_};
    } else if (memory_kind_ == MemoryKind::field) {
      map_memfd(bytes);
    } else {
      mapped_bytes_ = bytes + huge_page_bytes;
      mapped_ = static_cast<std::byte*>(
          mmap(nullptr, mapped_bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
      own_part_ = {align_up(mapped_, huge_page_bytes), bytes_};
      if (memory_kind_ == MemoryKind::private_huge) madvise(own_part_.data(), bytes, MADV_HUGEPAGE);
    }
  }

  void free_memory() {
    if (mapped_) munmap(mapped_, mapped_bytes_);
    mapped_ = nullptr;
    if (memfd_ >= 0) close(memfd_);
    memfd_ = -1;
    if (window_ != MPI_WIN_NULL) MPI_Win_free(&window_);
  }

  // Maps a memfd of `bytes` bytes, aligned to huge pages. Leaves own_part_ empty if memfd_create, ftruncate or mmap
  // fails.
  void map_memfd(std::size_t bytes) {
    own_part_ = {};
    memfd_ = memfd_create("nearfield", MFD_CLOEXEC);
    if (memfd_ < 0 || ftruncate(memfd_, static_cast<off_t>(bytes)) != 0) return;
    mapped_bytes_ = bytes + huge_page_bytes;
    mapped_ = static_cast<std::byte*>(
        mmap(nullptr, mapped_bytes_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
    void* at =
        mmap(align_up(mapped_, huge_page_bytes), bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, memfd_, 0);
    if (at != MAP_FAILED) own_part_ = {static_cast<std::byte*>(at), bytes_};
  }

  // Allocates the pages of a field on this rank's NUMA node: reserves, touches and collapses each huge page, then maps
  // all pages at once by MADV_POPULATE_WRITE. Returns errno of the first failure, or 0.
  int make_field_local_and_huge() {
    int error_number = bytes_ < huge_page_bytes ? posix_fallocate(memfd_, 0, static_cast<off_t>(bytes_)) : 0;
    for (std::size_t at = 0; bytes_ >= huge_page_bytes && at < bytes_ && error_number == 0; at += huge_page_bytes) {
      error_number = posix_fallocate(memfd_, static_cast<off_t>(at), 4096);
      if (error_number) break;
      *static_cast<volatile std::byte*>(own_part_.data() + at) = std::byte{0};
      for (int attempt = 0; attempt < 5; ++attempt) {
        error_number = madvise(own_part_.data() + at, huge_page_bytes, MADV_COLLAPSE) == 0 ? 0 : errno;
        if (error_number != EAGAIN) break;
      }
    }
    if (error_number == 0) madvise(own_part_.data(), own_part_.size(), MADV_POPULATE_WRITE);
    return error_number;
  }

  // Maps the whole window a second time, at an address congruent to its file offset modulo the huge page size, and
  // collapses this rank's part of that mapping into huge pages. Returns errno of the last failure, or 0. Collective:
  // the ranks collapse their parts in turn.
  int remap_window_huge() {
    const Mapping original = find_mapping(own_part_.data());
    const auto length = static_cast<std::size_t>(original.end - original.begin);
    mapped_bytes_ = length + 2 * huge_page_bytes;
    mapped_ = static_cast<std::byte*>(
        mmap(nullptr, mapped_bytes_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
    std::byte* alias = align_up(mapped_, huge_page_bytes) + original.file_offset % huge_page_bytes;
    int error_number = 0;
    // mremap with an old size of 0 duplicates a shared mapping. It is made by syscall(), because UCX replaces mremap by
    // a function that drops the fifth argument.
    if (syscall(SYS_mremap, original.begin, 0, length, MREMAP_MAYMOVE | MREMAP_FIXED, alias) == -1)
      error_number = errno;
    std::byte* own_alias = alias + (own_part_.data() - original.begin);
    for (int turn = 0; turn < ctx_.num_ranks; ++turn) {
      if (turn == ctx_.rank && error_number == 0)
        error_number = collapse_to_huge_pages({own_alias, bytes_}, alias + length);
      MPI_Barrier(ctx_.timed_comm);
    }
    if (error_number == 0) own_part_ = {own_alias, bytes_};
    return error_number;
  }

  // Touches and collapses every huge page that overlaps `part`, up to `end`. The first and last huge page may contain
  // memory of a neighbour rank; then both ranks collapse it. Returns errno of the last failure, or 0.
  static int collapse_to_huge_pages(std::span<std::byte> part, const std::byte* end) {
    std::byte* block = align_up(part.data() - huge_page_bytes + 1, huge_page_bytes);
    int error_number = 0;
    for (; block < part.data() + part.size(); block += huge_page_bytes) {
      if (block + huge_page_bytes > end) break;
      std::byte* first_own = std::max(block, part.data());
      *static_cast<volatile std::byte*>(first_own) = std::byte{0};
      if (madvise(block, huge_page_bytes, MADV_COLLAPSE) != 0) error_number = errno;
    }
    return error_number;
  }

  // Tries huge pages in a window of four huge pages. Returns the reason for the failure, or an empty string; the same
  // on all ranks.
  std::string try_window_huge() {
    if (!ctx_.synchronized_start->has_shared_memory()) return "the ranks are on different nodes";
    memory_kind_ = MemoryKind::window_huge;
    bytes_ = 4 * huge_page_bytes;
    allocate_memory();
    int error_number = remap_window_huge();
    if (error_number == 0) write_words(1);
    int has_enough_huge_pages =
        error_number == 0 && huge_page_mapped_bytes(own_part_.data()) >= static_cast<std::int64_t>(2 * huge_page_bytes);
    free_memory();
    MPI_Allreduce(MPI_IN_PLACE, &error_number, 1, MPI_INT, MPI_MAX, ctx_.timed_comm);
    MPI_Allreduce(MPI_IN_PLACE, &has_enough_huge_pages, 1, MPI_INT, MPI_MIN, ctx_.timed_comm);
    if (error_number != 0)
      return std::string("MADV_COLLAPSE of a shared window: ") + std::strerror(error_number) +
             (error_number == EINVAL ? " (needs Linux 6.1 or newer)" : "");
    return has_enough_huge_pages ? "" : "the kernel did not map the window with huge pages";
  }

  // Tries to collapse a memfd of four huge pages. Returns the reason for the failure, or an empty string; the same on
  // all ranks.
  std::string try_field() {
    memory_kind_ = MemoryKind::field;
    bytes_ = 4 * huge_page_bytes;
    allocate_memory();
    int error_number = own_part_.empty() ? ENOSYS : make_field_local_and_huge();
    free_memory();
    MPI_Allreduce(MPI_IN_PLACE, &error_number, 1, MPI_INT, MPI_MAX, ctx_.timed_comm);
    if (error_number == 0) return "";
    return std::string("MADV_COLLAPSE of a memfd: ") + std::strerror(error_number) +
           (error_number == EINVAL ? " (needs Linux 6.1 or newer)" : "");
  }

  void write_words(unsigned seed) {
    auto* words = reinterpret_cast<std::uint64_t*>(own_part_.data());
    for (std::size_t i = 0; i < own_part_.size() / 8; ++i) words[i] = i * seed + static_cast<std::uint64_t>(ctx_.rank);
  }

  std::vector<MemoryKind> memory_kind_by_case_;  // by case
  std::vector<UnsupportedCase> unsupported_cases_;
  MemoryKind memory_kind_ = MemoryKind::private_base;
  std::size_t bytes_ = 0, mapped_bytes_ = 0;
  std::byte* mapped_ = nullptr;
  int memfd_ = -1;
  MPI_Win window_ = MPI_WIN_NULL;
  std::span<std::byte> own_part_;
  std::uint64_t sum_ = 0;
  unsigned seed_ = 1;
};

}  // namespace

extern const Spec pages_spec;
const Spec pages_spec{pages_info, 2.0, make_implementation<Scenario, PagesScenario>};

}  // namespace nearfield::probe
