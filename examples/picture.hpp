// Writes brightness levels as a picture: as PNG (uncompressed, with the palette "hot iron") if the file name ends with
// .png, otherwise as grey PGM.
#pragma once

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <string>
#include <vector>

namespace picture {

using Bytes = std::vector<std::uint8_t>;

inline void append(Bytes& to, std::uint32_t number) {  // big-endian
  for (int shift = 24; shift >= 0; shift -= 8) to.push_back(static_cast<std::uint8_t>(number >> shift));
}

inline std::uint32_t crc32(const Bytes& bytes, std::size_t from) {
  std::uint32_t crc = 0xffffffffu;
  for (auto i = from; i < bytes.size(); ++i) {
    crc ^= bytes[i];
    for (int bit = 0; bit < 8; ++bit) crc = crc & 1 ? crc >> 1 ^ 0xedb88320u : crc >> 1;
  }
  return ~crc;
}

inline void append_chunk(Bytes& png, const std::string& name, const Bytes& data) {
  append(png, static_cast<std::uint32_t>(data.size()));
  const auto summed_from = png.size();
  png.insert(png.end(), name.begin(), name.end());
  png.insert(png.end(), data.begin(), data.end());
  append(png, crc32(png, summed_from));
}

/// Returns a zlib stream of stored (uncompressed) blocks.
inline Bytes stored(const Bytes& raw) {
  Bytes out{0x78, 0x01};
  std::uint32_t a = 1, b = 0;  // Adler-32
  for (std::size_t at = 0; at < raw.size(); at += 65535) {
    const auto length = std::min<std::size_t>(65535, raw.size() - at);
    out.push_back(at + length == raw.size());
    for (const auto number : {length, ~length}) {
      out.push_back(static_cast<std::uint8_t>(number));
      out.push_back(static_cast<std::uint8_t>(number >> 8));
    }
    for (auto i = at; i < at + length; ++i) {
      out.push_back(raw[i]);
      a = (a + raw[i]) % 65521;
      b = (b + a) % 65521;
    }
  }
  append(out, b << 16 | a);
  return out;
}

inline Bytes hot_iron() {
  Bytes colours;
  for (int level = 0; level < 256; ++level)
    for (int channel = 0; channel < 3; ++channel)
      colours.push_back(static_cast<std::uint8_t>(std::min(255, std::max(0, 3 * level - 255 * channel))));
  return colours;
}

/// Writes a picture. `levels`: `height` rows of `width` levels. Returns whether the file could be written.
inline bool write(const std::string& file, std::uint32_t width, std::uint32_t height, const Bytes& levels) {
  std::ofstream out(file, std::ios::binary);
  const auto put = [&](const Bytes& bytes) {
    out.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  };
  if (!file.ends_with(".png")) {
    out << "P5\n" << width << ' ' << height << "\n255\n";
    put(levels);
    return out.flush().good();
  }
  Bytes png{0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n'}, header, rows;
  append(header, width);
  append(header, height);
  for (const std::uint8_t setting : {8, 3, 0, 0, 0}) header.push_back(setting);  // 8 bits per pixel, with a palette
  for (std::uint32_t row = 0; row < height; ++row) {
    rows.push_back(0);  // no filter
    rows.insert(rows.end(), levels.begin() + std::ptrdiff_t{row} * width,
                levels.begin() + std::ptrdiff_t{row + 1} * width);
  }
  append_chunk(png, "IHDR", header);
  append_chunk(png, "PLTE", hot_iron());
  append_chunk(png, "IDAT", stored(rows));
  append_chunk(png, "IEND", {});
  put(png);
  return out.flush().good();
}

}  // namespace picture
