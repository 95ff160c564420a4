#include "trace/stream/input.hpp"

#include <cerrno>
#include <system_error>

namespace nearfield::stream {

FileInput::FileInput(const std::string& path) : path_(path), file_(std::fopen(path.c_str(), "rb")) {
  if (!file_) throw std::system_error(errno, std::generic_category());
}

std::size_t FileInput::read(void* to, std::size_t bytes) {
  const std::size_t count = std::fread(to, 1, bytes, file_.get());
  if (count != bytes && std::ferror(file_.get())) throw std::system_error(errno, std::generic_category());
  return count;
}

bool FileInput::seek(std::uint64_t byte) { return std::fseek(file_.get(), static_cast<long>(byte), SEEK_SET) == 0; }

std::unique_ptr<StreamInput> FileInput::open_second_input_at(std::uint64_t byte) const {
  auto input = std::make_unique<FileInput>(path_);
  input->seek(byte);
  return input;
}

std::string FileInput::truncation_reason() const {
  return "the observed program was killed, the disk was full, or the program still runs";
}

}  // namespace nearfield::stream
