#pragma once

constexpr int kNone = 0;
