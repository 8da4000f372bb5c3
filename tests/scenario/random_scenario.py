# SPDX-License-Identifier: Apache-2.0
"""random_scenario.py SEED N: writes a scenario of N operations, each followed by the digest. Most operations are sensible, some are wrong."""

import random
import sys


def arrivals(rng):
    """Numbers of up to three new requests with names of their own; some slots are more than any request may have."""
    for name in rng.sample(range(8), rng.randrange(1, 4)):
        slots = 10**8 if rng.random() < 0.03 else rng.choice([0, 0, 4, 7, 12])
        yield from (name, rng.choice([0, 0, 1, 2, 3]), slots, rng.choice([0, 100, 104, 200]), rng.choice([3, 8, 13, 20]))


def scenario(seed, operations):
    rng = random.Random(seed)
    window = rng.choice([(), (), (8, 2), (5, 0), (1, 0), (1, 5), (3, 1), (1 << 40, 0)])
    yield rng.choice([("policy", 0, 0, 0), ("policy", 1, rng.choice([0, 10, 100, 300]), rng.choice([0, 3, 20])), ("policy", 2, rng.choice([0, 50, 100]), 0)])
    yield ("hints", rng.choice([0, 1, 1]))
    if rng.random() < 0.4:
        window = ()
        for _ in range(rng.randrange(1, 4)):
            yield rng.choice([("group", 0, 0, 0, 0, 0), ("group", 8, rng.choice([0, 3]), rng.choice([0, 8]), 0, 0), ("group", 0, 0, rng.choice([0, 4, 12]), rng.choice([3, 8, 12]), 0)])
    yield ("room", rng.choice([0, 48, 60]))
    yield ("headroom", 1)
    yield ("partial", rng.choice([0, 1]))
    yield ("manager", rng.choice([24, 40]), 4, 64, 8, *window)
    yield ("open", 1, 65)
    yield ("open", 2, 66)
    time = 0
    known = {}  # live requests and the tokens that they are thought to have
    for _ in range(operations):
        name = rng.randrange(8)
        live = rng.choice(list(known)) if known and rng.random() < 0.95 else rng.randrange(8)
        span = (rng.choice([0, 0, 100, 100, 104, 200]), rng.choice([1, 3, 4, 5, 8, 9, 13, 20, 40]))
        space = rng.choice([0, 0, 0, 1, 2, 3])
        n = known.get(live, 5)
        hint = (rng.choice([0, 4, 9]), rng.choice([0, 20, 35, 60, 100, 101]), rng.choice([0, 0, time + 1, time + 3, time]))
        line = rng.choices(
            [("allocate", name, space, *span), ("create", name, space, *span), ("admit", live), ("append", live, *span), ("commit", live, n),
             ("commit", live, rng.randrange(n + 3)), ("ahead", live, n, n - rng.randrange(-1, 12) if n > 12 else n), ("reserve", live, n + rng.randrange(6)), ("truncate", live, rng.randrange(n + 2)), ("fork", live, name),
             ("preempt", live), ("free", live), ("copies",), ("table", live, rng.randrange(2)), ("slots", live, 0, rng.randrange(n + 1), 1),
             ("probe", space, *span), ("drop", space, *span), ("evict", rng.randrange(4)), ("pin", name, space, *span), ("unpin", name),
             ("reset", space), ("resetall",), ("caching", rng.choice((0, 1, 1, 1))), ("take", 0, rng.randrange(3)), ("give", rng.randrange(24)), ("publish", space, 0, *span, rng.randrange(24)),
             ("arrive", *arrivals(rng)), ("together", *(rng.randrange(8) for _ in range(rng.randrange(4)))),
             ("step", *rng.sample(list(known), min(len(known), rng.randrange(1, 4)))),
             ("forget", *rng.sample(list(known), min(len(known), rng.randrange(1, 4)))), ("events",), ("stats",),
             ("time", max(0, time + rng.randrange(4) - 1)), ("now", time + rng.randrange(4)), ("priority", live, hint[0], rng.choice([4, 9, -1]), *hint[1:]),
             ("over", live, rng.choice([0, 0, 6])), ("keep", space, *span, *hint), ("demote", space, *span, hint[0]),
             ("register", rng.randrange(3), space, *span), ("acquire", name, rng.randrange(3), *span), ("unregister", rng.randrange(3)), ("prompts",),
             ("resize", 0, rng.choice([0, 20, 24, 28, 30, 40, 50, 61])), ("mode", rng.randrange(4)),
             ("key", live, n + rng.choice([-2, 0, 0, 1, 4]) if n > 2 else n, rng.choice([1, 4, 6, 17]), rng.randrange(2)), ("expect", rng.randrange(4), rng.randrange(9))],
            [6, 2, 2, 5, 8, 2, 2, 1, 1, 1, 1, 4, 2, 2, 1, 1, 1, 1, 1, 2, 0.2, 0.1, 0.3, 1, 1, 1, 2, 2, 8, 1, 2, 1, 1, 0.5, 3, 2, 2, 1, 0.6, 2, 1, 0.5, 4, 1, 3, 1])[0]
        word = line[0]
        if word in ("allocate", "create", "fork", "acquire") and name in known:
            yield ("free", name)
            known.pop(name, None)
        if word in ("time", "now"):
            time = max(time, line[1])
        if word in ("allocate", "create", "acquire"):
            known[name] = span[1]
        elif word == "arrive":
            for at in range(1, len(line), 5):
                if line[at] in known:
                    yield ("free", line[at])
                known[line[at]] = line[at + 4]
        elif word == "fork" and name != live:
            known[name] = n
        elif word == "append":
            known[live] = n + span[1]
        elif word == "truncate" and line[2] <= n:
            known[live] = line[2]
        elif word == "free":
            known.pop(live, None)
        elif word == "step":
            for each in line[1:]:
                known[each] += 1
        yield line
        yield ("digest",)


if __name__ == "__main__":
    print(f"# random_scenario.py {sys.argv[1]} {sys.argv[2]}")
    for words in scenario(int(sys.argv[1]), int(sys.argv[2])):
        print(*words)
