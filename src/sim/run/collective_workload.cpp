#include "sim/run/collective_workload.hpp"

#include <memory>
#include <stdexcept>

#include "sim/mpi/collectives/on_rank.hpp"

namespace nearfield::sim {
namespace {

constexpr int tag = 1 << 20;

class CollectiveBenchmark final : public Workload {
 public:
  CollectiveBenchmark(const CollectiveSpec& spec, const CollectiveRequest& request, int ranks)
      : spec_(spec), request_(request), parts_(static_cast<std::size_t>(ranks)) {}

  Task<> set_up(Rank& rank) override {
    RankPart& part = part_of_rank(rank);
    part.comm = std::make_unique<RankCommunicator>(rank, tag);
    part.call = {0, 0, request_.bytes, request_.root};
    const CollectiveBufferSizes sizes = spec_.buffer_sizes(rank.rank(), rank.size(), part.call);
    part.call.input = rank.allocate(sizes.input_bytes);
    part.call.output = rank.allocate(sizes.output_bytes);
    co_await rank.write(part.call.input, sizes.input_bytes);
  }

  Task<> run(Rank& rank) override { return spec_.run(*part_of_rank(rank).comm, part_of_rank(rank).call); }

 private:
  struct RankPart {
    std::unique_ptr<RankCommunicator> comm;
    CollectiveCall call;
  };
  RankPart& part_of_rank(const Rank& rank) { return parts_[static_cast<std::size_t>(rank.rank())]; }

  const CollectiveSpec& spec_;
  const CollectiveRequest& request_;
  std::vector<RankPart> parts_;
};

}  // namespace

std::vector<Repetition> measure_collective(Cluster& cluster, const CollectiveRequest& request) {
  const CollectiveSpec& spec = find_collective(request.collective);
  if (request.root < 0 || request.root >= cluster.num_ranks())
    throw std::invalid_argument("root: from 0 to " + std::to_string(cluster.num_ranks() - 1) + ", not " +
                                std::to_string(request.root));
  CollectiveBenchmark benchmark(spec, request, cluster.num_ranks());
  return measure_workload(cluster, benchmark, request.repetitions);
}

}  // namespace nearfield::sim
