// Every wrapper of an MPI function does this first and last, and writes its events by it. No mpi.h here, because some
// wrappers pass arguments on without knowing their types (refused.cpp, fortran.cpp).
//
// The outermost MPI function that the program calls is recorded, and nothing that happens inside: neither MPI's own use
// of other MPI functions nor what the program does in callbacks (reduction operators, attributes). Calls are recorded in
// the thread that called MPI_Init, from then to MPI_Finalize; a call in another thread makes the stream `refused`.
//
// Events are written after the MPI library has done the call, and only if it succeeded: then the arguments are valid.
// Where a simulation answers (asking.hpp) they are written before, since the rank may be stopped in the call.
#pragma once

#include <atomic>
#include <string>

#include "stream/event_bytes.hpp"

namespace nearfield::observe {

namespace stream = nearfield::stream;  // for the files of wrappers, which use this namespace and are outside of it

// The name of an MPI function, and the number of its text once it has one.
struct Name {
  const char* text;
  stream::Number number = 0;
};

namespace detail {
#define NEARFIELD_PER_THREAD inline thread_local constinit __attribute__((tls_model("initial-exec")))
NEARFIELD_PER_THREAD int depth = 0;
NEARFIELD_PER_THREAD bool is_recorded_thread = false;
NEARFIELD_PER_THREAD const void* fortran_site = nullptr;
inline std::atomic<bool> is_active = false, other_threads = false;

inline int answers = -1;  // the connection by which a simulation answers
inline bool asks_for_time = false;

void enter(Name& name, const void* site);
void leave();
void write(const std::vector<unsigned char>& bytes);
stream::EventWriter& writer();
}  // namespace detail

// Returns whether a simulation decides what MPI leaves to time (asking.hpp).
inline bool is_asking() { return detail::answers >= 0; }
// Sends what was recorded so far, if a simulation reads it.
void flush();

template <class Kind>
void record(const Kind& event) {
  detail::write(detail::writer().bytes(event));
}

// Returns the number of a text, after a Text event if it is a new one.
stream::Number text_number(const std::string& text);

// Writes once for each `what` that the stream cannot be simulated.
void refuse(const std::string& what);

// Lives as long as the program is in an MPI function.
class Call {
 public:
  Call(Name& name, const void* site) : name_(name), is_recorded_(detail::depth++ == 0 && may_be_recorded()) {
    if (is_recorded_) detail::enter(name, site);
  }
  ~Call() {
    if (is_recorded_) detail::leave();
    --detail::depth;
  }
  Call(const Call&) = delete;

  bool is_recorded() const { return is_recorded_; }

  // Returns whether the MPI library did the call; if not, the stream is refused.
  bool succeeded(int result) const {
    if (result != 0) refuse(std::string(name_.text) + " failed");
    return result == 0;
  }

 private:
  static bool may_be_recorded() {
    if (!detail::is_active.load(std::memory_order_relaxed)) return false;
    if (!detail::is_recorded_thread) detail::other_threads.store(true, std::memory_order_relaxed);
    return detail::is_recorded_thread;
  }

  Name& name_;
  const bool is_recorded_;
};

// Is called in MPI_Init before the MPI library's own. Returns whether this process is observed.
bool find_hooks();
void pause_accesses();
void begin_or_end_region(bool begins);
void resume_accesses();
// Is called once MPI is initialised. The first event is RankIs.
void begin_recording(stream::RankIs who);
// Closes the stream; afterwards nothing is recorded. `whole`: writes the End event.
void end_recording(bool whole);

}  // namespace nearfield::observe
