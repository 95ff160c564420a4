#include "preload/observe/process_stream.hpp"

namespace nearfield::observe {

stream::Encoder encoder;

namespace {

constexpr std::uint64_t max_objects = 512;
LoadedObject objects[max_objects];
std::uint64_t num_objects = 0;

// The Text numbers of this file. The profiling layer counts its own Text numbers from 1 and never reaches them.
constexpr std::uint64_t threads_text_number = ~std::uint64_t{0} >> 1, region_text_number = threads_text_number - 1;

std::uint64_t locate_code(std::uint64_t code, std::uint64_t& offset) {
  const CodeLocation location = resolve_code_location(code);
  offset = location.offset;
  return location.object;
}

void record_dependence(std::uint64_t code, std::uint64_t producer) {
  const CodeLocation load = resolve_code_location(code), producer_location = resolve_code_location(producer);
  write_event_of_numbers<stream::Dependence>(
      {load.object, load.offset, producer_location.object, producer_location.offset});
}

}  // namespace

void begin_stream() {
  encoder.start({platform::allocate_zeroed, locate_code, record_dependence, platform::write_chunk});
}

CodeLocation resolve_code_location(std::uint64_t code) {
  for (std::uint64_t i = 0; i < num_objects; ++i)
    if (code >= objects[i].begin && code <= objects[i].end) return {i, code - objects[i].base};
  const std::uint64_t number = num_objects < max_objects ? num_objects++ : max_objects - 1;
  objects[number] = platform::object_at(code);
  write_event_with_text<stream::Object>(number, objects[number].path);
  return {number, code - objects[number].base};
}

std::uint64_t resolve_mpi_call_site(std::uint64_t code, std::uint64_t& offset) {
  encoder.add_silent_site(code);
  return locate_code(code, offset);
}

void record_other_threads() {
  static bool is_recorded = false;
  if (is_recorded) return;
  is_recorded = true;
  write_event_with_text<stream::Text>(threads_text_number,
                                      "threads: several of a process access memory, and only one is recorded");
  write_event_of_numbers<stream::Unsupported>({threads_text_number});
}

void record_region(const char* name, bool begins) {
  static bool is_recorded = false;
  if (!is_recorded) write_event_with_text<stream::Text>(region_text_number, name);
  is_recorded = true;
  write_event_of_numbers<stream::Region>({region_text_number, stream::zigzag_encode(begins ? 1 : 0)});
}

// All locations are resolved first, because that may find further objects, which the event lists before the locations.
void end_stream() {
  std::uint64_t num_sites = 0, path_bytes = 0;
  encoder.for_each_site([&](std::uint64_t code) { resolve_code_location(code), ++num_sites; });
  encoder.finish_chunk();
  for (std::uint64_t i = 0; i < num_objects; ++i) path_bytes += stream::max_number_bytes + strlen(objects[i].path);
  const std::uint64_t max_event_bytes = path_bytes + (2 * num_sites + 3) * stream::max_number_bytes;
  auto* const bytes = static_cast<unsigned char*>(platform::allocate_zeroed(max_event_bytes));
  unsigned char* end =
      stream::put_number(stream::put_number(bytes, stream::event_kind_number<stream::Sites>), num_objects);
  for (std::uint64_t i = 0; i < num_objects; ++i) end = put_text(end, objects[i].path);
  end = stream::put_number(end, 2 * num_sites);
  encoder.for_each_site([&](std::uint64_t code) {
    const CodeLocation location = resolve_code_location(code);
    end = stream::put_number(stream::put_number(end, location.object), location.offset);
  });
  const auto length = static_cast<std::uint64_t>(end - bytes);
  if (length < stream::chunk_bytes / 2) platform::write_event(bytes, length);
  encoder.finish_chunk();
}

}  // namespace nearfield::observe
