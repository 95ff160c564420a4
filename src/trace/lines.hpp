// Splits text into lines, and lines into words and numbers.
#pragma once

#include <array>
#include <charconv>
#include <cstdint>
#include <optional>
#include <string_view>

namespace nearfield::trace {

// Removes the first complete line from the text. Returns the line without its end and trailing blanks; std::nullopt if
// the text holds no complete line.
inline std::optional<std::string_view> take_line(std::string_view& text) {
  const auto end = text.find('\n');
  if (end == std::string_view::npos) return std::nullopt;
  auto line = text.substr(0, end);
  text.remove_prefix(end + 1);
  while (!line.empty() && (line.back() == '\r' || line.back() == ' ' || line.back() == '\t')) line.remove_suffix(1);
  return line;
}

// A parsing position in a line. Functions that fail do not advance the position.
class LineCursor {
 public:
  explicit LineCursor(std::string_view line) : position_(line.data()), end_(position_ + line.size()) {}

  bool is_at_end() const { return position_ == end_; }
  bool is_at_blank() const { return !is_at_end() && is_blank(*position_); }
  char peek() const { return is_at_end() ? '\0' : *position_; }
  char take_char() { return is_at_end() ? '\0' : *position_++; }
  void skip_blanks() {
    while (is_at_blank()) ++position_;
  }
  bool take_prefix(std::string_view word) {
    if (!std::string_view(position_, static_cast<std::size_t>(end_ - position_)).starts_with(word)) return false;
    position_ += word.size();
    return true;
  }
  // Consumes and returns the characters up to the next blank.
  std::string_view take_word() {
    const char* const begin = position_;
    while (!is_at_end() && !is_blank(*position_)) ++position_;
    return {begin, static_cast<std::size_t>(position_ - begin)};
  }
  // Parses a hexadecimal number of up to 64 bits, with or without 0x; std::nullopt if it has no digit or more bits.
  std::optional<std::uint64_t> parse_hex() {
    const char* at = position_;
    if (end_ - at > 2 && at[0] == '0' && (at[1] | 0x20) == 'x') at += 2;
    const char* const begin = at;
    std::uint64_t value = 0;
    for (int digit; at != end_ && (digit = hex_digit_value(*at)) >= 0; ++at) {
      if (value >> 60 != 0) return std::nullopt;
      value = value << 4 | static_cast<std::uint64_t>(digit);
    }
    if (at == begin) return std::nullopt;
    position_ = at;
    return value;
  }
  std::optional<std::uint64_t> parse_decimal() {
    std::uint64_t value = 0;
    const auto [at, error] = std::from_chars(position_, end_, value);
    if (error != std::errc{}) return std::nullopt;
    position_ = at;
    return value;
  }

  static int hex_digit_value(char c) { return digit_values_[static_cast<unsigned char>(c)]; }

 private:
  static bool is_blank(char c) { return c == ' ' || c == '\t'; }
  static constexpr std::array<std::int8_t, 256> digit_values_ = [] {
    std::array<std::int8_t, 256> values{};
    values.fill(-1);
    for (int d = 0; d < 10; ++d) values[static_cast<std::size_t>('0' + d)] = static_cast<std::int8_t>(d);
    for (int d = 10; d < 16; ++d)
      values[static_cast<std::size_t>('a' + d - 10)] = values[static_cast<std::size_t>('A' + d - 10)] =
          static_cast<std::int8_t>(d);
    return values;
  }();

  const char* position_;
  const char* end_;
};

}  // namespace nearfield::trace
