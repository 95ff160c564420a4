#include "preload/observe/mpi/call.hpp"

#include <dlfcn.h>

#include <array>
#include <ctime>
#include <map>
#include <unordered_map>

#include "preload/observe/interface.h"
#include "preload/observe/mpi/delays.hpp"

namespace nearfield::observe {
namespace {

// The functions of the hook library (interface.h), found by dlsym.
struct Hooks {
  decltype(&nearfield_observe_active) is_observed = nullptr;
  decltype(&nearfield_observe_rank) set_rank = nullptr;
  decltype(&nearfield_observe_reply_socket) get_reply_descriptor = nullptr;
  decltype(&nearfield_observe_clock) uses_simulated_time = nullptr;
  decltype(&nearfield_observe_flush) flush_stream = nullptr;
  decltype(&nearfield_observe_event) append_event = nullptr;
  decltype(&nearfield_observe_place) locate_code = nullptr;
  decltype(&nearfield_observe_callers) find_callers = nullptr;
  decltype(&nearfield_observe_pause) pause_recording = nullptr;
  decltype(&nearfield_observe_resume) resume_recording = nullptr;
  decltype(&nearfield_observe_region) begin_or_end_region = nullptr;
  decltype(&nearfield_observe_close) close_stream = nullptr;
} hook_library;

template <class Function>
bool find_function(const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(RTLD_DEFAULT, name));
  return function;
}

// A call stack: the call site of an MPI function, and the call sites of the functions that contain it.
using CallStack = std::array<const void*, 1 + stream::CallSite::max_callers>;

struct RecordedNumbers {
  stream::EventWriter writer;
  std::unordered_map<std::string, stream::Number> text_numbers, unsupported_features;
  std::map<CallStack, stream::Number> call_site_numbers;
};

// Returns the tables of this process. They are never destroyed, since programs may finalise MPI in exit handlers.
RecordedNumbers& recorded_numbers() {
  static RecordedNumbers& instance = *new RecordedNumbers;
  return instance;
}

std::uint64_t last_event_time_ns = 0;  // time of the last event that contains a time
SchedulingDelays scheduling_delays;

stream::Number take_time_since_last_event_ns() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  const std::uint64_t now_ns = static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000 + std::uint64_t(now.tv_nsec);
  const std::uint64_t elapsed_ns = last_event_time_ns ? now_ns - last_event_time_ns : 0;
  last_event_time_ns = now_ns;
  return elapsed_ns;
}

// Flushes the stream at most every 50 ms: a live simulation may have nothing else to simulate until then, and a file is
// more complete if the program is interrupted.
void flush_periodically() {
  constexpr std::uint64_t period_ns = 50'000'000;
  static std::uint64_t last_flush_ns = 0;
  if (last_event_time_ns - last_flush_ns < period_ns) return;
  last_flush_ns = last_event_time_ns;
  hook_library.flush_stream();
}

stream::Number call_site_number(const void* address) {
  CallStack call_stack{address};
  const int callers = hook_library.find_callers(address, call_stack.data() + 1, stream::CallSite::max_callers);
  const auto [found, is_new] =
      recorded_numbers().call_site_numbers.try_emplace(call_stack, recorded_numbers().call_site_numbers.size() + 1);
  if (is_new) {
    unsigned long offset = 0;
    const unsigned long object = hook_library.locate_code(address, &offset);
    stream::CallSite site{found->second, object, offset, {}};
    for (int i = 1; i <= callers; ++i) {
      const unsigned long caller_object = hook_library.locate_code(call_stack[static_cast<std::size_t>(i)], &offset);
      site.callers.insert(site.callers.end(), {caller_object, offset});
    }
    record_event(site);
  }
  return found->second;
}

void report_other_threads() {
  if (detail::has_other_threads.load(std::memory_order_relaxed)) mark_unsupported("MPI calls in several threads");
}

}  // namespace

namespace detail {

void record_enter(FunctionName& name, const void* site) {
  hook_library.pause_recording();
  if (name.number == 0) name.number = text_number(name.text);
  const stream::Number place = call_site_number(fortran_site ? fortran_site : site);
  const stream::Number elapsed_ns = take_time_since_last_event_ns();
  record_event(stream::Enter{name.number, place, elapsed_ns, scheduling_delays.delay_within(elapsed_ns)});
  report_other_threads();
}

void record_leave() {
  const stream::Number elapsed_ns = take_time_since_last_event_ns();
  record_event(stream::Leave{elapsed_ns, scheduling_delays.delay_within(elapsed_ns)});
  flush_periodically();
  hook_library.resume_recording();
}

void write_event(const std::vector<unsigned char>& bytes) { hook_library.append_event(bytes.data(), bytes.size()); }

stream::EventWriter& event_writer() { return recorded_numbers().writer; }

}  // namespace detail

stream::Number text_number(const std::string& text) {
  const auto [found, is_new] =
      recorded_numbers().text_numbers.try_emplace(text, recorded_numbers().text_numbers.size() + 1);
  if (is_new) record_event(stream::Text{found->second, text});
  return found->second;
}

void mark_unsupported(const std::string& feature) {
  const bool is_new = recorded_numbers().unsupported_features.try_emplace(feature, 0).second;
  if (!is_new) return;
  record_event(stream::Unsupported{text_number(feature)});
  if (is_live()) flush_stream();  // so that the simulation stops before the MPI library performs the call
}

bool find_hook_functions() {
  return find_function("nearfield_observe_active", hook_library.is_observed) &&
         find_function("nearfield_observe_rank", hook_library.set_rank) &&
         find_function("nearfield_observe_reply_socket", hook_library.get_reply_descriptor) &&
         find_function("nearfield_observe_flush", hook_library.flush_stream) &&
         find_function("nearfield_observe_clock", hook_library.uses_simulated_time) &&
         find_function("nearfield_observe_event", hook_library.append_event) &&
         find_function("nearfield_observe_place", hook_library.locate_code) &&
         find_function("nearfield_observe_callers", hook_library.find_callers) &&
         find_function("nearfield_observe_pause", hook_library.pause_recording) &&
         find_function("nearfield_observe_resume", hook_library.resume_recording) &&
         find_function("nearfield_observe_region", hook_library.begin_or_end_region) &&
         find_function("nearfield_observe_close", hook_library.close_stream) && hook_library.is_observed();
}

void flush_stream() { hook_library.flush_stream(); }
void pause_access_recording() { hook_library.pause_recording(); }
void begin_or_end_region(bool begins) { hook_library.begin_or_end_region(begins); }
void resume_access_recording() { hook_library.resume_recording(); }

void begin_recording(stream::RankInfo rank_info) {
  hook_library.set_rank(static_cast<int>(rank_info.rank), static_cast<int>(rank_info.ranks));
  detail::reply_descriptor = hook_library.get_reply_descriptor();
  rank_info.is_live = is_live();
  rank_info.reports_delays = scheduling_delays.begin_counting();
  detail::uses_simulated_time = is_live() && hook_library.uses_simulated_time();
  record_event(rank_info);
  detail::is_recorded_thread = true;
  detail::is_active = true;
}

void end_recording(bool writes_end_event) {
  detail::is_active = false;
  report_other_threads();
  if (writes_end_event) record_event(stream::End{});
  hook_library.close_stream();
}

}  // namespace nearfield::observe
