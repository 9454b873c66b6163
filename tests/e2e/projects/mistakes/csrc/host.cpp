#include "host.h"

int host() {
    return twice(2);
}
