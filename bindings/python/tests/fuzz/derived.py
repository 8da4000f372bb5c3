# SPDX-License-Identifier: Apache-2.0
"""Calls that follow from signatures: what they are called on, and arguments by their names. A callable without a row of its own gets one."""

import inspect

import numpy as np

import kvcache
from world import BLOCKS, World

ON = {"Manager": lambda w: w.m, "Request": World.request, "Step": lambda w: w.step, "Storage": World.storage, "Stream": lambda w: w.stream,
      "StreamEvent": lambda w: w.event, "Tier": lambda w: w.tier, "Model": lambda w: kvcache.find_model(w.rng.choice(("llama-3.1-8b", "qwen3-next-80b-a3b")))}
ARGUMENTS = {"tokens": World.tokens, "keys": World.keys, "namespace": World.any_namespace, "blocks": World.blocks, "stream": lambda w: w.stream,
             "request": World.any_request_id, "id": World.any_request_id, "event": lambda w: w.event, "manager": lambda w: w.m,
             "name": lambda w: w.rng.choice(("a", "a", "b", "", "n" * 256, "a\0b", "\udcff", b"a", 5, None)),
             "device": lambda w: w.rng.choice((None, "cpu", "?", "", 3, b"cpu")), "dtype": lambda w: w.rng.choice(("float16", "int8", "int9", None)),
             "headroom": lambda w: w.rng.choice(("none", "minimal", "balanced", "aggressive", "most", 3, None)),
             "copies": lambda w: w.array(np.array([[w.rng.randrange(BLOCKS), w.rng.randrange(BLOCKS)] for _ in range(w.rng.randrange(4))], np.int32).reshape(-1, 2)),
             "on": lambda w: w.rng.choice((True, True, False, w.number(1))),
             "step_id": lambda w: w.rng.choice((w.step.step_id, w.number(0))), "now_ns": lambda w: w.number(w.rng.randrange(40)),
             "capacity": lambda w: w.number(w.rng.randrange(30)), "block": lambda w: w.number(3), "priority": lambda w: w.rng.choice((w.number(90), kvcache.PRIORITY_DEMOTED))}
GIVEN = 0.15  # the share of optional arguments that are given


def arguments(w, function):
    positional, named = [], {}
    for name, it in inspect.signature(function).parameters.items():
        if it.kind is it.VAR_KEYWORD:
            named.update(w.options())
        elif it.default is it.empty and it.kind is not it.VAR_POSITIONAL:
            positional.append(argument(w, name)) if it.kind is not it.KEYWORD_ONLY else named.update({name: argument(w, name)})
        elif it.kind is not it.VAR_POSITIONAL and w.rng.random() < GIVEN:
            named[name] = argument(w, name)
    return positional, named


def argument(w, name):
    return ARGUMENTS.get(name, lambda w: w.number(w.rng.randrange(4)))(w)


def derived(name):
    """A function(world) that makes the call; None if there is nothing to call it on."""
    owner, _, member = name.partition(".")
    if member and owner not in ON:
        return None

    def call(w):
        on = ON[owner](w) if member else kvcache
        if isinstance(inspect.getattr_static(on, member or owner), property):
            return getattr(on, member)
        function = getattr(on, member or owner)
        positional, named = arguments(w, function)
        result = function(*positional, **named)
        if isinstance(result, kvcache.Request):
            w.added(result)
        elif hasattr(result, "close"):
            result.close()
        return None
    return call
