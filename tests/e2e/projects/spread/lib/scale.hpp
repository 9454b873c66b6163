#pragma once

int scale(int count);
