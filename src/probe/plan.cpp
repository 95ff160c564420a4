#include "probe/plan.hpp"

#include <fstream>
#include <functional>
#include <map>
#include <sstream>

#include "base/text.hpp"
#include "probe/failure.hpp"

namespace nearfield::probe {
namespace {

template <class T>
T parse_number(const std::string& text) {
  std::istringstream in(text);
  T value;
  if (!(in >> value) || !(in >> std::ws).eof()) throw std::invalid_argument("'" + text + "' is no number");
  return value;
}

std::vector<std::int64_t> parse_integers(const std::string& text) {
  std::vector<std::int64_t> values;
  std::istringstream in(text);
  for (std::string word; in >> word;) values.push_back(parse_number<std::int64_t>(word));
  return values;
}

// Parses "CPU [HOST]".
Placement parse_placement(const std::string& text) {
  std::istringstream in(text);
  Placement placement;
  if (!(in >> placement.cpu)) throw std::invalid_argument("expected 'CPU [HOST]'");
  in >> placement.host;
  return placement;
}

// Parses "NAME SECONDS".
ScenarioRequest parse_request(const std::string& text) {
  std::istringstream in(text);
  ScenarioRequest request;
  if (!(in >> request.name >> request.budget_s)) throw std::invalid_argument("expected 'NAME SECONDS'");
  return request;
}

// Parses "SCENARIO PARAMETER VALUE...".
CaseFilter parse_filter(const std::string& text) {
  std::istringstream in(text);
  CaseFilter filter;
  in >> filter.scenario >> filter.parameter;
  for (std::string word; in >> word;) filter.values.push_back(word);
  if (filter.values.empty()) throw std::invalid_argument("expected 'SCENARIO PARAMETER VALUE...'");
  return filter;
}

using Setter = std::function<void(Plan&, const std::string&)>;

const std::map<std::string, Setter>& plan_setters() {
  static const std::map<std::string, Setter> table = {
      {"output", [](Plan& p, const std::string& v) { p.output = v; }},
      {"stop_file", [](Plan& p, const std::string& v) { p.stop_file = v; }},
      {"turns", [](Plan& p, const std::string& v) { p.command_fifo = v; }},
      {"tier", [](Plan& p, const std::string& v) { p.tier = v; }},
      {"tolerance", [](Plan& p, const std::string& v) { p.tolerance = parse_number<double>(v); }},
      {"min_samples", [](Plan& p, const std::string& v) { p.min_samples = parse_number<std::int64_t>(v); }},
      {"line_bytes", [](Plan& p, const std::string& v) { p.cache_line_bytes = parse_number<std::int64_t>(v); }},
      {"cache_bytes", [](Plan& p, const std::string& v) { p.cache_bytes = parse_integers(v); }},
      {"sizes", [](Plan& p, const std::string& v) { p.sizes = parse_integers(v); }},
      {"rank", [](Plan& p, const std::string& v) { p.placement_by_rank.push_back(parse_placement(v)); }},
      {"scenario", [](Plan& p, const std::string& v) { p.scenarios.push_back(parse_request(v)); }},
      {"only", [](Plan& p, const std::string& v) { p.filters.push_back(parse_filter(v)); }},
      {"time_limit_s", [](Plan& p, const std::string& v) { p.time_limit_s = parse_number<double>(v); }},
      {"oversubscribed", [](Plan& p, const std::string& v) { p.is_oversubscribed = parse_number<int>(v) != 0; }},
      {"corrupt", [](Plan& p, const std::string& v) { p.corrupts_received_data = parse_number<int>(v) != 0; }},
  };
  return table;
}

void apply_line(Plan& plan, std::string_view line) {
  const auto equals = line.find('=');
  if (equals == line.npos) throw std::invalid_argument("expected 'key = value'");
  const std::string key(trim(line.substr(0, equals)));
  const auto setter = plan_setters().find(key);
  if (setter == plan_setters().end()) {
    std::vector<std::string> keys;
    for (const auto& [name, unused] : plan_setters()) keys.push_back(name);
    throw std::invalid_argument("unknown key '" + key + "'; did you mean '" + nearest_name(key, keys) + "'?");
  }
  setter->second(plan, std::string(trim(line.substr(equals + 1))));
}

}  // namespace

Plan read_plan(const std::string& path) {
  std::ifstream in(path);
  if (!in) throw Failure("plan", "cannot read the plan " + path);
  Plan plan;
  int line_number = 0;
  for (std::string line; std::getline(in, line);) {
    ++line_number;
    if (trim(line).empty()) continue;
    try {
      apply_line(plan, line);
    } catch (const std::invalid_argument& error) {
      throw Failure("plan", path + ":" + std::to_string(line_number) + ": " + error.what());
    }
  }
  if (plan.cache_bytes.empty() || plan.placement_by_rank.empty() || plan.output.empty())
    throw Failure("plan", path + ": cache_bytes, rank and output are required");
  return plan;
}

}  // namespace nearfield::probe
