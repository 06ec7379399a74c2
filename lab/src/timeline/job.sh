# What the machine does: each program runs for strace, for mcount, and once for mcount and trace-cmd at the same time. Then mcount is
# killed again and again, beside a session of somebody else's. All output is in /out.
set -u
mkdir -p /out /data
cd /data || exit 1
ip link set lo up
# How often a library is mapped and unmapped depends on where there is room for it.
echo 0 >/proc/sys/kernel/randomize_va_space
tracing=/sys/kernel/tracing

lua='lua5.4 /work.lua /data/d'
sqlite='sqlite3 -init /work.sql /data/x.db .exit'

both() { # NAME TRACE-CMD's OPTIONS -- COMMAND…: recorded by both.
	name=$1 patterns=$2
	shift 2
	options= filters=
	for pattern in $patterns; do
		options="$options --kernel $pattern" filters="$filters -l $pattern"
	done
	set -f
	mcount trace $options -o "/out/$name-k.mcount" -- \
		trace-cmd record -q -p function_graph $filters -e raw_syscalls:sys_enter -b 40000 -o "/out/$name.dat" -F "$@" \
		>"/out/$name.both" 2>&1 </dev/null
	echo "timeline: $name: $?"
	set +f
}

for name in lua sqlite; do
	eval "command=\$$name"
	rm -rf /data/*
	strace -f -c -U name,calls,errors -o "/out/$name.strace" $command >"/out/$name.1" 2>&1 </dev/null
	rm -rf /data/*
	mcount trace --system-calls -o "/out/$name.mcount" -- $command >"/out/$name.2" 2>"/out/$name.said" </dev/null
	rm -rf /data/*
	both "$name" 'ext4_* vfs_*' $command
done

load() {
	until redis-cli ping >/dev/null 2>&1; do sleep 0.2; done
	redis-benchmark -n 3000 -c 4 -t set,get -q >/out/redis.load 2>&1
	redis-cli shutdown nosave
}
load &
both redis 'tcp_*' redis-server --save '' --dir /tmp

# Somebody else's session.
mkdir "$tracing/instances/other"
cd "$tracing/instances/other" || exit 1
echo vfs_open >set_ftrace_filter
echo function >current_tracer
echo 1 >events/sched/sched_process_exec/enable
settings() {
	for one in . "$tracing"; do
		(cd "$one" && cat current_tracer set_ftrace_filter set_ftrace_pid tracing_on trace_clock options/function-fork \
			events/sched/sched_process_exec/enable events/raw_syscalls/enable)
	done
	ls "$tracing/instances"
}
settings >/out/before
mkdir /tmp/kills
echo 'while :; do cat /etc/hostname; done >/dev/null' >/tmp/kills/loop.sh
for number in $(seq 50); do
	mcount trace --system-calls --kernel 'vfs_*' -o /tmp/kills/a.mcount -- sh /tmp/kills/loop.sh >/dev/null 2>&1 &
	sleep "0.$(gawk -v seed="$number" 'BEGIN { srand(seed); printf "%03d", int(rand() * 1000) }')"
	sleep $((number % 3))
	kill -9 $!
	wait $! 2>/dev/null
	pkill -9 -x -f "sh /tmp/kills/loop.sh"
	for try in $(seq 60); do
		settings >/tmp/kills/after
		cmp -s /tmp/kills/after /out/before && break
		sleep 0.5
	done
	cmp -s /tmp/kills/after /out/before && echo same || { echo differs; cp /tmp/kills/after "/out/after-$number"; }
done >/out/kills
pkill -9 mcount
# Both killed, and the guard as well; the next one removes what is left.
mcount trace --kernel 'vfs_*' -o /tmp/kills/a.mcount -- sh /tmp/kills/loop.sh >/dev/null 2>&1 &
sleep 2
pkill -9 mcount
pkill -9 -x -f "sh /tmp/kills/loop.sh"
wait
mcount trace --kernel 'vfs_*' -o /tmp/kills/a.mcount -- true >/dev/null 2>&1
settings >/out/after
wc -l <trace >/out/others-lines
