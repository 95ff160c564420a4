#include "preload/observe/process_stream.hpp"

namespace nearfield::observe {

stream::Encoder encoder;

namespace {

constexpr std::uint64_t max_objects = 512;
Object objects[max_objects];
std::uint64_t known_objects = 0;

// The Text numbers of this file. The profiling layer counts its own Text numbers from 1 and never reaches them.
constexpr std::uint64_t text_of_threads = ~std::uint64_t{0} >> 1, text_of_region = text_of_threads - 1;

std::uint64_t resolve_place(std::uint64_t code, std::uint64_t& offset) {
  const CodeLocation found = resolve_code_location(code);
  offset = found.offset;
  return found.object;
}

void record_dependence(std::uint64_t code, std::uint64_t producer) {
  const CodeLocation load = resolve_code_location(code), cause = resolve_code_location(producer);
  write_event_of_numbers<stream::Dependence>({load.object, load.offset, cause.object, cause.offset});
}

}  // namespace

void begin_stream() {
  encoder.begin({platform::allocate_zeroed, resolve_place, record_dependence, platform::write_chunk});
}

CodeLocation resolve_code_location(std::uint64_t code) {
  for (std::uint64_t i = 0; i < known_objects; ++i)
    if (code >= objects[i].begin && code <= objects[i].end) return {i, code - objects[i].base};
  const std::uint64_t number = known_objects < max_objects ? known_objects++ : max_objects - 1;
  objects[number] = platform::object_at(code);
  write_event_with_text<stream::Object>(number, objects[number].path);
  return {number, code - objects[number].base};
}

std::uint64_t emit_location_once(std::uint64_t code, std::uint64_t& offset) {
  encoder.add_silent_site(code);
  return resolve_place(code, offset);
}

void record_other_threads() {
  static bool recorded_once = false;
  if (recorded_once) return;
  recorded_once = true;
  write_event_with_text<stream::Text>(text_of_threads,
                                      "threads: several of a process access memory, and only one is recorded");
  write_event_of_numbers<stream::Unsupported>({text_of_threads});
}

void record_region(const char* name, bool begins) {
  static bool recorded_once = false;
  if (!recorded_once) write_event_with_text<stream::Text>(text_of_region, name);
  recorded_once = true;
  write_event_of_numbers<stream::Region>({text_of_region, stream::zigzag_encode(begins ? 1 : 0)});
}

// Resolves all locations first, because that may find further objects, which the event lists before the locations.
void end_stream() {
  std::uint64_t sites = 0, paths = 0;
  encoder.for_each_site([&](std::uint64_t code) { resolve_code_location(code), ++sites; });
  encoder.finish_chunk();
  for (std::uint64_t i = 0; i < known_objects; ++i) paths += stream::max_number_bytes + strlen(objects[i].path);
  const std::uint64_t room = paths + (2 * sites + 3) * stream::max_number_bytes;
  auto* const bytes = static_cast<unsigned char*>(platform::allocate_zeroed(room));
  unsigned char* end =
      stream::put_number(stream::put_number(bytes, stream::event_kind_number<stream::Sites>), known_objects);
  for (std::uint64_t i = 0; i < known_objects; ++i) end = put_text(end, objects[i].path);
  end = stream::put_number(end, 2 * sites);
  encoder.for_each_site([&](std::uint64_t code) {
    const CodeLocation location = resolve_code_location(code);
    end = stream::put_number(stream::put_number(end, location.object), location.offset);
  });
  const auto length = static_cast<std::uint64_t>(end - bytes);
  if (length < stream::chunk_bytes / 2) platform::write_event(bytes, length);
  encoder.finish_chunk();
}

}  // namespace nearfield::observe
