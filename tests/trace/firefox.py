"""Reads t.json, a profile for the Firefox Profiler, checks it against the rules of version 59 of its processed format (src/types/profile.ts
and docs-developer/CHANGELOG-formats.md in the profiler's sources), and prints for each function its own time and its total, in nanoseconds.
Functions that call themselves count once for each moment. It knows nothing of traces."""
import collections, json
profile = json.load(open("t.json"))
meta, shared = profile["meta"], profile["shared"]
assert meta["preprocessedProfileVersion"] == 59 and meta["symbolicated"] is True
strings, libs, categories = shared["stringArray"], profile["libs"], meta["categories"]
assert all(isinstance(text, str) for text in strings)
assert any(category["color"] == "grey" for category in categories)
assert all(category["subcategories"] for category in categories)
schemas = {schema["name"] for schema in meta["markerSchema"]}


def table(owner, name, columns):
    rows = owner[name]
    for column in columns.split():
        assert len(rows[column]) == rows["length"], (name, column)
    return rows


def within(values, limit, or_else="no"):
    assert all(value == or_else or value is not None and 0 <= value < limit for value in values)


table(shared, "sources", "uuid filename")
within(shared["sources"]["filename"], len(strings))
own, total, names = collections.Counter(), collections.Counter(), set()
for thread in profile["threads"]:
    assert isinstance(thread["pid"], str) and isinstance(thread["isMainThread"], bool) and thread["name"]
    frames = table(thread, "frameTable", "address inlineDepth category subcategory func nativeSymbol innerWindowID line column")
    functions = table(thread, "funcTable", "name isJS relevantForJS resource source lineNumber columnNumber")
    symbols = table(thread, "nativeSymbols", "libIndex address name functionSize")
    resources = table(thread, "resourceTable", "lib name host type")
    stacks = table(thread, "stackTable", "frame prefix")
    samples = table(thread, "samples", "stack time weight")
    markers = table(thread, "markers", "data name startTime endTime phase category")
    within(frames["func"], functions["length"])
    within(frames["category"], len(categories))
    within(frames["nativeSymbol"], symbols["length"], None)
    within(functions["name"], len(strings))
    within(functions["resource"], resources["length"], -1)
    within(functions["source"], shared["sources"]["length"], None)
    within(symbols["libIndex"], len(libs))
    within(symbols["name"], len(strings))
    within(resources["lib"], len(libs))
    within(resources["name"], len(strings))
    within(stacks["frame"], frames["length"])
    assert all(prefix is None or prefix < at for at, prefix in enumerate(stacks["prefix"]))
    within(samples["stack"], stacks["length"], None)
    assert samples["time"] == sorted(samples["time"]) and samples["weightType"] == "tracing-ms"
    assert all(data["type"] in schemas for data in markers["data"])
    within(markers["name"], len(strings))
    path = []
    for at, frame in enumerate(stacks["frame"]):
        prefix = stacks["prefix"][at]
        name = strings[functions["name"][frames["func"][frame]]]
        path.append((name, set() if prefix is None else path[prefix][1] | {path[prefix][0]}))
    rows = list(zip(samples["stack"], samples["time"], samples["weight"]))
    for (stack, time, weight), after in zip(rows, rows[1:]):
        # A sample lasts until the next one.
        assert stack is None or abs(time + weight - after[1]) < 1e-6, (time, weight, after)
    for stack, time, weight in rows:
        if stack is not None:
            nanoseconds = round(weight * 1e6)
            name, callers = path[stack]
            own[name] += nanoseconds
            names.add(name)
            for one in callers | {name}:
                total[one] += nanoseconds
                names.add(one)
print(json.dumps({name: (own[name], total[name]) for name in names}))
