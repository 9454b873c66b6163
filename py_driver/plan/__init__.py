"""What is to be built of a project: its files checked, its variants planned, its BUILD file."""
