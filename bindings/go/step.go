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

// StepLimits are the sizes of the arrays of a step: kvc_step_limits. 0 gives an empty array, unless a default is named.
type StepLimits struct {
	MaxFrees        int // Each of Frees, Preempts, Truncates.
	MaxRequests     int // Running requests.
	MaxAdmissions   int // New and re-admitted requests.
	MaxTokens       int // Extended tokens of a step, and separately tokens of commits.
	MaxPromptTokens int // Tokens of all new requests of a step.
	MaxRows         int // Rows of the block tables; 0 = MaxRequests + MaxAdmissions.
	RowStride       int // Entries per row: blocks of the longest request. 0 = no tables.
	MaxChanges      int // 0 = all that a step can change.
}

func (l *StepLimits) check() error {
	return firstOf(notNegative("MaxFrees", l.MaxFrees), notNegative("MaxRequests", l.MaxRequests), notNegative("MaxAdmissions", l.MaxAdmissions),
		notNegative("MaxTokens", l.MaxTokens), notNegative("MaxPromptTokens", l.MaxPromptTokens), notNegative("MaxRows", l.MaxRows),
		notNegative("RowStride", l.RowStride), notNegative("MaxChanges", l.MaxChanges))
}

// Step is one engine step for a whole batch: kvc_step. Its slices are memory of the library, which stays from step to step. Fill them in
// place, set the counts, call Run, and read the results. Closing the step or the manager sets the slices to nil; do not use copies of them
// afterwards. Lengths of slices are in brackets.
//
// Run refuses entries that are not set. Until you set an entry, CommitTokens, ExtendTokens and AdmitTokens hold -1, TruncateLengths and
// AdmitOffsets (from [1] on) 2^64 - 1, Rows -2^31. Run consumes the ids, lengths and AdmitOffsets that it reads: they are unset
// afterwards, so keep your own copy of what you need later. All other inputs keep their values from step to step.
//
// Optional arrays are off or on. Committed, ExtendOffsets and ExtendTokens are on until NoCommits, NoExtensions or SlotsOnly switch
// them off. CommitOffsets, CommitTokens and Rows are off until UseCommitTokens or UseRows switch them on. Run does not read an array that
// is off; under SlotsOnly it refuses ids in ExtendTokens.
type Step struct {
	NumFrees, NumPreempts, NumTruncates, NumRequests, NumAdmissions int    // Entries of the slices below in this step.
	Flags                                                           uint32 // StepWholeRows, StepAdmitPastRefusal.
	FillID                                                          int32  // Written where a table has no block; -1 at first.
	RetiredStep                                                     uint64 // Newest step whose kernels have finished: StepID if none is in flight; 0 = nothing new.
	NowNS                                                           uint64 // Time of a monotonic clock, as SetTime takes it; 0 = unchanged.
	NoCommits, NoExtensions, SlotsOnly                              bool   // Without Committed; without ExtendOffsets; slots only, whose ids come later.
	UseCommitTokens, UseRows                                        bool   // With CommitOffsets and CommitTokens; with Rows.

	Frees, Preempts            []uint64 // [MaxFrees] requests to free and to preempt.
	Truncates, TruncateLengths []uint64 // [MaxFrees] requests to truncate, and the tokens that each keeps, an absolute count.
	Requests                   []uint64 // [MaxRequests] running requests, each once.
	Committed                  []uint64 // [MaxRequests] tokens of each whose KV is written, an absolute count.
	CommitOffsets              []uint64 // [MaxRequests + 1] where the ids of each commit begin in CommitTokens, and their end.
	CommitTokens               []int32  // [MaxTokens] ids that became known since, appended before the commit.
	ExtendOffsets              []uint64 // [MaxRequests + 1] where the extension of each request begins in ExtendTokens, and their end.
	ExtendTokens               []int32  // [MaxTokens] ids of the tokens to compute in this step.
	AdmitRequests              []uint64 // [MaxAdmissions] waiting requests; 0 = create one from AdmitTokens.
	AdmitOffsets               []uint64 // [MaxAdmissions + 1] where each prompt begins in AdmitTokens, and their end. Not read if none is created.
	AdmitTokens                []int32  // [MaxPromptTokens] prompts of the new requests, one after the other.
	AdmitNamespaces            []uint64 // [MaxAdmissions] namespaces of the new requests.
	AdmitSlots                 []uint64 // [MaxAdmissions] tokens after the hit that get slots, instead of the request's Slots; 0 = those.
	// [MaxRequests + MaxAdmissions] row of the block tables of each running request, then of each admission; -1 = none. Off: item i has row i.
	Rows []int32
	// AdmitOptions are the options of new requests, [NumAdmissions]. nil = defaults for all, with the namespaces of AdmitNamespaces; otherwise the
	// namespaces of the options count. Waiting requests keep the options that they were created with.
	AdmitOptions []RequestOptions

	// Results of Run.
	StepID         uint64   // Number of this step: 1, 2, ...
	ShortageBlocks uint64   // Blocks missing for the first refused admission.
	NumSlots       int      // Entries of Slots of each group.
	NumCopies      int      // Entries of Copies: execute them before the kernels of the step.
	NumChanges     int      // Entries of Changes.
	NumRefused     int      // Admissions that had no space.
	Status         []Status // Of frees, preempts, truncates, requests, admissions, in this order, without gaps.
	Admitted       []uint64 // [MaxAdmissions] ids; 0 = refused.
	Cached         []uint64 // [MaxAdmissions] tokens of the hit, which need no compute.
	NumBlocks      []uint64 // Valid entries of the row of each running request, then of each admission, for each group.
	BlockTables    []int32  // [groups][MaxRows][RowStride]; only changed entries are written. See Row.
	Slots          []int64  // [groups][MaxTokens] slots of the extended tokens, at ExtendOffsets[i] for request i; not those of admissions.
	Copies         []BlockCopy
	Changes        []TableChange // Entries written to BlockTables.

	m    *Manager
	mu   sync.Mutex // Held by Run and Row: Close waits for them.
	c    *C.kvc_step
	used [6]bool // What the optional arrays are set to.
}

// Flags of a step.
const (
	StepWholeRows        = C.KVC_STEP_WHOLE_ROWS
	StepAdmitPastRefusal = C.KVC_STEP_ADMIT_PAST_REFUSAL
	StepAdmitAllOrNone   = C.KVC_STEP_ADMIT_ALL_OR_NONE // The admissions of the step; its other items are as ever.
)

// NewStep creates a step with all its arrays, so that serving allocates nothing.
func (m *Manager) NewStep(limits StepLimits) (*Step, error) {
	if err := limits.check(); err != nil {
		return nil, err
	}
	c := C.kvc_step_limits{struct_size: C.sizeof_kvc_step_limits, max_frees: C.uint64_t(limits.MaxFrees), max_requests: C.uint64_t(limits.MaxRequests),
		max_admissions: C.uint64_t(limits.MaxAdmissions), max_tokens: C.uint64_t(limits.MaxTokens), max_prompt_tokens: C.uint64_t(limits.MaxPromptTokens),
		max_rows: C.uint64_t(limits.MaxRows), row_stride: C.uint64_t(limits.RowStride), max_changes: C.uint64_t(limits.MaxChanges)}
	if limits.MaxRows == 0 {
		c.max_rows = c.max_requests + c.max_admissions
	}
	s := &Step{m: m, FillID: -1, used: [6]bool{true, true, true, true, true, true}}
	var address uintptr
	if err := m.call(func(manager uintptr) error { return native.Kvc_step_create(manager, asByte(&c), &address) }); err != nil {
		return nil, err
	}
	s.c = *(**C.kvc_step)(unsafe.Pointer(&address))
	atomic.AddInt64(&liveObjects, 1)
	m.owned.Store(s, nil)
	for array, slice := range s.uint64s() {
		*slice = viewOf[uint64](s.c, array)
	}
	for array, slice := range s.int32s() {
		*slice = viewOf[int32](s.c, array)
	}
	s.Status, s.Slots = viewOf[Status](s.c, C.KVC_STEP_STATUS), viewOf[int64](s.c, C.KVC_STEP_SLOTS)
	s.Copies, s.Changes = viewOf[BlockCopy](s.c, C.KVC_STEP_COPIES), viewOf[TableChange](s.c, C.KVC_STEP_CHANGES)
	return s, nil
}

func (s *Step) uint64s() map[C.int32_t]*[]uint64 {
	return map[C.int32_t]*[]uint64{C.KVC_STEP_FREES: &s.Frees, C.KVC_STEP_PREEMPTS: &s.Preempts, C.KVC_STEP_TRUNCATES: &s.Truncates,
		C.KVC_STEP_TRUNCATE_LENGTHS: &s.TruncateLengths, C.KVC_STEP_REQUESTS: &s.Requests, C.KVC_STEP_COMMITTED: &s.Committed,
		C.KVC_STEP_COMMIT_OFFSETS: &s.CommitOffsets, C.KVC_STEP_EXTEND_OFFSETS: &s.ExtendOffsets, C.KVC_STEP_ADMIT_REQUESTS: &s.AdmitRequests,
		C.KVC_STEP_ADMIT_OFFSETS: &s.AdmitOffsets, C.KVC_STEP_ADMIT_NAMESPACES: &s.AdmitNamespaces,
		C.KVC_STEP_ADMIT_SLOTS: &s.AdmitSlots, C.KVC_STEP_ADMITTED: &s.Admitted, C.KVC_STEP_CACHED: &s.Cached, C.KVC_STEP_NUM_BLOCKS: &s.NumBlocks}
}

func (s *Step) int32s() map[C.int32_t]*[]int32 {
	return map[C.int32_t]*[]int32{C.KVC_STEP_COMMIT_TOKENS: &s.CommitTokens, C.KVC_STEP_EXTEND_TOKENS: &s.ExtendTokens,
		C.KVC_STEP_ADMIT_TOKENS: &s.AdmitTokens, C.KVC_STEP_ROWS: &s.Rows, C.KVC_STEP_BLOCK_TABLES: &s.BlockTables}
}

// viewOf is an array of a step as a slice of elements, or of structs of them.
func viewOf[T any](step *C.kvc_step, array C.int32_t) []T {
	var view C.kvc_view
	if err := native.Kvc_step_view(uintptr(unsafe.Pointer(step)), int32(array), asByte(&view)); err != nil {
		panic("kvcache: " + err.Error())
	}
	bytes := view.shape[0] * view.strides[0]
	var element T
	return unsafe.Slice((*T)(view.data), int(bytes)/int(unsafe.Sizeof(element)))
}

// use switches optional array number i on or off, if it is not yet.
func (s *Step) use(i int, array int32, on bool) error {
	if s.used[i] == on {
		return nil
	}
	used := int32(0)
	if on {
		used = 1
	}
	s.used[i] = on
	return native.Kvc_step_use(uintptr(unsafe.Pointer(s.c)), array, used)
}

// Run executes the step: retire, commit, frees, preempts, truncates, extend, admit. It returns an error only if the step fails as a
// whole; then nothing has changed. Each item has its own Status: look at it after each Run.
func (s *Step) Run() error {
	return s.m.call(func(manager uintptr) error {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.c == nil {
			return ErrClosed
		}
		if err := s.checkCounts(); err != nil {
			return err
		}
		for i, array := range []struct {
			array int32
			on    bool
		}{{C.KVC_STEP_COMMITTED, !s.NoCommits}, {C.KVC_STEP_COMMIT_OFFSETS, s.UseCommitTokens}, {C.KVC_STEP_EXTEND_OFFSETS, !s.NoExtensions},
			{C.KVC_STEP_EXTEND_TOKENS, !s.SlotsOnly}, {C.KVC_STEP_ROWS, s.UseRows}} {
			if err := s.use(i, array.array, array.on); err != nil {
				return err
			}
		}
		if err := s.unusedIDs(); err != nil {
			return err
		}
		s.c.num_frees, s.c.num_preempts, s.c.num_truncates = C.size_t(s.NumFrees), C.size_t(s.NumPreempts), C.size_t(s.NumTruncates)
		s.c.num_requests, s.c.num_admissions = C.size_t(s.NumRequests), C.size_t(s.NumAdmissions)
		s.c.flags, s.c.fill_id, s.c.retired_step = C.uint32_t(s.Flags), C.int32_t(s.FillID), C.uint64_t(s.RetiredStep)
		s.c.now_ns = C.uint64_t(s.NowNS)
		namespaces, configs, keys, keyOffsets, err := s.admitArrays()
		if err != nil {
			return err
		}
		if err := native.Kvc_manager_step(manager, uintptr(unsafe.Pointer(s.c)), namespaces, configs, keys, keyOffsets); err != nil {
			return err
		}
		s.StepID, s.ShortageBlocks = uint64(s.c.step_id), uint64(s.c.shortage_blocks)
		s.NumSlots, s.NumCopies = int(s.c.num_slots), int(s.c.num_copies)
		s.NumChanges, s.NumRefused = int(s.c.num_changes), int(s.c.num_refused)
		return nil
	})
}

// checkCounts refuses negative counts; the library compares the others with its arrays.
func (s *Step) checkCounts() error {
	return firstOf(notNegative("NumFrees", s.NumFrees), notNegative("NumPreempts", s.NumPreempts), notNegative("NumTruncates", s.NumTruncates),
		notNegative("NumRequests", s.NumRequests), notNegative("NumAdmissions", s.NumAdmissions))
}

// unusedIDs refuses ids that are set although Run would not read them.
func (s *Step) unusedIDs() error {
	if !s.SlotsOnly || s.NoExtensions || s.NumRequests >= len(s.ExtendOffsets) {
		return nil // the library looks at the counts
	}
	end := s.ExtendOffsets[s.NumRequests]
	if room := uint64(len(s.ExtendTokens)); end > room {
		end = room
	}
	for i, id := range s.ExtendTokens[:end] {
		if id != -1 {
			return &Error{Status: C.KVC_ERROR_INVALID_ARGUMENT,
				Text: fmt.Sprintf("ExtendTokens[%d] is %d, but SlotsOnly is set: clear SlotsOnly, or set the entry to -1", i, id)}
		}
	}
	return nil
}

// admitArrays are AdmitOptions as C takes them.
func (s *Step) admitArrays() (namespaces []uint64, first *byte, keys []byte, keyOffsets []uint64, err error) {
	if s.AdmitOptions == nil || s.NumAdmissions == 0 {
		return nil, nil, nil, nil, nil
	}
	if err := check(of("AdmitOptions", s.AdmitOptions, uint64(s.NumAdmissions))); err != nil {
		return nil, nil, nil, nil, err
	}
	configs := make([]requestConfig, s.NumAdmissions)
	all, ends := []ExtraKey{}, make([]uint64, 1, s.NumAdmissions+1)
	for i := range s.AdmitOptions {
		configs[i] = *s.AdmitOptions[i].config()
		namespaces = append(namespaces, uint64(s.AdmitOptions[i].Namespace))
		all = append(all, s.AdmitOptions[i].ExtraKeys...)
		ends = append(ends, uint64(len(all)))
	}
	return namespaces, asByte(&configs[0]), asBytes(all), ends, nil
}

// Row is a row of the block tables of a group; nil after Close. It panics, like an index, for a row or a group that the step does not have.
func (s *Step) Row(group, row int) []int32 {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.c == nil {
		return nil
	}
	var view C.kvc_view
	C.kvc_step_view(s.c, C.KVC_STEP_BLOCK_TABLES, &view)
	groups, rows, stride := int(view.shape[0]), int(view.shape[1]), int(view.shape[2])
	if group < 0 || group >= groups || row < 0 || row >= rows {
		panic(fmt.Sprintf("kvcache: Row(%d, %d) of a step with %d groups of %d rows", group, row, groups, rows))
	}
	return s.BlockTables[(group*rows+row)*stride:][:stride:stride]
}

// Close frees the memory of the step. Closing again, or after the manager, does nothing.
func (s *Step) Close() error {
	if err := s.m.call(func(uintptr) error { s.destroy(); return nil }); err != ErrClosed {
		return err
	}
	return nil
}

func (s *Step) destroy() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.c == nil {
		return
	}
	for _, slice := range s.uint64s() {
		*slice = nil
	}
	for _, slice := range s.int32s() {
		*slice = nil
	}
	s.Status, s.Slots, s.Copies, s.Changes = nil, nil, nil, nil
	s.m.owned.Delete(s)
	C.kvc_step_destroy(s.c)
	s.c = nil
	atomic.AddInt64(&liveObjects, -1)
}
