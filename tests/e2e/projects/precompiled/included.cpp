#include <torch/extension.h>

#include <iomanip>
#include <regex>

// <regex> declares more in `std`: this one is compiled without the precompiled header.
std::string words(const std::string& text) {
  std::ostringstream out;
  const std::regex word("[a-z]+");
  for (std::sregex_iterator found(text.begin(), text.end(), word), end; found != end; ++found) out << std::setw(6) << found->str();
  return out.str();
}
