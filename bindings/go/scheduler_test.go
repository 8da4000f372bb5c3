// SPDX-License-Identifier: Apache-2.0

package kvcache

import (
	"errors"
	"strings"
	"testing"
)

// computed is a request of the engine below.
type computed struct {
	tokens          []int32
	prompt, written int
}

// schedulerEngine computes plans without a model, and holds them against what it has computed before.
type schedulerEngine struct {
	*Scheduler
	live      map[Request]*computed
	cells     map[int64][2]int32 // Position and token in each slot.
	preempted int
}

func (e *schedulerEngine) add(t testing.TB, prompt []int32, options *ScheduleOptions) {
	id, err := e.Add(prompt, 9, options)
	must(t, err)
	e.live[id] = &computed{tokens: append([]int32(nil), prompt...), prompt: len(prompt)}
}

func (e *schedulerEngine) step(t testing.TB, maxTokens int) {
	plan, err := e.Plan(0)
	must(t, err)
	n := plan.NumItems()
	if n == 0 || len(plan.Requests) != n || int(plan.TokenOffsets[n]) > maxTokens {
		t.Fatalf("%+v", plan)
	}
	for _, id := range plan.Preempted {
		e.live[id].written = 0
		e.preempted++
	}
	for _, c := range plan.Copies {
		for i := int64(0); i < 4; i++ {
			e.cells[int64(c.Destination)*4+i] = e.cells[int64(c.Source)*4+i]
		}
	}
	var sampled []int32
	for i, id := range plan.Requests {
		one, first, offset := e.live[id], int(plan.FirstTokens[i]), int(plan.TokenOffsets[i])
		count := int(plan.TokenOffsets[i+1]) - offset
		if !plan.IsNew[i] {
			equal(t, first, one.written) // every token is computed once
		}
		row := plan.Row(0, int(plan.Rows[i]))
		for p := first; p < first+count; p++ {
			slot := plan.Slots[offset+p-first]
			equal(t, slot, int64(row[p/4])*4+int64(p%4))
			e.cells[slot] = [2]int32{int32(p), one.tokens[p]}
		}
		one.written = first + count
		for p := 0; p < one.written; p++ {
			equal(t, e.cells[int64(row[p/4])*4+int64(p%4)], [2]int32{int32(p), one.tokens[p]})
		}
		equal(t, plan.Samples[i], one.written == len(one.tokens))
		if plan.Samples[i] {
			sampled = append(sampled, int32(id%50))
			one.tokens = append(one.tokens, int32(id%50))
		}
	}
	ended, err := e.Finish(plan, PlanResult{Tokens: sampled})
	must(t, err)
	if plan.Requests != nil || plan.BlockTables != nil || plan.Row(0, 0) != nil {
		t.Fatal("arrays of a finished plan are left")
	}
	for _, end := range ended {
		one := e.live[end.Request]
		equal(t, end, EndedRequest{end.Request, EndedLength, 9})
		equal(t, len(one.tokens), one.prompt+9)
		delete(e.live, end.Request)
	}
	must(t, e.Check())
}

func sharedPrompt(i int) []int32 {
	return append(sequence(0, 16), sequence(100*(i+1), 4+i)...)
}

func TestASchedulerRunsAnEngineInASmallPool(t *testing.T) {
	for policy := ScheduleFCFS; policy <= ScheduleAdaptive; policy++ {
		m := newManager(t, Config{NumBlocks: 24, BlockSize: 4})
		s, err := m.NewScheduler(SchedulerConfig{Policy: policy, MaxRunning: 6, MaxTokens: 16, MaxChunk: 10})
		must(t, err)
		e := &schedulerEngine{Scheduler: s, live: map[Request]*computed{}, cells: map[int64][2]int32{}}
		for i := 0; i < 20; i++ {
			e.add(t, sharedPrompt(i), &ScheduleOptions{Priority: int32(i % 3)})
		}
		for len(e.live) > 0 {
			e.step(t, 16)
		}
		stats, err := s.Stats()
		must(t, err)
		if stats.Ended != 20 || stats.Preemptions != uint64(e.preempted) || e.preempted == 0 || stats.CachedTokens == 0 {
			t.Fatalf("%+v, %d preempted", stats, e.preempted)
		}
		must(t, s.Close())
		must(t, s.Close())
		left, err := m.Stats()
		must(t, err)
		equal(t, left.LiveRequests+left.WaitingRequests, uint64(0))
	}
}

func TestASchedulerSwapsByItsOffload(t *testing.T) {
	m, other := newManager(t, Config{NumBlocks: 16, BlockSize: 4, EventCapacity: 256}), newManager(t, Config{NumBlocks: 16, BlockSize: 4, EventCapacity: 256})
	tier, err := OpenTier(TierConfig{URL: "memory:?bytes=1MiB&threads=0", PageBytes: 64, Fingerprint: [32]byte{1}})
	must(t, err)
	defer tier.Close()
	config := OffloadConfig{PageSizes: []uint64{64}, Tiers: []*Tier{tier}, Pages: lifePages}
	offload, err := NewOffload(m, config)
	must(t, err)
	if _, err := other.NewScheduler(SchedulerConfig{Offload: offload}); !errors.Is(err, ErrInvalidArgument) || !strings.Contains(err.Error(), "another manager") {
		t.Fatal(err)
	}
	s, err := m.NewScheduler(SchedulerConfig{Offload: offload, MaxRunning: 4, MaxTokens: 16})
	must(t, err)
	for i := 0; i < 8; i++ {
		_, err := s.Add(sequence(100*i, 13), 9, nil)
		must(t, err)
	}
	var stats SchedulerStats
	for i := 0; i < 10000 && stats.Ended < 8; i++ {
		must(t, offload.Poll(0))
		plan, err := s.Plan(0)
		must(t, err)
		var sampled []int32
		for _, samples := range plan.Samples {
			if samples {
				sampled = append(sampled, 1)
			}
		}
		if plan.NumItems() != 0 {
			_, err = s.Finish(plan, PlanResult{Tokens: sampled})
			must(t, err)
		}
		stats, err = s.Stats()
		must(t, err)
	}
	asked, err := offload.Stats()
	must(t, err)
	kept, err := offload.TierStats(0)
	must(t, err)
	if stats.Ended != 8 || stats.Preemptions == 0 || asked.Lookups != 8+stats.Preemptions || kept.StoredPages == 0 {
		t.Fatalf("%+v, %+v, %+v", stats, asked, kept)
	}
	must(t, offload.Close()) // and the scheduler with it
	if _, err := s.Plan(0); err != ErrClosed {
		t.Fatal(err)
	}
	must(t, s.Close())
	if _, err := m.NewScheduler(SchedulerConfig{Offload: offload}); err != ErrClosed {
		t.Fatal(err)
	}
	offload, err = NewOffload(m, config)
	must(t, err)
	s, err = m.NewScheduler(SchedulerConfig{Offload: offload})
	must(t, err)
	_, err = s.Add(sequence(0, 13), 9, nil)
	must(t, err)
	must(t, m.Close()) // and both
	if _, err := s.Plan(0); err != ErrClosed {
		t.Fatal(err)
	}
	if err := offload.Poll(0); err != ErrClosed {
		t.Fatal(err)
	}
}

func TestPlansAndAnOffloadInTwoGoroutines(t *testing.T) {
	for i := 0; i < 20; i++ {
		m := newManager(t, Config{NumBlocks: 16, BlockSize: 4, EventCapacity: 256})
		tier, err := OpenTier(TierConfig{URL: "memory:?bytes=1MiB", PageBytes: 64, Fingerprint: [32]byte{1}})
		must(t, err)
		offload, err := NewOffload(m, OffloadConfig{PageSizes: []uint64{64}, Tiers: []*Tier{tier}, Pages: lifePages})
		must(t, err)
		s, err := m.NewScheduler(SchedulerConfig{Offload: offload, MaxRunning: 4, MaxTokens: 16})
		must(t, err)
		polls := make(chan error)
		go func() {
			var err error
			for err == nil {
				err = offload.Poll(0)
			}
			polls <- err
		}()
		for j := 0; j < 20; j++ {
			_, err := s.Add(sequence(100*j, 13), 9, nil)
			must(t, err)
			plan, err := s.Plan(0)
			must(t, err)
			if plan.NumItems() != 0 {
				_, err = s.Finish(plan, PlanResult{Failed: true})
				must(t, err)
			}
		}
		if i%2 == 0 {
			must(t, offload.Close())
		} else {
			must(t, m.Close())
		}
		if err := <-polls; err != ErrClosed {
			t.Fatal(err)
		}
		if _, err := s.Plan(0); err != ErrClosed {
			t.Fatal(err)
		}
		must(t, tier.Close())
	}
}

func TestAsynchronousPlansAndDrafts(t *testing.T) {
	m := newManager(t, Config{NumBlocks: 64, BlockSize: 4})
	s, err := m.NewScheduler(SchedulerConfig{MaxPlans: 2, MaxDrafts: 3})
	must(t, err)
	id, err := s.Add(sequence(0, 12), 6, nil)
	must(t, err)
	first, err := s.Plan(0)
	must(t, err)
	second, err := s.Plan(0)
	must(t, err)
	equal(t, second.FirstTokens, []uint64{12})
	if _, err := s.Plan(0); !errors.Is(err, ErrBusy) {
		t.Fatal(err)
	}
	if _, err := s.Finish(second, PlanResult{Tokens: []int32{1}}); !errors.Is(err, ErrInvalidArgument) || !strings.Contains(err.Error(), "the oldest plan in flight is 1") {
		t.Fatal(err)
	}
	_, err = s.Finish(first, PlanResult{Tokens: []int32{1}})
	must(t, err)
	_, err = s.Finish(second, PlanResult{Failed: true})
	must(t, err)
	must(t, s.SetDrafts([]Request{id}, []int32{3}))
	plan, err := s.Plan(0)
	must(t, err)
	equal(t, []any{plan.NumDrafts, plan.FirstTokens, plan.TokenOffsets}, []any{[]uint32{3}, []uint64{12}, []uint64{0, 4}})
	ended, err := s.Finish(plan, PlanResult{Tokens: []int32{1, 2, 3}, TokenOffsets: []uint64{0, 3}, Stopped: []bool{true}})
	must(t, err)
	equal(t, ended, []EndedRequest{{id, EndedStopped, 4}})
	if err := s.SetDrafts([]Request{id}, []int32{1}); !errors.Is(err, ErrNotFound) {
		t.Fatal(err)
	}
	if err := s.SetDrafts([]Request{id}, nil); !errors.Is(err, ErrInvalidArgument) {
		t.Fatal(err)
	}
}

func TestStatesAndErrorsOfAScheduler(t *testing.T) {
	m := newManager(t, Config{NumBlocks: 64, BlockSize: 4})
	s, err := m.NewScheduler(SchedulerConfig{MaxTenants: 2})
	must(t, err)
	if _, err := m.NewScheduler(SchedulerConfig{}); !errors.Is(err, ErrBusy) {
		t.Fatal(err)
	}
	if _, err := newManager(t, Config{NumBlocks: 4}).NewScheduler(SchedulerConfig{Policy: 9}); !errors.Is(err, ErrInvalidArgument) {
		t.Fatal(err)
	}
	id, err := s.Add(sequence(0, 12), 4, &ScheduleOptions{NotReady: true, Priority: 3, Tenant: 1, Adapter: 7, NowNs: 5, Inputs: []EncoderInput{{2, 3}, {8, 2}},
		Request: &RequestOptions{UserData: 9}})
	must(t, err)
	info, err := s.Info(id)
	must(t, err)
	equal(t, []any{info.State, info.Row, info.NumPrompt, info.Priority, info.Tenant, info.ArrivalNs}, []any{ScheduledNotReady, int32(-1), uint64(12), int32(3), uint32(1), uint64(5)})
	empty, err := s.Plan(10)
	must(t, err)
	equal(t, []any{empty.NumItems(), empty.ID, empty.TokenOffsets}, []any{0, uint64(0), []uint64{0}})
	must(t, s.SetReady(id))
	must(t, s.SetPriority(id, -1))
	must(t, s.SetWeight(1, 2.5))
	plan, err := s.Plan(0)
	must(t, err)
	if empty.TokenOffsets != nil {
		t.Fatal("arrays of a plan without items are left")
	}
	equal(t, plan.EncoderRuns, []EncoderRun{{0, 0}, {0, 1}})
	for _, wrong := range []struct {
		result PlanResult
		text   string
	}{{PlanResult{}, "Tokens has 0 tokens; the items of plan 1 bring 1"}, {PlanResult{Tokens: []int32{1, 2}}, "Tokens has 2"},
		{PlanResult{TokenOffsets: []uint64{0, 0}}, "item 0 brings 0 tokens"}, {PlanResult{Tokens: []int32{1}, TokenOffsets: []uint64{0}}, "TokenOffsets has 1 elements; it needs 2"},
		{PlanResult{Tokens: []int32{1}, Stopped: []bool{}}, "Stopped has 0 elements; it needs 1"}, {PlanResult{Tokens: []int32{-1}}, "tokens[0] is -1"}} {
		if _, err := s.Finish(plan, wrong.result); !errors.Is(err, ErrInvalidArgument) || !strings.Contains(err.Error(), wrong.text) {
			t.Fatal(wrong.text, err)
		}
	}
	must(t, s.Abort(id))
	for _, err := range []error{s.Abort(id), s.SetReady(id), s.SetPriority(id, 1)} {
		if !errors.Is(err, ErrNotFound) {
			t.Fatal(err)
		}
	}
	_, err = s.Finish(plan, PlanResult{Tokens: []int32{1}})
	must(t, err)
	if _, err := s.Finish(plan, PlanResult{Tokens: []int32{1}}); !errors.Is(err, ErrInvalidArgument) || !strings.Contains(err.Error(), "plan 1 is not in flight") {
		t.Fatal(err)
	}
	for _, wrong := range []*ScheduleOptions{{Tenant: 2}, {Inputs: []EncoderInput{{0, 99}}}, {Request: &RequestOptions{Slots: 3}}} {
		if _, err := s.Add(sequence(0, 5), 3, wrong); !errors.Is(err, ErrInvalidArgument) {
			t.Fatal(err)
		}
	}
	other, err := newManager(t, Config{NumBlocks: 4}).NewScheduler(SchedulerConfig{})
	must(t, err)
	if _, err := other.Finish(plan, PlanResult{}); !errors.Is(err, ErrInvalidArgument) || !strings.Contains(err.Error(), "another scheduler") {
		t.Fatal(err)
	}
	must(t, m.Close()) // and the scheduler with it
	if _, err := s.Plan(0); err != ErrClosed {
		t.Fatal(err)
	}
	must(t, s.Close())
}

// schedulerCalls are calls of Scheduler and Plan, of which a few are spoilt.
func (f *fuzzer) schedulerCalls(t *testing.T) map[string]func() error {
	with := func(config SchedulerConfig, call func(s *Scheduler, id Request) error) error {
		m, err := New(Config{NumBlocks: 16, BlockSize: 4, MaxRequests: 8, MaxRequestTokens: 64, VocabSize: 100})
		must(t, err)
		defer m.Close()
		config.MaxRunning, config.MaxTokens = 4, 16
		s, err := m.NewScheduler(config)
		if err != nil {
			return err
		}
		var id Request
		for i := 0; i < 3; i++ {
			if id, err = s.Add(sequence(10*i, 9+i), 6, nil); err != nil {
				return err // the prompt is longer than MaxRequestTokens
			}
		}
		if f.Intn(20) == 0 {
			must(t, s.Close())
		}
		defer func() {
			if err := s.Check(); err != ErrClosed {
				must(t, err)
			}
		}()
		return call(s, pick(f, []Request{id}))
	}
	on := func(call func(s *Scheduler, id Request) error) func() error {
		return func() error { return with(SchedulerConfig{MaxDrafts: 3, MaxPlans: 2}, call) }
	}
	run := func(s *Scheduler, id Request) error {
		for i := f.Intn(6); i >= 0; i-- {
			plan, err := s.Plan(f.oneOf(0, 0, f.number()))
			if err != nil {
				return err
			}
			if plan.NumItems() == 0 {
				continue
			}
			if f.Intn(4) == 0 {
				plan = s.plans[0]
			}
			count, one := 0, int32(f.oneOf(1, 1, 1, f.number()))
			for _, samples := range plan.Samples {
				if samples {
					count++
				}
			}
			result := PlanResult{Tokens: slice(f, count, func() int32 { return one }), Failed: f.Intn(20) == 0}
			if f.Intn(4) == 0 {
				result.Stopped = slice(f, plan.NumItems(), func() bool { return f.Intn(2) == 0 })
			}
			if f.Intn(4) == 0 {
				result.TokenOffsets = slice(f, plan.NumItems()+1, func() uint64 { return f.small(2) })
			}
			if _, err := s.Finish(plan, result); err != nil {
				return err
			}
			if err := s.SetDrafts(slice(f, 1, func() Request { return id }), slice(f, 1, func() int32 { return int32(f.small(4)) })); err != nil {
				return err
			}
		}
		return nil
	}
	return map[string]func() error{
		"Manager.NewScheduler": func() error {
			return with(SchedulerConfig{Policy: SchedulePolicy(f.small(5)), Admission: Admission(f.small(4)), CacheAware: f.Intn(2) == 0, DepthFirst: f.Intn(2) == 0, MaxChunk: f.uint32(),
				MaxDrafts: uint32(f.small(4)), MaxPlans: uint32(f.small(4)), MaxAdapters: uint32(f.small(4)), MaxTenants: uint32(f.small(9)), MaxEncoderTokens: f.number(),
				MaxRequestTokens: f.oneOf(0, 64, f.number()), MaxWaitNs: f.number(), HighWatermark: float64(f.Intn(3)) / 2, AdaptivePlans: uint32(f.small(9))}, run)
		},
		"Scheduler.Add": on(func(s *Scheduler, id Request) error {
			options := &ScheduleOptions{ExpectedNewTokens: f.number(), Priority: int32(f.number()), Tenant: uint32(f.small(1)), Adapter: f.number(), NotReady: f.Intn(3) == 0,
				NowNs: f.number()}
			if f.Intn(3) == 0 {
				options.Inputs = slice(f, f.Intn(3), func() EncoderInput { return EncoderInput{f.small(8), f.small(4)} })
			}
			if f.Intn(3) == 0 {
				options.Request = f.options()
			}
			_, err := s.Add(f.prompt(), f.number(), options)
			return err
		}),
		"Scheduler.Abort":       on(func(s *Scheduler, id Request) error { return s.Abort(id) }),
		"Scheduler.SetReady":    on(func(s *Scheduler, id Request) error { return s.SetReady(id) }),
		"Scheduler.SetPriority": on(func(s *Scheduler, id Request) error { return s.SetPriority(id, int32(f.number())) }),
		"Scheduler.SetWeight":   on(func(s *Scheduler, id Request) error { return s.SetWeight(uint32(f.small(1)), float64(f.Intn(3))) }),
		"Scheduler.SetDrafts":   on(run),
		"Scheduler.Plan":        on(run),
		"Scheduler.Finish":      on(run),
		"Scheduler.Info":        on(func(s *Scheduler, id Request) error { _, err := s.Info(id); return err }),
		"Scheduler.Stats":       on(func(s *Scheduler, id Request) error { _, err := s.Stats(); return err }),
		"Scheduler.Check":       on(func(s *Scheduler, id Request) error { return s.Check() }),
		"Scheduler.Close":       on(func(s *Scheduler, id Request) error { return s.Close() }),
		"Plan.NumItems": on(func(s *Scheduler, id Request) error {
			plan, err := s.Plan(0)
			if err == nil && plan.NumItems() != len(plan.Requests) {
				t.Fatalf("%+v", plan)
			}
			return err
		}),
		"Plan.Row": on(func(s *Scheduler, id Request) (err error) {
			defer func() { // which panics, like Step.Row
				if text, ok := recover().(string); ok && strings.HasPrefix(text, "kvcache: Row(") {
					err = ErrInvalidArgument
				}
			}()
			plan, err := s.Plan(0)
			if err == nil {
				plan.Row(int(f.small(1)), int(f.small(4)))
			}
			return err
		}),
	}
}
