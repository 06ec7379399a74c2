"""Greenlets that a traced CPython must not notice: 40 with nested ones, recursion of different depths, frames of C in
between, generators, exceptions thrown in, and some that never end. It counts its calls of greenlet's functions, and prints
them at the end: docs/evidence.md says what they are compared with.
"""
import collections
import gc

import greenlet
from greenlet import getcurrent

n = collections.Counter()

def new(run=None):
    n['new'] += 1
    return greenlet.greenlet(run) if run else greenlet.greenlet()

def switch(g, *args):
    n['switch'] += 1
    return g.switch(*args)

def throw(g, *args):
    n['throw'] += 1
    return g.throw(*args)

def current():
    n['getcurrent'] += 1
    return getcurrent()

def parent():
    return current().parent

class Odd(Exception):
    pass

def recurse(depth, value):
    if depth == 0:
        return switch(parent(), value)
    try:
        got = recurse(depth - 1, value + 1)
    except Odd as odd:
        if depth % 3:
            raise
        got = len(str(odd))
    return got + depth

def via_c(depth, value):
    # Frames of C between those of Python: sorted, map and a key.
    if depth == 0:
        return switch(parent(), value)
    return sorted(map(lambda x: via_c(depth - 1, x), [value]), key=lambda x: -x)[0] + 1

def numbers(limit):
    for i in range(limit):
        got = switch(parent(), i)
        yield got

def worker(i):
    def run(first):
        total = first
        for turn in range(6):
            depth = (i * 7 + turn * 5) % 23
            total += recurse(depth, turn) or 0
            total += via_c(depth % 9, turn) or 0
            for got in numbers(turn):
                total += got or 0
            # A nested greenlet, which its parent leaves and comes back to.
            inner = new(lambda v: recurse(depth % 5, v) + sum(x or 0 for x in numbers(3)))
            v = switch(inner, turn)
            while not inner.dead:
                v = switch(inner, 2)
            total += v
            try:
                bad = new(lambda: recurse(4, 1))
                switch(bad)
                total += throw(bad, Odd, Odd('x' * turn)) or 0
            except Odd as odd:
                total += len(str(odd))
            if turn == i % 6:
                gc.collect()
        return total
    return new(run)

all_ = [worker(i) for i in range(40)]
results = {}
live = list(enumerate(all_))
value = {i: 1 for i in range(40)}
step = 0
while live:
    keep = []
    for i, g in live:
        step += 1
        try:
            if step % 17 == 0 and g:
                r = throw(g, Odd, Odd('thrown' * (step % 4)))
            else:
                r = switch(g, value[i])
        except Odd as odd:
            r = ('odd', str(odd))
        value[i] = 3
        if g.dead:
            results[i] = r
        else:
            keep.append((i, g))
    live = keep
# Some never end: killed by gc, or left.
left = []
for i in range(10):
    g = new(lambda v: recurse(i, v))
    switch(g, i)
    left.append(g)
del left[:5], g
gc.collect()
throw(left[0])
print(sorted(results.items()))
print(step, dict(sorted(n.items())))
