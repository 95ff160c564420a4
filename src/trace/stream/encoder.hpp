// Encodes accesses and events as the tokens of a chunk (format.hpp). A predicted access costs about ten instructions
// and no bytes. Needs no C++ library, because it runs inside other people's programs, between any two of their
// instructions. Not thread-safe.
#pragma once

#include "trace/stream/bytes.hpp"
#include "trace/stream/format.hpp"

namespace nearfield::stream {

// The source of sites and the sink of chunks.
struct EncoderClient {
  // Returns zeroed memory that is never freed.
  void* (*memory)(std::uint64_t bytes);
  // Returns the object that contains this code address, and the offset in it.
  std::uint64_t (*place)(std::uint64_t code, std::uint64_t& offset);
  // Stores a chunk.
  void (*store)(const unsigned char* raw, std::uint32_t bytes, std::uint64_t accesses);
};

class Encoder {
 public:
  // Identifies a site: the return address of the hook and the kind, because compilers may merge the tails of calls.
  struct Key {
    std::uint64_t code = 0;
    SiteKind kind = load1;
    bool operator==(const Key&) const = default;
  };

  void begin(const EncoderClient& client);

  // Sites are looked up by key and not by their predecessor, so that the processor need not wait for that one.
  void access(Key key, std::uint64_t address) {
    Site* const site = quick(key);
    if (site->key.code != key.code || site->predictor.expected() != address || *link_ != site) [[unlikely]]
      return write_unpredicted(key, address);
    site->predictor.advance();
    link_ = &site->next;
    ++predicted_;
  }
  void range(Key key, std::uint64_t address, std::uint64_t bytes);
  // The bytes are those of one event.
  void event(const unsigned char* bytes, std::uint64_t length);
  // Stores the current chunk and begins the next one.
  void finish_chunk();
  // Adds a code address that makes no accesses, for for_each_site().
  void mention(std::uint64_t code) { find({code, load1}); }
  // Calls visit(code) for each site, in any order; a code address with several kinds is visited several times.
  template <class Visit>
  void for_each_site(Visit visit) const {
    for (std::uint64_t i = 0; i <= mask_; ++i)
      if (slots_[i]) visit(slots_[i]->key.code);
  }
  // Returns the number of accesses so far.
  std::uint64_t accesses() const { return before_ + in_chunk_ + predicted_; }

 private:
  struct Site {
    Key key;
    AddressPredictor predictor;
    Site* next = nullptr;
    std::uint32_t number = 0, chunk = 0;  // the site's number in that chunk
    History* history = nullptr;           // of this chunk or an earlier one
  };
  static constexpr std::uint32_t room = 128;  // for any token except an event, including the definition of its site

  __attribute__((noinline)) void write_unpredicted(Key key, std::uint64_t address);
  static constexpr std::uint64_t quick_slots = 1 << 12;
  Site*& quick(Key key) { return quick_[key.kind][key.code & (quick_slots - 1)]; }
  Site& find(Key key);
  std::uint64_t slot_of(Key key) const { return (key.code << 4 | key.kind) * 0x9E3779B97F4A7C15ULL >> 20 & mask_; }
  bool is_new(const Site& site) const { return site.chunk != chunk_; }
  void define(Site& site, std::uint64_t address);
  void correct_prediction(Site& site, std::uint64_t address);
  void token(Token kind);
  void number(std::uint64_t value) { at_ = put(at_, value); }
  void forget();
  void resize(std::uint64_t slots);

  EncoderClient client_{};
  Site nobody_;
  Site** link_ = nullptr;  // the successor field of the last site
  std::uint64_t predicted_ = 0;
  unsigned char *raw_ = nullptr, *at_ = nullptr;
  std::uint64_t in_chunk_ = 0, before_ = 0;  // accesses written in tokens
  std::uint64_t last_new_ = 0;
  std::uint32_t chunk_ = 0, defined_ = 0;
  Site* quick_[site_kinds][quick_slots];  // the site found last in each slot
  Site** slots_ = nullptr;
  std::uint64_t mask_ = 0, sites_ = 0;
  Site *free_ = nullptr, *free_end_ = nullptr;
};

}  // namespace nearfield::stream
