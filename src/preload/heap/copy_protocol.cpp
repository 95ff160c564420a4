#include "preload/heap/copy_protocol.hpp"

#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

namespace nearfield::heap {
namespace {

template <typename F>
ssize_t transfer_packet(F call, int socket, void* first, std::size_t first_bytes, void* second,
                        std::size_t second_bytes, int flags) {
  iovec parts[] = {{first, first_bytes}, {second, second_bytes}};
  msghdr message{};
  message.msg_iov = parts;
  message.msg_iovlen = second_bytes ? 2 : 1;
  ssize_t length;
  do length = call(socket, &message, flags);
  while (length < 0 && errno == EINTR);
  return length;
}

// A message that consists of a SocketReply, with room for a descriptor as ancillary data.
struct FilePacket {
  FilePacket() {
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control_data;
    message.msg_controllen = sizeof control_data;
  }
  FilePacket(const FilePacket&) = delete;
  FilePacket& operator=(const FilePacket&) = delete;

  SocketReply reply{};
  iovec part{&reply, sizeof reply};
  alignas(cmsghdr) char control_data[CMSG_SPACE(sizeof(int))] = {};
  msghdr message{};
};

}  // namespace

socklen_t write_socket_address(sockaddr_un& address, pid_t pid) {
  address = {};
  address.sun_family = AF_UNIX;
  const int length = std::snprintf(address.sun_path + 1, sizeof address.sun_path - 1, "nearfield-heap-%u-%ld",
                                   static_cast<unsigned>(geteuid()), static_cast<long>(pid));
  return static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + static_cast<std::size_t>(length));
}

int open_socket(int flags) { return socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | flags, 0); }

bool is_trusted_peer(int socket, pid_t pid) {
  ucred peer{};
  socklen_t length = sizeof peer;
  if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &length) != 0) return false;
  return peer.uid == geteuid() && (pid == 0 || peer.pid == pid);
}

ssize_t send_packet(int socket, void* first, std::size_t first_bytes, void* second, std::size_t second_bytes) {
  return transfer_packet(sendmsg, socket, first, first_bytes, second, second_bytes, MSG_NOSIGNAL);
}

ssize_t receive_packet(int socket, void* first, std::size_t first_bytes, void* second, std::size_t second_bytes) {
  return transfer_packet(recvmsg, socket, first, first_bytes, second, second_bytes, 0);
}

bool send_file(int socket, int file) {
  FilePacket packet;
  cmsghdr* rights = CMSG_FIRSTHDR(&packet.message);
  rights->cmsg_level = SOL_SOCKET;
  rights->cmsg_type = SCM_RIGHTS;
  rights->cmsg_len = CMSG_LEN(sizeof file);
  std::memcpy(CMSG_DATA(rights), &file, sizeof file);
  return sendmsg(socket, &packet.message, MSG_NOSIGNAL) >= 0;
}

bool receive_file(int socket, int& file) {
  FilePacket packet;
  ssize_t length;
  do length = recvmsg(socket, &packet.message, MSG_CMSG_CLOEXEC);
  while (length < 0 && errno == EINTR);
  if (length != sizeof packet.reply) return false;
  const cmsghdr* rights = CMSG_FIRSTHDR(&packet.message);
  if (rights && rights->cmsg_level == SOL_SOCKET && rights->cmsg_type == SCM_RIGHTS &&
      rights->cmsg_len == CMSG_LEN(sizeof file))
    std::memcpy(&file, CMSG_DATA(rights), sizeof file);
  return true;
}

}  // namespace nearfield::heap
