#!/bin/sh
# A worker whose actions see their inputs and of the machine a shell and the C library: worker.sh OPTIONS NAME
set -eu

libraries=/lib/x86_64-linux-gnu
for file in /bin/sh /lib64/ld-linux-x86-64.so.2 $libraries/libc.so.6 $libraries/libdl.so.2 $libraries/libgcc_s.so.1 \
    $libraries/libm.so.6 $libraries/libpthread.so.0 $libraries/librt.so.1 $libraries/libstdc++.so.6; do
    # bubblewrap takes no symbolic link.
    set -- --runner-arg="--ro-bind-mount=$(readlink -f "$file"):$file" "$@"
done
exec /usr/bin/buildbox-worker --buildbox-run=/usr/bin/buildbox-run-bubblewrap "$@"
