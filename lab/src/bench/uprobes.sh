# Runs PROGRAM COUNT with a pair of uprobes at its function `empty`, which write into the kernel's ring buffer (the kernel's
# Documentation/trace/uprobetracer.rst). It takes root. They're slow, so there are fewer calls.
program=$1
count=$(($2 / 25))
tracing=/sys/kernel/tracing
[ -e $tracing/uprobe_events ] || mount -t tracefs nodev $tracing || exit 1
address=$(nm "$program" | sed -n 's/ T empty$//p')
# In a segment whose addresses are offsets in the file, as those of code are here.
readelf -lW "$program" | grep -q 'LOAD *0x001000 0x0*1000 ' || exit 1
trap 'echo 0 >$tracing/events/mcount_bench/enable; echo >$tracing/uprobe_events; echo >$tracing/trace' EXIT
echo "p:mcount_bench/entry $program:0x$address" >$tracing/uprobe_events || exit 1
echo "r:mcount_bench/exit $program:0x$address" >>$tracing/uprobe_events || exit 1
echo 1 >$tracing/events/mcount_bench/enable
"$program" $count
