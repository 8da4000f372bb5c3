# SPDX-License-Identifier: Apache-2.0
"""help(): each public name has a text of its own, and each signature reads as it is written."""

import enum
import inspect
import pydoc
import re

import pytest

import kvcache
from kvcache import checkpoints, offload, quant, records, rope, tiers, trace

NOT_TEXTS = ("attrgetter(", "Alias for field number", "The type of the None singleton")


def public():
    """(path, object) of all public names, their attributes and the modules that engines import by name."""
    things = [(f"kvcache.{name}", getattr(kvcache, name)) for name in kvcache.__all__]
    for module in (checkpoints, offload, quant, records, rope, tiers, trace):
        things += [(f"{module.__name__}.{name}", it) for name, it in vars(module).items()
                   if not name.startswith("_") and (inspect.isclass(it) or inspect.isfunction(it)) and it.__module__ == module.__name__]
    for path, thing in things:
        yield path, thing
        if inspect.isclass(thing):
            for name in dir(thing):
                it = inspect.getattr_static(thing, name)
                ours = any(name in vars(base) and base.__module__.startswith("kvcache") for base in thing.__mro__)
                if ours and not name.startswith("_") and (inspect.isroutine(it) or inspect.isdatadescriptor(it) or isinstance(it, (classmethod, staticmethod))):
                    yield f"{path}.{name}", getattr(thing, name)


def test_each_public_name_has_a_text():
    texts = {path: inspect.getdoc(thing) for path, thing in public() if not isinstance(thing, int)}
    assert len(texts) > 400 and "kvcache.Request.num_cached" in texts and "kvcache.Step.frees" in texts and "kvcache.Storage.block_bytes" in texts
    assert [path for path, text in texts.items() if not text or text.startswith(NOT_TEXTS)] == []


def test_members_of_enumerations_are_described():
    for name in kvcache.__all__:
        kind = getattr(kvcache, name)
        if inspect.isclass(kind) and issubclass(kind, enum.Enum):
            assert [member.name for member in kind if not re.search(rf"\b{member.name}\b", kind.__doc__)] == [], kind


def test_help_shows_units_of_properties():
    for text, wanted in ((inspect.getdoc(kvcache.Step.frees), r"uint64 \[max_frees\]"), (kvcache.Storage.block_bytes.__doc__, "Bytes of one block"),
                         (kvcache.Model.max_context.__doc__, "Tokens"), (kvcache.Group.window_tokens.__doc__, "tokens"), (kvcache.Stats.evictions.__doc__, "blocks")):
        assert re.search(wanted, text), text
    page = pydoc.plain(pydoc.render_doc(kvcache.Request))
    assert re.search(r"num_cached\n[ |]+Tokens of the hit", page), page


def test_annotations_have_no_quotes():
    seen = 0
    for path, thing in public():
        if inspect.isroutine(thing) or inspect.isclass(thing) and not issubclass(thing, (enum.Enum, Exception)):
            try:
                text = str(inspect.signature(thing))
            except ValueError:
                continue
            seen += 1
            assert not re.search(r""": ?['"]{2}|-> ['"]{2}|: "'""", text) and "\"'" not in text and "'\"" not in text, (path, text)
    assert seen > 100


def test_what_calls_return_can_be_named():
    with kvcache.Manager(8, 4, event_capacity=16, max_quotas=1) as m, m.allocate([1, 2, 3, 4, 5]) as request:
        request.commit(5)
        event, = m.events()
        for value, kind in ((m.stats, kvcache.Stats), (m.probe([1]), kvcache.ProbeInfo), (request.info, kvcache.RequestInfo), (m.events(), kvcache.EventReader),
                            (m.prefixes(), kvcache.Prefixes), (event, kvcache.Event), (m.pool_info(), kvcache.PoolInfo), (m.quota_info(), kvcache.QuotaInfo), (m.lost_reuse(0), kvcache.LostReuse), (m.block_info(0), kvcache.BlockInfo),
                            (m.properties, kvcache.Properties), (kvcache.device_info(), kvcache.DeviceInfo), (kvcache.open_backend("cpu"), kvcache.BackendInfo)):
            assert type(value) is kind and kind.__name__ in kvcache.__all__


def test_truth_values_are_bools():
    with kvcache.Manager(4, 4) as m, m.allocate([1, 2, 3, 4, 5]) as request:
        assert m.probe([1]).fits is True and m.probe(range(100)).fits is False
        assert request.info.admitted is True and m.block_info(int(request.block_table()[0])).published is False
        request.commit(5)
        assert m.block_info(int(request.block_table()[0])).published is True
        assert "True = " in kvcache.ProbeInfo.__doc__ and not re.search(r"(fits|admitted|published|sparse): 1 = ", "".join(it.__doc__ for it in (
            kvcache.ProbeInfo, kvcache.RequestInfo, kvcache.BlockInfo, kvcache.AttentionInfo)))


def test_the_cursor_of_prefixes_is_known_when_they_are_read():
    with kvcache.Manager(8, 4, event_capacity=16) as m:
        prefixes = m.prefixes()
        with pytest.raises(ValueError, match="^event_cursor is not known before the iteration has begun; iterate first"):
            prefixes.event_cursor
        assert list(prefixes) == [] and prefixes.event_cursor == 0  # no event so far
        with m.allocate(range(9)) as request:
            request.commit(9)
        prefixes = m.prefixes()
        assert len(list(prefixes)) == 2 and prefixes.event_cursor == 2 and list(m.events(prefixes.event_cursor)) == []
