// Text utilities: trimming, the nearest valid name for error messages, and a writer of one-line JSON objects.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace nearfield {

/// Returns the text without leading and trailing blanks.
std::string_view trim(std::string_view text);

/// Returns the candidate closest to `name` by edit distance; empty if there are no candidates.
std::string nearest_name(std::string_view name, const std::vector<std::string>& candidates);

/// Builds one JSON object. Keys are written in the order of the calls; NaN and infinity become null.
class JsonObject {
 public:
  JsonObject& add(std::string_view key, std::string_view text);
  JsonObject& add(std::string_view key, const char* text) { return add(key, std::string_view(text)); }
  JsonObject& add(std::string_view key, std::int64_t number);
  JsonObject& add(std::string_view key, int number) { return add(key, static_cast<std::int64_t>(number)); }
  JsonObject& add(std::string_view key, double number);
  JsonObject& add(std::string_view key, bool value);
  JsonObject& add(std::string_view key, std::span<const double> numbers);
  JsonObject& add(std::string_view key, std::span<const std::string> texts);
  /// Adds a value that is already JSON text.
  JsonObject& add_raw(std::string_view key, std::string_view json);
  std::string str() const { return text_ + "}"; }

 private:
  void append_key(std::string_view name);
  std::string text_ = "{";
};

/// Returns `text` as a JSON string with quotes.
std::string json_string(std::string_view text);

/// Returns the JSON array of `parts`, each of which is already JSON text.
std::string json_array(std::span<const std::string> parts);

}  // namespace nearfield
