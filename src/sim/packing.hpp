// Values as bytes, for the other processes of a run (shards.hpp), which are the same program on machines of one kind. A
// type that cannot be copied byte by byte has a function `fields(pack, its)`, which names its members for both
// directions.
#pragma once

#include <cstddef>
#include <cstring>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "sim/clock.hpp"

namespace nearfield::sim {

// Puts values into bytes.
class Packing {
 public:
  template <class... Values>
  void operator()(Values&... values) {
    (put(values), ...);
  }
  const std::string& bytes() const { return bytes_; }

 private:
  template <class Value>
  void put(Value& value) {
    if constexpr (std::is_trivially_copyable_v<Value>)
      bytes_.append(reinterpret_cast<const char*>(&value), sizeof value);
    else
      fields(*this, value);
  }
  template <class Value>
  void put(std::vector<Value>& values) {
    std::size_t count = values.size();
    put(count);
    for (Value& value : values) put(value);
  }
  void put(std::string& text) {
    std::size_t length = text.size();
    put(length);
    bytes_ += text;
  }

  std::string bytes_;
};

// Takes the same values out of the bytes, which must outlive it, in the same order.
class Unpacking {
 public:
  explicit Unpacking(std::string_view bytes) : left_(bytes) {}
  template <class... Values>
  void operator()(Values&... values) {
    (take(values), ...);
  }
  bool empty() const { return left_.empty(); }

 private:
  std::string_view take_bytes(std::size_t count) {
    if (count > left_.size()) throw std::runtime_error("another shard's bytes end too early: is it another nearfield?");
    const std::string_view taken = left_.substr(0, count);
    left_.remove_prefix(count);
    return taken;
  }
  template <class Value>
  void take(Value& value) {
    if constexpr (std::is_trivially_copyable_v<Value>)
      std::memcpy(&value, take_bytes(sizeof value).data(), sizeof value);
    else
      fields(*this, value);
  }
  template <class Value>
  void take(std::vector<Value>& values) {
    std::size_t count = 0;
    take(count);
    values.clear();
    while (count-- > 0) take(values.emplace_back());
  }
  void take(std::string& text) {
    std::size_t length = 0;
    take(length);
    text = take_bytes(length);
  }

  std::string_view left_;
};

template <class Pack>
void fields(Pack& pack, Clock& clock) {
  int variants = clock.variants();
  pack(variants);
  if (variants < 0 || variants > most_variants) throw std::runtime_error("another shard's bytes are no clock");
  if (clock.variants() != variants) clock = Clock(variants);
  for (Times& times : clock) pack(times);
}

}  // namespace nearfield::sim
