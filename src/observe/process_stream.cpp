#include "observe/process_stream.hpp"

namespace nearfield::observe {

stream::Encoder encoder;

namespace {

constexpr std::uint64_t most_objects = 512;
Object objects[most_objects];
std::uint64_t known = 0;

// Numbers of texts that the profiling layer does not get to.
constexpr std::uint64_t text_of_threads = ~std::uint64_t{0} >> 1, text_of_region = text_of_threads - 1;

std::uint64_t place(std::uint64_t code, std::uint64_t& offset) {
  const Place found = place_of(code);
  offset = found.offset;
  return found.object;
}

}  // namespace

void begin_stream() { encoder.begin({platform::memory, place, platform::write_chunk}); }

Place place_of(std::uint64_t code) {
  for (std::uint64_t i = 0; i < known; ++i)
    if (code >= objects[i].begin && code <= objects[i].end) return {i, code - objects[i].base};
  const std::uint64_t number = known < most_objects ? known++ : most_objects - 1;
  objects[number] = platform::object_at(code);
  event_with_text<stream::Object>(number, objects[number].path);
  return {number, code - objects[number].base};
}

std::uint64_t mentioned(std::uint64_t code, std::uint64_t& offset) {
  encoder.mention(code);
  return place(code, offset);
}

void tell_threads() {
  static bool told = false;
  if (told) return;
  told = true;
  event_with_text<stream::Text>(text_of_threads,
                                "threads: several of a process access memory, and only one is recorded");
  event_of_numbers<stream::Refused>({text_of_threads});
}

void tell_region(const char* name, bool begins) {
  static bool told = false;
  if (!told) event_with_text<stream::Text>(text_of_region, name);
  told = true;
  event_of_numbers<stream::Region>({text_of_region, stream::folded(begins ? 1 : 0)});
}

// Places come first, because asking for them may find objects.
void end_stream() {
  std::uint64_t sites = 0, paths = 0;
  encoder.for_each_site([&](std::uint64_t code) { place_of(code), ++sites; });
  encoder.finish_chunk();
  for (std::uint64_t i = 0; i < known; ++i) paths += stream::most_bytes + strlen(objects[i].path);
  const std::uint64_t room = paths + (2 * sites + 3) * stream::most_bytes;
  auto* const bytes = static_cast<unsigned char*>(platform::memory(room));
  unsigned char* end = stream::put(stream::put(bytes, stream::number_of<stream::Sites>), known);
  for (std::uint64_t i = 0; i < known; ++i) end = put_text(end, objects[i].path);
  end = stream::put(end, 2 * sites);
  encoder.for_each_site([&](std::uint64_t code) {
    const Place its = place_of(code);
    end = stream::put(stream::put(end, its.object), its.offset);
  });
  const auto length = static_cast<std::uint64_t>(end - bytes);
  if (length < stream::chunk_bytes / 2) platform::event(bytes, length);
  encoder.finish_chunk();
}

}  // namespace nearfield::observe
