// Encodes accesses and events as the tokens of a chunk (format.hpp). A predicted access costs about ten instructions
// and no bytes. Needs no C++ runtime library, because it runs in hooks inside observed programs, between any two of
// their instructions. Not thread-safe.
#pragma once

#include "trace/stream/bytes.hpp"
#include "trace/stream/dependence.hpp"
#include "trace/stream/format.hpp"

namespace nearfield::stream {

// Functions that the client of an encoder provides: allocation of memory, lookup of a code address, and storage of
// dependences and chunks.
struct EncoderClient {
  // Returns zeroed memory that is never freed.
  void* (*allocate_zeroed)(std::uint64_t bytes);
  // Returns the number of the object (executable or library) that contains this code address, and sets `offset` to the
  // position in its file.
  std::uint64_t (*locate_code)(std::uint64_t code, std::uint64_t& offset);
  // Writes the event that the loads at the code address `code` depend on the loads at the code address `producer`.
  void (*write_dependence)(std::uint64_t code, std::uint64_t producer);
  // Stores a complete chunk of `bytes` bytes, which encodes `accesses` accesses.
  void (*store_chunk)(const unsigned char* raw, std::uint32_t bytes, std::uint64_t accesses);
};

class Encoder {
 public:
  // Identifies a site: the return address of the hook, and the kind of access, because a compiler may merge the tail
  // calls of two hooks into one.
  struct SiteKey {
    std::uint64_t code = 0;
    SiteKind kind = load1;
    bool operator==(const SiteKey&) const = default;
  };

  void start(const EncoderClient& client);

  // Encodes one access. The site is looked up by its key and not through the link from its predecessor, so that the CPU
  // need not wait until that link is loaded.
  void encode_access(SiteKey key, std::uint64_t address) {
    Site* const site = recent_site(key);
    if (site->key.code != key.code || site->predictor.predicted_address() != address || *next_site_link_ != site)
        [[unlikely]]
      return write_unpredicted(key, address);
    site->predictor.advance();
    next_site_link_ = &site->next;
    ++num_predicted_;
  }
  // Encodes a load that returns `value`, which may be the address of a later load.
  void encode_load(SiteKey key, std::uint64_t address, std::uint64_t value) {
    encode_access(key, address);
    if (--loads_until_sample_ == 0) [[unlikely]]
      sample_dependence(key, address);
    recent_loads_.add_load(key.code, value);
  }
  void encode_range(SiteKey key, std::uint64_t address, std::uint64_t bytes);
  // Writes one event, serialised by EventWriter.
  void encode_event(const unsigned char* bytes, std::uint64_t length);
  // Stores the current chunk and begins the next one.
  void finish_chunk();
  // Adds a code address without accesses, so that for_each_site() visits it.
  void add_silent_site(std::uint64_t code) { find_or_add_site({code, load1}); }
  // Calls visit(code) for each site, in any order; a code address with several kinds of access is visited several
  // times.
  template <class Visit>
  void for_each_site(Visit visit) const {
    for (std::uint64_t i = 0; i <= slot_mask_; ++i)
      if (slots_[i]) visit(slots_[i]->key.code);
  }
  // Returns the number of accesses encoded so far.
  std::uint64_t num_accesses() const { return accesses_before_chunk_ + accesses_in_chunk_ + num_predicted_; }

 private:
  struct Site {
    SiteKey key;
    AddressPredictor predictor;
    Site* next = nullptr;
    std::uint32_t number = 0, chunk = 0;  // chunk in which the site was last defined, and its number there
    DependenceSearch* dependence = nullptr;
    StepHistory* history = nullptr;  // allocated in this chunk or an earlier one
  };
  static constexpr std::uint32_t max_token_bytes =
      128;  // maximum bytes of a token except an event, with the site definition

  __attribute__((noinline)) void write_unpredicted(SiteKey key, std::uint64_t address);
  // A load is tested for a dependence if its address was not predicted. In addition, one in `sample_interval` of the
  // loads with a value is tested. The interval is a prime number, so that the samples fall on all loads of a loop in
  // turn.
  static constexpr std::uint32_t sample_interval = 61;
  __attribute__((noinline)) void sample_dependence(SiteKey key, std::uint64_t address);
  void test_dependence(Site& site, std::uint64_t address, bool pointers_only);
  static constexpr std::uint64_t num_recent_site_slots = 1 << 12;
  Site*& recent_site(SiteKey key) { return recent_sites_[key.kind][key.code & (num_recent_site_slots - 1)]; }
  Site& find_or_add_site(SiteKey key);
  std::uint64_t slot_of(SiteKey key) const {
    return (key.code << 4 | key.kind) * 0x9E3779B97F4A7C15ULL >> 20 & slot_mask_;
  }
  bool is_new_in_chunk(const Site& site) const { return site.chunk != chunk_; }
  void define_site(Site& site, std::uint64_t address);
  void correct_prediction(Site& site, std::uint64_t address);
  void write_token(Token kind);
  void write_number(std::uint64_t value) { write_position_ = put_number(write_position_, value); }
  void reset_chunk_state();
  void resize_site_table(std::uint64_t slots);

  EncoderClient client_{};
  Site no_site_;
  Site** next_site_link_ = nullptr;  // `next` of the last site: the predicted next site
  std::uint64_t num_predicted_ = 0;
  unsigned char *raw_chunk_ = nullptr, *write_position_ = nullptr;
  std::uint64_t accesses_in_chunk_ = 0,
                accesses_before_chunk_ = 0;  // accesses encoded in this chunk, and in earlier chunks
  std::uint64_t last_new_address_ = 0;
  std::uint32_t chunk_ = 0, num_sites_in_chunk_ = 0;
  RecentLoads recent_loads_;
  std::uint32_t loads_until_sample_ = sample_interval;
  Site* recent_sites_[num_site_kinds]
                     // cache of find_or_add_site(): the last site found for each kind and slot
                     [num_recent_site_slots];
  Site** slots_ = nullptr;
  std::uint64_t slot_mask_ = 0, num_sites_ = 0;
  Site *next_free_site_ = nullptr, *free_sites_end_ = nullptr;
};

}  // namespace nearfield::stream
