// Serialises events: the number of the kind, then the fields in their order. The profiling layer writes events with it
// and readers decode them. Needs the C++ library, which the hooks do without.
#pragma once

#include <optional>
#include <type_traits>
#include <utility>

#include "trace/stream/bytes.hpp"
#include "trace/stream/event_number.hpp"

namespace nearfield::stream {

class EventWriter {
 public:
  // Returns the event's bytes, which remain valid until the next call.
  template <class Kind>
  const std::vector<unsigned char>& bytes(const Kind& event) {
    bytes_.clear();
    number(number_of<Kind>);
    Kind::fields(event, [this](const char*, const auto& member) { add(member); });
    return bytes_;
  }

 private:
  void number(std::uint64_t value) {
    unsigned char buffer[max_bytes];
    const unsigned char* const end = put(buffer, value);
    for (const unsigned char* at = buffer; at != end; ++at) bytes_.push_back(*at);
  }
  template <class Value>
  void add(const Value& value) {
    if constexpr (std::is_enum_v<Value> || std::is_unsigned_v<Value>)
      number(static_cast<std::uint64_t>(value));
    else if constexpr (std::is_integral_v<Value>)
      number(zigzag_encode(value));
    else if constexpr (std::is_same_v<Value, std::string>) {
      number(value.size());
      bytes_.insert(bytes_.end(), value.begin(), value.end());
    } else if constexpr (requires { value.size(); }) {
      number(value.size());
      for (const auto& one : value) add(one);
    } else {
      Value::fields(value, [this](const char*, const auto& member) { add(member); });
    }
  }

  std::vector<unsigned char> bytes_;
};

class EventReader {
 public:
  EventReader(const unsigned char* begin, const unsigned char* end) : at_(begin), end_(end) {}

  // Returns the event that all of the bytes encode; nothing if they are invalid.
  std::optional<Event> event() {
    const std::uint64_t kind = number();
    std::optional<Event> found = read_kind(kind, std::make_index_sequence<std::variant_size_v<Event>>());
    if (!at_ || at_ != end_) return {};
    return found;
  }

 private:
  template <std::size_t... Kinds>
  std::optional<Event> read_kind(std::uint64_t kind, std::index_sequence<Kinds...>) {
    std::optional<Event> found;
    ((kind == Kinds ? void(found = read<std::variant_alternative_t<Kinds, Event>>()) : void()), ...);
    return found;
  }
  template <class Kind>
  Event read() {
    Kind event;
    Kind::fields(event, [this](const char*, auto& member) { take(member); });
    return event;
  }
  std::uint64_t number() {
    std::uint64_t value = 0;
    if (at_) at_ = get(at_, end_, value);
    return at_ ? value : 0;
  }
  // A size beyond the remaining bytes is an error; it must not lead to an allocation.
  std::size_t size() {
    const std::uint64_t value = number();
    if (at_ && value > static_cast<std::uint64_t>(end_ - at_)) at_ = nullptr;
    return at_ ? static_cast<std::size_t>(value) : 0;
  }
  template <class Value>
  void take(Value& value) {
    if constexpr (std::is_enum_v<Value> || std::is_unsigned_v<Value>) {
      value = static_cast<Value>(number());
    } else if constexpr (std::is_integral_v<Value>) {
      value = static_cast<Value>(zigzag_decode(number()));
    } else if constexpr (std::is_same_v<Value, std::string>) {
      const std::size_t length = size();
      if (at_) value.assign(at_, at_ + length), at_ += length;
    } else if constexpr (requires { value.resize(1); }) {
      value.resize(size());
      for (auto& one : value) take(one);
    } else {
      Value::fields(value, [this](const char*, auto& member) { take(member); });
    }
  }

  const unsigned char* at_;  // nullptr after an error
  const unsigned char* end_;
};

}  // namespace nearfield::stream
