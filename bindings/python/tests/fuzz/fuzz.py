# SPDX-License-Identifier: Apache-2.0
"""fuzz.py [--calls N] [--seed S] [--only NAME...] [--trace]: random calls of every public function with hostile arguments. Fails if a call raises anything but
what it may, changes what it only reads or another one's memory, or changes the manager though it failed; if the manager's check does; if
objects are left; if a public callable is not reached, or never succeeds. A sanitizer sees the rest. Equal seeds make equal calls."""

import argparse
import collections
import faulthandler
import gc
import os
import random
import resource
import sys
import time
import traceback

import numpy as np

from calls import CALLS, EXPECTED, World, Wrong, public
from hostile import Hostile, Mischief
from kvcache import _native

CALLS_IN_THE_GATE = 15_000
OF_A_WORLD = 400


def one(world, name):
    """None if the call was done, else the exception, which was one of those that may come."""
    world.inputs.clear()
    world.refill()
    world.h.begin()
    before = world.m.digest()
    try:
        CALLS[name](world)
        failure = None
    except (*EXPECTED, Mischief) as error:
        failure = error
    if failure is not None and name not in CHANGES_BEFORE_IT_FAILS and world.m.digest() != before:
        raise Wrong(f"it failed with {failure!r} and changed the manager")
    world.m.check()
    for value, copy in world.inputs:
        same = value.tobytes() == copy.tobytes() if not value.dtype.hasobject else True
        if not same:
            raise Wrong("it changed an array that it only reads")
    return failure


# Several calls of the library, of which the last ones may fail.
CHANGES_BEFORE_IT_FAILS = {"Manager.block_tables", "Manager.publish_blocks", "Manager.pin", "Step.run", "Manager.allocate", "Manager.create", "Request.fork",
                           "native.Admitted", "native.Admitted.commit", "native.SlotAllocator.allocate_slots", "native.SlotAllocator.cache_blocks"}


def main():
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    parser.add_argument("--calls", type=int, default=CALLS_IN_THE_GATE)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", nargs="+", default=sorted(CALLS), metavar="NAME", help="functions, such as Storage.attend [all]")
    parser.add_argument("--trace", action="store_true", help="print each call before it is made")
    args = parser.parse_args()
    if "asan" not in os.environ.get("LD_PRELOAD", ""):  # which says itself where a crash was
        faulthandler.enable()
        resource.setrlimit(resource.RLIMIT_AS, (8 << 30, 8 << 30))  # huge arrays are refused
    if public() - set(CALLS):
        sys.exit(f"no call of {sorted(public() - set(CALLS))}")
    if CALLS_IN_THE_GATE < 50 * len(CALLS):
        sys.exit(f"{len(CALLS)} callables need {50 * len(CALLS)} calls in the gate, so that each has its turn; raise CALLS_IN_THE_GATE")
    np.seterr(all="ignore")
    start, rng = time.monotonic(), random.Random(args.seed)
    done, failed, kinds = collections.Counter(), collections.Counter(), collections.Counter()
    world, names = None, args.only
    never = list(names)  # these have more turns
    print(f"seed {args.seed}", flush=True)
    for number in range(args.calls):
        name = rng.choice(never if never and rng.random() < 0.25 else names)
        try:
            if number % OF_A_WORLD == 0:
                if world:
                    world.close()
                world = World(rng, Hostile(rng))
            if args.trace:
                print(number, name, flush=True)
            failure = one(world, name)
        except BaseException:  # pylint: disable=broad-except
            traceback.print_exc()
            print(f"seed {args.seed}: call {number}, {name}, is a finding", flush=True)
            os._exit(1)  # no matter what the objects that are left would do
        (done if failure is None else failed)[name] += 1
        if failure is None and done[name] == 1:
            never.remove(name)
        if failure is not None:
            kinds[type(failure).__name__] += 1
        del failure
    world.close()
    del world
    gc.collect()
    print(f"{args.calls} calls in {time.monotonic() - start:.1f} s: {sum(done.values())} done, {sum(failed.values())} refused: {dict(kinds.most_common())}")
    if never and args.calls >= 50 * len(names):
        sys.exit(f"never done: {never}")
    if _native.kvc_live_objects():
        sys.exit(f"{_native.kvc_live_objects()} objects are left")


if __name__ == "__main__":
    main()
