// Whose implementations are compiled here.
[% if cpu and gpu %]
#ifdef CPU_KERNEL
#define DEVICE c10::kCPU
#else
#define DEVICE c10::kCUDA
#endif
[% else %]
#define DEVICE [[ "c10::kCPU" if cpu else "c10::kCUDA" ]]
[% endif %]
