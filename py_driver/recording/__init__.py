"""What a setup.py builds: recorded once for each configuration, without a compiler."""
