#pragma once

int one();
