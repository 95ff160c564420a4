#include "preload/observe/connection.hpp"

#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "trace/stream/format.hpp"

namespace nearfield::observe {

const char* simulation_name_in(const char* where) { return strncmp(where, "live:", 5) == 0 ? where + 5 : nullptr; }

int connect_to_simulation(const char* simulation) {
  const int made = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (made < 0) return -1;
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const size_t length = strnlen(simulation, sizeof address.sun_path - 1);
  memcpy(address.sun_path + 1, simulation, length);  // after a zero byte: a name in the abstract namespace
  const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + length);
  while (connect(made, reinterpret_cast<const sockaddr*>(&address), size) != 0) {
    if (errno == EINTR) continue;
    const int why = errno;
    close(made);
    errno = why;
    return -1;
  }
  return made;
}

int connect_rank_to_simulation(const char* simulation, int rank, int ranks) {
  const int made = connect_to_simulation(simulation);
  unsigned char hello[sizeof stream::rank_magic + 8];
  const std::int32_t numbers[] = {rank, ranks};
  memcpy(hello, stream::rank_magic, sizeof stream::rank_magic);
  memcpy(hello + sizeof stream::rank_magic, numbers, sizeof numbers);
  if (made >= 0) write_all_bytes(made, hello, sizeof hello);
  return made;
}

bool write_all_bytes(int to, const void* data, std::uint64_t bytes) {
  auto* from = static_cast<const char*>(data);
  while (bytes > 0) {
    auto done = send(to, from, bytes, MSG_NOSIGNAL);
    if (done < 0 && errno == ENOTSOCK) done = write(to, from, bytes);
    if (done < 0 && errno == EINTR) continue;
    if (done <= 0) return false;
    from += done;
    bytes -= static_cast<std::uint64_t>(done);
  }
  return true;
}

}  // namespace nearfield::observe
