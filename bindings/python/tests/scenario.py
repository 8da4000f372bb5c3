# SPDX-License-Identifier: Apache-2.0
"""Executes a scenario (tests/scenario/README.md) through the Python package and prints its trace."""

import sys

import numpy as np

import kvcache
from kvcache import speculation


MODES = ("none", "minimal", "balanced", "aggressive")


class Runner:
    policy = {}
    quotas = 0
    record_bytes = 0
    hints = False
    fills = (0, 0, 0)
    groups = ()
    s = None  # the scheduler
    encoder = {}
    room, headroom, partial, mode = 0, False, False, "none"

    def shape(self):
        return {"hints": self.hints, "fills": bool(self.fills[0]), "max_blocks": self.room, "headroom": self.headroom,
                "partial_reuse": self.partial, **self.policy}

    def line_policy(self, number, percent, history):
        self.policy = {"policy": ["lru", "frequency", "fragmentation"][number], "policy_weight": percent / 100, "policy_history": history}

    def line_group(self, window=None, sinks=0, retention=0, chunk=0, state=0):
        self.groups = () if window is None else (*self.groups, kvcache.Group(window, sinks, retention, 0, chunk, bool(state)))

    def line_manager(self, blocks, block_size, events, max_requests, window=0, sinks=0):
        groups = self.groups or ([kvcache.Group(), kvcache.Group(window, sinks)] if window else [])
        self.m = kvcache.Manager(blocks, block_size, event_capacity=events, max_requests=max_requests, groups=groups, max_quotas=self.quotas, record_bytes=self.record_bytes, **self.shape())
        self.log = b""
        self.requests, self.namespaces, self.pins = {}, {}, {}
        self.begin()

    def begin(self):
        self.step = kvcache.Step(self.m, 8, 8, 16, max_rows=8, max_admissions=4, max_prompt_tokens=160)
        self.reader = self.m.events()

    def line_rebuild(self, blocks, block_size, events, max_requests):
        made = self.m.rebuild(blocks, block_size, event_capacity=events, max_requests=max_requests, **self.shape())
        for name, id in self.namespaces.items():
            if id in made.namespaces:
                self.namespaces[name] = made.namespaces[id].id
        for namespace in made.namespaces.values():
            namespace.forget()
        self.m = made.manager
        self.begin()
        return [f"{source}+{offset}>{block}+{new_offset}*{count}" for _, source, block, offset, new_offset, count in made.copies.tolist()]

    def line_hints(self, on):
        self.hints = bool(on)

    def line_cross(self):
        self.groups = (*self.groups, kvcache.Group(cross=True))

    def line_encoder(self, tokens, digest):
        self.encoder = {"cross_tokens": tokens, "cross_digest": bytes([digest]) * 32}

    def line_heard(self, name):
        return [self.request(name).info.num_cross_cached]

    def line_fills(self, *fills):
        self.fills = fills

    def line_fail(self):
        names = {getattr(request, "id", request): name for name, request in self.requests.items()}
        return [names[id] for id in self.m.fail_step(self.step.step_id)]

    def line_room(self, blocks):
        self.room = blocks

    def line_partial(self, on):
        self.partial = bool(on)

    def line_headroom(self, on):
        self.headroom = bool(on)

    def line_mode(self, number):
        self.mode = MODES[number]

    def line_resize(self, pool, blocks):
        return [f"{source}>{destination}" for source, destination in self.m.resize(blocks, pool)]

    def line_expect(self, number, generated):
        return [self.m.expected_tokens(MODES[number], generated)]

    def line_now(self, time):
        self.step.now_ns = time

    def line_time(self, time):
        self.m.set_time(time)

    def line_priority(self, name, first, count, priority, until):
        self.request(name).set_priority(priority, first, None if count == -1 else count, until)

    def line_over(self, name, shared):
        self.request(name).end_session(shared)

    def line_keep(self, namespace, first, count, begin, priority, until):
        tokens = range(first, first + count)
        return [self.m.set_prefix_priority(tokens, priority, namespace=self.namespace(namespace), until_ns=until, first_token=begin)]

    def line_demote(self, namespace, first, count, begin):
        return [self.m.set_prefix_priority(range(first, first + count), kvcache.PRIORITY_DEMOTED, namespace=self.namespace(namespace), first_token=begin)]

    def line_register(self, name, namespace, first, count):
        return [self.m.register_prompt(f"p{name}", range(first, first + count), namespace=self.namespace(namespace))]

    def line_acquire(self, name, prompt, first, count):
        request = self.m.allocate_from_prompt(f"p{prompt}", range(first, first + count))
        self.requests[name] = self.kept(request)
        return [request.num_cached]

    def line_unregister(self, name):
        self.m.unregister_prompt(f"p{name}")

    def line_prompts(self):
        return self.m.prompts()

    def request(self, name):
        return self.m.request(self.requests.get(name, 0))

    def namespace(self, name):
        return self.namespaces.get(name, 0)

    def kept(self, object):
        object.forget()
        return object.id

    def line_open(self, name, model):
        self.namespaces[name] = self.kept(self.m.namespace(model=bytes([model])))

    def line_close(self, name):
        kvcache.Namespace(self.m, self.namespace(name)).close()

    def of_curve(self, name):
        return kvcache.ALL_NAMESPACES if name < 0 else self.namespace(name)

    def line_curve(self, name, percent, blocks):
        self.m.open_curve(self.of_curve(name), sample_rate=percent / 100, max_blocks=blocks)

    def line_uncurve(self, name):
        self.m.close_curve(self.of_curve(name))

    def line_tier(self, bytes_, page):
        self.tier, self.tier_page, self.tier_now = kvcache.Tier(f"memory:?bytes={bytes_}&threads=0", page, b"1" * 32), page, 1

    def line_clock(self, now):
        self.tier_now = now

    def keys(self, name, first, count, group=0):
        return kvcache.page_keys(self.m.position_digests(range(first, first + count), namespace=self.namespace(name)), group, bytes(32))

    def line_page(self, name, first, count, group):
        return [bytes(key[:2]).hex() for key in self.keys(name, first, count, group)]

    def line_put(self, name, first, count, value):
        keys = self.keys(name, first, count)
        return self.tier.put(keys, np.full((len(keys), self.tier_page), value, np.uint8), now_ns=self.tier_now).results

    def line_get(self, name, first, count):
        keys = self.keys(name, first, count)
        pages = np.zeros((len(keys), self.tier_page), np.uint8)
        done = self.tier.get(keys, pages, now_ns=self.tier_now)
        return [f"{result}:{page[0]}" if result == kvcache.PageResult.OK else result for result, page in zip(done.results, pages)]

    def line_lease(self, name, first, count, lease):
        done = self.tier.exists(self.keys(name, first, count), lease=lease / 1e9, now_ns=self.tier_now)
        return [f"{result}:{until}" for result, until in zip(done.results, done.lease_until)]

    def line_erase(self, name, first, count):
        return self.tier.remove(self.keys(name, first, count), now_ns=self.tier_now).results

    def line_pages(self):
        stats, gets = self.tier.stats(), self.tier.counts(kvcache.TierKind.GET)
        return [stats.pages, stats.evictions, gets.ok, gets.misses]

    def line_scheduler(self, policy, admission, running, tokens, plans, drafts):
        if self.s:
            self.s.close()
        self.s = None
        self.s = kvcache.Scheduler(self.m, policy=policy, admission=admission, max_running=running, max_tokens=tokens, max_plans=plans, max_drafts=drafts)

    def line_schedule(self, name, namespace, first, count, new, priority):
        self.requests[name] = self.s.add(range(first, first + count), new, priority=priority,
                                         options=kvcache.RequestOptions(namespace=self.namespace(namespace)))

    def line_draft(self, name, count):
        self.s.set_drafts([self.requests.get(name, 0)], [count])

    def names(self, ids):
        return [next((name for name, known in self.requests.items() if known == id), -1) for id in ids]

    def line_plan(self, now):
        self.plan = plan = self.s.plan(now)
        counts = np.diff(plan.token_offsets.astype(np.int64))
        items = zip(self.names(plan.requests.tolist()), plan.first_tokens, counts, plan.num_drafts, plan.samples)
        return [plan.plan_id, *(f"{name}:{first}+{count}/{drafts}{'!' if samples else ''}" for name, first, count, drafts, samples in items),
                *(f"-{name}" for name in self.names(plan.preempted.tolist())), *(f"x{name}" for name in self.names(e.request for e in plan.ended))]

    def line_finish(self, token, failed=False):
        plan = (self.s.plans or (self.plan,))[0]
        tokens = [token] * int(plan.samples.sum()) if self.s.plans else []
        offsets = np.append(0, np.cumsum(plan.samples)).astype(np.uint64) if self.s.plans and not failed else None
        return [f"{name}:{int(e.reason)}:{e.num_new_tokens}" for e in self.s.finish(plan, tokens, offsets, failed=failed) for name in self.names([e.request])]

    def line_undone(self):
        return self.line_finish(0, True)

    def line_abort(self, name):
        self.s.abort(self.requests.get(name, 0))

    def line_scheduled(self):
        s = self.s.stats()
        self.s.check()
        return [s.waiting, s.running, s.preemptions, s.cached_tokens, s.recomputed_tokens, s.ended]

    def line_rates(self, name, *sizes):
        return [int(rate * 1e6) for rate in self.m.hit_rates(sizes, self.of_curve(name))]

    def line_sizer(self, mode, first, most, hysteresis, cooldown):
        self.sizer = kvcache.Sizer(kvcache.SizingMode(mode).name.lower(), num_blocks=first, max_blocks=most, hysteresis=hysteresis / 100,
                                   cooldown_ns=cooldown)

    def line_decide(self, now, needed):
        d = self.sizer.decide(now, needed)
        return [d.number, int(d.action), int(d.reason), int(d.basis), d.from_blocks, d.to_blocks]

    def line_decided(self, number):
        d = self.sizer.read_log(number)
        return [d.number, int(d.action), int(d.reason), int(d.basis), d.from_blocks, d.to_blocks]

    def line_workload(self, half_life, window):
        self.workload = kvcache.Workload(half_life_ns=half_life, window=window)

    def line_observe(self, now, value):
        self.workload.record(now, value)

    def line_forecast(self, horizon):
        info = self.workload.info
        return [info.num_observations, *(int(value * 1e3 + 0.5) for value in (info.average, info.level, info.variance, self.workload.predict(horizon)))]

    def line_quotas(self, count):
        self.quotas = count

    def line_record(self, count):
        self.record_bytes = count

    def line_log(self):
        self.log += self.m.take_log()
        replayed = kvcache.replay_log(self.log)
        return [replayed.calls, replayed.mismatches, replayed.lost_calls, replayed.digest]

    def line_quota(self, name, pool, least, most):
        self.m.set_quota(self.namespace(name), pool, min_blocks=least, max_blocks=most)

    def line_share(self, name, pool):
        return self.m.quota_info(self.namespace(name), pool)

    def line_reset(self, name):
        self.m.reset_namespace(self.namespace(name))

    def line_resetall(self):
        self.m.reset_all()

    def line_caching(self, on):
        self.m.set_prefix_caching(on != 0)

    def line_allocate(self, name, namespace, first, count):
        request = self.m.allocate(range(first, first + count), namespace=self.namespace(namespace), headroom=self.mode, **self.encoder)
        self.requests[name] = self.kept(request)
        return [request.num_cached]

    def line_create(self, name, namespace, first, count):
        self.requests[name] = self.kept(self.m.create(range(first, first + count), namespace=self.namespace(namespace), headroom=self.mode, **self.encoder))

    def line_admit(self, name):
        return [self.request(name).admit()]

    def line_together(self, *names):
        return self.m.admit_batch([kvcache.Request(self.m, self.requests.get(name, 0), owned=False) for name in names])  # known or not

    def line_append(self, name, first, count):
        self.request(name).append(range(first, first + count))

    def line_key(self, name, first, count, mark):
        self.request(name).add_keys([kvcache.ExtraKey(first, count, bytes([mark]) * 32)])

    def line_reserve(self, name, n):
        self.request(name).reserve(n)

    def line_commit(self, name, n):
        self.request(name).commit(n)

    def line_ahead(self, name, n, computed):
        self.request(name).commit_ahead(n, computed)

    def line_truncate(self, name, n):
        self.request(name).truncate(n)

    def line_preempt(self, name):
        self.request(name).preempt()

    def line_free(self, name):
        self.request(name).free()

    def line_fork(self, name, new):
        self.requests[new] = self.kept(self.request(name).fork())

    def line_copies(self):
        return [f"{source}>{destination}" for source, destination in self.m.take_pending().copies]

    def line_table(self, name, group):
        return self.request(name).block_table(group)

    def line_lost(self, group):
        return self.m.lost_reuse(group)

    def line_blame(self, name):
        info = self.request(name).info
        return [info.lost_reuse_tokens, info.lost_group, info.lost_reason]

    def line_checkpoint(self, name):
        return [self.request(name).info.next_checkpoint]

    def line_slots(self, name, group, first, count):
        return self.request(name).slots(first, count, group)

    def line_probe(self, namespace, first, count):
        return [self.m.probe(range(first, first + count), namespace=self.namespace(namespace)).num_cached]

    def line_drop(self, namespace, first, count):
        return [self.m.drop(range(first, first + count), namespace=self.namespace(namespace))]

    def line_evict(self, n):
        return [self.m.evict(n)]

    def line_pin(self, name, namespace, first, count):
        self.pins[name] = self.kept(self.m.pin(range(first, first + count), namespace=self.namespace(namespace)))

    def line_unpin(self, name):
        kvcache.Pin(self.m, self.pins.get(name, 0), 0).close()

    def line_take(self, group, count):
        return self.m.acquire_blocks(count, group)

    def line_publish(self, namespace, group, first, count, *blocks):
        self.m.publish_blocks(range(first, first + count), blocks, namespace=self.namespace(namespace), group=group)

    def line_give(self, *blocks):
        self.m.release_blocks(blocks)

    def line_step(self, *names, ids=7):
        step, n = self.step, len(names)
        requests = [self.request(name) for name in names]
        step.committed[:n] = [request.info.num_tokens for request in requests]
        step.requests[:n] = [request.id for request in requests]
        step.extend_offsets[: n + 1] = range(n + 1)
        if ids is not None:
            step.extend_tokens[:n] = ids
        step.num_requests, step.num_admissions, step.retired_step = n, 0, step.step_id
        step.run()
        return [f"{status}:{slot}" for status, slot in zip(step.status[:n], step.slots[0])]

    def line_forget(self, *names):
        return self.line_step(*names, ids=None)

    def line_arrive(self, *numbers):
        step, end = self.step, 0
        arriving = [numbers[i : i + 5] for i in range(0, len(numbers), 5)]
        for i, (_, _, _, first, count) in enumerate(arriving):
            step.admit_tokens[end : end + count] = range(first, first + count)
            step.admit_offsets[i + 1] = end = end + count
        step.num_requests, step.num_admissions, step.retired_step = 0, len(arriving), step.step_id
        step.run([kvcache.RequestOptions(namespace=self.namespace(namespace), slots=slots, flags=self.fills[1], wait_until_ns=self.fills[2], **self.encoder) for _, namespace, slots, _, _ in arriving])
        for (name, *_), status, id in zip(arriving, step.status, step.admitted.tolist()):
            if status == 0:
                self.requests[name] = id
        return [f"{status}:{cached}" for status, cached in zip(step.status[: len(arriving)], step.cached)]

    def line_events(self):
        return [f"{int(e.kind)}:{e.group}:{e.block}:{e.token_offset}:{e.digest[:2].hex()}" for e in self.reader]

    def line_stats(self):
        s = self.m.stats
        return [s.blocks_free, s.blocks_cached, s.blocks_live, s.blocks_reserved, s.blocks_pinned, s.live_requests, s.admissions, s.cached_tokens,
                s.evictions, s.published_blocks, s.duplicates, s.refusals]

    def line_digest(self):
        return [self.m.digest()]

    counts, index, drafts, verdict = speculation.Acceptance(), None, None, None

    def line_tree(self, *pairs):
        self.drafts = speculation.Drafts(pairs[1::2], pairs[::2])

    def verified(self, verdict):
        self.verdict = verdict
        accepted = int(verdict.num_accepted[0])
        return [accepted, *verdict.path[:accepted], verdict.next_tokens[0]]

    def line_greedy(self, *tokens):
        return self.verified(speculation.verify_greedy(self.drafts, tokens))

    def rows(self):
        p = np.zeros((self.drafts.num_rows, 4), np.float32)
        for row in range(len(p)):
            p[row, [row % 4, (row + 1) % 4, (row + 2) % 4]] = 0.5, 0.25, 0.25
        return p

    def line_sampled(self, *uniforms):
        return self.verified(speculation.verify_sampling(self.drafts, self.rows(), np.array(uniforms) / 100))

    def line_drawn(self, *uniforms):
        q = np.full((1, 4), 0.25, np.float32)
        return self.verified(speculation.verify_sampling(self.drafts, self.rows(), np.array(uniforms) / 100, q=q, q_rows=np.zeros(len(self.drafts.tokens), np.int64)))

    def line_typical(self, epsilon, delta, *uniforms):
        return self.verified(speculation.verify_typical(self.drafts, self.rows(), np.array(uniforms) / 100, epsilon / 100, delta / 100))

    def line_moves(self, start, block_size, *blocks):
        moves = speculation.verdict_moves(self.drafts, self.verdict, [start], [blocks], block_size).tolist()
        return [f"{source}+{offset}>{block}+{new_offset}*{count}" for _, source, block, offset, new_offset, count in moves]

    def line_states(self, start, block_size, n, *ids):
        copies = speculation.verdict_states(self.drafts, self.verdict, [start], [ids[:n]], block_size, ids[n:])
        return [f"{source}>{destination}" for source, destination in copies.tolist()]

    def line_counted(self):
        self.counts.add(self.drafts, self.verdict)
        c = self.counts
        return [c.num_drafts, c.num_nodes, c.num_accepted, c.tried[0], c.accepted[0], c.tried[1], c.accepted[1]]

    def line_halved(self):
        self.counts.halve()

    def line_length(self, *costs):
        length, tokens = self.counts.best_length(np.array(costs) / 100)
        return [length, int(tokens * 1e6 + 0.5)]

    def line_index(self, shortest, longest):
        self.index = speculation.Draft(2, min_ngram=shortest, max_ngram=longest)

    def line_learn(self, row, *tokens):
        self.index.append(row, tokens)

    def line_unlearn(self, row, keep):
        self.index.truncate(row, keep)

    def line_propose(self, row, n):
        return self.index.propose([row], [n]).tokens

    def line_lookup(self, shortest, longest, n, *tokens):
        return speculation.draft_lookup(tokens, n, min_ngram=shortest, max_ngram=longest)


def main(path):
    runner = Runner()
    with open(path, encoding="utf-8") as file:
        for line in file:
            words = line.split()
            if not words or words[0].startswith("#"):
                continue
            try:
                results = getattr(runner, "line_" + words[0])(*map(int, words[1:]))
                answer = [0, *(() if results is None else results)]
            except kvcache.KvCacheError as error:
                answer = [error.status, error]
            print(*words, "=", *answer)
    runner.m.check()


if __name__ == "__main__":
    main(sys.argv[1])
