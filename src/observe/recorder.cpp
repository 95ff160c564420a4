#include "observe/recorder.hpp"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <initializer_list>

#include "observe/file.hpp"
#include "observe/interface.h"
#include "observe/objects.hpp"
#include "stream/event_number.hpp"

namespace nearfield::observe {

Encoder encoder;
void* recorded = nullptr;
Callers callers;
Region region;

namespace {

// Numbers of texts that the profiling layer does not get to.
constexpr std::uint64_t text_of_threads = ~std::uint64_t{0} >> 1, text_of_region = text_of_threads - 1;

enum class State { unknown, recording, over };
State state = State::unknown;
void* recorded_thread = nullptr;
bool ranked = false;
bool region_by_mpi = false;  // it is what MPI_Pcontrol cuts out
const char* region_name = "";
int pauses = 0;
bool other_threads = false;  // an access of another thread was seen

void* memory(std::uint64_t bytes) {
  void* const found = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (found != MAP_FAILED) return found;
  fputs("nearfield: no memory is left for recording\n", stderr);
  abort();
}

unsigned char* put_text(unsigned char* to, const char* text) {
  const std::size_t length = strlen(text);
  to = stream::put(to, length);
  memcpy(to, text, length);
  return to + length;
}

// An event of one number and a text, which is a path of a file or a sentence.
template <class Event>
void event_with_text(std::uint64_t first, const char* text) {
  static unsigned char bytes[4096 + 64];
  unsigned char* const end = put_text(stream::put(stream::put(bytes, stream::number_of<Event>), first), text);
  encoder.event(bytes, static_cast<std::uint64_t>(end - bytes));
}

template <class Event>
void event_of_numbers(std::initializer_list<std::uint64_t> numbers) {
  unsigned char bytes[64];
  unsigned char* end = stream::put(bytes, stream::number_of<Event>);
  for (const std::uint64_t number : numbers) end = stream::put(end, number);
  encoder.event(bytes, static_cast<std::uint64_t>(end - bytes));
}

void object_found(std::uint64_t object, const char* path) { event_with_text<stream::Object>(object, path); }

std::uint64_t place(std::uint64_t code, std::uint64_t& offset) {
  const Place found = place_of(code, object_found);
  offset = found.offset;
  return found.object;
}

void begin_child() {
  state = State::over;
  recorded = callers.thread = nullptr;
  abandon_file();
}

// NEARFIELD_OBSERVE_REGION is "pcontrol", or offset and size of a function in the executable's file, and its name:
// "0x1234,96,solve". It is read before main(), which may be that function.
__attribute__((constructor)) void choose_region() {
  const char* const asked = getenv("NEARFIELD_OBSERVE_REGION");
  if (!asked || !*asked) return;
  region_by_mpi = strcmp(asked, "pcontrol") == 0;
  char* rest = nullptr;
  const std::uint64_t offset = strtoull(asked, &rest, 16);
  if (region_by_mpi || *rest != ',') return;
  region = {executable_base() + offset, strtoull(rest + 1, &rest, 10)};
  if (*rest == ',') region_name = rest + 1;
}

void begin() {
  state = State::over;
  const char* const folder = getenv("NEARFIELD_OBSERVE");
  if (!folder || !*folder || !open_file(folder)) return;
  encoder.begin({memory, place, write_chunk});
  recorded_thread = __builtin_thread_pointer();
  pthread_atfork(nullptr, nullptr, begin_child);
  state = State::recording;
  recorded = callers.thread = recorded_thread;
  if (region_by_mpi || region.size > 0) nearfield_observe_pause();
}

// Tells once that there were other threads; only the recorded one may.
void tell_threads() {
  static bool told = false;
  if (told || !__atomic_load_n(&other_threads, __ATOMIC_RELAXED)) return;
  told = true;
  event_with_text<stream::Text>(text_of_threads,
                                "threads: several of a process access memory, and only one is recorded");
  event_of_numbers<stream::Refused>({text_of_threads});
}

// The function that is the region was entered, or was left.
void tell_region(bool begins) {
  static bool told = false;
  if (!told) event_with_text<stream::Text>(text_of_region, region_name);
  told = true;
  event_of_numbers<stream::Region>({text_of_region, stream::folded(begins ? 1 : 0)});
}

// The Sites event, in a chunk of its own. Places come first, because asking for them may find objects.
void tell_sites() {
  std::uint64_t sites = 0, paths = 0;
  encoder.for_each_site([&](std::uint64_t code) { place_of(code, object_found), ++sites; });
  encoder.finish_chunk();
  for (std::uint64_t i = 0; i < found_objects(); ++i) paths += stream::most_bytes + strlen(path_of(i));
  const std::uint64_t room = paths + (2 * sites + 3) * stream::most_bytes;
  auto* const bytes = static_cast<unsigned char*>(memory(room));
  unsigned char* end = stream::put(stream::put(bytes, stream::number_of<stream::Sites>), found_objects());
  for (std::uint64_t i = 0; i < found_objects(); ++i) end = put_text(end, path_of(i));
  end = stream::put(end, 2 * sites);
  encoder.for_each_site([&](std::uint64_t code) {
    const Place place = place_of(code, object_found);
    end = stream::put(stream::put(end, place.object), place.offset);
  });
  const auto length = static_cast<std::uint64_t>(end - bytes);
  if (length < stream::chunk_bytes / 2) encoder.event(bytes, length);
  munmap(bytes, room);
}

__attribute__((destructor)) void end() {
  if (state != State::recording) return;
  if (!ranked) {  // a program without MPI is rank 0 of 1
    name_file(0);
    event_of_numbers<stream::End>({});
  }
  nearfield_observe_close();
}

}  // namespace

bool first_access() {
  if (state == State::unknown) begin();
  if (state == State::recording && __builtin_thread_pointer() != recorded_thread)
    __atomic_store_n(&other_threads, true, __ATOMIC_RELAXED);
  return here();
}

void access_elsewhere(Encoder::Key key, std::uint64_t address) {
  if (first_access()) encoder.access(key, address);
}

void enter_or_leave(bool enters) {
  if (state == State::unknown) begin();
  if (__builtin_thread_pointer() != recorded_thread) return;
  if (enters ? region.depth++ > 0 : --region.depth > 0) return;
  if (state == State::recording) tell_region(enters);
  if (enters)
    nearfield_observe_resume();
  else
    nearfield_observe_pause();
}

}  // namespace nearfield::observe

using namespace nearfield::observe;

int nearfield_observe_active() {
  if (state == State::unknown) begin();
  return state == State::recording;
}

void nearfield_observe_rank(int rank) {
  name_file(rank);
  ranked = true;
}

void nearfield_observe_event(const unsigned char* bytes, unsigned long size) {
  if (state != State::recording) return;
  tell_threads();
  encoder.event(bytes, size);
}

unsigned long nearfield_observe_place(const void* address, unsigned long* offset) {
  encoder.mention(reinterpret_cast<std::uint64_t>(address));
  const Place found = place_of(reinterpret_cast<std::uint64_t>(address), object_found);
  *offset = found.offset;
  return found.object;
}

int nearfield_observe_callers(const void** addresses, int most) {
  int count = 0;
  for (unsigned i = callers.depth; i > 0 && callers.depth <= Callers::most && count < most; --i)
    addresses[count++] = callers.at[i - 1];
  return count;
}

void nearfield_observe_pause() {
  if (state == State::recording && pauses++ == 0) recorded = nullptr;
}

void nearfield_observe_resume() {
  if (state == State::recording && --pauses == 0) recorded = recorded_thread;
}

void nearfield_observe_region(int begins) {
  static bool inside = false;
  if (!region_by_mpi || inside == (begins != 0)) return;
  inside = begins;
  if (begins)
    nearfield_observe_resume();
  else
    nearfield_observe_pause();
}

void nearfield_observe_close() {
  if (state != State::recording) return;
  recorded = nullptr;
  tell_threads();
  tell_sites();
  encoder.finish_chunk();
  close_file();
  state = State::over;
}
