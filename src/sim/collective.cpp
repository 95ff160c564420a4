#include "sim/collective.hpp"

#include <array>
#include <stdexcept>

#include "base/text.hpp"

namespace nearfield::sim {

Task<> Communicator::send_now(int to, Buffer from_here) {
  const std::array requests{send(to, from_here)};
  co_await wait(requests);
}

Task<> Communicator::receive_now(int from, Buffer to_here) {
  const std::array requests{receive(from, to_here)};
  co_await wait(requests);
}

Task<> Communicator::sendrecv(int to, Buffer from_here, int from, Buffer to_here) {
  const Request receiving = receive(from, to_here);
  const std::array requests{receiving, send(to, from_here)};
  co_await wait(requests);
}

const std::vector<const CollectiveSpec*>& all_collectives() {
  static const std::vector<const CollectiveSpec*> all{
      &bcast_collective,          &scatter_collective,  &gather_collective,
      &allgather_collective,      &reduce_collective,   &allreduce_collective,
      &reduce_scatter_collective, &alltoall_collective, &barrier_collective};
  return all;
}

const CollectiveSpec& find_collective(const std::string& name) {
  std::vector<std::string> names;
  for (const auto* spec : all_collectives()) {
    if (name == spec->name) return *spec;
    names.emplace_back(spec->name);
  }
  throw std::invalid_argument("there is no collective '" + name + "'; the nearest is '" + nearest_name(name, names) +
                              "'");
}

}  // namespace nearfield::sim
