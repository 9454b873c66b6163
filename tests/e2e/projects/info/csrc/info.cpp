#include "info.h"

#include <stdexcept>
#include <utility>

namespace {

// What this calls is in no libstdc++ of old systems; it comes out of libstdc++.a, and asks for old strings inside.
std::logic_error move(std::logic_error& error) { return std::logic_error(std::move(error)); }

}  // namespace

Info describe(int n) {
  std::logic_error error("a name that is too long for a small string: " + std::string(n, 'x'));
  return {move(error).what(), n};
}
