#include "sim/collective.hpp"

#include <array>

#include "base/registry.hpp"

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

const CollectiveSpec& find_collective(const std::string& name) {
  return find_named(all_collectives(), name, "collective");
}

}  // namespace nearfield::sim
