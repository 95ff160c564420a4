// The packets by which the client (copy_requests.cpp) and the server (copy_service.cpp) of a copy communicate.
#pragma once

#include <sys/socket.h>
#include <sys/types.h>
#include <sys/un.h>

#include <cstddef>
#include <cstdint>

#include "preload/heap/settings.hpp"

namespace nearfield::heap {

// Maximum payload of a packet in bytes. A packet of a SocketReply and this payload fits into a socket buffer.
inline constexpr std::size_t packet_bytes = std::size_t{64} << 10;
inline constexpr int max_copy_peers = 4096;

inline std::size_t bytes_of_next_packet(std::uint64_t remaining_bytes) {
  return remaining_bytes < packet_bytes ? remaining_bytes : packet_bytes;
}

enum class SocketOperation : std::uint32_t { read, write, get_heap_file };

struct SocketRequest {
  char key[Settings::key_bytes];
  SocketOperation operation;
  std::uint64_t address, bytes;
};

// Precedes the payload in every packet of a read, and is the whole reply to a write and to a request for the heap file.
struct SocketReply {
  std::int32_t error;   // an errno; 0: success
  std::uint32_t bytes;  // of the payload
};

// Writes the address of a process's socket, and returns the length of the address in bytes. The first byte of an
// abstract name is zero.
socklen_t write_socket_address(sockaddr_un& address, pid_t pid);
// Returns a new Unix socket for packets; -1 on failure. `flags`: SOCK_NONBLOCK or 0.
int open_socket(int flags);
// Returns whether the process at the other end belongs to this user and, unless `pid` is 0, has this process ID.
bool is_trusted_peer(int socket, pid_t pid);

// Send or receive one packet of two parts, the second of which may be empty. Return the packet's length in bytes, 0 at
// the end of the connection, or -1 with errno.
ssize_t send_packet(int socket, void* first, std::size_t first_bytes, void* second, std::size_t second_bytes);
ssize_t receive_packet(int socket, void* first, std::size_t first_bytes, void* second, std::size_t second_bytes);

// Send or receive a reply to SocketOperation::get_heap_file. Return whether the connection is still usable.
// receive_file() leaves `file` unchanged if the reply carries no descriptor.
bool send_file(int socket, int file);
bool receive_file(int socket, int& file);

}  // namespace nearfield::heap
