// SPDX-License-Identifier: Apache-2.0

package kvcache

import (
	"errors"
	"reflect"
	"testing"
)

func count(n int) []int32 {
	tokens := make([]int32, n)
	for i := range tokens {
		tokens[i] = int32(i)
	}
	return tokens
}

func TestHintsDecideWhatIsEvicted(t *testing.T) {
	m, err := New(Config{NumBlocks: 8, BlockSize: 4, Hints: true})
	must(t, err)
	defer m.Close()
	store := func(first int32) {
		tokens := []int32{first, 1, 2, 3, 4}
		r, _, err := m.AllocateRequest(tokens, nil)
		must(t, err)
		must(t, m.CommitTokens(r, 5))
		must(t, m.FreeRequest(r))
	}
	store(100)
	store(200)
	must(t, m.SetTime(10))
	if hinted, err := m.SetPrefixPriority(0, []int32{100, 1, 2, 3}, nil, 0, Hint{Priority: 90, UntilNS: 20}); err != nil || hinted != 4 {
		t.Fatal(hinted, err)
	}
	if evicted, err := m.EvictBlocks(-1, 1); err != nil || evicted != 1 {
		t.Fatal(evicted, err)
	}
	info, err := m.Probe(0, []int32{100, 1, 2, 3, 4}, nil)
	must(t, err)
	if info.NumCached != 4 {
		t.Fatal("the hinted block was evicted")
	}
	if err := m.SetTime(9); !errors.Is(err, ErrInvalidArgument) {
		t.Fatal(err)
	}
	r, _, err := m.AllocateRequest(count(9), nil)
	must(t, err)
	must(t, m.SetPriority(r, 0, ToTheEnd, Hint{Priority: 50}))
	if err := m.SetPriority(r, 0, 1, Hint{Priority: 101}); !errors.Is(err, ErrInvalidArgument) {
		t.Fatal(err)
	}
	must(t, m.CommitTokens(r, 9))
	must(t, m.EndSession(r, 4))
	must(t, m.FreeRequest(r))
	if demoted, err := m.SetPrefixPriority(0, count(8), nil, 0, Hint{Priority: PriorityDemoted}); err != nil || demoted != 8 {
		t.Fatal(demoted, err)
	}
	s, err := m.NewStep(StepLimits{})
	must(t, err)
	s.NowNS = 30
	must(t, s.Run())
	s.NowNS = 29
	if err := s.Run(); !errors.Is(err, ErrInvalidArgument) {
		t.Fatal(err)
	}
}

func TestRegisteredPromptsStay(t *testing.T) {
	m, err := New(Config{NumBlocks: 8, BlockSize: 4})
	must(t, err)
	defer m.Close()
	if pinned, err := m.RegisterPrompt("system", 0, count(8), nil); err != nil || pinned != 0 {
		t.Fatal(pinned, err)
	}
	if _, err := m.RegisterPrompt("system", 0, count(8), nil); !errors.Is(err, ErrInvalidArgument) {
		t.Fatal(err)
	}
	if err := m.UnregisterPrompt("system\x00"); !errors.Is(err, ErrInvalidArgument) {
		t.Fatal(err)
	}
	if names, err := m.Prompts(); err != nil || !reflect.DeepEqual(names, []string{"system"}) {
		t.Fatal(names, err)
	}
	r, cached, err := m.AllocateFromPrompt("system", []int32{7}, nil)
	must(t, err)
	if cached != 0 {
		t.Fatal(cached)
	}
	must(t, m.CommitTokens(r, 9))
	must(t, m.FreeRequest(r))
	if _, err := m.EvictBlocks(-1, 8); err != nil {
		t.Fatal(err)
	}
	if r, cached, err = m.AllocateFromPrompt("system", []int32{8}, nil); err != nil || cached != 8 {
		t.Fatal(cached, err)
	}
	must(t, m.FreeRequest(r))
	must(t, m.UnregisterPrompt("system"))
	if names, err := m.Prompts(); err != nil || len(names) != 0 {
		t.Fatal(names, err)
	}
	if _, _, err := m.AllocateFromPrompt("system", nil, nil); !errors.Is(err, ErrNotFound) {
		t.Fatal(err)
	}
	if err := m.EndSession(r, 0); !errors.Is(err, ErrUnsupported) {
		t.Fatal(err)
	}
}
