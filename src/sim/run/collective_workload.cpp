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
    part.all = std::make_unique<RankCommunicator>(rank, tag);
    part.call = {0, 0, request_.bytes, request_.root};
    const CollectiveBufferSizes sizes = spec_.sizes(rank.rank(), rank.size(), part.call);
    part.call.in = rank.allocate(sizes.in_bytes);
    part.call.out = rank.allocate(sizes.out_bytes);
    co_await rank.write(part.call.in, sizes.in_bytes);
  }

  Task<> run(Rank& rank) override { return spec_.run(*part_of_rank(rank).all, part_of_rank(rank).call); }

 private:
  struct RankPart {
    std::unique_ptr<RankCommunicator> all;
    Call call;
  };
  RankPart& part_of_rank(const Rank& rank) { return parts_[static_cast<std::size_t>(rank.rank())]; }

  const CollectiveSpec& spec_;
  const CollectiveRequest& request_;
  std::vector<RankPart> parts_;
};

}  // namespace

std::vector<Repetition> measure_collective(Cluster& cluster, const CollectiveRequest& request) {
  const CollectiveSpec& spec = find_collective(request.collective);
  if (request.root < 0 || request.root >= cluster.ranks())
    throw std::invalid_argument("root: from 0 to " + std::to_string(cluster.ranks() - 1) + ", not " +
                                std::to_string(request.root));
  CollectiveBenchmark benchmark(spec, request, cluster.ranks());
  return measure_workload(cluster, benchmark, request.repetitions);
}

}  // namespace nearfield::sim
