#include "preload/heap/settings.hpp"

#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace nearfield::heap {
namespace {

struct SettingKey {
  const char* name;
  std::size_t Settings::* value;
};

constexpr SettingKey setting_keys[] = {
    {"on", &Settings::is_enabled},           {"from", &Settings::min_block_bytes},
    {"far_ns", &Settings::far_threshold_ns}, {"huge", &Settings::allows_huge_pages},
    {"at_start", &Settings::opens_at_start}, {"share_first", &Settings::shares_at_first_message},
};

// Parses ranges such as "65536-2097152+8388608-", or "never". Returns false, and changes nothing, if the text is
// invalid.
bool parse_size_ranges(const char* text, MessageSizes& sizes) {
  MessageSizes parsed;
  if (std::strcmp(text, "never") == 0) text = "";
  while (*text) {
    if (parsed.num_ranges == MessageSizes::max_ranges || *text < '0' || *text > '9') return false;
    char* end = nullptr;
    auto& range = parsed.ranges[parsed.num_ranges++];
    range.min_bytes = std::strtoull(text, &end, 10);
    if (*end != '-') return false;
    text = end + 1;
    range.max_bytes = *text >= '0' && *text <= '9' ? std::strtoull(text, &end, 10) : static_cast<std::size_t>(-1);
    if (*text >= '0' && *text <= '9') text = end;
    if (*text && *text != '+') return false;
    text += *text == '+';
  }
  sizes = parsed;
  return true;
}

bool is_equal_to_key(const char* name, const char* text, std::size_t length) {
  return std::strlen(name) == length && std::strncmp(name, text, length) == 0;
}

// Parses one "key=value" and sets the value. Returns whether it is valid.
bool parse_key_value(const char* text, std::size_t length, Settings& settings) {
  const char* equals = static_cast<const char*>(std::memchr(text, '=', length));
  if (!equals) return false;
  const auto name_length = static_cast<std::size_t>(equals - text);
  const std::size_t value_length = length - name_length - 1;
  char value[sizeof settings.report_folder];
  if (value_length == 0 || value_length >= sizeof value) return false;
  std::memcpy(value, equals + 1, value_length);
  value[value_length] = '\0';
  if (is_equal_to_key("report", text, name_length)) {
    std::memcpy(settings.report_folder, value, value_length + 1);
    return true;
  }
  if (is_equal_to_key("stream", text, name_length)) return parse_size_ranges(value, settings.streaming_sizes);
  if (is_equal_to_key("help", text, name_length)) return parse_size_ranges(value, settings.cooperative_copy_sizes);
  if (is_equal_to_key("far_stream", text, name_length))
    return parse_size_ranges(value, settings.streaming_sizes_when_far);
  char* end = nullptr;
  const unsigned long long number = std::strtoull(value, &end, 10);
  if (*end || value[0] < '0' || value[0] > '9') return false;
  for (const SettingKey& key : setting_keys)
    if (is_equal_to_key(key.name, text, name_length)) {
      settings.*key.value = number;
      return true;
    }
  return false;
}

}  // namespace

void parse_job_key(const char* text, Settings& settings) {
  if (text && std::strlen(text) == Settings::key_bytes) std::memcpy(settings.job_key, text, Settings::key_bytes);
}

bool are_valid_settings(const char* text) {
  Settings scratch;
  while (*text) {
    const std::size_t length = std::strcspn(text, ",");
    if (length && !parse_key_value(text, length, scratch)) return false;
    text += length + (text[length] == ',');
  }
  return !scratch.report_folder[0];
}

void parse_settings(const char* text, Settings& settings) {
  while (text && *text) {
    const std::size_t length = std::strcspn(text, ",");
    if (length && !parse_key_value(text, length, settings))
      std::fprintf(stderr, "nearfield: NEARFIELD_HEAP: '%.*s' is not understood and changes nothing\n",
                   static_cast<int>(length), text);
    text += length + (text[length] == ',');
  }
}

}  // namespace nearfield::heap
