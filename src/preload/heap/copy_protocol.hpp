// Defines the packets of copies through a socket (copy_service.hpp), for both ends.
#pragma once

#include <sys/socket.h>
#include <sys/types.h>
#include <sys/un.h>

#include <cstddef>
#include <cstdint>

#include "preload/heap/settings.hpp"

namespace nearfield::heap {

inline constexpr std::size_t packet_bytes = std::size_t{64}
                                            << 10;  // with a reply before them, they fit a socket buffer
inline constexpr int max_copy_peers = 4096;

inline std::size_t next_packet(std::uint64_t left) { return left < packet_bytes ? left : packet_bytes; }

enum class Operation : std::uint32_t { read, write, file };

struct Request {
  char key[Settings::key_bytes];
  Operation operation;
  std::uint64_t address, bytes;
};

// Precedes the data of a packet that is read, and answers a request to write and one for the file.
struct Reply {
  std::int32_t error;  // a number of errno; 0: success
  std::uint32_t bytes;
};

// Writes the address of a process's socket, and returns its length. The first byte of an abstract name is zero.
socklen_t write_address(sockaddr_un& address, pid_t pid);
// `flags`: SOCK_NONBLOCK or 0. Returns -1 on failure.
int open_socket(int flags);
// Returns whether the process at the other end is of this user and, unless `pid` is 0, this process.
bool is_trusted(int socket, pid_t pid);

// Send or receive one packet of two parts, the second of which may be empty. Return its length, 0 at the end of the
// connection, or -1 with errno.
ssize_t send_packet(int socket, void* first, std::size_t first_bytes, void* second, std::size_t second_bytes);
ssize_t receive_packet(int socket, void* first, std::size_t first_bytes, void* second, std::size_t second_bytes);

// Send or receive a reply to Operation::file. Return whether the connection is still usable; `file` stays -1 if the
// reply brings none.
bool send_file(int socket, int file);
bool receive_file(int socket, int& file);

}  // namespace nearfield::heap
