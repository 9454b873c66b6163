[% if cpu %]
#ifdef CPU_KERNEL
  ops.impl("[[ module ]][[ suffix | default("") ]]", c10::kCPU, &[[ module ]][[ suffix | default("") ]]_op);
[% endif %]
[% if cpu and gpu %]
#else
[% endif %]
[% if gpu %]
  ops.impl("[[ module ]][[ suffix | default("") ]]", c10::kCUDA, &[[ module ]][[ suffix | default("") ]]_op);
[% endif %]
[% if cpu %]
#endif
[% endif %]
