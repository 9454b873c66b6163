import combined as imported
import kernels
import torch


def test_kernels_of_this_machine() -> None:
    x = torch.tensor([0.0, 1.5])
    kernel = kernels.get_kernel("tests/combined", version=1)
    torch.testing.assert_close(kernel.combined(x), torch.tensor([1.0, 4.0]))
    torch.testing.assert_close(imported.combined(x), torch.tensor([1.0, 4.0]))
    assert kernels.get_kernel("tests/doubled", version=1) is kernel._doubled
