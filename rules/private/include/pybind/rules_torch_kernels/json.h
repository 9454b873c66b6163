// JSON for the module's Python file: objects and lists that are put together piece by piece.
#pragma once
#pragma GCC system_header

#include <cstdint>
#include <string>
#include <string_view>

namespace rules_torch_kernels {
namespace binding {

std::string json_text(std::string_view text);

// The keys of an object, or the items of a list.
class Json {
 public:
  // An item, in JSON.
  Json& item(std::string_view json);
  Json& text_item(std::string_view text);

  // A key and its value, in JSON.
  Json& key(std::string_view name, std::string_view json);
  Json& text(std::string_view name, std::string_view value);
  // The same, and null for a null pointer.
  Json& text(std::string_view name, const char* value);
  Json& flag(std::string_view name, bool value);
  Json& number(std::string_view name, int64_t value);

  // Without brackets.
  const std::string& inner() const {
    return text_;
  }
  std::string object() const;
  std::string list() const;

 private:
  std::string text_;
};

// An object with one key, which says what its value stands for.
std::string tagged(std::string_view tag, std::string_view json);

std::string real(double value);

}  // namespace binding
}  // namespace rules_torch_kernels
