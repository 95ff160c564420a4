#include "trace/stream/reader.hpp"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "trace/stream/event_bytes.hpp"
#include "trace/stream/zstandard.hpp"

namespace nearfield::stream {

StreamReader::HistoryMemory::HistoryMemory()
    : steps(new Step[StepHistory::max_steps + 1]),
      next_step_by_slot(StepHistory::num_slots),
      history{steps.get(), next_step_by_slot.data()} {}

namespace {

std::unique_ptr<StreamInput> open_input(const std::string& path) {
  std::error_code unknown;
  if (std::filesystem::is_fifo(path, unknown)) throw BrokenStream(path + ": a pipe, which cannot be read out of order");
  try {
    return std::make_unique<FileInput>(path);
  } catch (const std::system_error& error) {
    throw BrokenStream(path + ": " + error.code().message());
  }
}

}  // namespace

StreamReader::StreamReader(const std::string& path) : StreamReader(path, open_input(path)) {}

StreamReader::StreamReader(std::string name, std::unique_ptr<StreamInput> input, std::uint64_t byte)
    : stream_name_(std::move(name)), input_(std::move(input)), next_byte_(byte), chunk_byte_(byte) {}

StreamReader::StreamReader(std::string name, std::unique_ptr<StreamInput> input)
    : StreamReader(std::move(name), std::move(input), 0) {
  unsigned char header[header_bytes];
  read_bytes(header, sizeof header);
  if (std::memcmp(header, file_magic, sizeof file_magic) != 0) throw_broken(0, "this is not a stream of nearfield");
  std::uint32_t file_version = 0;
  std::memcpy(&file_version, header + sizeof file_magic, sizeof file_version);
  if (file_version != format_version)
    throw_broken(sizeof file_magic, "the stream has version " + std::to_string(file_version) +
                                        ", and this nearfield reads " + std::to_string(format_version) +
                                        "; observe the program again");
  chunk_byte_ = next_byte_;
}

std::unique_ptr<StreamReader> StreamReader::open_at_chunk() const {
  return std::unique_ptr<StreamReader>(
      new StreamReader(stream_name_, input_->open_second_input_at(chunk_byte_), chunk_byte_));
}

std::size_t StreamReader::read_accesses(std::span<Reference> out) {
  if (event_ && is_event_returned_) event_.reset();
  std::size_t count = 0;
  while (count < out.size() && !event_) {
    if (num_predicted_ > 0)
      count += take_predicted_accesses(out.subspan(count));
    else if (remaining_access_bytes_ > 0)
      out[count++] = take_part_of_access();
    else if (pending_token_)
      decode_token(*std::exchange(pending_token_, {}));
    else if (!read_token())
      break;
  }
  num_accesses_read_.store(accesses_before_chunk_ + accesses_in_chunk_, std::memory_order_relaxed);
  return count;
}

const Event* StreamReader::next_event() {
  if (!event_) return nullptr;
  is_event_returned_ = true;
  return &*event_;
}

// ---- accesses

std::size_t StreamReader::take_predicted_accesses(std::span<Reference> out) {
  const auto count = static_cast<std::size_t>(std::min<std::uint64_t>(out.size(), num_predicted_));
  PredictedSite** link = next_site_link_;
  for (std::size_t i = 0; i < count; ++i) {
    PredictedSite* const site = *link;
    out[i] = site->access;
    out[i].address = site->predictor.predicted_address();
    site->predictor.advance();
    link = &site->next;
  }
  next_site_link_ = link;
  num_predicted_ -= count;
  accesses_in_chunk_ += count;
  if (std::any_of(out.begin(), out.begin() + static_cast<std::ptrdiff_t>(count), [](auto& r) { return r.bytes == 0; }))
    throw_broken(chunk_byte_, "an access is predicted where none can be");
  return count;
}

Reference StreamReader::take_part_of_access() {
  Reference part = current_access_;
  part.bytes = static_cast<std::uint32_t>(std::min<std::uint64_t>(remaining_access_bytes_, 1 << 30));
  current_access_.address += part.bytes;
  remaining_access_bytes_ -= part.bytes;
  return part;
}

bool StreamReader::read_token() {
  while (position_ == end_)
    if (!read_chunk()) return false;
  const unsigned char byte = *position_++;
  num_predicted_ = byte >> token_bits;
  if (num_predicted_ == max_predicted_per_token) num_predicted_ += read_number();
  pending_token_ = static_cast<Token>(byte & ((1 << token_bits) - 1));
  return true;
}

void StreamReader::decode_token(Token token) {
  if (token == Token::event) return read_event();
  if (token == Token::new_site) return define_site();
  PredictedSite& site = token == Token::step8 || token == Token::step ? **next_site_link_ : this->read_site();
  if (token == Token::site) {
    current_access_ = site.access;
    current_access_.address = site.predictor.predicted_address();
    site.predictor.advance();
  } else {
    auto step = static_cast<std::uint64_t>(zigzag_decode(read_number()));
    if (token == Token::step8 || token == Token::site_step8) step *= 8;
    current_access_ = site.access;
    current_access_.address = site.predictor.predicted_address() + step;
    correct_prediction(site);
  }
  remaining_access_bytes_ = token == Token::range ? read_number() : current_access_.bytes;
  if (remaining_access_bytes_ == 0) throw_broken(chunk_byte_, "an access has no bytes");
  *next_site_link_ = &site;
  next_site_link_ = &site.next;
  ++accesses_in_chunk_;
}

void StreamReader::correct_prediction(PredictedSite& site) {
  site.predictor.correct(current_access_.address, accesses_in_chunk_);
  if (!site.predictor.needs_history()) return;
  if (num_used_histories_ == histories_.size()) histories_.emplace_back();
  site.predictor.use_history(histories_[num_used_histories_++].history);
}

void StreamReader::define_site() {
  Site site;
  site.object = read_number();
  site.offset = read_number();
  const std::uint64_t kind = read_number();
  if (kind >= num_site_kinds) throw_broken(chunk_byte_, "a site has kind " + std::to_string(kind));
  site.kind = static_cast<unsigned>(kind);
  last_new_address_ += static_cast<std::uint64_t>(zigzag_decode(read_number()));
  PredictedSite& prediction = predicted_sites_.emplace_back();
  prediction.predictor.reset(last_new_address_);
  prediction.access = {0, access_bytes_of(site.kind), is_store(site.kind), role_of(site), number_of_site(site)};
  prediction.next = &no_site_;
  if (is_range(site.kind)) return;  // the first access of a range site is a token of its own
  current_access_ = prediction.access;
  current_access_.address = last_new_address_;
  remaining_access_bytes_ = current_access_.bytes;
  *next_site_link_ = &prediction;
  next_site_link_ = &prediction.next;
  ++accesses_in_chunk_;
}

StreamReader::PredictedSite& StreamReader::read_site() {
  const std::uint64_t which = read_number();
  if (which >= predicted_sites_.size()) throw_broken(chunk_byte_, "site " + std::to_string(which) + " was not defined");
  return predicted_sites_[which];
}

std::uint32_t StreamReader::number_of_site(const Site& site) {
  const auto [at, is_new] =
      number_by_site_.try_emplace({site.object, site.offset, site.kind}, static_cast<std::uint32_t>(sites_.size()));
  if (is_new) sites_.push_back(site);
  return at->second;
}

LoadRole StreamReader::role_of(const Site& site) const {
  const auto found = is_store(site.kind) ? role_by_load_.end() : role_by_load_.find({site.object, site.offset});
  return found == role_by_load_.end() ? LoadRole::independent : found->second;
}

// Assigns the roles that a new dependence changes. The encoder reports one dependence of a load; of several, the first
// counts.
void StreamReader::add_dependence(const Dependence& dependence) {
  const CodeLocation load{dependence.object, dependence.offset}, producer{dependence.on_object, dependence.on_offset};
  if (!producer_by_load_.try_emplace(load, producer).second) return;
  role_by_load_[load] = LoadRole::gather;
  role_by_load_.try_emplace(producer, LoadRole::index);
  // Follows the producers from this load's producer on: if the path returns to the load, all loads on it are a chain.
  std::vector<CodeLocation> path{producer};
  while (path.back() != load && path.size() <= max_chain_loads) {
    const auto next = producer_by_load_.find(path.back());
    if (next == producer_by_load_.end()) break;
    path.push_back(next->second);
  }
  if (path.back() == load)
    for (const CodeLocation& one : path) role_by_load_[one] = LoadRole::chain;
  for (PredictedSite& site : predicted_sites_) site.access.role = role_of(sites_[site.access.site]);
}

std::uint64_t StreamReader::read_number() {
  std::uint64_t value = 0;
  const unsigned char* const after_number = get_number(position_, end_, value);
  if (!after_number) throw_broken(chunk_byte_, "a number is not whole");
  position_ = after_number;
  return value;
}

// ---- events

void StreamReader::read_event() {
  const std::uint64_t length = read_number();
  if (length == 0) return;
  if (length > static_cast<std::uint64_t>(end_ - position_)) throw_broken(chunk_byte_, "an event is not whole");
  event_ = EventReader(position_, position_ + length).read_event();
  if (!event_) throw_broken(chunk_byte_, "an event is none that version " + std::to_string(format_version) + " knows");
  if (const auto* const object = std::get_if<Object>(&*event_)) objects_.push_back(object->path);
  if (const auto* const found = std::get_if<Dependence>(&*event_)) add_dependence(*found);
  is_event_returned_ = false;
  position_ += length;
}

// ---- chunks

ChunkHeader StreamReader::read_header() {
  chunk_byte_ = next_byte_;
  ChunkHeader header;
  read_bytes(&header, sizeof header);
  if (header.magic != ChunkHeader::expected_magic || header.raw_bytes > chunk_bytes ||
      header.stored_bytes > header.raw_bytes)
    throw_broken(chunk_byte_, "a chunk should begin here");
  chunks_.push_back(header);
  is_last_chunk_read_ = header.flags & ChunkHeader::last;
  return header;
}

bool StreamReader::read_chunk() {
  if (is_last_chunk_read_) return false;
  input_->release_before(next_byte_);
  const ChunkHeader header = read_header();
  stored_chunk_.resize(header.stored_bytes);
  read_bytes(stored_chunk_.data(), stored_chunk_.size());
  if (checksum(header, stored_chunk_.data()) != header.checksum)
    throw_broken(chunk_byte_, "the chunk from here on has changed since it was written: its checksum is another one");
  unpack_chunk(header);
  begin_chunk();
  return true;
}

void StreamReader::skip_to_last_chunk() {
  std::uint64_t last_full_chunk = next_byte_;
  std::size_t num_earlier_chunks = 0;
  while (!is_last_chunk_read_) {
    const ChunkHeader header = read_header();
    if (header.raw_bytes > 0) {
      last_full_chunk = chunk_byte_;
      num_earlier_chunks = chunks_.size() - 1;
    }
    next_byte_ += header.stored_bytes;
    if (!input_->seek(next_byte_)) throw_broken(next_byte_, "one cannot go there");
  }
  input_->seek(last_full_chunk);
  next_byte_ = last_full_chunk;
  is_last_chunk_read_ = false;
  chunks_.resize(num_earlier_chunks);
}

void StreamReader::unpack_chunk(const ChunkHeader& header) {
  if (!(header.flags & ChunkHeader::packed)) return raw_chunk_.swap(stored_chunk_);
  raw_chunk_.resize(header.raw_bytes);
  if (!Zstandard::get().decompress(raw_chunk_, stored_chunk_))
    throw_broken(chunk_byte_, "Zstandard cannot unpack the chunk from here on");
}

void StreamReader::begin_chunk() {
  position_ = raw_chunk_.data();
  end_ = position_ + raw_chunk_.size();
  predicted_sites_.clear();
  no_site_.predictor.reset(0);
  no_site_.next = &no_site_;
  next_site_link_ = &no_site_.next;
  last_new_address_ = 0;
  accesses_before_chunk_ += std::exchange(accesses_in_chunk_, 0);
  num_used_histories_ = 0;
}

void StreamReader::read_bytes(void* to, std::size_t bytes) {
  std::size_t count = 0;
  try {
    count = input_->read(to, bytes);
  } catch (const std::system_error& error) {
    throw_broken(next_byte_, error.code().message());
  }
  if (count != bytes) throw_broken(next_byte_, "the stream is cut from here on: " + input_->truncation_reason());
  next_byte_ += bytes;
}

void StreamReader::throw_broken(std::uint64_t byte, const std::string& problem) const {
  throw BrokenStream(stream_name_ + ": byte " + std::to_string(byte) + ": " + problem);
}

}  // namespace nearfield::stream
