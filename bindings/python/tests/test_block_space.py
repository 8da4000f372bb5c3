# SPDX-License-Identifier: Apache-2.0
"""BlockSpaceManager: prompts, forks, copies and swaps, with the contents of device and host blocks played along."""

import random

import pytest

from kvcache import NoSpaceError
from kvcache.integrations.vllm import AllocStatus, BlockSpaceManager
from rounds import rounds


class Sequence:
    def __init__(self, seq_id, tokens):
        self.seq_id, self.tokens = seq_id, list(tokens)

    def get_token_ids(self):
        return self.tokens

    def get_len(self):
        return len(self.tokens)


class Group:
    def __init__(self, *sequences):
        self.sequences = list(sequences)

    def get_seqs(self):
        return self.sequences


def make(device=16, host=8, **options):
    return BlockSpaceManager(4, device, host, watermark=0.0, **options)


def test_a_prompt_fits_now_later_or_never():
    m = BlockSpaceManager(4, 10, watermark=0.1)
    assert m.can_allocate(Group(Sequence(0, range(37)))) == AllocStatus.NEVER
    a = Group(Sequence(1, range(36)))
    assert m.can_allocate(a) == AllocStatus.OK
    m.allocate(a)
    assert m.can_allocate(Group(Sequence(2, [1]))) == AllocStatus.LATER
    assert len(m.get_block_table(a.sequences[0])) == 9
    m.free(a.sequences[0]), m.free(a.sequences[0])
    assert m.get_num_free_gpu_blocks() == 10
    with pytest.raises(ValueError, match="2 sequences"):
        m.allocate(Group(Sequence(1, [1]), Sequence(2, [1])))
    with pytest.raises(KeyError, match="7"):
        m.get_block_table(Sequence(7, []))


def test_forks_share_and_who_writes_first_copies():
    m = make()
    parent, child = Sequence(1, range(6)), Sequence(2, range(6))
    group = Group(parent)
    m.allocate(group)
    m.mark_blocks_as_computed(group, 6)
    m.fork(parent, child)
    group.sequences.append(child)
    assert m.get_block_table(parent) == m.get_block_table(child)
    parent.tokens.append(10), child.tokens.append(11)
    assert m.can_append_slots(group)
    shared = m.get_block_table(parent)[1]
    copies = m.append_slots(parent) + m.append_slots(child)
    assert len(copies) == 1 and copies[0][0] == shared
    assert m.get_block_table(parent)[0] == m.get_block_table(child)[0] and m.get_block_table(parent)[1] != m.get_block_table(child)[1]
    m.free(parent), m.free(child)
    assert m.get_num_free_gpu_blocks() == 16
    m.device.check()


def test_appending_without_space_is_foreseen_and_changes_nothing():
    m = make(device=2)
    a = Sequence(1, range(8))
    m.allocate(Group(a))
    a.tokens.append(1)
    assert not m.can_append_slots(Group(a))
    before = m.device.digest()
    with pytest.raises(NoSpaceError):
        m.append_slots(a)
    assert m.device.digest() == before


def test_lookahead_slots_are_blocks_in_advance():
    m = make(device=4)
    a = Sequence(1, range(4))
    m.allocate(Group(a))
    a.tokens.append(4)
    assert m.can_append_slots(Group(a), 7) and not m.can_append_slots(Group(a), 12)
    m.append_slots(a, 7)
    assert len(m.get_block_table(a)) == 3


def test_swapping_without_space_is_foreseen_and_changes_nothing():
    m = make(host=1)
    a = Sequence(1, range(8))
    group = Group(a)
    m.allocate(group)
    m.mark_blocks_as_computed(group, 8)
    before = m.device.digest(), m.host.digest()
    assert not m.can_swap_out(group)
    with pytest.raises(NoSpaceError, match="2 host blocks"):
        m.swap_out(group)
    assert (m.device.digest(), m.host.digest()) == before
    n = make(device=4)
    n.allocate(group)
    n.mark_blocks_as_computed(group, 8)
    assert len(n.swap_out(group)) == 2
    other = Group(Sequence(2, range(50, 62)))
    n.allocate(other)
    before = n.device.digest(), n.host.digest()
    assert n.can_swap_in(group) == AllocStatus.LATER
    with pytest.raises(NoSpaceError, match="2 device blocks"):
        n.swap_in(group)
    assert (n.device.digest(), n.host.digest()) == before
    n.free(other.sequences[0])
    assert n.can_swap_in(group) == AllocStatus.OK and n.can_swap_in(group, 9) == AllocStatus.NEVER


def test_a_reset_forgets_what_is_cached():
    m = make(enable_caching=True)
    for number, reset in ((1, True), (2, True), (3, False), (4, False)):
        a = Sequence(number, range(10))
        m.allocate(Group(a)), m.mark_blocks_as_computed(Group(a), 10), m.free(a)
        assert m.device.stats.cached_tokens == (8 if number == 4 else 0)
        assert not reset or m.reset_prefix_cache()
    m.device.check()


def test_what_is_still_cached_is_not_swapped_in():
    m = make(enable_caching=True)
    a = Sequence(1, range(10))
    group = Group(a)
    m.allocate(group)
    m.mark_blocks_as_computed(group, 10)
    table = m.get_block_table(a)
    assert len(m.swap_out(group)) == 3
    pairs = m.swap_in(group)
    assert len(pairs) == 1 and m.get_block_table(a)[:2] == table[:2]
    assert m.get_num_free_cpu_blocks() == 8 and m.get_prefix_cache_hit_rate() == 0


@pytest.mark.parametrize("seed", range(rounds(2)))
@pytest.mark.parametrize("options", [{}, {"enable_caching": True}, {"sliding_window": 6}, {"sliding_window": 6, "enable_caching": True}])
def test_random_lives_always_read_what_was_written(options, seed):
    """Every block carries the tokens written to it, copies and swaps move them: what a table says is what a sequence wrote."""
    rng = random.Random(f"{options} {seed}")
    m = make(device=24, host=16, **options)
    window = options.get("sliding_window", 0)
    device, host, groups, ids = {}, {}, [], iter(range(10**6))

    def write(seq, first, last):
        table = m.get_block_table(seq)
        for position in range(first, last):
            assert table[position // 4] >= 0
            device.setdefault(table[position // 4], {})[position % 4] = tuple(seq.tokens[: position + 1])

    def read(seq, length, query):
        table = m.get_block_table(seq)
        for position in range(max(0, query - window + 1) if window else 0, length):
            assert device[table[position // 4]][position % 4] == tuple(seq.tokens[: position + 1])

    done = {"copies": 0, "swaps": 0, "forks": 0, "hits": 0}
    for _ in range(3000):
        action = rng.random()
        if action < 0.2:
            group = Group(Sequence(next(ids), [rng.randrange(2) for _ in range(rng.randint(1, 20))]))
            if m.can_allocate(group) == AllocStatus.OK:
                seq = group.sequences[0]
                m.allocate(group)
                hit = m.get_num_cached_tokens(seq)
                done["hits"] += hit > 0
                m.mark_blocks_as_computed(group, seq.get_len() - hit)
                write(seq, hit, seq.get_len())
                read(seq, seq.get_len(), seq.get_len() - 1)
                groups.append([group, False])
        elif groups:
            entry = rng.choice(groups)
            group, swapped = entry
            if action < 0.65 and not swapped:
                for seq in group.sequences:
                    seq.tokens.append(rng.randrange(2))
                if m.can_append_slots(group):
                    for seq in group.sequences:
                        for source, destination in m.append_slots(seq):
                            device[destination] = dict(device[source])
                            done["copies"] += 1
                    for seq in group.sequences:
                        write(seq, seq.get_len() - 1, seq.get_len())
                        read(seq, seq.get_len(), seq.get_len() - 1)
                    m.mark_blocks_as_computed(group, 1)
                else:
                    for seq in group.sequences:
                        seq.tokens.pop()
            elif action < 0.75 and not swapped and len(group.sequences) < 3:
                child = Sequence(next(ids), group.sequences[0].tokens)
                m.fork(group.sequences[0], child)
                group.sequences.append(child)
                done["forks"] += 1
            elif action < 0.9:
                if not swapped and m.can_swap_out(group):
                    for source, destination in m.swap_out(group):
                        host[destination] = dict(device[source])
                        done["swaps"] += 1
                    entry[1] = True
                elif swapped and m.can_swap_in(group) == AllocStatus.OK:
                    for source, destination in m.swap_in(group):
                        device[destination] = dict(host[source])
                    entry[1] = False
                    for seq in group.sequences:
                        read(seq, seq.get_len(), seq.get_len())
            else:
                for seq in group.sequences:
                    m.free(seq)
                groups.remove(entry)
        m.device.check(), m.host.check()
    assert done["copies"] > 10 and done["swaps"] > 50 and done["forks"] > 10
    assert done["hits"] > 10 if options.get("enable_caching") else done["hits"] == 0
