#include "base/text.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <limits>
#include <numeric>

namespace nearfield {
namespace {

std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replaced = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, replaced});
    }
  }
  return row[b.size()];
}

std::string json_number(double number) {
  if (!std::isfinite(number)) return "null";
  char buffer[32];
  const auto [end, error] = std::to_chars(buffer, buffer + sizeof buffer, number, std::chars_format::general, 9);
  return {buffer, end};
}

template <class Range, class Format>
std::string to_json_array(const Range& range, Format format) {
  std::string text = "[";
  for (const auto& item : range) {
    if (text.size() > 1) text += ',';
    text += format(item);
  }
  return text + "]";
}

}  // namespace

std::string_view trim(std::string_view text) {
  const auto first = text.find_first_not_of(" \t\r");
  return first == text.npos ? "" : text.substr(first, text.find_last_not_of(" \t\r") - first + 1);
}

std::string nearest_name(std::string_view name, const std::vector<std::string>& candidates) {
  std::string best;
  std::size_t best_distance = std::numeric_limits<std::size_t>::max();
  for (const auto& candidate : candidates) {
    const std::size_t distance = edit_distance(name, candidate);
    if (distance < best_distance) {
      best_distance = distance;
      best = candidate;
    }
  }
  return best;
}

std::string json_string(std::string_view text) {
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      quoted += '\\';
      quoted += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      char escape[8];
      std::snprintf(escape, sizeof escape, "\\u%04x", static_cast<unsigned>(c));
      quoted += escape;
    } else {
      quoted += c;
    }
  }
  return quoted + '"';
}

std::string json_array(std::span<const std::string> parts) {
  return to_json_array(parts, [](const std::string& part) { return part; });
}

void JsonObject::append_key(std::string_view name) {
  if (text_.size() > 1) text_ += ',';
  text_ += json_string(name) + ":";
}

JsonObject& JsonObject::add(std::string_view name, std::string_view text) { return add_raw(name, json_string(text)); }

JsonObject& JsonObject::add(std::string_view name, std::int64_t number) {
  return add_raw(name, std::to_string(number));
}

JsonObject& JsonObject::add(std::string_view name, double number) { return add_raw(name, json_number(number)); }

JsonObject& JsonObject::add(std::string_view name, bool value) { return add_raw(name, value ? "true" : "false"); }

JsonObject& JsonObject::add(std::string_view name, std::span<const double> numbers) {
  return add_raw(name, to_json_array(numbers, json_number));
}

JsonObject& JsonObject::add(std::string_view name, std::span<const std::string> texts) {
  return add_raw(name, to_json_array(texts, [](const std::string& text) { return json_string(text); }));
}

JsonObject& JsonObject::add_raw(std::string_view name, std::string_view json) {
  append_key(name);
  text_ += json;
  return *this;
}

}  // namespace nearfield
