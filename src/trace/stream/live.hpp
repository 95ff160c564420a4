// The streams of a running program. Its ranks connect to a socket and send the bytes that they would write into files
// (src/preload/observe/connection.hpp). A thread of this class receives them, and simulations read them.
//
// Deadlock freedom: a rank whose bytes nobody reads blocks on a full socket, so that memory does not fill. But while a
// simulation waits for one rank, all others may proceed and memory grows, because that rank may be waiting for them.
// The socket has an abstract name: there is no file, and it disappears with this process, however that ends.
//
// All functions are thread-safe. Left out: ranks on other hosts.
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

class Live {
 public:
  // Throws std::system_error if the socket cannot be created.
  Live();
  // Closes all connections.
  ~Live();
  Live(const Live&) = delete;

  // Returns the value of NEARFIELD_OBSERVE for the program.
  std::string address() const { return "live:" + name_; }
  // Also writes all streams into this folder from now on, as files of the same bytes.
  void save_to(const std::string& folder);
  // Returns why the streams could not be saved; "" if they were.
  std::string save_error() const;

  // Returns the number of ranks of the program; 0 until all of them are in MPI_Init.
  int ranks() const;
  // Returns whether no process that sends a stream is connected.
  bool idle() const;
  // Returns an input for the stream of a rank; it must not outlive this object. To be called once per rank, when all
  // have connected.
  std::unique_ptr<Input> input(int rank);
  // Sends a reply to a rank. Returns at once.
  void reply(int rank, const void* bytes, std::size_t count);
  // The command has ended, so ranks need not be blocked: reads all that they have sent.
  void read_until_eof();
  // Nobody reads the streams any more: their bytes are saved to files or discarded.
  void discard_unread();
  // Closes all connections. Pending reads throw std::runtime_error.
  void close();

 private:
  friend class LiveInput;
  // The bytes of a stream that may still be needed.
  struct Buffer {
    std::vector<unsigned char> bytes;
    std::uint64_t begin = 0;                      // position of the first byte in the stream
    std::map<const void*, std::uint64_t> needed;  // the first byte that each input needs; empty: nobody reads yet
    std::uint64_t read = 0;                       // position of the most advanced input
    bool over = false;                            // no more will arrive
    std::unique_ptr<std::FILE, int (*)(std::FILE*)> file{nullptr, &std::fclose};
    std::uint64_t end() const { return begin + bytes.size(); }
  };
  struct Connection {
    int socket = -1;
    int process = 0;
    int rank = -1;                    // of a connection for replies
    std::vector<unsigned char> head;  // the first bytes, until they identify the connection
    std::shared_ptr<Buffer> stream;   // of a connection that sends a stream
    std::vector<unsigned char> out;   // to be sent
    bool gone = false;
  };
  using Lock = std::unique_lock<std::mutex>;

  void run();
  void accept_one();
  bool wants_more(const Connection& one) const;
  void receive(Connection& from);
  void send(Connection& to);
  void identify(Connection& one);
  void assign(Connection& listener, int rank, int ranks);
  void append(Buffer& stream, const unsigned char* bytes, std::size_t count);
  void write(Buffer& stream, const unsigned char* bytes, std::size_t count);
  void open_file(Buffer& stream, int rank);
  void free_consumed(Buffer& stream) const;
  void wake() const;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::string name_, folder_, save_error_;
  int listener_ = -1, waker_ = -1;
  std::list<Connection> connections_;
  std::map<int, std::shared_ptr<Buffer>> by_rank_, by_process_;
  int ranks_ = 0;  // of the program; 0: not known yet
  int waiting_readers_ = 0;
  bool reads_until_eof_ = false, discards_ = false, closed_ = false, stopped_ = false;
  std::thread thread_;
};

}  // namespace nearfield::stream
