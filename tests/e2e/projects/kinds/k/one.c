// C, and no C++: `class` is a name, and a pointer to void becomes any other.
#include "part.h"
#include <math.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>

static const uint8_t data[] = {
#include "list.inc"
};
extern const unsigned char bytes[];
int class = PLUS;

int first(void) {
  int *kept = malloc(sizeof(int));
  kept[0] = data[1] + class;
  int found = *kept;
  free(kept);
  return found + (int)floor(0.5) + add(1, bytes[0]);
}
