"""The matrix: releases, variants, architectures, the lock."""
