// The actions of each wrapper of an MPI function on entry and exit, and the writing of its events. This header does not
// include mpi.h, because some wrappers pass arguments on without knowing their types (unsupported_calls.cpp,
// fortran.cpp).
//
// Only the outermost MPI function that the program calls is recorded. MPI's own calls of other MPI functions, and calls
// in callbacks (reduction operators, attribute callbacks), are not. Calls are recorded in the thread that called
// MPI_Init, until MPI_Finalize; a call in another thread marks the stream as unsupported.
//
// Events are written after the MPI library has completed the call, and only if the call succeeded, so the arguments are
// valid. In a live simulation (live_session.hpp) events are written before the call, because the rank may block in it.
#pragma once

#include <atomic>
#include <string>

#include "trace/stream/event_bytes.hpp"

namespace nearfield::observe {

namespace stream = nearfield::stream;  // for wrappers, which are outside of this namespace and use it

// The name of an MPI function, and the number of the Text event that defines the name; 0 before the event is written.
struct FunctionName {
  const char* text;
  stream::Number number = 0;
};

namespace detail {
#define NEARFIELD_PER_THREAD inline thread_local constinit __attribute__((tls_model("initial-exec")))
NEARFIELD_PER_THREAD int call_depth = 0;
NEARFIELD_PER_THREAD bool is_recorded_thread = false;
NEARFIELD_PER_THREAD const void* fortran_site = nullptr;
inline std::atomic<bool> is_active = false, has_other_threads = false;

inline int reply_descriptor = -1;  // connection on which a live simulation replies; -1: none
inline bool uses_simulated_time = false;

void record_enter(FunctionName& name, const void* site);
void record_leave();
void write_event(const std::vector<unsigned char>& bytes);
stream::EventWriter& event_writer();
}  // namespace detail

// Returns whether a live simulation decides nondeterministic MPI outcomes (live_session.hpp).
inline bool is_live() { return detail::reply_descriptor >= 0; }
// Sends the events recorded so far to the live simulation. If the stream is a file, writes them at every tenth call.
void flush_stream();

template <class Kind>
void record_event(const Kind& event) {
  detail::write_event(detail::event_writer().serialize(event));
}

// Returns the number by which events refer to a string. If the string is new, first writes the Text event that defines
// the number.
stream::Number text_number(const std::string& text);

// Records that the stream cannot be simulated because the program uses `feature`. Each feature is recorded once.
void mark_unsupported(const std::string& feature);

// A call of an MPI function by the program, from construction to destruction. The outermost call of the recorded thread
// writes an Enter and a Leave event.
class Call {
 public:
  Call(FunctionName& name, const void* site)
      : name_(name), is_recorded_(detail::call_depth++ == 0 && may_be_recorded()) {
    if (is_recorded_) detail::record_enter(name, site);
  }
  ~Call() {
    if (is_recorded_) detail::record_leave();
    --detail::call_depth;
  }
  Call(const Call&) = delete;

  bool is_recorded() const { return is_recorded_; }

  // Returns whether `result` is MPI_SUCCESS. If not, marks the stream as unsupported.
  bool succeeded(int result) const {
    if (result != 0) mark_unsupported(std::string(name_.text) + " failed");
    return result == 0;
  }

 private:
  static bool may_be_recorded() {
    if (!detail::is_active.load(std::memory_order_relaxed)) return false;
    if (!detail::is_recorded_thread) detail::has_other_threads.store(true, std::memory_order_relaxed);
    return detail::is_recorded_thread;
  }

  FunctionName& name_;
  const bool is_recorded_;
};

// Looks up the functions of the hook library. Called in MPI_Init before the MPI library's own function. Returns whether
// this process is observed.
bool find_hook_functions();
void pause_access_recording();
void begin_or_end_region(bool begins);
void resume_access_recording();
// Starts the recording and writes the RankInfo event, which is the first. Called after MPI is initialised.
void begin_recording(stream::RankInfo rank_info);
// Ends the recording and closes the stream. `writes_end_event`: writes the End event first.
void end_recording(bool writes_end_event);

}  // namespace nearfield::observe
