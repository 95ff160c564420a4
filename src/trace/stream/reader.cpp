#include "trace/stream/reader.hpp"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "trace/stream/event_bytes.hpp"
#include "trace/stream/zstandard.hpp"

namespace nearfield::stream {

Reader::HistoryMemory::HistoryMemory()
    : steps(new Step[History::max_steps + 1]), after(History::slots), history{steps.get(), after.data()} {}

namespace {

std::unique_ptr<Input> open_input(const std::string& path) {
  std::error_code unknown;
  if (std::filesystem::is_fifo(path, unknown)) throw BrokenStream(path + ": a pipe, which cannot be read out of order");
  try {
    return std::make_unique<FileInput>(path);
  } catch (const std::system_error& error) {
    throw BrokenStream(path + ": " + error.code().message());
  }
}

}  // namespace

Reader::Reader(const std::string& path) : Reader(path, open_input(path)) {}

Reader::Reader(std::string name, std::unique_ptr<Input> input, std::uint64_t byte)
    : name_(std::move(name)), input_(std::move(input)), next_byte_(byte), chunk_byte_(byte) {}

Reader::Reader(std::string name, std::unique_ptr<Input> input) : Reader(std::move(name), std::move(input), 0) {
  unsigned char header[header_bytes];
  read(header, sizeof header);
  if (std::memcmp(header, file_magic, sizeof file_magic) != 0) throw_broken(0, "this is not a stream of nearfield");
  std::uint32_t file_version = 0;
  std::memcpy(&file_version, header + sizeof file_magic, sizeof file_version);
  if (file_version != version)
    throw_broken(sizeof file_magic, "the stream has version " + std::to_string(file_version) +
                                        ", and this nearfield reads " + std::to_string(version) +
                                        "; observe the program again");
  chunk_byte_ = next_byte_;
}

std::unique_ptr<Reader> Reader::open_at_chunk() const {
  return std::unique_ptr<Reader>(new Reader(name_, input_->open_at(chunk_byte_), chunk_byte_));
}

std::size_t Reader::accesses(std::span<Reference> out) {
  if (event_ && event_given_) event_.reset();
  std::size_t count = 0;
  while (count < out.size() && !event_) {
    if (predicted_ > 0)
      count += take_predicted_accesses(out.subspan(count));
    else if (current_bytes_left_ > 0)
      out[count++] = take_part_of_current();
    else if (token_)
      perform_token(*std::exchange(token_, {}));
    else if (!read_token())
      break;
  }
  passed_.store(accesses_before_chunk_ + accesses_in_chunk_, std::memory_order_relaxed);
  return count;
}

const Event* Reader::event() {
  if (!event_) return nullptr;
  event_given_ = true;
  return &*event_;
}

// ---- accesses

std::size_t Reader::take_predicted_accesses(std::span<Reference> out) {
  const auto count = static_cast<std::size_t>(std::min<std::uint64_t>(out.size(), predicted_));
  PredictedSite** link = link_;
  for (std::size_t i = 0; i < count; ++i) {
    PredictedSite* const site = *link;
    out[i] = site->access;
    out[i].address = site->predictor.predicted_address();
    site->predictor.advance();
    link = &site->next;
  }
  link_ = link;
  predicted_ -= count;
  accesses_in_chunk_ += count;
  if (std::any_of(out.begin(), out.begin() + static_cast<std::ptrdiff_t>(count), [](auto& r) { return r.bytes == 0; }))
    throw_broken(chunk_byte_, "an access is predicted where none can be");
  return count;
}

Reference Reader::take_part_of_current() {
  Reference part = current_;
  part.bytes = static_cast<std::uint32_t>(std::min<std::uint64_t>(current_bytes_left_, 1 << 30));
  current_.address += part.bytes;
  current_bytes_left_ -= part.bytes;
  return part;
}

bool Reader::read_token() {
  while (at_ == end_)
    if (!read_chunk()) return false;
  const unsigned char byte = *at_++;
  predicted_ = byte >> token_bits;
  if (predicted_ == max_predicted) predicted_ += read_number();
  token_ = static_cast<Token>(byte & ((1 << token_bits) - 1));
  return true;
}

void Reader::perform_token(Token token) {
  if (token == Token::event) return read_event();
  if (token == Token::new_site) return define_site();
  PredictedSite& site = token == Token::step8 || token == Token::step ? **link_ : this->read_site();
  if (token == Token::site) {
    current_ = site.access;
    current_.address = site.predictor.predicted_address();
    site.predictor.advance();
  } else {
    auto step = static_cast<std::uint64_t>(zigzag_decode(read_number()));
    if (token == Token::step8 || token == Token::site_step8) step *= 8;
    current_ = site.access;
    current_.address = site.predictor.predicted_address() + step;
    correct_prediction(site);
  }
  current_bytes_left_ = token == Token::range ? read_number() : current_.bytes;
  if (current_bytes_left_ == 0) throw_broken(chunk_byte_, "an access has no bytes");
  *link_ = &site;
  link_ = &site.next;
  ++accesses_in_chunk_;
}

void Reader::correct_prediction(PredictedSite& site) {
  site.predictor.correct(current_.address, accesses_in_chunk_);
  if (!site.predictor.needs_history()) return;
  if (used_histories_ == histories_.size()) histories_.emplace_back();
  site.predictor.use_history(histories_[used_histories_++].history);
}

void Reader::define_site() {
  Site site;
  site.object = read_number();
  site.offset = read_number();
  const std::uint64_t kind = read_number();
  if (kind >= site_kinds) throw_broken(chunk_byte_, "a site has kind " + std::to_string(kind));
  site.kind = static_cast<unsigned>(kind);
  last_new_address_ += static_cast<std::uint64_t>(zigzag_decode(read_number()));
  PredictedSite& prediction = predictions_.emplace_back();
  prediction.predictor.reset(last_new_address_);
  prediction.access = {0, access_bytes_of(site.kind), is_store(site.kind), role_of(site), site_number(site)};
  prediction.next = &no_site_;
  if (is_range(site.kind)) return;  // the first access of a range site is a token of its own
  current_ = prediction.access;
  current_.address = last_new_address_;
  current_bytes_left_ = current_.bytes;
  *link_ = &prediction;
  link_ = &prediction.next;
  ++accesses_in_chunk_;
}

Reader::PredictedSite& Reader::read_site() {
  const std::uint64_t which = read_number();
  if (which >= predictions_.size()) throw_broken(chunk_byte_, "site " + std::to_string(which) + " was not defined");
  return predictions_[which];
}

std::uint32_t Reader::site_number(const Site& site) {
  const auto [at, is_new] =
      numbers_.try_emplace({site.object, site.offset, site.kind}, static_cast<std::uint32_t>(sites_.size()));
  if (is_new) sites_.push_back(site);
  return at->second;
}

LoadRole Reader::role_of(const Site& site) const {
  const auto found = is_store(site.kind) ? roles_.end() : roles_.find({site.object, site.offset});
  return found == roles_.end() ? LoadRole::independent : found->second;
}

// Assigns the roles that a new dependence changes. The encoder reports one dependence of a load; of several, the first
// counts.
void Reader::add_dependence(const Dependence& found) {
  const Location load{found.object, found.offset}, producer{found.on_object, found.on_offset};
  if (!producers_.try_emplace(load, producer).second) return;
  roles_[load] = LoadRole::gather;
  roles_.try_emplace(producer, LoadRole::index);
  // The producer, its producer and so on: if the load is among them, all of them are a chain.
  std::vector<Location> path{producer};
  while (path.back() != load && path.size() <= max_chain_loads) {
    const auto next = producers_.find(path.back());
    if (next == producers_.end()) break;
    path.push_back(next->second);
  }
  if (path.back() == load)
    for (const Location& one : path) roles_[one] = LoadRole::chain;
  for (PredictedSite& site : predictions_) site.access.role = role_of(sites_[site.access.site]);
}

std::uint64_t Reader::read_number() {
  std::uint64_t value = 0;
  const unsigned char* const behind = get_number(at_, end_, value);
  if (!behind) throw_broken(chunk_byte_, "a number is not whole");
  at_ = behind;
  return value;
}

// ---- events

void Reader::read_event() {
  const std::uint64_t length = read_number();
  if (length == 0) return;
  if (length > static_cast<std::uint64_t>(end_ - at_)) throw_broken(chunk_byte_, "an event is not whole");
  event_ = EventReader(at_, at_ + length).read_event();
  if (!event_) throw_broken(chunk_byte_, "an event is none that version " + std::to_string(version) + " knows");
  if (const auto* const object = std::get_if<Object>(&*event_)) objects_.push_back(object->path);
  if (const auto* const found = std::get_if<Dependence>(&*event_)) add_dependence(*found);
  event_given_ = false;
  at_ += length;
}

// ---- chunks

ChunkHeader Reader::read_header() {
  chunk_byte_ = next_byte_;
  ChunkHeader header;
  read(&header, sizeof header);
  if (header.magic != ChunkHeader::right_magic || header.raw_bytes > chunk_bytes ||
      header.stored_bytes > header.raw_bytes)
    throw_broken(chunk_byte_, "a chunk should begin here");
  chunks_.push_back(header);
  last_chunk_read_ = header.flags & ChunkHeader::last;
  return header;
}

bool Reader::read_chunk() {
  if (last_chunk_read_) return false;
  input_->release_before(next_byte_);
  const ChunkHeader header = read_header();
  stored_.resize(header.stored_bytes);
  read(stored_.data(), stored_.size());
  if (checksum(header, stored_.data()) != header.checksum)
    throw_broken(chunk_byte_, "the chunk from here on has changed since it was written: its checksum is another one");
  unpack_chunk(header);
  begin_chunk();
  return true;
}

void Reader::skip_to_last_chunk() {
  std::uint64_t last_full = next_byte_;
  std::size_t before = 0;
  while (!last_chunk_read_) {
    const ChunkHeader header = read_header();
    if (header.raw_bytes > 0) {
      last_full = chunk_byte_;
      before = chunks_.size() - 1;
    }
    next_byte_ += header.stored_bytes;
    if (!input_->seek(next_byte_)) throw_broken(next_byte_, "one cannot go there");
  }
  input_->seek(last_full);
  next_byte_ = last_full;
  last_chunk_read_ = false;
  chunks_.resize(before);
}

void Reader::unpack_chunk(const ChunkHeader& header) {
  if (!(header.flags & ChunkHeader::packed)) return raw_.swap(stored_);
  raw_.resize(header.raw_bytes);
  if (!Zstandard::get().decompress(raw_, stored_))
    throw_broken(chunk_byte_, "Zstandard cannot unpack the chunk from here on");
}

void Reader::begin_chunk() {
  at_ = raw_.data();
  end_ = at_ + raw_.size();
  predictions_.clear();
  no_site_.predictor.reset(0);
  no_site_.next = &no_site_;
  link_ = &no_site_.next;
  last_new_address_ = 0;
  accesses_before_chunk_ += std::exchange(accesses_in_chunk_, 0);
  used_histories_ = 0;
}

void Reader::read(void* to, std::size_t bytes) {
  std::size_t count = 0;
  try {
    count = input_->read(to, bytes);
  } catch (const std::system_error& error) {
    throw_broken(next_byte_, error.code().message());
  }
  if (count != bytes) throw_broken(next_byte_, "the stream is cut from here on: " + input_->truncation_reason());
  next_byte_ += bytes;
}

void Reader::throw_broken(std::uint64_t byte, const std::string& what) const {
  throw BrokenStream(name_ + ": byte " + std::to_string(byte) + ": " + what);
}

}  // namespace nearfield::stream
