def depends():
    """What metadata.json says of other kernels is for the client to load."""
    return True
