// Serialises an event as the number of its kind, then its fields in order. The profiling layer writes events, and
// readers of streams decode them. Needs the C++ runtime library, which the hooks of the encoder do not.
#pragma once

#include <optional>
#include <type_traits>
#include <utility>

#include "trace/stream/bytes.hpp"
#include "trace/stream/event_number.hpp"

namespace nearfield::stream {

class EventWriter {
 public:
  // Returns the serialised bytes of the event, which remain valid until the next call.
  template <class Kind>
  const std::vector<unsigned char>& serialize(const Kind& event) {
    bytes_.clear();
    append_number(event_kind_number<Kind>);
    Kind::visit_fields(event, [this](const char*, const auto& member) { append_value(member); });
    return bytes_;
  }

 private:
  void append_number(std::uint64_t value) {
    unsigned char buffer[max_number_bytes];
    const unsigned char* const end = put_number(buffer, value);
    for (const unsigned char* at = buffer; at != end; ++at) bytes_.push_back(*at);
  }
  template <class Value>
  void append_value(const Value& value) {
    if constexpr (std::is_enum_v<Value> || std::is_unsigned_v<Value>)
      append_number(static_cast<std::uint64_t>(value));
    else if constexpr (std::is_integral_v<Value>)
      append_number(zigzag_encode(value));
    else if constexpr (std::is_same_v<Value, std::string>) {
      append_number(value.size());
      bytes_.insert(bytes_.end(), value.begin(), value.end());
    } else if constexpr (requires { value.size(); }) {
      append_number(value.size());
      for (const auto& one : value) append_value(one);
    } else {
      Value::visit_fields(value, [this](const char*, const auto& member) { append_value(member); });
    }
  }

  std::vector<unsigned char> bytes_;
};

class EventReader {
 public:
  EventReader(const unsigned char* begin, const unsigned char* end) : position_(begin), end_(end) {}

  // Decodes the event. Returns std::nullopt if the bytes are invalid or longer than one event.
  std::optional<Event> read_event() {
    const std::uint64_t kind = read_number();
    std::optional<Event> found = read_event_of_kind(kind, std::make_index_sequence<std::variant_size_v<Event>>());
    if (!position_ || position_ != end_) return {};
    return found;
  }

 private:
  template <std::size_t... Kinds>
  std::optional<Event> read_event_of_kind(std::uint64_t kind, std::index_sequence<Kinds...>) {
    std::optional<Event> found;
    ((kind == Kinds ? void(found = read_fields<std::variant_alternative_t<Kinds, Event>>()) : void()), ...);
    return found;
  }
  template <class Kind>
  Event read_fields() {
    Kind event;
    Kind::visit_fields(event, [this](const char*, auto& member) { read_value(member); });
    return event;
  }
  std::uint64_t read_number() {
    std::uint64_t value = 0;
    if (position_) position_ = get_number(position_, end_, value);
    return position_ ? value : 0;
  }
  // Reads the size of a list or string. A size larger than the number of remaining bytes is an error, and must not lead
  // to an allocation.
  std::size_t read_size() {
    const std::uint64_t value = read_number();
    if (position_ && value > static_cast<std::uint64_t>(end_ - position_)) position_ = nullptr;
    return position_ ? static_cast<std::size_t>(value) : 0;
  }
  template <class Value>
  void read_value(Value& value) {
    if constexpr (std::is_enum_v<Value> || std::is_unsigned_v<Value>) {
      value = static_cast<Value>(read_number());
    } else if constexpr (std::is_integral_v<Value>) {
      value = static_cast<Value>(zigzag_decode(read_number()));
    } else if constexpr (std::is_same_v<Value, std::string>) {
      const std::size_t length = read_size();
      if (position_) value.assign(position_, position_ + length), position_ += length;
    } else if constexpr (requires { value.resize(1); }) {
      value.resize(read_size());
      for (auto& one : value) read_value(one);
    } else {
      Value::visit_fields(value, [this](const char*, auto& member) { read_value(member); });
    }
  }

  const unsigned char* position_;  // nullptr after an error
  const unsigned char* end_;
};

}  // namespace nearfield::stream
