#include "plan/costs.hpp"

#include <algorithm>
#include <iterator>

namespace nearfield::planning {
namespace {

constexpr std::int64_t double_bytes =
    8;  // size of the elements in the curves `ns_per_byte_by_stride` and `ns_per_byte_by_bank_stride`

double strided_ns_per_byte(const LinkCosts& link, std::int64_t gap_bytes, std::int64_t stride_bytes) {
  for (auto bank = link.ns_per_byte_by_bank_stride.rbegin(); bank != link.ns_per_byte_by_bank_stride.rend(); ++bank)
    if (bank->first > 0 && stride_bytes % bank->first == 0) return bank->second;
  return interpolate(link.ns_per_byte_by_stride, gap_bytes + double_bytes);
}

double excess_per_run_ns(const LinkCosts& link, const MessageLayout& message) {
  const std::int64_t gap = message.stride_bytes - message.run_bytes;
  if (gap <= 0) return 0;
  const double extra_ns = strided_ns_per_byte(link, gap, message.stride_bytes) - link.ns_per_byte;
  return std::max(0.0, extra_ns) * double_bytes;
}

}  // namespace

double interpolate(const Curve& curve, std::int64_t x) {
  if (curve.empty()) return 0;
  const auto above = curve.lower_bound(x);
  if (above == curve.begin()) return above->second;
  const auto below = std::prev(above);
  if (above == curve.end()) return below->second;
  const double share = static_cast<double>(x - below->first) / static_cast<double>(above->first - below->first);
  return below->second + share * (above->second - below->second);
}

MessageTime predict_message_time(const LinkCosts& link, const MessageLayout& message) {
  const double load = message.bytes >= link.min_loaded_message_bytes ? link.load_factor : 1;
  return {link.latency_ns, load * link.ns_per_byte * static_cast<double>(message.bytes),
          excess_per_run_ns(link, message) * static_cast<double>(message.runs)};
}

}  // namespace nearfield::planning
