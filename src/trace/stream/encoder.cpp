#include "trace/stream/encoder.hpp"

namespace nearfield::stream {

void Encoder::start(const EncoderClient& client) {
  client_ = client;
  raw_chunk_ = static_cast<unsigned char*>(client.allocate_zeroed(chunk_bytes));
  write_position_ = raw_chunk_;
  for (auto& sites_of_kind : recent_sites_)
    for (Site*& site : sites_of_kind) site = &no_site_;
  resize_site_table(1024);
  reset_chunk_state();
}

void Encoder::write_unpredicted(SiteKey key, std::uint64_t address) {
  Site* const expected = *next_site_link_;
  Site& site = expected->key == key ? *expected : find_or_add_site(key);
  recent_site(key) = &site;
  // The prediction was right: another site with the same hash had occupied the slot in recent_sites_.
  if (&site == expected && !is_new_in_chunk(site) && site.predictor.predicted_address() == address)
    return encode_access(key, address);
  bool is_mispredicted = false;
  if (is_new_in_chunk(site)) {
    define_site(site, address);
  } else {
    const std::uint64_t difference = address - site.predictor.predicted_address();
    is_mispredicted = difference != 0;
    const bool is_expected_site = &site == expected, is_multiple_of_8 = difference % 8 == 0;
    if (difference == 0)
      write_token(Token::site);
    else if (is_expected_site)
      write_token(is_multiple_of_8 ? Token::step8 : Token::step);
    else
      write_token(is_multiple_of_8 ? Token::site_step8 : Token::site_step);
    if (!is_expected_site) write_number(site.number);
    const auto step = static_cast<std::int64_t>(difference);
    if (difference != 0) write_number(zigzag_encode(is_multiple_of_8 ? step / 8 : step));
    if (difference == 0)
      site.predictor.advance();
    else
      correct_prediction(site, address);
  }
  *next_site_link_ = &site;
  next_site_link_ = &site.next;
  ++accesses_in_chunk_;
  if (write_position_ + max_token_bytes > raw_chunk_ + chunk_bytes) finish_chunk();
  if (is_mispredicted) test_dependence(site, address, false);
}

void Encoder::sample_dependence(SiteKey key, std::uint64_t address) {
  loads_until_sample_ = sample_interval;
  test_dependence(find_or_add_site(key), address, true);
}

// Tests whether a load depends on an earlier one. The event that reports it may end the chunk.
void Encoder::test_dependence(Site& site, std::uint64_t address, bool pointers_only) {
  if (is_store(site.key.kind)) return;
  if (!site.dependence)
    site.dependence = static_cast<DependenceSearch*>(client_.allocate_zeroed(sizeof(DependenceSearch)));
  if (const std::uint64_t producer = site.dependence->test_load(site.key.code, address, recent_loads_, pointers_only))
    client_.write_dependence(site.key.code, producer);
}

void Encoder::encode_range(SiteKey key, std::uint64_t address, std::uint64_t bytes) {
  Site& site = find_or_add_site(key);
  if (is_new_in_chunk(site)) define_site(site, address);
  write_token(Token::range);
  write_number(site.number);
  write_number(zigzag_encode(static_cast<std::int64_t>(address - site.predictor.predicted_address())));
  write_number(bytes);
  correct_prediction(site, address);
  *next_site_link_ = &site;
  next_site_link_ = &site.next;
  ++accesses_in_chunk_;
  if (write_position_ + max_token_bytes > raw_chunk_ + chunk_bytes) finish_chunk();
}

void Encoder::correct_prediction(Site& site, std::uint64_t address) {
  site.predictor.correct(address, accesses_in_chunk_);
  if (!site.predictor.needs_history()) return;
  if (!site.history) {
    site.history = static_cast<StepHistory*>(client_.allocate_zeroed(sizeof(StepHistory)));
    site.history->steps = static_cast<Step*>(client_.allocate_zeroed((StepHistory::max_steps + 1) * sizeof(Step)));
    site.history->next_step_by_slot =
        static_cast<std::uint32_t*>(client_.allocate_zeroed(StepHistory::num_slots * sizeof(std::uint32_t)));
  }
  site.predictor.use_history(*site.history);
}

void Encoder::encode_event(const unsigned char* bytes, std::uint64_t length) {
  if (write_position_ + max_token_bytes + length > raw_chunk_ + chunk_bytes) finish_chunk();
  if (max_token_bytes + length > chunk_bytes)
    __builtin_trap();  // an event of 8 MiB: a communicator of two million ranks
  write_token(Token::event);
  write_number(length);
  __builtin_memcpy(write_position_, bytes, length);
  write_position_ += length;
}

void Encoder::finish_chunk() {
  if (num_predicted_ > 0) {
    write_token(Token::event);
    write_number(0);
  }
  if (write_position_ == raw_chunk_) return;
  client_.store_chunk(raw_chunk_, static_cast<std::uint32_t>(write_position_ - raw_chunk_), accesses_in_chunk_);
  reset_chunk_state();
}

void Encoder::reset_chunk_state() {
  accesses_before_chunk_ += accesses_in_chunk_;
  accesses_in_chunk_ = 0;
  write_position_ = raw_chunk_;
  last_new_address_ = 0;
  num_sites_in_chunk_ = 0;
  ++chunk_;
  no_site_.next = &no_site_;
  next_site_link_ = &no_site_.next;
}

void Encoder::write_token(Token kind) {
  const auto predicted = num_predicted_ < max_predicted_per_token ? num_predicted_ : max_predicted_per_token;
  *write_position_++ = static_cast<unsigned char>(predicted << token_bits | static_cast<unsigned>(kind));
  if (predicted == max_predicted_per_token) write_number(num_predicted_ - max_predicted_per_token);
  accesses_in_chunk_ += num_predicted_;
  num_predicted_ = 0;
}

// The Object event must precede the first site in that object, so client_.locate_code() may call encode_event().
void Encoder::define_site(Site& site, std::uint64_t address) {
  std::uint64_t offset = 0;
  const std::uint64_t object = client_.locate_code(site.key.code, offset);
  write_token(Token::new_site);
  write_number(object);
  write_number(offset);
  write_number(site.key.kind);
  write_number(zigzag_encode(static_cast<std::int64_t>(address - last_new_address_)));
  last_new_address_ = address;
  site.number = num_sites_in_chunk_++;
  site.chunk = chunk_;
  site.next = &no_site_;
  site.predictor.reset(address);
}

Encoder::Site& Encoder::find_or_add_site(SiteKey key) {
  std::uint64_t slot = slot_of(key);
  while (slots_[slot] && slots_[slot]->key != key) slot = (slot + 1) & slot_mask_;
  if (slots_[slot]) return *slots_[slot];
  if (2 * ++num_sites_ > slot_mask_) {
    resize_site_table(2 * (slot_mask_ + 1));
    --num_sites_;
    return find_or_add_site(key);
  }
  if (next_free_site_ == free_sites_end_) {
    constexpr std::uint64_t sites_per_allocation = 1024;
    next_free_site_ = static_cast<Site*>(client_.allocate_zeroed(sites_per_allocation * sizeof(Site)));
    free_sites_end_ = next_free_site_ + sites_per_allocation;
  }
  Site* const site = next_free_site_++;
  site->key = key;
  slots_[slot] = site;
  return *site;
}

void Encoder::resize_site_table(std::uint64_t slots) {
  Site** const old = slots_;
  const std::uint64_t old_slots = old ? slot_mask_ + 1 : 0;
  slots_ = static_cast<Site**>(client_.allocate_zeroed(slots * sizeof(Site*)));
  slot_mask_ = slots - 1;
  for (std::uint64_t i = 0; i < old_slots; ++i) {
    if (!old[i]) continue;
    std::uint64_t slot = slot_of(old[i]->key);
    while (slots_[slot]) slot = (slot + 1) & slot_mask_;
    slots_[slot] = old[i];
  }
}

}  // namespace nearfield::stream
