#include <array>
#include <charconv>
#include <string>

// std::to_chars of a double came with gcc 11 (GLIBCXX_3.4.29); a variant may ask for 3.4.24 at most, so it must bring its
// own.
std::string shortest(double value) {
  std::array<char, 64> text;
  const auto [end, problem] = std::to_chars(text.data(), text.data() + text.size(), value);
  return problem == std::errc{} ? std::string(text.data(), end) : "";
}
