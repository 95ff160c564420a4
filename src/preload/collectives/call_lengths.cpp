#include "preload/collectives/call_lengths.hpp"

#include <unistd.h>

#include <bit>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <string>
#include <tuple>

namespace nearfield::collectives {
namespace {

using LengthKey = std::tuple<Operation, int, int, std::size_t>;  // ranks, nodes, bytes
struct LengthCount {
  std::uint64_t num_calls = 0, time_ns = 0;
};

// If a program uses more different lengths than this, further lengths are rounded up to powers of two.
constexpr std::size_t max_length_counts = 1 << 14;

// The number of calls and their time, by operation, communicator and length. Never destroyed, since MPI_Finalize may be
// called by a destructor.
std::map<LengthKey, LengthCount>& length_counts = *new std::map<LengthKey, LengthCount>;
std::mutex length_counts_mutex;
// of the thread's last call; a std::map does not move its values
thread_local LengthCount* last_length_count = nullptr;

const char* output_folder() {
  static const char* const name = std::getenv("NEARFIELD_COLLECTIVES_LENGTHS");
  return name;
}

}  // namespace

bool is_counting_lengths() { return output_folder() && *output_folder(); }

void count_call_length(Operation operation, int ranks, int nodes, std::size_t bytes) {
  const std::lock_guard guard(length_counts_mutex);
  LengthKey key{operation, ranks, nodes, bytes};
  if (length_counts.size() >= max_length_counts && !length_counts.contains(key))
    std::get<std::size_t>(key) = std::bit_ceil(bytes);
  LengthCount& row = length_counts[key];
  ++row.num_calls;
  last_length_count = &row;
}

void add_call_time(std::uint64_t ns) {
  if (!last_length_count) return;
  const std::lock_guard guard(length_counts_mutex);
  last_length_count->time_ns += ns;
  last_length_count = nullptr;
}

void write_call_lengths(int rank, int ranks) {
  if (!is_counting_lengths()) return;
  char host[256] = "";
  gethostname(host, sizeof host - 1);
  const std::string path =
      std::string(output_folder()) + "/" + host + "-" + std::to_string(static_cast<long>(getpid())) + ".lengths";
  std::FILE* const file = std::fopen(path.c_str(), "w");
  bool is_written = file != nullptr;
  if (file) {
    const std::lock_guard guard(length_counts_mutex);
    std::fprintf(file, "nearfield-lengths 1 %d %d\n", rank, ranks);
    for (const auto& [key, row] : length_counts) {
      const auto& [operation, node_ranks, nodes, bytes] = key;
      std::fprintf(file, "%s %d %d %zu %llu %llu\n", operation_name(operation), node_ranks, nodes, bytes,
                   static_cast<unsigned long long>(row.num_calls), static_cast<unsigned long long>(row.time_ns));
    }
    is_written = !std::ferror(file);
    is_written &= std::fclose(file) == 0;
  }
  if (!is_written)
    std::fprintf(stderr, "nearfield: rank %d cannot write its collectives to '%s': %s\n", rank, path.c_str(),
                 std::strerror(errno));
}

}  // namespace nearfield::collectives
