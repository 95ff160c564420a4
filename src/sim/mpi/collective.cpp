#include "sim/mpi/collective.hpp"

#include <array>

#include "base/registry.hpp"

namespace nearfield::sim {

Task<> Communicator::send_and_wait(int to, Buffer data) {
  const std::array requests{send(to, data)};
  co_await wait(requests);
}

Task<> Communicator::receive_and_wait(int from, Buffer buffer) {
  const std::array requests{receive(from, buffer)};
  co_await wait(requests);
}

Task<> Communicator::sendrecv(int to, Buffer data, int from, Buffer buffer) {
  const Request receiving = receive(from, buffer);
  const std::array requests{receiving, send(to, data)};
  co_await wait(requests);
}

const CollectiveSpec& find_collective(const std::string& name) {
  return find_named(all_collectives(), name, "collective");
}

}  // namespace nearfield::sim
