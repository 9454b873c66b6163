"""A build from beginning to end, and what is known of it before and afterwards."""
