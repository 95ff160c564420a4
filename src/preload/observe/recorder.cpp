#include "preload/observe/recorder.hpp"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "preload/observe/file.hpp"
#include "preload/observe/interface.h"
#include "preload/observe/objects.hpp"

namespace nearfield::observe {

void* recorded_thread_pointer = nullptr;
CallStack callers;
Region region;

namespace {

enum class State { unknown, recording, over };
State state = State::unknown;
void* recorded_thread = nullptr;
bool is_in_valgrind = false;
bool has_rank = false;
bool is_region_by_pcontrol = false;  // calls of MPI_Pcontrol delimit the region
bool is_in_region = true;
int pause_depth = 0;         // nesting depth of pauses by MPI calls
bool other_threads = false;  // another thread has accessed memory

// Starts or stops the recording of accesses, as `pause_depth` and `is_in_region` require.
void update_recording() {
  if (state != State::recording) return;
  const bool on = pause_depth == 0 && is_in_region;
  if (is_in_valgrind)
    nearfield_request_tool(NEARFIELD_STATE, on, pause_depth > 0, 0);
  else
    recorded_thread_pointer = on ? recorded_thread : nullptr;
}

void stop_in_forked_child() {
  state = State::over;
  recorded_thread_pointer = callers.thread = nullptr;
  abandon_stream_file();
}

// Parses NEARFIELD_OBSERVE_REGION: "pcontrol", or the offset, the size and the name of a function in the executable's
// file, such as "0x1234,96,solve". Runs before main(), which may be this function.
__attribute__((constructor(200))) void parse_region() {
  const char* const setting = getenv("NEARFIELD_OBSERVE_REGION");
  if (!setting || !*setting) return;
  is_region_by_pcontrol = strcmp(setting, "pcontrol") == 0;
  char* rest = nullptr;
  const std::uint64_t offset = strtoull(setting, &rest, 16);
  if (!is_region_by_pcontrol && *rest == ',') {
    region.begin = executable_base() + offset;
    region.size = strtoull(rest + 1, &rest, 10);
    region.name = *rest == ',' ? rest + 1 : "";
  }
  is_in_region = !is_region_by_pcontrol && region.size == 0;
}

void begin_recording() {
  state = State::over;
  const char* const folder = getenv("NEARFIELD_OBSERVE");
  if (!folder || !*folder || !open_stream_file(folder)) return;
  pthread_atfork(nullptr, nullptr, stop_in_forked_child);
  recorded_thread = __builtin_thread_pointer();
  state = State::recording;
  is_in_valgrind = nearfield_request_tool(NEARFIELD_BEGIN, static_cast<unsigned long>(stream_descriptor()),
                                          reinterpret_cast<unsigned long>(static_cast<nearfield_region*>(&region)), 0);
  if (!is_in_valgrind) {
    begin_stream();
    callers.thread = recorded_thread;
  } else if (region.size > 0) {
    is_in_region = true;  // the tool tracks the region
  }
  update_recording();
}

// Begins recording before main() under Valgrind's tool: a program without hooks does not call begin_at_first_access().
__attribute__((constructor)) void begin_in_valgrind() {
  if (nearfield_request_tool(NEARFIELD_PRESENT, 0, 0, 0)) begin_recording();
}

void report_other_threads() {
  if (__atomic_load_n(&other_threads, __ATOMIC_RELAXED)) record_other_threads();
}

__attribute__((destructor)) void end_recording() {
  if (state != State::recording) return;
  if (!has_rank) {  // a program without MPI is rank 0 of 1
    name_stream_file(0, 1);
    write_event_of_numbers<stream::End>({});
  }
  nearfield_observe_close();
}

}  // namespace

bool begin_at_first_access() {
  if (state == State::unknown) begin_recording();
  if (state == State::recording && __builtin_thread_pointer() != recorded_thread)
    __atomic_store_n(&other_threads, true, __ATOMIC_RELAXED);
  return in_recorded_thread();
}

void record_first_access(Encoder::Key key, std::uint64_t address) {
  if (begin_at_first_access()) record_in_stream(key, address);
}

void cross_region_boundary(bool enters) {
  if (state == State::unknown) begin_recording();
  if (is_in_valgrind || __builtin_thread_pointer() != recorded_thread) return;
  if (enters ? region.depth++ > 0 : --region.depth > 0) return;
  if (state == State::recording) record_region(region.name, enters);
  is_in_region = enters;
  update_recording();
}

void* platform::allocate_zeroed(std::uint64_t bytes) {
  void* const found = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (found != MAP_FAILED) return found;
  fputs("nearfield: no memory is left for recording\n", stderr);
  abort();
}

void platform::write_event(const unsigned char* bytes, std::uint64_t size) {
  if (is_in_valgrind)
    nearfield_request_tool(NEARFIELD_EVENT, reinterpret_cast<unsigned long>(bytes), size, 0);
  else
    encoder.event(bytes, size);
}

}  // namespace nearfield::observe

using namespace nearfield::observe;

int nearfield_observe_active() {
  if (state == State::unknown) begin_recording();
  return state == State::recording;
}

void nearfield_observe_rank(int rank, int ranks) {
  name_stream_file(rank, ranks);
  has_rank = true;
}

int nearfield_observe_reply_socket() {
  return getenv("NEARFIELD_OBSERVE_ASK") && !is_in_valgrind ? reply_descriptor() : -1;
}

int nearfield_observe_clock() { return getenv("NEARFIELD_OBSERVE_CLOCK") != nullptr; }

// Files get larger chunks than a live simulation, because each chunk repeats the definitions of its sites.
void nearfield_observe_flush() {
  constexpr unsigned flushes_per_chunk = 10;
  static unsigned flushes = 0;
  if (state != State::recording || (!is_read_by_simulation() && ++flushes % flushes_per_chunk != 0)) return;
  if (is_in_valgrind)
    nearfield_request_tool(NEARFIELD_FLUSH, 0, 0, 0);
  else
    encoder.finish_chunk();
}

void nearfield_observe_event(const unsigned char* bytes, unsigned long size) {
  if (state != State::recording) return;
  report_other_threads();
  platform::write_event(bytes, size);
}

unsigned long nearfield_observe_place(const void* address, unsigned long* offset) {
  const auto code = reinterpret_cast<std::uint64_t>(address);
  if (is_in_valgrind) return nearfield_request_tool(NEARFIELD_PLACE, code, reinterpret_cast<unsigned long>(offset), 0);
  return emit_location_once(code, *offset);
}

int nearfield_observe_callers(const void* call, const void** addresses, int max_count) {
  if (is_in_valgrind)
    return static_cast<int>(nearfield_request_tool(NEARFIELD_CALLERS, reinterpret_cast<unsigned long>(call),
                                                   reinterpret_cast<unsigned long>(addresses),
                                                   static_cast<unsigned long>(max_count)));
  int count = 0;
  for (unsigned i = callers.depth; i > 0 && callers.depth <= CallStack::max_depth && count < max_count; --i)
    addresses[count++] = callers.at[i - 1];
  return count;
}

void nearfield_observe_pause() {
  if (state == State::recording && pause_depth++ == 0) update_recording();
}

void nearfield_observe_resume() {
  if (state == State::recording && --pause_depth == 0) update_recording();
}

void nearfield_observe_region(int begins) {
  if (!is_region_by_pcontrol) return;
  is_in_region = begins;
  update_recording();
}

void nearfield_observe_close() {
  if (state != State::recording) return;
  recorded_thread_pointer = nullptr;
  report_other_threads();
  if (is_in_valgrind)
    nearfield_request_tool(NEARFIELD_END, 0, 0, 0);
  else
    end_stream();
  close_stream_file();
  state = State::over;
}
