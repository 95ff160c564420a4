// The streams of a program that still runs. Its ranks connect to a socket and send the bytes that they would write into
// files (src/observe/connection.hpp says how); a thread of this class takes them in, and simulations read them.
//
// Nobody waits for ever. A rank whose bytes nobody reads is stopped by a full socket, so that memory does not fill. But
// while a simulation waits for one rank, all others may go on, and memory grows: the one that it waits for may be
// waiting for them. The socket is an abstract one: it has no file, and is gone with this process, however that ends.
//
// Any thread may call any function. Left out: ranks on other hosts.
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

#include "stream/input.hpp"

namespace nearfield::stream {

class Live {
 public:
  // Throws std::system_error if there are no sockets.
  Live();
  // Ends all connections.
  ~Live();
  Live(const Live&) = delete;

  // Returns what NEARFIELD_OBSERVE has to be for the program.
  std::string address() const { return "live:" + name_; }
  // Writes all streams into this folder, as files of the same bytes, from now on.
  void keep(const std::string& folder);
  // Returns why the streams could not be kept; "" if they were.
  std::string not_kept() const;

  // Returns how many ranks the program has; 0 until all of them are in MPI_Init.
  int ranks() const;
  // Returns whether no process is connected that sends a stream.
  bool idle() const;
  // Returns what reads the stream of a rank; it must not outlive this object. To be called once for each rank, when
  // all are there.
  std::unique_ptr<Input> input(int rank);
  // Sends bytes to a rank, which finds them when it asks. Returns at once.
  void tell(int rank, const void* bytes, std::size_t count);
  // The command has ended, so no rank needs to be stopped: what its ranks have sent is taken in.
  void take_all();
  // Nobody will read streams any more: their bytes are kept in files, or dropped.
  void drain();
  // Ends all connections. Who waits for a stream gets std::runtime_error.
  void close();

 private:
  friend class LiveInput;
  // The bytes of a stream that somebody may still need.
  struct Buffer {
    std::vector<unsigned char> bytes;
    std::uint64_t begin = 0;                      // of these in the stream
    std::map<const void*, std::uint64_t> needed;  // from where on, by input; none: nobody reads it yet
    std::uint64_t read = 0;                       // by the input that is farthest
    bool over = false;                            // no more will come
    std::unique_ptr<std::FILE, int (*)(std::FILE*)> file{nullptr, &std::fclose};
    std::uint64_t end() const { return begin + bytes.size(); }
  };
  struct Connection {
    int socket = -1;
    int process = 0;
    int rank = -1;                    // of one that a rank listens at
    std::vector<unsigned char> head;  // its first bytes, until they say what it is
    std::shared_ptr<Buffer> stream;   // of one that sends a stream
    std::vector<unsigned char> out;   // still to be sent
    bool gone = false;
  };
  using Lock = std::unique_lock<std::mutex>;

  void run();
  void accept_one();
  bool wants_more(const Connection& one) const;
  void receive(Connection& from);
  void send(Connection& to);
  void recognise(Connection& one);
  void assign(Connection& listener, int rank, int ranks);
  void take_in(Buffer& stream, const unsigned char* bytes, std::size_t count);
  void write(Buffer& stream, const unsigned char* bytes, std::size_t count);
  void open_file(Buffer& stream, int rank);
  void forget_passed(Buffer& stream) const;
  void wake() const;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::string name_, folder_, not_kept_;
  int listener_ = -1, waker_ = -1;
  std::list<Connection> connections_;
  std::map<int, std::shared_ptr<Buffer>> by_rank_, by_process_;
  int ranks_ = 0;     // of the program; 0: not known yet
  int starving_ = 0;  // readers that wait
  bool takes_all_ = false, drained_ = false, closed_ = false, stopped_ = false;
  std::thread thread_;
};

}  // namespace nearfield::stream
