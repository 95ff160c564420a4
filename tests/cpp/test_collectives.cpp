// Do collectives give the results of the MPI standard?
#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <string>

#include "check.hpp"
#include "loopback_communicator.hpp"
#include "sim/mpi/collectives/lists.hpp"

namespace {

using namespace nearfield::sim;
using nearfield::CollectiveAlgorithms;

// ---- results

using Bytes = std::vector<std::byte>;

Bytes given_by(int rank, std::uint64_t bytes) {
  Bytes data(bytes);
  for (std::uint64_t i = 0; i < bytes; ++i)
    data[i] = static_cast<std::byte>((static_cast<std::uint64_t>(rank) * 2654435761u + i * 40503u + i / 251) >> 3);
  return data;
}

Bytes sum_of(const std::vector<Bytes>& all) {
  Bytes sum(all.front().size());
  for (const Bytes& one : all)
    for (std::size_t i = 0; i < sum.size(); ++i)
      sum[i] = static_cast<std::byte>(std::to_integer<unsigned>(sum[i]) + std::to_integer<unsigned>(one[i]));
  return sum;
}

// Returns part `block` of some data.
Bytes part(const Bytes& data, std::uint64_t bytes, int block) {
  const auto begin = data.begin() + static_cast<std::ptrdiff_t>(bytes) * block;
  return {begin, begin + static_cast<std::ptrdiff_t>(bytes)};
}

bool adds_up(const std::string& name) { return name == "reduce" || name == "allreduce" || name == "reduce_scatter"; }

Bytes wanted_of_list(const std::string& name, int rank, const CollectiveCall& call, const std::vector<Bytes>& in);

// Returns the result of a rank by the MPI standard; `sum` is the sum of all contributions, for reductions.
Bytes wanted(const std::string& name, int rank, const CollectiveCall& call, const std::vector<Bytes>& in,
             const Bytes& sum) {
  if (const Bytes list = wanted_of_list(name, rank, call, in); !list.empty()) return list;
  const Bytes& from_root = in[static_cast<std::size_t>(call.root)];
  if (name == "bcast") return from_root;
  if (name == "scatter") return part(from_root, call.bytes, rank);
  if (adds_up(name)) return name == "reduce_scatter" ? part(sum, call.bytes, rank) : sum;
  Bytes result;
  for (const Bytes& theirs : in) {
    const Bytes block = name == "alltoall" ? part(theirs, call.bytes, rank) : theirs;
    result.insert(result.end(), block.begin(), block.end());
  }
  return result;
}

bool is_at(LoopbackCommunicator& all, int rank, Address address, const Bytes& expected) {
  return std::equal(expected.begin(), expected.end(), all.at(rank, address, expected.size()));
}

// Checks the result, and that the contribution is unchanged.
bool right(LoopbackCommunicator& all, const CollectiveSpec& spec, const std::vector<CollectiveCall>& calls,
           const std::vector<Bytes>& in) {
  const Bytes sum = adds_up(spec.name) ? sum_of(in) : Bytes();
  for (int r = 0; r < all.ranks(); ++r) {
    const CollectiveCall& call = calls[static_cast<std::size_t>(r)];
    if (!is_at(all, r, call.input, in[static_cast<std::size_t>(r)])) return false;
    if (spec.buffer_sizes(r, all.ranks(), call).output_bytes > 0 &&
        !is_at(all, r, call.output, wanted(spec.name, r, call, in, sum)))
      return false;
  }
  return true;
}

std::string problem_of(const CollectiveSpec& spec, int ranks, std::uint64_t bytes, int root, unsigned seed,
                       CollectiveAlgorithms algorithms = CollectiveAlgorithms::mpich) {
  LoopbackCommunicator all(ranks, seed, algorithms);
  std::vector<CollectiveCall> calls;
  std::vector<Bytes> in;
  for (int r = 0; r < ranks; ++r) {
    CollectiveCall call{0, 0, bytes, root};
    const CollectiveBufferSizes sizes = spec.buffer_sizes(r, ranks, call);
    call.input = all.allocate(r, sizes.input_bytes);
    call.output = all.allocate(r, sizes.output_bytes);
    in.push_back(given_by(r, sizes.input_bytes));
    std::copy(in.back().begin(), in.back().end(), all.at(r, call.input, sizes.input_bytes));
    calls.push_back(call);
  }
  try {
    all.run(spec, calls);
    return right(all, spec, calls, in) ? "" : "the result is wrong";
  } catch (const std::exception& problem) {
    return problem.what();
  }
}

void check_result(const CollectiveSpec& spec, int ranks, std::uint64_t bytes, int root,
                  CollectiveAlgorithms algorithms = CollectiveAlgorithms::mpich) {
  const unsigned seed = static_cast<unsigned>(ranks) * 31 + bytes % 97;
  const std::string problem = problem_of(spec, ranks, bytes, root, seed, algorithms);
  if (!problem.empty())
    std::printf("%s of %lu bytes over %d ranks from %d: %s\n", spec.name, static_cast<unsigned long>(bytes), ranks,
                root, problem.c_str());
  CHECK(problem.empty());
}

// Returns sizes on both sides of every threshold, and sizes with uneven or empty blocks.
std::vector<std::uint64_t> sizes_for(const std::string& name, int ranks) {
  const auto p = static_cast<std::uint64_t>(ranks);
  if (name == "barrier") return {0};
  if (name == "bcast") return {0, 1, 7, 12287, 12288, 12288 + p / 2 + 1, 30001, 524287, 524288};
  if (name == "allgather") return {0, 1, 100, 81919 / p, 81920 / p + 1, 524287 / p, 524288 / p + 1};
  if (name == "alltoall") return {0, 1, 256, 257, 3000, 32768, 32769};
  if (name == "reduce_scatter") return {0, 1, 24, 1000, 524287 / p, 524288 / p + 1};
  return {0, 1, 8, 100, 2048, 2049, 5000, 8 * p + 3, 8 * 32 + 2048};
}

// Does every collective give the standard's result on every rank, for every number of ranks, root and algorithm?
void results_are_right() {
  for (const CollectiveSpec* spec : all_collectives())
    for (const int ranks : {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 32})
      for (const std::uint64_t bytes : sizes_for(spec->name, ranks)) {
        const bool every_root = spec->has_root && (bytes < 40000 || ranks == 7 || ranks == 8);
        for (int root = 0; root < (every_root ? ranks : 1); ++root) check_result(*spec, ranks, bytes, root);
      }
}

// Do Open MPI's algorithms, too, on both sides of sizes at which it changes them, and for more ranks?
void results_of_open_mpi_are_right() {
  for (const char* name : {"bcast", "allgather", "allreduce", "alltoall"})
    for (const int ranks : {1, 2, 3, 4, 5, 6, 7, 8, 11, 12, 16, 17, 31, 32, 40, 64, 66, 67, 130, 257})
      for (const std::uint64_t bytes : {0, 1, 8, 40, 100, 300, 600, 3000, 5000, 9000, 20000, 40000, 140000}) {
        const std::string_view operation = name;
        if ((operation == "allgather" || operation == "alltoall") && bytes * static_cast<unsigned>(ranks) > 300000)
          continue;
        if (ranks > 32 && bytes > 20000) continue;
        const CollectiveSpec& spec = find_collective(name);
        for (const int root : {0, ranks / 2, ranks - 1})
          if (root == 0 || spec.has_root) check_result(spec, ranks, bytes, root, CollectiveAlgorithms::openmpi);
      }
  check_result(find_collective("bcast"), 20, 1 << 20, 3, CollectiveAlgorithms::openmpi);
  check_result(find_collective("bcast"), 16, 1 << 20, 3, CollectiveAlgorithms::openmpi);
  check_result(find_collective("allgather"), 34, 70000, 0, CollectiveAlgorithms::openmpi);
}

// ---- collectives with counts per rank

// Returns the bytes from one rank to another: some are 0; equal in both directions, as MPI_IN_PLACE requires.
std::uint64_t length(int from, int to, std::uint64_t bytes) { return static_cast<unsigned>(from + to) % 4 * bytes; }

std::vector<Buffer> parts_at(Address begin, int rank, int ranks, std::uint64_t bytes) {
  std::vector<Buffer> parts;
  for (int other = 0; other < ranks; ++other) {
    parts.emplace_back(begin, length(rank, other, bytes));
    begin += parts.back().bytes();
  }
  return parts;
}

std::uint64_t all_bytes(int rank, int ranks, std::uint64_t bytes) {
  std::uint64_t sum = 0;
  for (const Buffer& part : parts_at(0, rank, ranks, bytes)) sum += part.bytes();
  return sum;
}

std::vector<std::uint64_t> uneven_offsets(int ranks, std::uint64_t bytes) {
  std::vector<std::uint64_t> offsets{0};
  for (int rank = 0; rank < ranks; ++rank) offsets.push_back(offsets.back() + length(rank, 0, bytes));
  return offsets;
}

// Collectives with made-up counts, in the form that the code above runs.
const CollectiveSpec list_collectives[] = {
    {"gatherv", "", "", true,
     [](int rank, int ranks, const CollectiveCall& call) {
       return CollectiveBufferSizes{length(rank, call.root, call.bytes),
                                    rank == call.root ? all_bytes(rank, ranks, call.bytes) : 0};
     },
     [](Communicator& all, CollectiveCall call) -> Task<> {
       const auto parts = parts_at(call.output, call.root, all.size(), call.bytes);
       co_await gatherv(all, Buffer(call.input, length(all.rank(), call.root, call.bytes)), parts, call.root);
     }},
    {"scatterv", "", "", true,
     [](int rank, int ranks, const CollectiveCall& call) {
       return CollectiveBufferSizes{rank == call.root ? all_bytes(rank, ranks, call.bytes) : 0,
                                    length(rank, call.root, call.bytes)};
     },
     [](Communicator& all, CollectiveCall call) -> Task<> {
       const auto parts = parts_at(call.input, call.root, all.size(), call.bytes);
       co_await scatterv(all, parts, Buffer(call.output, length(all.rank(), call.root, call.bytes)), call.root);
     }},
    {"allgatherv", "", "", false,
     [](int rank, int ranks, const CollectiveCall& call) {
       return CollectiveBufferSizes{length(rank, 0, call.bytes), all_bytes(0, ranks, call.bytes)};
     },
     [](Communicator& all, CollectiveCall call) -> Task<> {
       const auto parts = parts_at(call.output, 0, all.size(), call.bytes);
       co_await allgatherv(all, Buffer(call.input, length(all.rank(), 0, call.bytes)), parts);
     }},
    {"alltoallw", "", "", false,
     [](int rank, int ranks, const CollectiveCall& call) {
       const std::uint64_t bytes = all_bytes(rank, ranks, call.bytes);
       return CollectiveBufferSizes{bytes, bytes};
     },
     [](Communicator& all, CollectiveCall call) -> Task<> {
       const auto in = parts_at(call.input, all.rank(), all.size(), call.bytes);
       const auto out = parts_at(call.output, all.rank(), all.size(), call.bytes);
       co_await alltoallw(all, in, out);
     }},
    {"alltoallw in place", "", "", false,
     [](int rank, int ranks, const CollectiveCall& call) {
       const std::uint64_t bytes = all_bytes(rank, ranks, call.bytes);
       return CollectiveBufferSizes{bytes, bytes};
     },
     [](Communicator& all, CollectiveCall call) -> Task<> {
       const auto parts = parts_at(call.output, all.rank(), all.size(), call.bytes);
       co_await all.copy(call.output, call.input, all_bytes(all.rank(), all.size(), call.bytes));
       co_await alltoallw_in_place(all, parts);
     }},
    {"scan", "", "", false,
     [](int, int, const CollectiveCall& call) { return CollectiveBufferSizes{call.bytes, call.bytes}; },
     [](Communicator& all, CollectiveCall call) { return scan(all, call, false); }},
    {"exscan", "", "", false,
     [](int rank, int, const CollectiveCall& call) {
       return CollectiveBufferSizes{call.bytes, rank > 0 ? call.bytes : 0};
     },
     [](Communicator& all, CollectiveCall call) { return scan(all, call, true); }},
    {"reduce_scatter of lists", "", "", false,
     [](int rank, int ranks, const CollectiveCall& call) {
       return CollectiveBufferSizes{uneven_offsets(ranks, call.bytes).back(), length(rank, 0, call.bytes)};
     },
     [](Communicator& all, CollectiveCall call) {
       return reduce_scatter(all, call.input, call.output, uneven_offsets(all.size(), call.bytes));
     }},
};

// Returns the same for these collectives; empty for all others.
Bytes wanted_of_list(const std::string& name, int rank, const CollectiveCall& call, const std::vector<Bytes>& in) {
  const int ranks = static_cast<int>(in.size());
  const auto cut = [](const Bytes& data, const Buffer& where) {
    const auto begin = data.begin() + static_cast<std::ptrdiff_t>(where.address);
    return Bytes(begin, begin + static_cast<std::ptrdiff_t>(where.bytes()));
  };
  const auto mine = static_cast<std::size_t>(rank);
  if (name == "scan" || name == "exscan") {
    const std::size_t ranks_added = name == "scan" ? mine + 1 : mine;
    return sum_of({in.begin(), in.begin() + static_cast<std::ptrdiff_t>(ranks_added)});
  }
  if (name == "scatterv")
    return cut(in[static_cast<std::size_t>(call.root)], parts_at(0, call.root, ranks, call.bytes)[mine]);
  if (name == "reduce_scatter of lists") {
    const auto offsets = uneven_offsets(ranks, call.bytes);
    return cut(sum_of(in), Buffer(offsets[mine], offsets[mine + 1] - offsets[mine]));
  }
  Bytes result;
  for (int from = 0; from < ranks; ++from) {
    const Bytes& theirs = in[static_cast<std::size_t>(from)];
    Bytes part;
    if (name == "gatherv" || name == "allgatherv") part = theirs;
    if (name.starts_with("alltoallw")) part = cut(theirs, parts_at(0, from, ranks, call.bytes)[mine]);
    result.insert(result.end(), part.begin(), part.end());
  }
  return result;
}

// Do they give the standard's result on every rank, with empty parts, too?
void results_of_lists_are_right() {
  for (const CollectiveSpec& spec : list_collectives)
    for (const int ranks : {1, 2, 3, 5, 8, 13, 35})
      for (const std::uint64_t bytes : {0, 8, 3000, 200000})
        for (int root = 0; bytes * static_cast<unsigned>(ranks) < 1000000 && root < (spec.has_root ? ranks : 1); ++root)
          check_result(spec, ranks, bytes, root);
}

// Do these tests notice a missing message, a wrong destination, or a buffer that is used too early?
void mistakes_are_noticed() {
  static int mistake;
  static const CollectiveSpec wrong{
      "bcast",
      "",
      "",
      true,
      [](int rank, int, const CollectiveCall& call) { return bcast_collective.buffer_sizes(rank, 0, call); },
      [](Communicator& all, CollectiveCall call) -> Task<> {
        const Address begin = all.rank() == call.root ? call.input : call.output;
        if (all.rank() == 0) {
          for (int to = 1; to < all.size() - (mistake == 1); ++to)
            co_await all.send_and_wait(to, Buffer(begin, call.bytes));
        } else {
          const std::array requests{all.receive(0, Buffer(begin + (mistake == 2), call.bytes - (mistake == 2)))};
          if (mistake == 3) co_await all.copy(begin, begin + 1, 1);
          if (mistake != 4) co_await all.wait(requests);
          if (mistake == 5) co_await all.copy(begin, begin + 1, 1);
          if (mistake == 6) all.acquire(1);
        }
      }};
  for (mistake = 0; mistake <= 6; ++mistake) {
    const bool noticed = !problem_of(wrong, 4, 100, 0, 1).empty();
    CHECK(noticed == (mistake != 0 && mistake != 3));  // 3 is overwritten by an arriving message
  }
}

}  // namespace

int main() {
  results_are_right();
  results_of_open_mpi_are_right();
  results_of_lists_are_right();
  mistakes_are_noticed();
  if (failed_checks == 0) std::printf("collectives: right\n");
  return failed_checks == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
