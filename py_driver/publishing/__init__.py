"""What is done with variants once they are built: published, verified, put into a wheel."""
