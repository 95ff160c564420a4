#include "preload/collectives/settings.hpp"

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "preload/collectives/call_lengths.hpp"

namespace nearfield::collectives {
namespace {

bool read_number(const char* text, const char* key, int& value) {
  const std::size_t length = std::strlen(key);
  if (std::strncmp(text, key, length) != 0 || text[length] != '=') return false;
  char* end = nullptr;
  const long number = std::strtol(text + length + 1, &end, 10);
  if (end == text + length + 1 || (*end && *end != ',') || number < 0 || number > 1'000'000) return false;
  value = static_cast<int>(number);
  return true;
}

std::uint64_t digest(std::uint64_t value, const char* text, std::size_t length) {
  for (std::size_t i = 0; i < length; ++i) value = (value ^ static_cast<unsigned char>(text[i])) * 0x100000001b3u + 1;
  return value;
}

Settings read_settings(const char* text) {
  Settings read;
  read.counts_lengths = counts_lengths();
  while (text && *text) {
    const std::size_t length = std::strcspn(text, ",");
    if (SelectionEntry entry; read_selection(text, length, entry)) {
      read.digest = digest(read.digest, text, length);
      read.selection.push_back(std::move(entry));
    } else if (length && !read_number(text, "after", read.after) && !read_number(text, "summary", read.summary) &&
               !read_number(text, "node_ranks", read.node_ranks) && !read_number(text, "all_nodes", read.all_nodes))
      std::fprintf(stderr, "nearfield: NEARFIELD_COLLECTIVES: '%.*s' is not understood and changes nothing\n",
                   static_cast<int>(length), text);
    text += length + (text[length] == ',');
  }
  return read;
}

}  // namespace

const Settings& settings() {
  static const Settings read = read_settings(std::getenv("NEARFIELD_COLLECTIVES"));
  return read;
}

}  // namespace nearfield::collectives
