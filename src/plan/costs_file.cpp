#include "plan/costs_file.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <set>
#include <sstream>
#include <stdexcept>
#include <string_view>
#include <type_traits>
#include <variant>
#include <vector>

#include "base/text.hpp"

namespace nearfield::planning {
namespace {

constexpr const char* origin_key = "origin";
constexpr const char* remedy = "; mend it, or write the file anew with nearfield's verb halo and --costs PROFILE";

struct NumberRange {
  double min, max;
};

// The plausible ranges of costs, with room for future machines. A number outside its range is a typing error or damage,
// and would distort every decision.
constexpr NumberRange latency_ns{0, 1e9};
constexpr NumberRange ns_per_byte{1e-5, 1e5};  // 100 TB/s to 10 kB/s
constexpr NumberRange factor{1, 1e4};
constexpr NumberRange sweep_ns{1e-4, 1e9};
constexpr NumberRange length{1, 1e12};  // the x of curves, in bytes or in cells of a row
constexpr NumberRange from_bytes{0, 1e15};

using Target = std::variant<double*, std::int64_t*, Curve*>;
struct CostEntry {
  std::string key;
  Target target;
  NumberRange range;  // of the number, or of the y of a curve
};
using CostEntries = std::vector<CostEntry>;

CostEntries entries_of(Costs& costs) {
  CostEntries list;
  const auto add = [&](const std::string& name, LinkCosts& link) {
    list.insert(list.end(), {{name + ".latency_ns", &link.latency_ns, latency_ns},
                             {name + ".ns_per_byte", &link.ns_per_byte, ns_per_byte},
                             {name + ".strided", &link.strided, ns_per_byte},
                             {name + ".banked", &link.banked, ns_per_byte},
                             {name + ".load_factor", &link.load_factor, factor},
                             {name + ".load_from_bytes", &link.load_from_bytes, from_bytes}});
  };
  add("in_place", *costs.in_place);
  add("same_node", costs.same_node);
  add("network", costs.network);
  list.push_back({"copy_ns_per_byte", &costs.copy_ns_per_byte, ns_per_byte});
  list.push_back({"sweep_ns_per_cell", &costs.sweep_ns_per_cell, sweep_ns});
  return list;
}

template <class Number>
std::string format_number(Number number) {
  char buffer[32];
  return {buffer, std::to_chars(buffer, buffer + sizeof buffer, number).ptr};
}

std::string format_number(const Curve& curve) {
  std::string text;
  for (const auto& [x, y] : curve) {
    if (!text.empty()) text += ' ';
    text.append(format_number(x)).append(":").append(format_number(y));
  }
  return text;
}

template <class Number>
Number read_number(std::string_view word, NumberRange range) {
  Number number{};
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), number);
  const double value = static_cast<double>(number);
  const std::string quoted = std::string("'").append(word).append("'");
  if (error != std::errc{} || end != word.data() + word.size() || !std::isfinite(value))
    throw std::invalid_argument(quoted + " is no number");
  if (value < range.min || value > range.max)
    throw std::invalid_argument(quoted + " is not from " + format_number(range.min) + " to " +
                                format_number(range.max) + ", as on any machine");
  return number;
}

Curve read_curve(std::string_view words, NumberRange range) {
  Curve curve;
  std::istringstream in{std::string(words)};
  for (std::string word; in >> word;) {
    const auto colon = word.find(':');
    if (colon == std::string::npos) throw std::invalid_argument("'" + word + "' is no point of a curve, as 64:0.1");
    const std::string_view whole = word;
    const auto x = read_number<std::int64_t>(whole.substr(0, colon), length);
    curve[x] = read_number<double>(whole.substr(colon + 1), range);
  }
  return curve;
}

void read_entry(std::string_view words, const CostEntry& value) {
  std::visit(
      [&](auto* to) {
        using Kind = std::remove_pointer_t<decltype(to)>;
        if constexpr (std::is_same_v<Kind, Curve>)
          *to = read_curve(words, value.range);
        else
          *to = read_number<Kind>(words, value.range);
      },
      value.target);
}

// Returns whether a byte is a control character. The file may be untrusted, and its texts are printed to terminals,
// which interpret control characters.
bool is_control_character(unsigned char c) { return (c < ' ' && c != '\t') || c == 0x7f; }

}  // namespace

std::string costs_text(const CostsWithOrigin& known) {
  if (!known.costs.in_place) throw std::invalid_argument("costs without reading in place are not for the halo library");
  Costs costs = known.costs;
  std::string text = "# What messages cost, for nearfield's halo library: NEARFIELD_HALO_COSTS names this file.\n";
  for (const auto& [key, target, range] : entries_of(costs)) {
    const auto words = std::visit([](auto* from) { return format_number(*from); }, target);
    text += key + (words.empty() ? "" : " ") + words + "\n";
  }
  return text + origin_key + " " + known.origin + "\n";
}

CostsWithOrigin parse_costs(const std::string& text, const std::string& name) {
  CostsWithOrigin known;
  known.costs.in_place.emplace();
  const CostEntries values = entries_of(known.costs);
  std::vector<std::string> keys{origin_key};
  for (const auto& value : values) keys.push_back(value.key);
  std::set<std::string> missing(keys.begin(), keys.end());
  std::istringstream in(text);
  int number = 0;
  for (std::string whole; std::getline(in, whole);) {
    ++number;
    const auto line = trim(whole);
    if (line.empty() || line[0] == '#') continue;
    const auto gap = line.find_first_of(" \t");
    const std::string key(line.substr(0, gap));
    const auto words = gap == line.npos ? "" : trim(line.substr(gap));
    const auto fail = [&](const std::string& what) {
      throw std::invalid_argument(name + ", line " + std::to_string(number) + ": " + what + remedy);
    };
    if (std::any_of(line.begin(), line.end(), is_control_character)) fail("a control character");
    if (std::find(keys.begin(), keys.end(), key) == keys.end())
      fail("there is no '" + key + "', did you mean '" + nearest_name(key, keys) + "'?");
    if (!missing.erase(key)) fail("'" + key + "' stands there twice");
    if (key == origin_key) known.origin = words;
    for (const auto& value : values) try {
        if (key == value.key) read_entry(words, value);
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
