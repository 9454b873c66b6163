#!/bin/sh
# Runs the driver with the variables of kernel-builder's image: MAX_JOBS things at once with CORES processors each.
set -eu
case "${1:-}" in
  build | verify)
    jobs=${MAX_JOBS:-${CORES:-}}
    case "${MAX_JOBS:-x}${CORES:-x}" in
      0* | *[!0-9]*) ;;
      *) jobs=$((MAX_JOBS * CORES)) ;;
    esac
    [ -z "$jobs" ] || set -- "$@" --jobs "$jobs"
    ;;
esac
exec driver "$@"
