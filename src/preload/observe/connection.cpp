#include "preload/observe/connection.hpp"

#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "trace/stream/format.hpp"

namespace nearfield::observe {

const char* simulation_name_in(const char* target) { return strncmp(target, "live:", 5) == 0 ? target + 5 : nullptr; }

int connect_to_simulation(const char* simulation) {
  const int connection = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (connection < 0) return -1;
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const size_t length = strnlen(simulation, sizeof address.sun_path - 1);
  memcpy(address.sun_path + 1, simulation, length);  // after a zero byte: a name in the abstract namespace
  const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + length);
  while (connect(connection, reinterpret_cast<const sockaddr*>(&address), size) != 0) {
    if (errno == EINTR) continue;
    const int error = errno;
    close(connection);
    errno = error;
    return -1;
  }
  return connection;
}

int connect_rank_to_simulation(const char* simulation, int rank, int ranks) {
  const int connection = connect_to_simulation(simulation);
  unsigned char greeting[sizeof stream::reply_magic + 8];
  const std::int32_t numbers[] = {rank, ranks};
  memcpy(greeting, stream::reply_magic, sizeof stream::reply_magic);
  memcpy(greeting + sizeof stream::reply_magic, numbers, sizeof numbers);
  if (connection >= 0) write_all_bytes(connection, greeting, sizeof greeting);
  return connection;
}

bool write_all_bytes(int descriptor, const void* data, std::uint64_t bytes) {
  auto* position = static_cast<const char*>(data);
  while (bytes > 0) {
    auto done = send(descriptor, position, bytes, MSG_NOSIGNAL);
    if (done < 0 && errno == ENOTSOCK) done = write(descriptor, position, bytes);
    if (done < 0 && errno == EINTR) continue;
    if (done <= 0) return false;
    position += done;
    bytes -= static_cast<std::uint64_t>(done);
  }
  return true;
}

}  // namespace nearfield::observe
