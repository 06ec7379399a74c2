# What the machine does for Perfetto: a program with hooks, its system calls and the kernel's functions, all in one trace. All output is
# in /out.
set -u
mkdir -p /out /data
cd /data || exit 1
mcount trace --kernel 'ext4_*' --kernel 'jbd2_*' --kernel 'vfs_*' -o /out/save.mcount -- /usr/local/bin/save >/out/said 2>&1 </dev/null
echo "timeline: save: $?"
