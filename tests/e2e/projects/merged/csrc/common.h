#pragma once

int sum();
