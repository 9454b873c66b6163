#pragma once

int sum(int count);
