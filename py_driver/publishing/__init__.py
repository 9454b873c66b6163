"""The use of built variants: publishing, verifying, packing into wheels."""
