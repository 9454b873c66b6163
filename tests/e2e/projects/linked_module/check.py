"""Whether the module computes, on the GPU of this machine, what its sources say; run it where `linked_module` is found."""

import linked_module
import torch

table = torch.arange(1.0, 9.0)
linked_module.set_table(table)
x = torch.randn(1000, device="cuda")
factors = table.cuda().repeat(125)
before = linked_module.calls()
torch.testing.assert_close(linked_module.apply(x), x * factors + 1.0)
assert linked_module.calls() == before + 1000
y = x.clone()
linked_module.nest(y)
torch.testing.assert_close(y, x * factors)
assert linked_module.calls() == before + 2000
print("linked_module works")
