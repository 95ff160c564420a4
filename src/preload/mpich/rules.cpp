#include "preload/mpich/rules.hpp"

#include <algorithm>
#include <charconv>
#include <climits>
#include <cstdint>
#include <optional>
#include <vector>

namespace nearfield::tune {
namespace {

constexpr std::string_view setting_prefix = "single_copy_from=";

std::string quote(std::string_view text) { return "'" + std::string(text) + "'"; }

// Returns the parts between semicolons; the last one may be empty.
std::vector<std::string_view> split_at_semicolons(std::string_view text) {
  std::vector<std::string_view> parts;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(';'), text.size());
    parts.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return parts;
}

template <class Number>
std::optional<Number> parse_number(std::string_view text) {
  Number value{};
  const auto read = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || read.ptr != text.data() + text.size() || read.ec != std::errc()) return std::nullopt;
  return value;
}

// Returns the text before and after the first colon. Throws MalformedRules, which cites `form`, if there is no colon.
std::pair<std::string_view, std::string_view> split_at_colon(std::string_view part, const char* form) {
  const std::size_t colon = part.find(':');
  if (colon == std::string_view::npos) throw MalformedRules(quote(part) + " is not of the form " + form);
  return {part.substr(0, colon), part.substr(colon + 1)};
}

Distance parse_distance(std::string_view name) {
  if (const auto distance = distance_from_name(name)) return *distance;
  throw MalformedRules("no distance is called " + quote(name));
}

int parse_min_bytes(std::string_view text) {
  if (text == "never") return INT_MAX;
  const auto bytes = parse_number<std::uint64_t>(text);
  if (!bytes) throw MalformedRules(quote(text) + " is neither a number of bytes nor never");
  // An empty message needs no copy.
  return static_cast<int>(std::clamp<std::uint64_t>(*bytes, 1, INT_MAX));
}

}  // namespace

DistanceRules parse_rules(std::string_view text) {
  DistanceRules rules;
  rules.single_copy_min_bytes.fill(mpich_default);
  for (std::string_view part : split_at_semicolons(text)) {
    const auto [name, setting] = split_at_colon(part, "DISTANCE:single_copy_from=BYTES");
    int& value = rules.single_copy_min_bytes[static_cast<std::size_t>(parse_distance(name))];
    if (!setting.starts_with(setting_prefix))
      throw MalformedRules("in " + quote(part) + " single_copy_from= is missing");
    if (value != mpich_default) throw MalformedRules("there are two rules for " + std::string(name));
    value = parse_min_bytes(setting.substr(setting_prefix.size()));
  }
  return rules;
}

std::map<std::pair<int, int>, Distance> parse_distance_by_rank_pair(std::string_view text) {
  std::map<std::pair<int, int>, Distance> distance_by_rank_pair;
  for (std::string_view part : split_at_semicolons(text)) {
    const auto [ranks, name] = split_at_colon(part, "A-B:DISTANCE");
    const std::size_t dash = std::min(ranks.find('-'), ranks.size());
    const auto a = parse_number<int>(ranks.substr(0, dash));
    const auto b = parse_number<int>(ranks.substr(std::min(dash + 1, ranks.size())));
    if (!a || !b || *a < 0 || *b < 0 || *a == *b) throw MalformedRules(quote(ranks) + " is no pair of ranks A-B");
    distance_by_rank_pair[std::minmax(*a, *b)] = parse_distance(name);
  }
  return distance_by_rank_pair;
}

}  // namespace nearfield::tune
