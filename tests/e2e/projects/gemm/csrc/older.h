#pragma once

// 100 * CUTLASS_MAJOR + CUTLASS_MINOR
int older_cutlass_version();
