// SPDX-License-Identifier: Apache-2.0

package kvcache

import (
	"errors"
	"strings"
	"testing"
)

func TestAStepDecodesABatch(t *testing.T) {
	const n, steps = 5, 30
	m := newManager(t, Config{NumBlocks: 64, BlockSize: 4})
	s, err := m.NewStep(StepLimits{MaxRequests: n, MaxTokens: n, MaxRows: n + 1, RowStride: 16, MaxFrees: 1, MaxAdmissions: 1, MaxPromptTokens: 9})
	must(t, err)
	for i := 0; i < n; i++ {
		r, _, err := m.AllocateRequest(sequence(10*i, 6), nil)
		must(t, err)
		s.Requests[i], s.Committed[i], s.ExtendOffsets[i+1] = uint64(r), 6, uint64(i+1)
	}
	s.NumRequests = n
	for k := 0; k < steps; k++ {
		for i := range s.ExtendTokens {
			s.ExtendTokens[i] = int32(k + i)
		}
		s.RetiredStep = s.StepID
		must(t, s.Run())
		for i := 0; i < n; i++ {
			equal(t, s.Status[i], StatusOK)
			s.Committed[i]++
		}
	}
	equal(t, []int{int(s.StepID), s.NumSlots}, []int{steps, n})
	for i := 0; i < n; i++ {
		table, err := m.BlockTable(Request(s.Requests[i]), 0)
		must(t, err)
		equal(t, s.Row(0, i)[:len(table)], table)
		slot := make([]int64, 1)
		must(t, m.Slots(Request(s.Requests[i]), 0, 6+steps-1, slot))
		equal(t, s.Slots[i], slot[0])
	}
	// One leaves, one comes; nothing else happens.
	s.Frees[0], s.NumFrees, s.NumRequests, s.NumAdmissions, s.NoCommits = s.Requests[0], 1, 0, 1, true
	copy(s.AdmitTokens, sequence(500, 9))
	s.AdmitOffsets[1] = 9
	must(t, s.Run())
	equal(t, s.Status[:2], []Status{StatusOK, StatusOK})
	table, err := m.BlockTable(Request(s.Admitted[0]), 0)
	must(t, err)
	equal(t, s.Row(0, 0)[:3], table)
	s.NumRequests = n + 1
	if err := s.Run(); !errors.Is(err, ErrInvalidArgument) {
		t.Fatal(err)
	}
	must(t, s.Close())
	must(t, s.Close())
	if err := s.Run(); err != ErrClosed {
		t.Fatal(err)
	}
	must(t, m.Check())
}

// wantItem runs a step whose first item gets this status.
func wantItem(t *testing.T, s *Step, status Status) {
	t.Helper()
	must(t, s.Run())
	equal(t, s.Status[0], status)
}

func TestIDsThatAreNotSetAreRefusedAndCountOnce(t *testing.T) {
	invalid := Status(ErrInvalidArgument.Status)
	m := newManager(t, Config{NumBlocks: 16, BlockSize: 4})
	s, err := m.NewStep(StepLimits{MaxRequests: 2, MaxTokens: 4, MaxRows: 3, RowStride: 4, MaxFrees: 1, MaxAdmissions: 1, MaxPromptTokens: 8})
	must(t, err)
	equal(t, append(append([]int32{}, s.ExtendTokens...), s.AdmitTokens...), []int32{-1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1})
	equal(t, append(append([]uint64{}, s.TruncateLengths...), s.AdmitOffsets...), []uint64{1<<64 - 1, 0, 1<<64 - 1})
	r, _, err := m.AllocateRequest(sequence(0, 4), nil)
	must(t, err)
	tokens := func() uint64 {
		info, err := m.RequestInfo(r)
		must(t, err)
		return info.NumTokens
	}
	s.Requests[0], s.Committed[0], s.ExtendOffsets[1], s.NumRequests = uint64(r), 4, 1, 1
	wantItem(t, s, invalid)
	s.ExtendTokens[0] = 0 // an id like others
	wantItem(t, s, StatusOK)
	wantItem(t, s, invalid)
	equal(t, tokens(), uint64(5))
	s.NumRequests, s.NumAdmissions = 0, 1
	if err := s.Run(); !errors.Is(err, ErrInvalidArgument) {
		t.Fatal(err)
	}
	s.AdmitOffsets[1] = uint64(copy(s.AdmitTokens, sequence(0, 4)) + 1)
	wantItem(t, s, invalid)
	s.NumAdmissions, s.NumTruncates, s.Truncates[0] = 0, 1, uint64(r)
	wantItem(t, s, invalid)
	s.NumTruncates, s.NumRequests, s.UseRows = 0, 1, true
	if err := s.Run(); !errors.Is(err, ErrInvalidArgument) {
		t.Fatal(err)
	}
	equal(t, tokens(), uint64(5))
}

func TestSlotsAloneTakeNoIDs(t *testing.T) {
	m := newManager(t, Config{NumBlocks: 8, BlockSize: 4})
	s, err := m.NewStep(StepLimits{MaxRequests: 1, MaxTokens: 4, MaxRows: 1, RowStride: 4})
	must(t, err)
	r, _, err := m.AllocateRequest(sequence(0, 4), nil)
	must(t, err)
	s.Requests[0], s.Committed[0], s.ExtendOffsets[1], s.NumRequests, s.SlotsOnly = uint64(r), 4, 4, 1, true
	s.ExtendTokens[3] = 9
	digest, err := m.Digest()
	must(t, err)
	if err := s.Run(); !errors.Is(err, ErrInvalidArgument) {
		t.Fatal(err)
	}
	now, err := m.Digest()
	must(t, err)
	equal(t, now, digest)
	s.ExtendTokens[3] = -1
	wantItem(t, s, StatusOK)
	slots := make([]int64, 4)
	must(t, m.Slots(r, 0, 4, slots))
	equal(t, s.Slots, slots)
	info, err := m.RequestInfo(r)
	must(t, err)
	equal(t, info.NumTokens, uint64(4))
}

// admit runs one step that admits these prompts.
func admit(t *testing.T, s *Step, prompts ...[]int32) error {
	t.Helper()
	end := 0
	for i, prompt := range prompts {
		end += copy(s.AdmitTokens[end:], prompt)
		s.AdmitOffsets[i+1] = uint64(end)
	}
	s.NumAdmissions, s.RetiredStep = len(prompts), s.StepID
	return s.Run()
}

func newAdmittingStep(t *testing.T) (*Manager, *Step) {
	m := newManager(t, Config{NumBlocks: 64, BlockSize: 4})
	s, err := m.NewStep(StepLimits{MaxAdmissions: 3, MaxRows: 3, RowStride: 8, MaxPromptTokens: 64})
	must(t, err)
	return m, s
}

func TestOptionsOfAdmissionsEqualThoseOfSingleCalls(t *testing.T) {
	one := newManager(t, Config{NumBlocks: 64, BlockSize: 4})
	many, s := newAdmittingStep(t)
	prompts := [][]int32{sequence(0, 9), sequence(20, 13), sequence(0, 9)}
	options := func(m *Manager) []RequestOptions {
		namespace, err := m.OpenNamespace(Identity{Tenant: []byte("x")})
		must(t, err)
		return []RequestOptions{{Namespace: namespace, Lookahead: 3}, {Slots: 4, UserData: 7, ExtraKeys: []ExtraKey{{0, 4, [32]byte{1}}, {4, 3, [32]byte{2}}}},
			{NoRead: true, ExtraKeys: []ExtraKey{{4, 2, [32]byte{3}}}}}
	}
	singles := options(one)
	s.AdmitOptions = options(many)
	hits := 0
	for round := 0; round < 2; round++ { // the second time with hits
		must(t, admit(t, s, prompts...))
		made := make([]Request, len(prompts))
		for i, prompt := range prompts {
			r, cached, err := one.AllocateRequest(prompt, &singles[i])
			must(t, err)
			equal(t, []Status{s.Status[i]}, []Status{StatusOK})
			equal(t, s.Cached[i], uint64(cached))
			made[i], hits = r, hits+cached
			info, err := one.RequestInfo(r)
			must(t, err)
			other, err := many.RequestInfo(Request(s.Admitted[i]))
			must(t, err)
			equal(t, other.NamespaceID, uint64(s.AdmitOptions[i].Namespace))
			other.NamespaceID = info.NamespaceID
			equal(t, other, info)
			table, err := one.BlockTable(r, 0)
			must(t, err)
			equal(t, s.Row(0, i)[:len(table)], table)
		}
		for i, written := range []int{9, 4, 9} {
			must(t, one.CommitTokens(made[i], written))
			must(t, one.FreeRequest(made[i]))
			must(t, many.CommitTokens(Request(s.Admitted[i]), written))
			must(t, many.FreeRequest(Request(s.Admitted[i])))
		}
		must(t, many.RetireStep(s.StepID))
	}
	equal(t, hits, 12)
}

func TestABadConfigInTheMiddleChangesNothing(t *testing.T) {
	m, s := newAdmittingStep(t)
	digest, err := m.Digest()
	must(t, err)
	for _, bad := range [][]RequestOptions{{{}, {Slots: 1 << 40}, {}}, {{}, {}}, make([]RequestOptions, 4)} {
		s.AdmitOptions = bad
		if err := admit(t, s, sequence(0, 9), sequence(0, 9), sequence(0, 9)); !errors.Is(err, ErrInvalidArgument) {
			t.Fatal(err)
		}
		now, err := m.Digest()
		must(t, err)
		equal(t, now, digest)
	}
	s.AdmitOptions = []RequestOptions{{}, {Namespace: 12345}, {}}
	must(t, admit(t, s, sequence(0, 9), sequence(0, 9), sequence(0, 9)))
	equal(t, s.Status[:3], []Status{StatusOK, Status(ErrNotFound.Status), StatusOK})
}

func TestAWaitingRequestKeepsWhatItWasCreatedWith(t *testing.T) {
	m, s := newAdmittingStep(t)
	waiting, err := m.CreateRequest(sequence(0, 9), &RequestOptions{Lookahead: 2})
	must(t, err)
	s.AdmitRequests[0], s.AdmitOptions = uint64(waiting), []RequestOptions{{Lookahead: 30}}
	must(t, admit(t, s, nil))
	info, err := m.RequestInfo(waiting)
	must(t, err)
	equal(t, info.Capacity, uint64(11))
	s.AdmitRequests[0], s.AdmitOptions = 0, nil
	must(t, admit(t, s, sequence(100, 5)))
	info, err = m.RequestInfo(Request(s.Admitted[0]))
	must(t, err)
	equal(t, info.Capacity, uint64(5))
}

func TestAdmissionsWithoutOptionsTakeTheirNamespacesFromTheStep(t *testing.T) {
	m, s := newAdmittingStep(t)
	namespace, err := m.OpenNamespace(Identity{Tenant: []byte("x")})
	must(t, err)
	for _, c := range []struct {
		options []RequestOptions
		wanted  []Namespace
	}{{nil, []Namespace{0, namespace}}, {[]RequestOptions{{Namespace: namespace}, {}}, []Namespace{namespace, 0}}, {nil, []Namespace{0, namespace}}} {
		s.AdmitOptions = c.options
		s.AdmitNamespaces[1] = uint64(namespace) // a step consumes it
		must(t, admit(t, s, sequence(0, 5), sequence(50, 5)))
		if c.options == nil {
			equal(t, s.AdmitNamespaces[1], uint64(0))
		}
		for i, wanted := range c.wanted {
			info, err := m.RequestInfo(Request(s.Admitted[i]))
			must(t, err)
			equal(t, Namespace(info.NamespaceID), wanted)
			must(t, m.FreeRequest(Request(s.Admitted[i])))
		}
		must(t, m.RetireStep(s.StepID))
	}
}

func TestAStepHasARowForEachItemByDefault(t *testing.T) {
	m := newManager(t, Config{NumBlocks: 8})
	s, err := m.NewStep(StepLimits{MaxRequests: 2, MaxAdmissions: 1, MaxPromptTokens: 20, RowStride: 2})
	must(t, err)
	equal(t, len(s.BlockTables), 3*2)
	s.NumAdmissions, s.AdmitOffsets[1] = 1, uint64(copy(s.AdmitTokens, sequence(0, 20)))
	must(t, s.Run())
	equal(t, s.Status[0], StatusOK)
	equal(t, s.Row(0, 0), []int32{0, 1})
}

func TestAdmitSlotsAreThoseOfTheFirstChunk(t *testing.T) {
	m := newManager(t, Config{NumBlocks: 64, BlockSize: 4})
	s, err := m.NewStep(StepLimits{MaxRequests: 1, MaxAdmissions: 2, MaxTokens: 1, MaxPromptTokens: 40, RowStride: 16})
	must(t, err)
	waiting, err := m.CreateRequest(sequence(100, 20), nil)
	must(t, err)
	copy(s.AdmitRequests, []uint64{0, uint64(waiting)})
	copy(s.AdmitOffsets, []uint64{0, 20, 20})
	copy(s.AdmitTokens, sequence(0, 20))
	copy(s.AdmitSlots, []uint64{6, 9})
	s.NumAdmissions = 2
	must(t, s.Run())
	equal(t, []any{s.Status[:2], s.NumBlocks[:2], s.AdmitSlots}, []any{[]Status{StatusOK, StatusOK}, []uint64{2, 3}, []uint64{0, 0}})
	for i, capacity := range []uint64{6, 9} {
		info, err := m.RequestInfo(Request(s.Admitted[i]))
		must(t, err)
		equal(t, info.Capacity, capacity)
	}
	s.AdmitSlots[0], s.NumAdmissions = 1<<63, 1
	if err := s.Run(); !errors.Is(err, ErrInvalidArgument) || !strings.Contains(err.Error(), "admit_slots[0]") {
		t.Fatal(err)
	}
}
