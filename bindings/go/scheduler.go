// SPDX-License-Identifier: Apache-2.0

package kvcache

// #include <kvcache.h>
import "C"

import (
	"fmt"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/libkvcache/libkvcache/bindings/go/internal/native"
)

// SchedulerConfig is shape and limits of a scheduler: kvc_scheduler_config. The zero value is all defaults.
type SchedulerConfig struct {
	Policy    SchedulePolicy
	Admission Admission
	// Looks waiting requests up in its tiers, and stores those that are preempted; nil = none. It is of the same manager. Poll it between plans. Closing
	// it closes the scheduler.
	Offload    *Offload
	CacheAware bool // Of the first 128 waiting requests, those with the longest cached prefix come first.
	// Those requests come in the order of a depth-first walk of the tree of their cached prefixes, the branch with the most of them first. Not together
	// with CacheAware.
	DepthFirst                  bool
	MaxRunning                  uint32  // Admitted requests, and rows of BlockTables; 0 = 256.
	MaxTokens                   uint32  // Tokens of a plan, at least MaxRunning; 0 = 2048.
	MaxChunk                    uint32  // Tokens of one prompt in a plan; 0 = MaxTokens.
	MaxDrafts                   uint32  // Draft tokens of a request in a plan.
	MaxPlans                    uint32  // Plans in flight; 0 = 1.
	MaxAdapters                 uint32  // Different adapters of admitted requests; 0 = any number.
	MaxTenants                  uint32  // Tenants are numbered from 0; 0 = 1.
	MaxEncoderTokens            uint64  // Tokens of encoder inputs that a plan may encode; 0 = any number.
	MaxRequestTokens            uint64  // Tokens of one request with all that it generates; 0 = what the manager allows.
	MaxWaitNs                   uint64  // How long a request may be passed by others; 0 = 10 s.
	HighWatermark, LowWatermark float64 // Shares of the blocks: nothing is admitted from the first on, until the second; 0 = never. See SchedulerStats.Pressure.
	AdaptivePlans               uint32  // Of ScheduleAdaptive; 0 = 8.
}

// EncoderInput is an input of a request that an encoder turns into embeddings, such as an image: kvc_encoder_input.
type EncoderInput struct{ FirstToken, NumTokens uint64 }

// ScheduleOptions are the options of a request of a Scheduler: kvc_schedule_job. nil = all zero.
type ScheduleOptions struct {
	Request           *RequestOptions // Slots, Lookahead, Headroom and ExternalTokens must be unset: plans say what a request gets.
	ExpectedNewTokens uint64          // Your prediction; 0 = the mean of what its tenant's requests got.
	Priority          int32           // SchedulePriority: a lower number is served first.
	Tenant            uint32          // ScheduleFair: below MaxTenants.
	Adapter           uint64          // Number of its adapter (LoRA); 0 = none.
	Inputs            []EncoderInput  // In any order; at most 16 over a token.
	NotReady          bool            // It waits for SetReady.
	NowNs             uint64          // Its arrival; 0 = the latest time that the scheduler was told.
}

// EndedRequest is a request that a Scheduler has ended: kvc_ended_request. Its id names nothing any more.
type EndedRequest struct {
	Request      Request
	Reason       EndReason
	NumNewTokens uint32 // After its prompt.
}

// EncoderRun is an encoder input to encode before a step: kvc_encoder_run.
type EncoderRun struct {
	Item  uint32 // Of the plan.
	Input uint32 // Index in ScheduleOptions.Inputs.
}

// Plan is one step of the engine: kvc_plan. Its slices are memory of the scheduler: do not write to them, and do not use copies of them after Finish
// or Close, which set them to nil. BlockTables are valid until the next plan is made. Lengths of slices are in brackets.
type Plan struct {
	ID, StepID              uint64    // 1, 2, ...; 0 if the plan has no items: it is finished already. Newest step of the manager.
	Requests                []Request // [items]
	Rows                    []int32   // [items] row of BlockTables: the same from admission to preemption or end.
	FirstTokens             []uint64  // [items] position of the first token: so many are written.
	TokenOffsets            []uint64  // [items + 1] item i has tokens TokenOffsets[i] to TokenOffsets[i+1] of the plan.
	NumDrafts               []uint32  // [items] how many of its tokens are drafts, the last ones.
	Samples                 []bool    // [items] its result brings tokens.
	IsNew                   []bool    // [items] this plan admitted it: its row is new.
	BlockTables             []int32   // [groups][MaxRunning][RowStride] block ids; -1 where there is none. See Row.
	Slots                   []int64   // [groups][SlotStride] where each token of the plan is written.
	RowStride, SlotStride   int
	Copies                  []BlockCopy   // To execute before the step.
	Changes                 []TableChange // What became different in BlockTables, without rows of new items.
	WholeTables             bool          // More became different than Changes has room for: take all of BlockTables.
	Preempted               []Request     // They gave back their blocks and rows.
	EncoderRuns             []EncoderRun
	Ended                   []EndedRequest // They cannot run.
	numGroups, numRows, num int
	of                      *Scheduler
}

// PlanResult is what came out of a plan: kvc_plan_result.
type PlanResult struct {
	Tokens []int32 // Sampled tokens.
	// [items + 1] item i brings Tokens[TokenOffsets[i]:TokenOffsets[i+1]]: with drafts the accepted ones and the next. nil = one token for each item
	// that samples, if the plan has no drafts.
	TokenOffsets []uint64
	Stopped      []bool // [items] the request has ended with these tokens; nil = none has.
	Failed       bool   // The step was not computed, nor were the later plans in flight: their tokens are planned again.
}

// Scheduler owns the requests of a manager, and plans each step of an engine: kvc_scheduler. Any goroutine may use it. While it has requests, make no
// steps of the manager and change none of its requests by other calls; reads are allowed. Closing the manager or the offload closes it.
type Scheduler struct {
	m       *Manager
	mu      sync.Mutex // Held by every call: Close waits for them.
	c       uintptr
	offload *Offload // nil: none, or the scheduler is closed.
	plans   []*Plan  // In flight.
	empty   *Plan    // The last plan, if it has no items.
	ended   []EndedRequest
}

// NewScheduler creates the scheduler of the manager. Errors: ErrInvalidArgument, ErrBusy (it has one), ErrOutOfMemory, ErrClosed.
func (m *Manager) NewScheduler(config SchedulerConfig) (*Scheduler, error) {
	c := C.kvc_scheduler_config{struct_size: C.sizeof_kvc_scheduler_config, policy: C.uint32_t(config.Policy), admission: C.uint32_t(config.Admission),
		max_running: C.uint32_t(config.MaxRunning), max_tokens: C.uint32_t(config.MaxTokens), max_chunk: C.uint32_t(config.MaxChunk),
		max_drafts: C.uint32_t(config.MaxDrafts), max_plans: C.uint32_t(config.MaxPlans), max_adapters: C.uint32_t(config.MaxAdapters),
		max_tenants: C.uint32_t(config.MaxTenants), max_encoder_tokens: C.uint64_t(config.MaxEncoderTokens),
		max_request_tokens: C.uint64_t(config.MaxRequestTokens), max_wait_ns: C.uint64_t(config.MaxWaitNs),
		high_watermark: C.double(config.HighWatermark), low_watermark: C.double(config.LowWatermark), adaptive_plans: C.uint32_t(config.AdaptivePlans)}
	if config.CacheAware {
		c.flags |= C.KVC_SCHEDULER_CACHE_AWARE
	}
	if config.DepthFirst {
		c.flags |= C.KVC_SCHEDULER_DEPTH_FIRST
	}
	if config.MaxRunning == 0 {
		c.max_running = 256
	}
	s := &Scheduler{m: m, offload: config.Offload, ended: make([]EndedRequest, c.max_running)}
	err := m.call(func(manager uintptr) error {
		create := func(offload uintptr) error {
			var address uintptr
			if err := native.Kvc_scheduler_create(asByte(&c), manager, offload, &address); err != nil {
				return err
			}
			s.c = address
			atomic.AddInt64(&liveObjects, 1)
			m.owned.Store(s, nil)
			return nil
		}
		if s.offload == nil {
			return create(0)
		}
		return s.offload.open(func(offload uintptr) error { // whoever closes it waits until the scheduler is made
			err := create(offload)
			if err == nil {
				s.offload.inner.user.Store(s)
			}
			return err
		})
	})
	if err != nil {
		return nil, err
	}
	return s, nil
}

// Close ends all requests and frees them in the manager. Closing again does nothing.
func (s *Scheduler) Close() error {
	if err := s.m.call(func(uintptr) error { s.destroy(); return nil }); err != ErrClosed {
		return err
	}
	return nil
}

func (s *Scheduler) destroy() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.c == 0 {
		return
	}
	s.forget(s.plans...)
	s.forget(s.empty)
	s.m.owned.Delete(s)
	C.kvc_scheduler_destroy((*C.kvc_scheduler)(*(*unsafe.Pointer)(unsafe.Pointer(&s.c))))
	s.c = 0
	if s.offload != nil {
		s.offload.inner.user.CompareAndSwap(s, nil)
		s.offload = nil
	}
	atomic.AddInt64(&liveObjects, -1)
}

// forget makes arrays of plans unreachable.
func (s *Scheduler) forget(plans ...*Plan) {
	for _, plan := range plans {
		if plan != nil {
			*plan = Plan{ID: plan.ID, StepID: plan.StepID, num: plan.num, of: s}
		}
	}
}

func (s *Scheduler) call(function func(c uintptr) error) error {
	return s.m.call(func(uintptr) error {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.c == 0 {
			return ErrClosed
		}
		return function(s.c)
	})
}

// Add adds a request. It ends when it has got maxNewTokens. Options may be nil. Errors: ErrInvalidArgument, ErrNotFound (namespace), ErrLimit
// (MaxRequests of the manager), ErrUnsupported, ErrOutOfMemory; then nothing is added.
func (s *Scheduler) Add(tokens []int32, maxNewTokens uint64, options *ScheduleOptions) (request Request, err error) {
	if options == nil {
		options = &ScheduleOptions{}
	}
	namespace, keys, config := options.Request.c()
	flags, id := uint32(0), uint64(0)
	if options.NotReady {
		flags = C.KVC_JOB_NOT_READY
	}
	err = s.call(func(c uintptr) error {
		return native.Kvc_scheduler_add(c, namespace, tokens, keys, config, maxNewTokens, options.ExpectedNewTokens, options.Priority, options.Tenant,
			options.Adapter, asBytes(options.Inputs), flags, options.NowNs, &id)
	})
	return Request(id), err
}

// SetDrafts says how many drafts the next plan may add to the decode of each request, for that plan alone: at most MaxDrafts. It may take fewer.
func (s *Scheduler) SetDrafts(requests []Request, numDrafts []int32) error {
	if err := check(of("numDrafts", numDrafts, uint64(len(requests)))); err != nil {
		return err
	}
	ids := make([]uint64, len(requests))
	for i, request := range requests {
		ids[i] = uint64(request)
	}
	return s.call(func(c uintptr) error { return native.Kvc_scheduler_set_drafts(c, ids, numDrafts) })
}

// sliceOf is an array of a plan as a slice of elements of the same size.
func sliceOf[T, E any](array *E, length C.size_t) []T {
	return unsafe.Slice((*T)(unsafe.Pointer(array)), int(length))
}

// Plan makes the next plan. nowNs: of a monotonic clock, which never goes back; 0 = unchanged. Errors: ErrBusy (MaxPlans are in flight),
// ErrInvalidArgument (the time), ErrOutOfMemory.
func (s *Scheduler) Plan(nowNs uint64) (*Plan, error) {
	plan := new(Plan)
	err := s.call(func(c uintptr) error {
		p := C.kvc_plan{struct_size: C.sizeof_kvc_plan}
		fill := func(uintptr) error { return native.Kvc_scheduler_plan(c, nowNs, asByte(&p)) }
		var err error
		if s.offload == nil {
			err = fill(0)
		} else {
			err = s.offload.call(fill) // nobody polls it meanwhile
		}
		if err != nil {
			return err
		}
		n, groups := p.num_items, p.num_groups
		*plan = Plan{ID: uint64(p.plan_id), StepID: uint64(p.step_id), num: int(n), numGroups: int(groups), numRows: int(p.num_rows), of: s}
		plan.Requests, plan.Rows, plan.FirstTokens = sliceOf[Request](p.requests, n), sliceOf[int32](p.rows, n), sliceOf[uint64](p.first_tokens, n)
		plan.TokenOffsets, plan.NumDrafts = sliceOf[uint64](p.token_offsets, n+1), sliceOf[uint32](p.num_drafts, n)
		plan.Samples, plan.IsNew = sliceOf[bool](p.samples, n), sliceOf[bool](p.is_new, n)
		plan.BlockTables = sliceOf[int32](p.block_tables, groups*p.num_rows*p.row_stride)
		plan.Slots = sliceOf[int64](p.slots, groups*p.slot_stride)
		plan.RowStride, plan.SlotStride = int(p.row_stride), int(p.slot_stride)
		plan.Copies, plan.Changes = sliceOf[BlockCopy](p.copies, p.num_copies), sliceOf[TableChange](p.changes, p.num_changes)
		plan.WholeTables, plan.Preempted = p.whole_tables != 0, sliceOf[Request](p.preempted, p.num_preempted)
		plan.EncoderRuns = sliceOf[EncoderRun](p.encoder_runs, p.num_encoder_runs)
		plan.Ended = append([]EndedRequest(nil), sliceOf[EndedRequest](p.ended, p.num_ended)...)
		s.forget(s.empty)
		if s.empty = plan; n != 0 {
			s.plans, s.empty = append(s.plans, plan), nil
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return plan, nil
}

// NumItems is the number of items; 0: nothing can run now. It stays after Finish.
func (p *Plan) NumItems() int { return p.num }

// Row is a row of the block tables of a group; nil after Finish. It panics, like an index, for a row or a group that the plan does not have.
func (p *Plan) Row(group, row int) []int32 {
	if p.BlockTables == nil {
		return nil
	}
	if group < 0 || group >= p.numGroups || row < 0 || row >= p.numRows {
		panic(fmt.Sprintf("kvcache: Row(%d, %d) of a plan with %d groups of %d rows", group, row, p.numGroups, p.numRows))
	}
	return p.BlockTables[(group*p.numRows+row)*p.RowStride:][:p.RowStride:p.RowStride]
}

// Finish takes the result of the oldest plan in flight, and returns the requests that have ended with it. All kernels of its step have finished, or
// are ordered before those of later plans. ErrInvalidArgument: not the oldest plan; too few or too many tokens; then nothing is taken.
func (s *Scheduler) Finish(plan *Plan, result PlanResult) (ended []EndedRequest, err error) {
	if plan.of != s {
		return nil, invalid("plan %d is of another scheduler", plan.ID)
	}
	err = s.call(func(c uintptr) error {
		flags, count := uint32(0), uint64(0)
		if result.Failed {
			flags = C.KVC_RESULT_FAILED
		}
		if err := firstOf(check(optional("TokenOffsets", result.TokenOffsets, uint64(plan.num)+1), optional("Stopped", result.Stopped, uint64(plan.num))),
			result.checkTokens(plan)); err != nil {
			return err
		}
		if err := native.Kvc_scheduler_finish(c, plan.ID, uint64(plan.num), result.TokenOffsets, result.Tokens, asBytes(result.Stopped), flags, asBytes(s.ended),
			&count); err != nil {
			return err
		}
		ended = append(ended, s.ended[:count]...)
		last := 1
		if result.Failed {
			last = len(s.plans)
		}
		s.forget(s.plans[:last]...)
		s.plans = append(s.plans[:0], s.plans[last:]...)
		return nil
	})
	return ended, err
}

// checkTokens refuses another number of tokens than the items bring. A plan that is finished is the library's to refuse.
func (r *PlanResult) checkTokens(plan *Plan) error {
	if r.Failed || plan.TokenOffsets == nil {
		return nil
	}
	end := uint64(0)
	for _, offset := range r.TokenOffsets {
		if offset > end {
			end = offset
		}
	}
	for i := 0; i < len(plan.Samples) && r.TokenOffsets == nil; i++ {
		if plan.Samples[i] {
			end++
		}
	}
	if end != uint64(len(r.Tokens)) {
		return invalid("Tokens has %d tokens; the items of plan %d bring %d: one for each of Samples, or what TokenOffsets says", len(r.Tokens), plan.ID, end)
	}
	return nil
}
