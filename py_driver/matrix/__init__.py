"""What can be built and from what: releases, variants, architectures, the lock."""
