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
constexpr const char* remedy_text =
    "; correct it, or write the file again with nearfield's verb halo and --costs PROFILE";

struct NumberRange {
  double min, max;
};

// The plausible ranges of costs, with a margin for future machines. A number outside its range is a typing error, or
// the file is damaged; it would distort every decision.
constexpr NumberRange latency_ns{0, 1e9};
constexpr NumberRange ns_per_byte{1e-5, 1e5};  // 100 TB/s to 10 kB/s
constexpr NumberRange factor{1, 1e4};
constexpr NumberRange sweep_ns{1e-4, 1e9};
constexpr NumberRange curve_x{1, 1e12};  // the x of curves, in bytes or in cells of a row
constexpr NumberRange message_bytes{0, 1e15};

using CostTarget = std::variant<double*, std::int64_t*, Curve*>;
struct CostEntry {
  std::string key;
  CostTarget target;
  NumberRange range;  // of the number, or of the y of a curve
};
using CostEntries = std::vector<CostEntry>;

CostEntries cost_entries_of(Costs& costs) {
  CostEntries list;
  const auto add = [&](const std::string& name, LinkCosts& link) {
    list.insert(list.end(), {{name + ".latency_ns", &link.latency_ns, latency_ns},
                             {name + ".ns_per_byte", &link.ns_per_byte, ns_per_byte},
                             {name + ".strided", &link.ns_per_byte_by_stride, ns_per_byte},
                             {name + ".banked", &link.ns_per_byte_by_bank_stride, ns_per_byte},
                             {name + ".load_factor", &link.load_factor, factor},
                             {name + ".load_from_bytes", &link.min_loaded_message_bytes, message_bytes}});
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
Number parse_number(std::string_view word, NumberRange range) {
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

Curve parse_curve(std::string_view value_text, NumberRange range) {
  Curve curve;
  std::istringstream in{std::string(value_text)};
  for (std::string word; in >> word;) {
    const auto colon = word.find(':');
    if (colon == std::string::npos) throw std::invalid_argument("'" + word + "' is no point of a curve, as 64:0.1");
    const std::string_view whole = word;
    const auto x = parse_number<std::int64_t>(whole.substr(0, colon), curve_x);
    curve[x] = parse_number<double>(whole.substr(colon + 1), range);
  }
  return curve;
}

void parse_entry(std::string_view value_text, const CostEntry& value) {
  std::visit(
      [&](auto* to) {
        using Kind = std::remove_pointer_t<decltype(to)>;
        if constexpr (std::is_same_v<Kind, Curve>)
          *to = parse_curve(value_text, value.range);
        else
          *to = parse_number<Kind>(value_text, value.range);
      },
      value.target);
}

// Returns whether a byte is a control character. The file may be untrusted, and its texts are printed to terminals,
// which interpret control characters.
bool is_control_character(unsigned char c) { return (c < ' ' && c != '\t') || c == 0x7f; }

}  // namespace

std::string format_costs(const CostsWithOrigin& costs_with_origin) {
  if (!costs_with_origin.costs.in_place)
    throw std::invalid_argument("costs without reading in place are not for the halo library");
  Costs costs = costs_with_origin.costs;
  std::string text = "# What messages cost, for nearfield's halo library: NEARFIELD_HALO_COSTS names this file.\n";
  for (const auto& [key, target, range] : cost_entries_of(costs)) {
    const auto value_text = std::visit([](auto* from) { return format_number(*from); }, target);
    text += key + (value_text.empty() ? "" : " ") + value_text + "\n";
  }
  return text + origin_key + " " + costs_with_origin.origin + "\n";
}

CostsWithOrigin parse_costs(const std::string& text, const std::string& name) {
  CostsWithOrigin costs_with_origin;
  costs_with_origin.costs.in_place.emplace();
  const CostEntries entries = cost_entries_of(costs_with_origin.costs);
  std::vector<std::string> keys{origin_key};
  for (const auto& value : entries) keys.push_back(value.key);
  std::set<std::string> missing_keys(keys.begin(), keys.end());
  std::istringstream in(text);
  int line_number = 0;
  for (std::string whole; std::getline(in, whole);) {
    ++line_number;
    const auto line = trim(whole);
    if (line.empty() || line[0] == '#') continue;
    const auto gap = line.find_first_of(" \t");
    const std::string key(line.substr(0, gap));
    const auto value_text = gap == line.npos ? "" : trim(line.substr(gap));
    const auto fail = [&](const std::string& what) {
      throw std::invalid_argument(name + ", line " + std::to_string(line_number) + ": " + what + remedy_text);
    };
    if (std::any_of(line.begin(), line.end(), is_control_character)) fail("a control character");
    if (std::find(keys.begin(), keys.end(), key) == keys.end())
      fail("there is no '" + key + "', did you mean '" + nearest_name(key, keys) + "'?");
    if (!missing_keys.erase(key)) fail("'" + key + "' stands there twice");
    if (key == origin_key) costs_with_origin.origin = value_text;
    for (const auto& value : entries) try {
        if (key == value.key) parse_entry(value_text, value);
      } catch (const std::invalid_argument& wrong) {
        fail(key + ": " + wrong.what());
      }
  }
  if (!missing_keys.empty())
    throw std::invalid_argument(name + ", after line " + std::to_string(line_number) + ": '" + *missing_keys.begin() +
                                "' is missing" + remedy_text);
  return costs_with_origin;
}

}  // namespace nearfield::planning
