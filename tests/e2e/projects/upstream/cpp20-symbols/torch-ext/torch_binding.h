#pragma once

#include <string>

std::string shortest(double value);
