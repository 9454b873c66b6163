def _check_devices(*tensors: torch.Tensor | None) -> None:
    """A tensor on `meta` ends up in what follows, with any other: their output would have no values."""
    devices = {tensor.device for tensor in tensors if tensor is not None}
    torch._check(len(devices) == 1, lambda: "[[ module ]]: tensors are on several devices")
