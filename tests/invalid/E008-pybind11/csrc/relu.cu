#include "relu.h"
