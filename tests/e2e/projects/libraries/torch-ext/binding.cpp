#include "registration.h"

bool calls();
bool called = calls();

REGISTER_EXTENSION(TORCH_EXTENSION_NAME)
