// Only its name matters: no test compiles it.
