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
  decltype(&nearfield_observe_active) active = nullptr;
  decltype(&nearfield_observe_rank) rank = nullptr;
  decltype(&nearfield_observe_reply_socket) reply_socket = nullptr;
  decltype(&nearfield_observe_clock) clock = nullptr;
  decltype(&nearfield_observe_flush) flush = nullptr;
  decltype(&nearfield_observe_event) event = nullptr;
  decltype(&nearfield_observe_place) place = nullptr;
  decltype(&nearfield_observe_callers) callers = nullptr;
  decltype(&nearfield_observe_pause) pause = nullptr;
  decltype(&nearfield_observe_resume) resume = nullptr;
  decltype(&nearfield_observe_region) region = nullptr;
  decltype(&nearfield_observe_close) close = nullptr;
} hooks;

template <class Function>
bool find_function(const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(RTLD_DEFAULT, name));
  return function;
}

// A call stack: the call site of an MPI function, and the call sites of the functions that contain it.
using CallStack = std::array<const void*, 1 + stream::CallSite::max_callers>;

struct Tables {
  stream::EventWriter writer;
  std::unordered_map<std::string, stream::Number> texts, unsupported;
  std::map<CallStack, stream::Number> call_sites;
};

// Returns the tables of this process. They are never destroyed, since programs may finalise MPI in exit handlers.
Tables& tables() {
  static Tables& only = *new Tables;
  return only;
}

std::uint64_t last_ns = 0;  // time of the last event that contains a time
SchedulingDelays delays;

stream::Number take_elapsed_ns() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  const std::uint64_t now_ns = static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000 + std::uint64_t(now.tv_nsec);
  const std::uint64_t since = last_ns ? now_ns - last_ns : 0;
  last_ns = now_ns;
  return since;
}

// Flushes the stream at most every 50 ms: a live simulation may have nothing else to simulate until then, and a file is
// more complete if the program is interrupted.
void flush_periodically() {
  constexpr std::uint64_t period_ns = 50'000'000;
  static std::uint64_t flushed_ns = 0;
  if (last_ns - flushed_ns < period_ns) return;
  flushed_ns = last_ns;
  hooks.flush();
}

stream::Number call_site_number(const void* address) {
  CallStack frames{address};
  const int callers = hooks.callers(address, frames.data() + 1, stream::CallSite::max_callers);
  const auto [found, is_new] = tables().call_sites.try_emplace(frames, tables().call_sites.size() + 1);
  if (is_new) {
    unsigned long offset = 0;
    const unsigned long object = hooks.place(address, &offset);
    stream::CallSite site{found->second, object, offset, {}};
    for (int i = 1; i <= callers; ++i) {
      const unsigned long object_of_caller = hooks.place(frames[static_cast<std::size_t>(i)], &offset);
      site.callers.insert(site.callers.end(), {object_of_caller, offset});
    }
    record(site);
  }
  return found->second;
}

void report_other_threads() {
  if (detail::other_threads.load(std::memory_order_relaxed)) mark_unsupported("MPI calls in several threads");
}

}  // namespace

namespace detail {

void record_enter(FunctionName& name, const void* site) {
  hooks.pause();
  if (name.number == 0) name.number = text_number(name.text);
  const stream::Number place = call_site_number(fortran_site ? fortran_site : site);
  const stream::Number since = take_elapsed_ns();
  record(stream::Enter{name.number, place, since, delays.delay_within(since)});
  report_other_threads();
}

void record_leave() {
  const stream::Number since = take_elapsed_ns();
  record(stream::Leave{since, delays.delay_within(since)});
  flush_periodically();
  hooks.resume();
}

void write_event(const std::vector<unsigned char>& bytes) { hooks.event(bytes.data(), bytes.size()); }

stream::EventWriter& event_writer() { return tables().writer; }

}  // namespace detail

stream::Number text_number(const std::string& text) {
  const auto [found, is_new] = tables().texts.try_emplace(text, tables().texts.size() + 1);
  if (is_new) record(stream::Text{found->second, text});
  return found->second;
}

void mark_unsupported(const std::string& what) {
  const bool is_new = tables().unsupported.try_emplace(what, 0).second;
  if (!is_new) return;
  record(stream::Unsupported{text_number(what)});
  if (is_live()) flush_stream();  // so that the simulation stops before the MPI library performs the call
}

bool find_hook_functions() {
  return find_function("nearfield_observe_active", hooks.active) &&
         find_function("nearfield_observe_rank", hooks.rank) &&
         find_function("nearfield_observe_reply_socket", hooks.reply_socket) &&
         find_function("nearfield_observe_flush", hooks.flush) &&
         find_function("nearfield_observe_clock", hooks.clock) &&
         find_function("nearfield_observe_event", hooks.event) &&
         find_function("nearfield_observe_place", hooks.place) &&
         find_function("nearfield_observe_callers", hooks.callers) &&
         find_function("nearfield_observe_pause", hooks.pause) &&
         find_function("nearfield_observe_resume", hooks.resume) &&
         find_function("nearfield_observe_region", hooks.region) &&
         find_function("nearfield_observe_close", hooks.close) && hooks.active();
}

void flush_stream() { hooks.flush(); }
void pause_access_recording() { hooks.pause(); }
void begin_or_end_region(bool begins) { hooks.region(begins); }
void resume_access_recording() { hooks.resume(); }

void begin_recording(stream::RankInfo who) {
  hooks.rank(static_cast<int>(who.rank), static_cast<int>(who.ranks));
  detail::reply_socket = hooks.reply_socket();
  who.is_live = is_live();
  who.delays = delays.begin_counting();
  detail::uses_simulated_time = is_live() && hooks.clock();
  record(who);
  detail::is_recorded_thread = true;
  detail::is_active = true;
}

void end_recording(bool whole) {
  detail::is_active = false;
  report_other_threads();
  if (whole) record(stream::End{});
  hooks.close();
}

}  // namespace nearfield::observe
