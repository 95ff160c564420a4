// What every wrapper of an MPI function does first and last, and how it writes its events. This header does not include
// mpi.h, because some wrappers pass arguments on without knowing their types (unsupported_calls.cpp, fortran.cpp).
//
// Only the outermost MPI function that the program calls is recorded. MPI's own calls of other MPI functions and calls
// in callbacks (reduction operators, attributes) are not. Calls are recorded in the thread that called MPI_Init, until
// MPI_Finalize; a call in another thread marks the stream as unsupported.
//
// Events are written after the MPI library has completed the call, and only if it succeeded, so the arguments are
// valid. In a live simulation (live_session.hpp) they are written before, because the rank may block in the call.
#pragma once

#include <atomic>
#include <string>

#include "trace/stream/event_bytes.hpp"

namespace nearfield::observe {

namespace stream = nearfield::stream;  // for wrappers, which are outside of this namespace and use it

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

inline int reply_socket = -1;  // the connection on which a live simulation replies; -1: none
inline bool uses_simulated_time = false;

void enter(Name& name, const void* site);
void leave();
void write(const std::vector<unsigned char>& bytes);
stream::EventWriter& writer();
}  // namespace detail

// Returns whether a live simulation decides nondeterministic MPI outcomes (live_session.hpp).
inline bool is_live() { return detail::reply_socket >= 0; }
// Sends what has been recorded so far if a live simulation reads it.
void flush();

template <class Kind>
void record(const Kind& event) {
  detail::write(detail::writer().serialize(event));
}

// Returns the number by which events name a string. If the string is new, first writes the Text event that defines the
// number.
stream::Number text_number(const std::string& text);

// Records that the stream cannot be simulated because of `what`. Each `what` is written once.
void mark_unsupported(const std::string& what);

// Lives as long as the program is inside an MPI function.
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

  // Returns whether the MPI library completed the call; if not, the stream is marked as unsupported.
  bool succeeded(int result) const {
    if (result != 0) mark_unsupported(std::string(name_.text) + " failed");
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

// Called in MPI_Init before the MPI library's own function. Returns whether this process is observed.
bool find_hooks();
void pause_accesses();
void begin_or_end_region(bool begins);
void resume_accesses();
// Called once MPI is initialised. RankInfo is the first event.
void begin_recording(stream::RankInfo who);
// Closes the stream; nothing is recorded afterwards. `whole`: writes the End event.
void end_recording(bool whole);

}  // namespace nearfield::observe
