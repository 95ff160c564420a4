// Receives the streams of a running program. The ranks connect to a socket and send the bytes that they would otherwise
// write into files (src/preload/observe/connection.hpp). A thread of this class receives the bytes, and simulations
// read them.
//
// Deadlock freedom: a rank whose bytes no simulation reads blocks on a full socket, so that memory does not fill up.
// But while a simulation waits for bytes of one rank, all other ranks may proceed even if memory grows, because the
// first rank may be waiting for them. The socket has an abstract name: it has no file, and disappears with this
// process, however the process ends.
//
// All functions are thread-safe. Ranks on other hosts are not supported.
#pragma once

#include <condition_variable>
#include <cstdio>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "trace/stream/input.hpp"

namespace nearfield::stream {

class LiveStreams {
 public:
  // Throws std::system_error if the socket cannot be created.
  LiveStreams();
  // Closes all connections.
  ~LiveStreams();
  LiveStreams(const LiveStreams&) = delete;

  // Returns the value of the environment variable NEARFIELD_OBSERVE for the observed program.
  std::string address() const { return "live:" + socket_name_; }
  // Also writes all streams into this folder from now on, as files with the same bytes.
  void save_to(const std::string& folder);
  // Returns why the streams could not be saved; empty if they were saved.
  std::string save_error() const;

  // Returns the number of ranks of the program; 0 until all ranks are in MPI_Init.
  int num_ranks() const;
  // Returns whether no process that sends a stream is connected.
  bool has_no_sender() const;
  // Returns an input for the stream of a rank, which must not outlive this object. Call it once per rank, when all
  // ranks have connected.
  std::unique_ptr<StreamInput> open_input(int rank);
  // Queues a reply to a rank, and returns without waiting.
  void queue_reply(int rank, const void* bytes, std::size_t count);
  // Call it when the command has ended: receives all bytes that its ranks have sent, without blocking ranks.
  void read_until_eof();
  // Call it when no simulation reads the streams any more: receives their bytes, and writes them to files or discards
  // them.
  void discard_unread();
  // Closes all connections. Pending reads throw std::runtime_error.
  void close_connections();

 private:
  friend class LiveInput;
  // The received bytes of a stream that an input may still read.
  struct StreamBuffer {
    std::vector<unsigned char> bytes;
    std::uint64_t begin_position = 0;  // position of the first byte in the stream
    std::map<const void*, std::uint64_t>
        // first byte that each input still needs; empty: no input exists yet
        first_needed_by_input;
    std::uint64_t max_read_position = 0;  // position of the most advanced input
    bool has_ended = false;               // the connection has ended
    std::unique_ptr<std::FILE, int (*)(std::FILE*)> file{nullptr, &std::fclose};
    std::uint64_t end() const { return begin_position + bytes.size(); }
  };
  struct Connection {
    int socket = -1;
    int process_id = 0;
    int rank = -1;                                  // rank, if the connection is for replies
    std::vector<unsigned char> first_bytes;         // received bytes, until they identify the connection
    std::shared_ptr<StreamBuffer> stream;           // stream that the connection sends
    std::vector<unsigned char> unsent_reply_bytes;  // bytes of replies that are not sent yet
    bool is_closing = false;
  };
  using Lock = std::unique_lock<std::mutex>;

  void run_receiver();
  void accept_connection();
  bool may_receive_from(const Connection& connection) const;
  void receive_from(Connection& connection);
  void send_replies(Connection& connection);
  void identify_connection(Connection& connection);
  void assign_rank(Connection& connection, int rank, int ranks);
  void append_bytes(StreamBuffer& stream, const unsigned char* bytes, std::size_t count);
  void write_to_file(StreamBuffer& stream, const unsigned char* bytes, std::size_t count);
  void open_stream_file(StreamBuffer& stream, int rank);
  void free_consumed_bytes(StreamBuffer& stream) const;
  void wake_receiver() const;

  mutable std::mutex mutex_;
  std::condition_variable state_changed_;
  std::string socket_name_, folder_, save_error_;
  int listening_socket_ = -1, wake_event_fd_ = -1;
  std::list<Connection> connections_;
  std::map<int, std::shared_ptr<StreamBuffer>> stream_by_rank_, stream_by_process_;
  int num_ranks_ = 0;  // number of ranks of the program; 0: not known yet
  int num_waiting_readers_ = 0;
  bool reads_until_eof_ = false, discards_unread_ = false, is_closed_ = false, is_stopped_ = false;
  std::thread receiver_thread_;
};

}  // namespace nearfield::stream
