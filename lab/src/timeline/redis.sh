# How many requests a second redis answers: alone, and while its system calls are recorded by mcount, perf trace and strace. One
# processor is redis's, another one the load's.
set -u
mcount=$1
port=6399
bench() { taskset -c 1 redis-benchmark -p $port -n 200000 -c 20 -t get -q --csv 2>/dev/null | tail -1 | cut -d, -f2 | tr -d '"'; }
for round in 1 2 3 4 5 6 7 8 9; do
	for how in plain mcount perf strace; do
		taskset -c 0 redis-server --port $port --save '' >/dev/null 2>&1 &
		server=$!
		sleep 0.5
		case $how in
		plain) sleep 1000 & ;;
		mcount) "$mcount" attach --system-calls -o redis.mcount $server >/dev/null 2>&1 & ;;
		perf) perf trace -o /dev/null -p $server >/dev/null 2>&1 & ;;
		strace) strace -f -o /dev/null -p $server >/dev/null 2>&1 & ;;
		esac
		recorder=$!
		sleep 1.5
		echo "$how $(bench)"
		if [ $how = plain ]; then kill $recorder; else kill -INT $recorder; fi
		wait $recorder 2>/dev/null
		redis-cli -p $port shutdown nosave 2>/dev/null
		wait $server
	done
done
