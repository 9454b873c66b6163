// Only its name matters: no test includes it.
