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
CallStack recorded_call_stack;
RecordedRegion region;

namespace {

enum class RecorderState { unknown, recording, ended };
RecorderState recorder_state = RecorderState::unknown;
void* recorded_thread = nullptr;
bool is_in_valgrind = false;
bool is_rank_assigned = false;
bool is_region_by_pcontrol = false;  // calls of MPI_Pcontrol delimit the region
bool is_in_region = true;
int pause_depth = 0;             // nesting depth of pauses by MPI calls
bool has_other_threads = false;  // another thread has accessed memory

// Starts or stops the recording of accesses, as `pause_depth` and `is_in_region` require.
void update_recording() {
  if (recorder_state != RecorderState::recording) return;
  const bool is_on = pause_depth == 0 && is_in_region;
  if (is_in_valgrind)
    nearfield_request_tool(NEARFIELD_STATE, is_on, pause_depth > 0, 0);
  else
    recorded_thread_pointer = is_on ? recorded_thread : nullptr;
}

void stop_in_forked_child() {
  recorder_state = RecorderState::ended;
  recorded_thread_pointer = recorded_call_stack.thread = nullptr;
  close_inherited_stream_file();
}

// Parses NEARFIELD_OBSERVE_REGION: "pcontrol", or the offset, the size and the name of a function in the executable's
// file, such as "0x1234,96,solve". Runs before main(), which may be this function.
__attribute__((constructor(200))) void parse_region() {
  const char* const setting = getenv("NEARFIELD_OBSERVE_REGION");
  if (!setting || !*setting) return;
  is_region_by_pcontrol = strcmp(setting, "pcontrol") == 0;
  char* remaining_text = nullptr;
  const std::uint64_t offset = strtoull(setting, &remaining_text, 16);
  if (!is_region_by_pcontrol && *remaining_text == ',') {
    region.begin = executable_base() + offset;
    region.size = strtoull(remaining_text + 1, &remaining_text, 10);
    region.name = *remaining_text == ',' ? remaining_text + 1 : "";
  }
  is_in_region = !is_region_by_pcontrol && region.size == 0;
}

void begin_recording() {
  recorder_state = RecorderState::ended;
  const char* const folder = getenv("NEARFIELD_OBSERVE");
  if (!folder || !*folder || !open_stream_file(folder)) return;
  pthread_atfork(nullptr, nullptr, stop_in_forked_child);
  recorded_thread = __builtin_thread_pointer();
  recorder_state = RecorderState::recording;
  is_in_valgrind = nearfield_request_tool(NEARFIELD_BEGIN, static_cast<unsigned long>(stream_descriptor()),
                                          reinterpret_cast<unsigned long>(static_cast<nearfield_region*>(&region)), 0);
  if (!is_in_valgrind) {
    begin_stream();
    recorded_call_stack.thread = recorded_thread;
  } else if (region.size > 0) {
    is_in_region = true;  // the tool tracks the region
  }
  update_recording();
}

// Begins recording before main() under Valgrind's tool: a program without hooks does not call
// begin_recording_at_first_access().
__attribute__((constructor)) void begin_in_valgrind() {
  if (nearfield_request_tool(NEARFIELD_PRESENT, 0, 0, 0)) begin_recording();
}

void report_other_threads() {
  if (__atomic_load_n(&has_other_threads, __ATOMIC_RELAXED)) record_other_threads();
}

__attribute__((destructor)) void end_recording() {
  if (recorder_state != RecorderState::recording) return;
  if (!is_rank_assigned) {  // a program without MPI is rank 0 of 1
    assign_rank_to_stream(0, 1);
    write_event_of_numbers<stream::End>({});
  }
  nearfield_observe_close();
}

}  // namespace

bool begin_recording_at_first_access() {
  if (recorder_state == RecorderState::unknown) begin_recording();
  if (recorder_state == RecorderState::recording && __builtin_thread_pointer() != recorded_thread)
    __atomic_store_n(&has_other_threads, true, __ATOMIC_RELAXED);
  return in_recorded_thread();
}

void record_first_access(Encoder::SiteKey key, std::uint64_t address) {
  if (begin_recording_at_first_access()) record_in_stream(key, address);
}

void cross_region_boundary(bool enters) {
  if (recorder_state == RecorderState::unknown) begin_recording();
  if (is_in_valgrind || __builtin_thread_pointer() != recorded_thread) return;
  if (enters ? region.depth++ > 0 : --region.depth > 0) return;
  if (recorder_state == RecorderState::recording) record_region(region.name, enters);
  is_in_region = enters;
  update_recording();
}

void* platform::allocate_zeroed(std::uint64_t bytes) {
  void* const memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory != MAP_FAILED) return memory;
  fputs("nearfield: no memory is left for recording\n", stderr);
  abort();
}

void platform::write_event(const unsigned char* bytes, std::uint64_t size) {
  if (is_in_valgrind)
    nearfield_request_tool(NEARFIELD_EVENT, reinterpret_cast<unsigned long>(bytes), size, 0);
  else
    encoder.encode_event(bytes, size);
}

}  // namespace nearfield::observe

using namespace nearfield::observe;

int nearfield_observe_active() {
  if (recorder_state == RecorderState::unknown) begin_recording();
  return recorder_state == RecorderState::recording;
}

void nearfield_observe_rank(int rank, int ranks) {
  assign_rank_to_stream(rank, ranks);
  is_rank_assigned = true;
}

int nearfield_observe_reply_socket() {
  return getenv("NEARFIELD_OBSERVE_ASK") && !is_in_valgrind ? reply_descriptor() : -1;
}

int nearfield_observe_clock() { return getenv("NEARFIELD_OBSERVE_CLOCK") != nullptr; }

// Files get larger chunks than a live simulation, because each chunk repeats the definitions of its sites.
void nearfield_observe_flush() {
  constexpr unsigned flushes_per_chunk = 10;
  static unsigned num_flushes = 0;
  if (recorder_state != RecorderState::recording ||
      (!is_read_by_simulation() && ++num_flushes % flushes_per_chunk != 0))
    return;
  if (is_in_valgrind)
    nearfield_request_tool(NEARFIELD_FLUSH, 0, 0, 0);
  else
    encoder.finish_chunk();
}

void nearfield_observe_event(const unsigned char* bytes, unsigned long size) {
  if (recorder_state != RecorderState::recording) return;
  report_other_threads();
  platform::write_event(bytes, size);
}

unsigned long nearfield_observe_place(const void* address, unsigned long* offset) {
  const auto code = reinterpret_cast<std::uint64_t>(address);
  if (is_in_valgrind) return nearfield_request_tool(NEARFIELD_PLACE, code, reinterpret_cast<unsigned long>(offset), 0);
  return resolve_mpi_call_site(code, *offset);
}

int nearfield_observe_callers(const void* call, const void** addresses, int max_count) {
  if (is_in_valgrind)
    return static_cast<int>(nearfield_request_tool(NEARFIELD_CALLERS, reinterpret_cast<unsigned long>(call),
                                                   reinterpret_cast<unsigned long>(addresses),
                                                   static_cast<unsigned long>(max_count)));
  int count = 0;
  for (unsigned i = recorded_call_stack.depth;
       i > 0 && recorded_call_stack.depth <= CallStack::max_depth && count < max_count; --i)
    addresses[count++] = recorded_call_stack.call_sites[i - 1];
  return count;
}

void nearfield_observe_pause() {
  if (recorder_state == RecorderState::recording && pause_depth++ == 0) update_recording();
}

void nearfield_observe_resume() {
  if (recorder_state == RecorderState::recording && --pause_depth == 0) update_recording();
}

void nearfield_observe_region(int begins) {
  if (!is_region_by_pcontrol) return;
  is_in_region = begins;
  update_recording();
}

void nearfield_observe_close() {
  if (recorder_state != RecorderState::recording) return;
  recorded_thread_pointer = nullptr;
  report_other_threads();
  if (is_in_valgrind)
    nearfield_request_tool(NEARFIELD_END, 0, 0, 0);
  else
    end_stream();
  close_stream_file();
  recorder_state = RecorderState::ended;
}
