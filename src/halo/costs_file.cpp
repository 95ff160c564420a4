#include "halo/costs_file.hpp"

#include <algorithm>
#include <charconv>
#include <set>
#include <sstream>
#include <stdexcept>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "base/text.hpp"

namespace nearfield::planning {
namespace {

constexpr const char* origin_key = "origin";
constexpr const char* remedy = "; mend it, or write the file anew with nearfield's verb halo and --costs PROFILE";

using Value = std::variant<double*, std::int64_t*, Curve*>;
using Values = std::vector<std::pair<std::string, Value>>;

Values values_of(Costs& costs) {
  Values list;
  const auto add = [&](const std::string& name, Link& link) {
    list.insert(list.end(), {{name + ".latency_ns", &link.latency_ns},
                             {name + ".ns_per_byte", &link.ns_per_byte},
                             {name + ".strided", &link.strided},
                             {name + ".banked", &link.banked},
                             {name + ".load_factor", &link.load_factor},
                             {name + ".load_from_bytes", &link.load_from_bytes}});
  };
  add("in_place", *costs.in_place);
  add("same_node", costs.same_node);
  add("network", costs.network);
  list.emplace_back("copy_ns_per_byte", &costs.copy_ns_per_byte);
  list.emplace_back("sweep_ns_per_cell", &costs.sweep_ns_per_cell);
  return list;
}

template <class Number>
std::string written(Number number) {
  char buffer[32];
  return {buffer, std::to_chars(buffer, buffer + sizeof buffer, number).ptr};
}

std::string written(const Curve& curve) {
  std::string text;
  for (const auto& [x, y] : curve) text += (text.empty() ? "" : " ") + written(x) + ":" + written(y);
  return text;
}

template <class Number>
Number read_number(std::string_view word) {
  Number number{};
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), number);
  if (error != std::errc{} || end != word.data() + word.size() || !(number >= 0) || number > Number(1e18))
    throw std::invalid_argument("'" + std::string(word) + "' is no number from 0 on");
  return number;
}

Curve read_curve(std::string_view words) {
  Curve curve;
  std::istringstream in{std::string(words)};
  for (std::string word; in >> word;) {
    const auto colon = word.find(':');
    if (colon == std::string::npos) throw std::invalid_argument("'" + word + "' is no point of a curve, as 64:0.1");
    const std::string_view whole = word;
    curve[read_number<std::int64_t>(whole.substr(0, colon))] = read_number<double>(whole.substr(colon + 1));
  }
  return curve;
}

void read(std::string_view words, const Value& value) {
  std::visit(
      [&](auto* to) {
        using Kind = std::remove_pointer_t<decltype(to)>;
        if constexpr (std::is_same_v<Kind, Curve>)
          *to = read_curve(words);
        else
          *to = read_number<Kind>(words);
      },
      value);
}

std::string_view trimmed(std::string_view text) {
  const auto first = text.find_first_not_of(" \t\r");
  return first == text.npos ? "" : text.substr(first, text.find_last_not_of(" \t\r") - first + 1);
}

// The file may come from somebody else, and its texts go to terminals, where these are commands.
bool is_control(unsigned char c) { return (c < ' ' && c != '\t') || c == 0x7f; }

}  // namespace

std::string costs_text(const KnownCosts& known) {
  if (!known.costs.in_place) throw std::invalid_argument("costs without reading in place are not for the halo library");
  Costs costs = known.costs;
  std::string text = "# What messages cost, for nearfield's halo library: NEARFIELD_HALO_COSTS names this file.\n";
  for (const auto& [key, value] : values_of(costs)) {
    const auto words = std::visit([](auto* from) { return written(*from); }, value);
    text += key + (words.empty() ? "" : " ") + words + "\n";
  }
  return text + origin_key + " " + known.origin + "\n";
}

KnownCosts parse_costs(const std::string& text, const std::string& name) {
  KnownCosts known;
  known.costs.in_place.emplace();
  const Values values = values_of(known.costs);
  std::vector<std::string> keys{origin_key};
  for (const auto& [key, value] : values) keys.push_back(key);
  std::set<std::string> missing(keys.begin(), keys.end());
  std::istringstream in(text);
  int number = 0;
  for (std::string whole; std::getline(in, whole);) {
    ++number;
    const auto line = trimmed(whole);
    if (line.empty() || line[0] == '#') continue;
    const auto gap = line.find_first_of(" \t");
    const std::string key(line.substr(0, gap));
    const auto words = gap == line.npos ? "" : trimmed(line.substr(gap));
    const auto fail = [&](const std::string& what) {
      throw std::invalid_argument(name + ", line " + std::to_string(number) + ": " + what + remedy);
    };
    if (std::any_of(line.begin(), line.end(), is_control)) fail("a control character");
    if (std::find(keys.begin(), keys.end(), key) == keys.end())
      fail("there is no '" + key + "', did you mean '" + nearest_name(key, keys) + "'?");
    if (!missing.erase(key)) fail("'" + key + "' stands there twice");
    if (key == origin_key) known.origin = words;
    for (const auto& [other, value] : values) try {
        if (key == other) read(words, value);
      } catch (const std::invalid_argument& wrong) {
        fail(key + ": " + wrong.what());
      }
  }
  if (!missing.empty())
    throw std::invalid_argument(name + ", after line " + std::to_string(number) + ": '" + *missing.begin() +
                                "' is missing" + remedy);
  return known;
}

}  // namespace nearfield::planning
