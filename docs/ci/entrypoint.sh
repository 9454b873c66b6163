#!/bin/sh
# Runs the driver with the variables of kernel-builder's image: MAX_JOBS things at once with CORES processors each.
set -eu
case "${1:-}" in
  build | verify)
    if [ -n "${MAX_JOBS:-}${CORES:-}" ]; then
      set -- "$@" --jobs "$((${MAX_JOBS:-1} * ${CORES:-1}))"
    fi
    ;;
esac
exec driver "$@"
