// Serializes values for the other processes of a run (shards.hpp), which run the same binary on machines of one kind. A
// type that is not trivially copyable has a function `pack_fields(pack, value)`, which calls `pack` with the members of
// `value`. `pack` is a Packing, which serializes the members, or an Unpacking, which sets them.
#pragma once

#include <cstddef>
#include <cstring>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "sim/engine/config_clock.hpp"

namespace nearfield::sim {

// Serializes values into a string of bytes.
class Packing {
 public:
  template <class... Values>
  void operator()(Values&... values) {
    (append(values), ...);
  }
  const std::string& bytes() const { return bytes_; }

 private:
  template <class Value>
  void append(Value& value) {
    if constexpr (std::is_trivially_copyable_v<Value>)
      bytes_.append(reinterpret_cast<const char*>(&value), sizeof value);
    else
      pack_fields(*this, value);
  }
  template <class Value>
  void append(std::vector<Value>& values) {
    std::size_t count = values.size();
    append(count);
    for (Value& value : values) append(value);
  }
  void append(std::string& text) {
    std::size_t length = text.size();
    append(length);
    bytes_ += text;
  }

  std::string bytes_;
};

// Deserializes the values that a Packing has serialized, in the same order. The bytes must outlive this object.
class Unpacking {
 public:
  explicit Unpacking(std::string_view bytes) : remaining_bytes_(bytes) {}
  template <class... Values>
  void operator()(Values&... values) {
    (extract(values), ...);
  }
  bool empty() const { return remaining_bytes_.empty(); }

 private:
  std::string_view extract_bytes(std::size_t count) {
    if (count > remaining_bytes_.size())
      throw std::runtime_error("another shard's bytes end too early: is it another nearfield?");
    const std::string_view bytes = remaining_bytes_.substr(0, count);
    remaining_bytes_.remove_prefix(count);
    return bytes;
  }
  template <class Value>
  void extract(Value& value) {
    if constexpr (std::is_trivially_copyable_v<Value>)
      std::memcpy(&value, extract_bytes(sizeof value).data(), sizeof value);
    else
      pack_fields(*this, value);
  }
  template <class Value>
  void extract(std::vector<Value>& values) {
    std::size_t count = 0;
    extract(count);
    values.clear();
    while (count-- > 0) extract(values.emplace_back());
  }
  void extract(std::string& text) {
    std::size_t length = 0;
    extract(length);
    text = extract_bytes(length);
  }

  std::string_view remaining_bytes_;
};

template <class Pack>
void pack_fields(Pack& pack, ConfigClock& clock) {
  int variants = clock.num_variants();
  pack(variants);
  if (variants < 0 || variants > max_variants) throw std::runtime_error("another shard's bytes are no clock");
  if (clock.num_variants() != variants) clock = ConfigClock(variants);
  for (TimeVector& times : clock) pack(times);
}

}  // namespace nearfield::sim
