#include "trace/stream/encoder.hpp"

namespace nearfield::stream {

void Encoder::begin(const EncoderClient& client) {
  client_ = client;
  raw_ = static_cast<unsigned char*>(client.memory(chunk_bytes));
  at_ = raw_;
  for (auto& of_kind : recent_sites_)
    for (Site*& site : of_kind) site = &no_site_;
  resize_site_table(1024);
  reset_chunk_state();
}

void Encoder::write_unpredicted(Key key, std::uint64_t address) {
  Site* const expected = *link_;
  Site& site = expected->key == key ? *expected : find_or_add_site(key);
  recent_site(key) = &site;
  // The prediction was right: another site with the same hash had occupied the slot in recent_sites_.
  if (&site == expected && !is_new(site) && site.predictor.predicted_address() == address) return access(key, address);
  bool is_mispredicted = false;
  if (is_new(site)) {
    define_site(site, address);
  } else {
    const std::uint64_t difference = address - site.predictor.predicted_address();
    is_mispredicted = difference != 0;
    const bool same_site = &site == expected, eights = difference % 8 == 0;
    if (difference == 0)
      write_token(Token::site);
    else if (same_site)
      write_token(eights ? Token::step8 : Token::step);
    else
      write_token(eights ? Token::site_step8 : Token::site_step);
    if (!same_site) write_number(site.number);
    const auto step = static_cast<std::int64_t>(difference);
    if (difference != 0) write_number(zigzag_encode(eights ? step / 8 : step));
    if (difference == 0)
      site.predictor.advance();
    else
      correct_prediction(site, address);
  }
  *link_ = &site;
  link_ = &site.next;
  ++accesses_in_chunk_;
  if (at_ + max_token_bytes > raw_ + chunk_bytes) finish_chunk();
  if (is_mispredicted) test_dependence(site, address, false);
}

void Encoder::sample_dependence(Key key, std::uint64_t address) {
  until_sample_ = sample_interval;
  test_dependence(find_or_add_site(key), address, true);
}

// Tests whether a load depends on an earlier one. The event that reports it may end the chunk.
void Encoder::test_dependence(Site& site, std::uint64_t address, bool only_pointers) {
  if (is_store(site.key.kind)) return;
  if (!site.dependence) site.dependence = static_cast<DependenceSearch*>(client_.memory(sizeof(DependenceSearch)));
  if (const std::uint64_t producer = site.dependence->test(site.key.code, address, recent_loads_, only_pointers))
    client_.depends(site.key.code, producer);
}

void Encoder::range(Key key, std::uint64_t address, std::uint64_t bytes) {
  Site& site = find_or_add_site(key);
  if (is_new(site)) define_site(site, address);
  write_token(Token::range);
  write_number(site.number);
  write_number(zigzag_encode(static_cast<std::int64_t>(address - site.predictor.predicted_address())));
  write_number(bytes);
  correct_prediction(site, address);
  *link_ = &site;
  link_ = &site.next;
  ++accesses_in_chunk_;
  if (at_ + max_token_bytes > raw_ + chunk_bytes) finish_chunk();
}

void Encoder::correct_prediction(Site& site, std::uint64_t address) {
  site.predictor.correct(address, accesses_in_chunk_);
  if (!site.predictor.needs_history()) return;
  if (!site.history) {
    site.history = static_cast<History*>(client_.memory(sizeof(History)));
    site.history->steps = static_cast<Step*>(client_.memory((History::max_steps + 1) * sizeof(Step)));
    site.history->after = static_cast<std::uint32_t*>(client_.memory(History::slots * sizeof(std::uint32_t)));
  }
  site.predictor.use_history(*site.history);
}

void Encoder::event(const unsigned char* bytes, std::uint64_t length) {
  if (at_ + max_token_bytes + length > raw_ + chunk_bytes) finish_chunk();
  if (max_token_bytes + length > chunk_bytes)
    __builtin_trap();  // an event of 8 MiB: a communicator of two million ranks
  write_token(Token::event);
  write_number(length);
  __builtin_memcpy(at_, bytes, length);
  at_ += length;
}

void Encoder::finish_chunk() {
  if (predicted_ > 0) {
    write_token(Token::event);
    write_number(0);
  }
  if (at_ == raw_) return;
  client_.store(raw_, static_cast<std::uint32_t>(at_ - raw_), accesses_in_chunk_);
  reset_chunk_state();
}

void Encoder::reset_chunk_state() {
  accesses_before_chunk_ += accesses_in_chunk_;
  accesses_in_chunk_ = 0;
  at_ = raw_;
  last_new_address_ = 0;
  defined_in_chunk_ = 0;
  ++chunk_;
  no_site_.next = &no_site_;
  link_ = &no_site_.next;
}

void Encoder::write_token(Token kind) {
  const auto predicted = predicted_ < max_predicted ? predicted_ : max_predicted;
  *at_++ = static_cast<unsigned char>(predicted << token_bits | static_cast<unsigned>(kind));
  if (predicted == max_predicted) write_number(predicted_ - max_predicted);
  accesses_in_chunk_ += predicted_;
  predicted_ = 0;
}

// The Object event must precede the first site in that object, so client_.place() may call event().
void Encoder::define_site(Site& site, std::uint64_t address) {
  std::uint64_t offset = 0;
  const std::uint64_t object = client_.place(site.key.code, offset);
  write_token(Token::new_site);
  write_number(object);
  write_number(offset);
  write_number(site.key.kind);
  write_number(zigzag_encode(static_cast<std::int64_t>(address - last_new_address_)));
  last_new_address_ = address;
  site.number = defined_in_chunk_++;
  site.chunk = chunk_;
  site.next = &no_site_;
  site.predictor.reset(address);
}

Encoder::Site& Encoder::find_or_add_site(Key key) {
  std::uint64_t slot = slot_of(key);
  while (slots_[slot] && slots_[slot]->key != key) slot = (slot + 1) & mask_;
  if (slots_[slot]) return *slots_[slot];
  if (2 * ++sites_ > mask_) {
    resize_site_table(2 * (mask_ + 1));
    --sites_;
    return find_or_add_site(key);
  }
  if (free_ == free_end_) {
    constexpr std::uint64_t many = 1024;
    free_ = static_cast<Site*>(client_.memory(many * sizeof(Site)));
    free_end_ = free_ + many;
  }
  Site* const site = free_++;
  site->key = key;
  slots_[slot] = site;
  return *site;
}

void Encoder::resize_site_table(std::uint64_t slots) {
  Site** const old = slots_;
  const std::uint64_t old_slots = old ? mask_ + 1 : 0;
  slots_ = static_cast<Site**>(client_.memory(slots * sizeof(Site*)));
  mask_ = slots - 1;
  for (std::uint64_t i = 0; i < old_slots; ++i) {
    if (!old[i]) continue;
    std::uint64_t slot = slot_of(old[i]->key);
    while (slots_[slot]) slot = (slot + 1) & mask_;
    slots_[slot] = old[i];
  }
}

}  // namespace nearfield::stream
