#pragma once

#define ANSWER 1

// A symbol that every kernel in this test has.
int answer();

// A static of an inline function: the linker merges it, gcc even makes it unique in the whole process.
inline int& counter() {
  static int value = 100 * ANSWER;
  return value;
}
