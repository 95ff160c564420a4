#include "preload/observe/process_stream.hpp"

namespace nearfield::observe {

stream::Encoder encoder;

namespace {

constexpr std::uint64_t max_objects = 512;
Object objects[max_objects];
std::uint64_t known = 0;

// Text numbers that the profiling layer never reaches.
constexpr std::uint64_t text_of_threads = ~std::uint64_t{0} >> 1, text_of_region = text_of_threads - 1;

std::uint64_t place(std::uint64_t code, std::uint64_t& offset) {
  const CodeLocation found = code_location(code);
  offset = found.offset;
  return found.object;
}

}  // namespace

void begin_stream() { encoder.begin({platform::memory, place, platform::write_chunk}); }

CodeLocation code_location(std::uint64_t code) {
  for (std::uint64_t i = 0; i < known; ++i)
    if (code >= objects[i].begin && code <= objects[i].end) return {i, code - objects[i].base};
  const std::uint64_t number = known < max_objects ? known++ : max_objects - 1;
  objects[number] = platform::object_at(code);
  event_with_text<stream::Object>(number, objects[number].path);
  return {number, code - objects[number].base};
}

std::uint64_t emit_location_once(std::uint64_t code, std::uint64_t& offset) {
  encoder.add_silent_site(code);
  return place(code, offset);
}

void record_other_threads() {
  static bool recorded_once = false;
  if (recorded_once) return;
  recorded_once = true;
  event_with_text<stream::Text>(text_of_threads,
                                "threads: several of a process access memory, and only one is recorded");
  event_of_numbers<stream::Unsupported>({text_of_threads});
}

void record_region(const char* name, bool begins) {
  static bool recorded_once = false;
  if (!recorded_once) event_with_text<stream::Text>(text_of_region, name);
  recorded_once = true;
  event_of_numbers<stream::Region>({text_of_region, stream::zigzag_encode(begins ? 1 : 0)});
}

// Locations are resolved first, because that may find further objects.
void end_stream() {
  std::uint64_t sites = 0, paths = 0;
  encoder.for_each_site([&](std::uint64_t code) { code_location(code), ++sites; });
  encoder.finish_chunk();
  for (std::uint64_t i = 0; i < known; ++i) paths += stream::max_number_bytes + strlen(objects[i].path);
  const std::uint64_t room = paths + (2 * sites + 3) * stream::max_number_bytes;
  auto* const bytes = static_cast<unsigned char*>(platform::memory(room));
  unsigned char* end = stream::put_number(stream::put_number(bytes, stream::event_kind_number<stream::Sites>), known);
  for (std::uint64_t i = 0; i < known; ++i) end = put_text(end, objects[i].path);
  end = stream::put_number(end, 2 * sites);
  encoder.for_each_site([&](std::uint64_t code) {
    const CodeLocation location = code_location(code);
    end = stream::put_number(stream::put_number(end, location.object), location.offset);
  });
  const auto length = static_cast<std::uint64_t>(end - bytes);
  if (length < stream::chunk_bytes / 2) platform::event(bytes, length);
  encoder.finish_chunk();
}

}  // namespace nearfield::observe
