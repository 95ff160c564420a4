// scenario/stride.hpp on a simulated machine: with the protocol that the machine's thresholds select (standard) and, if
// the machine has both, with each of the protocols buffered and synchronous. Not simulated: the faces of 3-D arrays.
#include "scenario/stride.hpp"

#include <algorithm>
#include <stdexcept>

#include "machine/machine.hpp"
#include "sim/run/scenarios/pair.hpp"

namespace nearfield::sim {
namespace {

constexpr int tag = 3;
constexpr std::uint64_t element_bytes = sizeof(double);
constexpr std::uint64_t elements_per_piece = 64;  // elements that a packing loop loads before it stores them

struct StrideCase {
  std::uint64_t elements, stride;
  bool needs_packing;
  int num_repetitions;
};

struct StrideBuffers {
  Address data;
  Address packed;
  Buffer message;
};

StrideBuffers allocate_buffers(Rank& rank, const StrideCase& c) {
  const Address data = rank.allocate(((c.elements - 1) * c.stride + 1) * element_bytes);
  if (c.needs_packing) {
    const Address packed = rank.allocate(c.elements * element_bytes);
    return {data, packed, Buffer(packed, c.elements * element_bytes)};
  }
  return {data, 0,
          c.stride == 1 ? Buffer(data, c.elements * element_bytes)
                        : Buffer(data, c.elements, element_bytes, c.stride * element_bytes)};
}

// Packs the strided elements or, unless `is_packing`, unpacks them, as a loop does.
Task<> pack_or_unpack(Rank& rank, StrideBuffers memory, StrideCase c, bool is_packing) {
  const auto stride_bytes = static_cast<std::int64_t>(c.stride * element_bytes);
  for (std::uint64_t i = 0; i < c.elements; i += elements_per_piece) {
    const std::uint64_t count = std::min(elements_per_piece, c.elements - i);
    const Address strided = memory.data + i * c.stride * element_bytes, packed = memory.packed + i * element_bytes;
    if (is_packing) {
      co_await rank.sweep(Access::load, strided, count, stride_bytes, element_bytes);
      co_await rank.write(packed, count * element_bytes);
    } else {
      co_await rank.read(packed, count * element_bytes);
      co_await rank.sweep(Access::store, strided, count, stride_bytes, element_bytes);
    }
  }
}

Task<> send_elements(const PairSide& side, StrideBuffers memory, StrideCase c) {
  if (c.needs_packing) co_await pack_or_unpack(side.rank, memory, c, true);
  co_await side.rank.wait(side.rank.send(side.peer, memory.message, tag));
}

Task<> receive_elements(const PairSide& side, StrideBuffers memory, StrideCase c) {
  co_await side.rank.wait(side.rank.receive(side.peer, memory.message, tag));
  if (c.needs_packing) co_await pack_or_unpack(side.rank, memory, c, false);
}

// Makes one mark per round trip. Cache contents persist between round trips.
Task<> run_round_trips(const PairSide& side, StrideCase c) {
  const StrideBuffers out = allocate_buffers(side.rank, c), in = allocate_buffers(side.rank, c);
  for (int i = 0; i < c.num_repetitions; ++i) {
    co_await side.rank.barrier();
    side.rank.start_mark();
    if (side.is_sender) co_await send_elements(side, out, c);
    co_await receive_elements(side, in, c);
    if (!side.is_sender) co_await send_elements(side, out, c);
    side.rank.stop_mark();
  }
}

bool has_send_modes(const Machine& machine) { return machine.messaging.network.find("buffered") != std::string::npos; }

std::vector<Result> simulate_stride(const SimulationJob& requested) {
  Machine machine = requested.machine;
  const SimulationJob job{machine, requested.place, requested.parameters, requested.settings,
                          requested.progress_callback};
  const std::string mode = word_parameter(job.parameters, "mode");
  if (mode != "standard") machine.messaging.network = mode;
  const std::int64_t size = number_parameter(job.parameters, "size_bytes");
  const StrideCase c{static_cast<std::uint64_t>(size) / element_bytes,
                     static_cast<std::uint64_t>(number_parameter(job.parameters, "stride")),
                     word_parameter(job.parameters, "method") == "manual-pack", repetitions_for(size)};
  if (c.elements == 0 || c.stride == 0) throw std::invalid_argument("stride: at least one double, and 1 apart");
  const PairMarks marks =
      run_pair(job, c.num_repetitions, [&](const PairSide& side) { return run_round_trips(side, c); });
  Results results(job.settings.memory_slowdown.size());
  results.add_time("half_round_trip", "", elapsed_time(marks.sender.back()), 2);
  add_counters(results, machine, "sender", marks.sender.back().counters);
  return results.entries;
}

std::vector<Parameters> stride_cases(const Machine& machine, const PairPlacement& place, const CaseSelection& choice) {
  std::vector<std::string> modes{"standard"};
  if (place.between_nodes && has_send_modes(machine)) modes.insert(modes.end(), {"buffered", "synchronous"});
  std::vector<Parameters> list;
  const auto add = [&](std::int64_t size, std::int64_t stride, const char* method, const std::string& mode) {
    list.push_back({{"size_bytes", size}, {"stride", stride}, {"method", method}, {"mode", mode}});
  };
  for (const auto size : stride_sizes(choice.sizes))
    for (const auto stride : strides_in_doubles(choice.sizes.tier))
      for (const auto& mode : modes) {
        add(size, stride, "datatype", mode);
        if (stride == 1) add(size, 1, "contiguous", mode);
        if (mode == "standard") add(size, stride, "manual-pack", mode);
      }
  return list;
}

}  // namespace

extern const ScenarioSpec stride_scenario;
const ScenarioSpec stride_scenario{stride_info, unsupported_placement, stride_cases, simulate_stride};

}  // namespace nearfield::sim
