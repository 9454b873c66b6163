"""What runs a project's build while it is recorded, and notes what it would compile."""
