#include "preload/collectives/settings.hpp"

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "preload/collectives/call_lengths.hpp"

namespace nearfield::collectives {
namespace {

bool parse_number_setting(const char* text, const char* key, int& value) {
  const std::size_t length = std::strlen(key);
  if (std::strncmp(text, key, length) != 0 || text[length] != '=') return false;
  char* end = nullptr;
  const long number = std::strtol(text + length + 1, &end, 10);
  if (end == text + length + 1 || (*end && *end != ',') || number < 0 || number > 1'000'000) return false;
  value = static_cast<int>(number);
  return true;
}

std::uint64_t extend_digest(std::uint64_t value, const char* text, std::size_t length) {
  for (std::size_t i = 0; i < length; ++i) value = (value ^ static_cast<unsigned char>(text[i])) * 0x100000001b3u + 1;
  return value;
}

Settings parse_settings(const char* text) {
  Settings parsed;
  parsed.counts_lengths = is_counting_lengths();
  while (text && *text) {
    const std::size_t length = std::strcspn(text, ",");
    if (AlgorithmRule entry; parse_algorithm_rule(text, length, entry)) {
      parsed.rules_digest = extend_digest(parsed.rules_digest, text, length);
      parsed.algorithm_rules.push_back(std::move(entry));
    } else if (length && !parse_number_setting(text, "after", parsed.num_calls_before_connecting) &&
               !parse_number_setting(text, "summary", parsed.summary_level) &&
               !parse_number_setting(text, "node_ranks", parsed.ranks_per_node_for_tests) &&
               !parse_number_setting(text, "all_nodes", parsed.is_library_on_all_nodes))
      std::fprintf(stderr, "nearfield: NEARFIELD_COLLECTIVES: '%.*s' is not understood and changes nothing\n",
                   static_cast<int>(length), text);
    text += length + (text[length] == ',');
  }
  return parsed;
}

}  // namespace

const Settings& settings() {
  static const Settings parsed = parse_settings(std::getenv("NEARFIELD_COLLECTIVES"));
  return parsed;
}

}  // namespace nearfield::collectives
