"""Reads calls.jsonl, what `mcount replay --format jsonl` prints, and says where stats.jsonl, what `mcount stats` prints by the
field that is the argument, has other numbers. It knows nothing of traces."""
import collections, json, sys
calls = [json.loads(line) for line in open("calls.jsonl")]
end = max(c["start_ns"] + (c["duration_ns"] or 0) for c in calls)
by = sys.argv[1]
key = {
    "function": lambda c: c["function"],
    "module": lambda c: c["module"],
    "thread": lambda c: c["thread"],
    "caller": lambda c: c["caller"],
}[by]
rows = collections.defaultdict(lambda: dict(durations=[], total=0, own=0))
stacks = collections.defaultdict(list)
for c in calls:
    stack = stacks[c["thread"]]
    while stack and stack[-1]["depth"] >= c["depth"]:
        stack.pop()
    c["key"] = key(c)
    assert (stack[-1]["function"] if stack else None) == c["caller"]
    duration = c["duration_ns"] if c["duration_ns"] is not None else end - c["start_ns"]
    row = rows[c["key"]]
    row["durations"].append(duration)
    row["own"] += duration
    if all(other["key"] != c["key"] for other in stack):
        row["total"] += duration
    if stack:
        rows[stack[-1]["key"]]["own"] -= duration
    stack.append(c)
failed = 0
for line in open("stats.jsonl"):
    found = json.loads(line)
    row = rows.pop(found[by])
    d = sorted(row["durations"])
    rank = lambda q: d[max(0, -(-len(d) * q // 100) - 1)]
    exact = dict(calls=len(d), total_ns=row["total"], self_ns=max(0, row["own"]),
                 mean_ns=sum(d) // len(d), min_ns=d[0], max_ns=d[-1])
    for name, value in exact.items():
        if found[name] != value:
            failed += 1
            print(by, found[by], name, found[name], value)
    for name, value in dict(median_ns=rank(50), p99_ns=rank(99)).items():
        if abs(found[name] - value) > value / 100:
            failed += 1
            print(by, found[by], name, found[name], value)
print("missing", [key for key in rows if rows[key]["durations"]], "failed", failed)
