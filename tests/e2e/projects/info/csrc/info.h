#pragma once

#include <string>

struct Info {
  std::string name;
  int n;
};

// Its name says nothing of the string inside, so the linker cannot tell whether both sides mean the same.
Info describe(int n);
