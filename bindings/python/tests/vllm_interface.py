# SPDX-License-Identifier: Apache-2.0
"""What sources of vLLM say of the interface of its KVCacheManager, without running them."""

import ast
import inspect


def class_of(source, name):
    """A class with the methods of the class `name` in these sources: their parameters, and nothing else of them."""
    found = next(node for node in ast.parse(source).body if isinstance(node, ast.ClassDef) and node.name == name)
    methods = {}
    for node in found.body:
        if isinstance(node, ast.FunctionDef) and not any(isinstance(mark, ast.Name) and mark.id == "property" for mark in node.decorator_list):
            parameters = node.args
            parameters.defaults, parameters.kw_defaults = [ast.Constant(None) for _ in parameters.defaults], [it and ast.Constant(None) for it in parameters.kw_defaults]
            for parameter in [*parameters.posonlyargs, *parameters.args, *parameters.kwonlyargs, *filter(None, (parameters.vararg, parameters.kwarg))]:
                parameter.annotation = None
            methods[node.name] = eval(f"lambda {ast.unparse(parameters)}: None")
    return type(name, (), methods)


def uses_of_managers(source):
    """What it reads of attributes and variables called kv_cache_manager: (names behind it, the call of them or None), such as (["free"], a call)
    of self.kv_cache_manager.free(request)."""
    tree = ast.parse(source)
    calls = {id(node.func): node for node in ast.walk(tree) if isinstance(node, ast.Call)}
    for node in ast.walk(tree):
        names, inner = [], node
        while isinstance(inner, ast.Attribute):
            names.insert(0, inner.attr)
            inner = inner.value
        if isinstance(inner, ast.Name):
            names.insert(0, inner.id)
        if "kv_cache_manager" in names[:-1]:
            yield names[names.index("kv_cache_manager") + 1 :], calls.get(id(node))


def check_uses(manager, sources):
    """Raises AttributeError or TypeError if the sources read an attribute, or make a call, that the manager has not. Returns what they read of it."""
    seen = set()
    for source in sources:
        for names, call in uses_of_managers(source):
            held = manager
            for name in names:
                if name in ("single_type_managers", "blocks"):
                    break
                held = getattr(held, name)
            else:
                if call is not None and not any(isinstance(argument, ast.Starred) for argument in call.args) and all(k.arg for k in call.keywords):
                    inspect.signature(held).bind(*call.args, **{keyword.arg: keyword.value for keyword in call.keywords})
            seen.add(names[0])
    return seen
