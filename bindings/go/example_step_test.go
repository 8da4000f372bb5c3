// SPDX-License-Identifier: Apache-2.0

package kvcache_test

import (
	"fmt"
	"log"

	kvcache "github.com/libkvcache/libkvcache/bindings/go"
)

const batch, prompt, end, requests = 4, 40, 100, 12

// A request of a user, in order of arrival.
type sequence struct {
	number int
	id     uint64  // 0 until it is admitted for the first time
	tokens []int32 // the prompt and what the model said; the KV of all but the last is written
}

func youngest(rows []*sequence) (last *sequence) {
	for _, q := range rows {
		if q != nil && (last == nil || q.number > last.number) {
			last = q
		}
	}
	return last
}

func sample() int32 { return 7 } // what the model says

// An engine with one call per step: a batch decodes, finished requests leave, new ones come, and the youngest one is preempted if there is
// no space. It is synchronous: the kernels of a step finish before the next one.
func ExampleStep() {
	m, err := kvcache.New(kvcache.Config{NumBlocks: 20}) // blocks of 16 tokens, fewer than the batch needs
	if err != nil {
		log.Fatal(err)
	}
	defer m.Close()
	s, err := m.NewStep(kvcache.StepLimits{MaxFrees: batch, MaxRequests: batch, MaxTokens: batch, MaxAdmissions: 1, MaxPromptTokens: prompt,
		MaxRows: batch, RowStride: (end + 15) / 16})
	if err != nil {
		log.Fatal(err)
	}
	s.UseRows = true // a request keeps its row from step to step
	var waiting []*sequence
	for i := 0; i < requests; i++ {
		q := &sequence{number: i}
		for t := 0; t < prompt; t++ {
			q.tokens = append(q.tokens, int32(i/4*1000+t)) // four have the same prompt
		}
		waiting = append(waiting, q)
	}
	var rows, items [batch]*sequence // by row of the block tables; by item of the step
	var victim *sequence
	reused := uint64(0)
	for done := 0; done < requests; {
		s.RetiredStep = s.StepID // the kernels of the last step have finished
		s.NumFrees, s.NumPreempts, s.NumRequests, s.NumAdmissions = 0, 0, 0, 0
		vacant, tokens := -1, 0
		for row, q := range rows {
			if q == nil {
				vacant = row
				continue
			}
			i := s.NumRequests
			s.NumRequests++
			items[i], s.Requests[i], s.Rows[i], s.Committed[i] = q, q.id, int32(row), uint64(len(q.tokens)-1)
			switch {
			case len(q.tokens) == end: // committed and freed
				s.Frees[s.NumFrees], rows[row] = q.id, nil
				s.NumFrees++
				done++
			case q == victim: // committed and preempted
				s.Preempts[s.NumPreempts], rows[row] = q.id, nil
				s.NumPreempts++
				waiting = append([]*sequence{q}, waiting...)
			default: // extended by the token that is computed in this step
				s.ExtendTokens[tokens] = q.tokens[len(q.tokens)-1]
				tokens++
			}
			s.ExtendOffsets[i+1] = uint64(tokens)
		}
		if vacant >= 0 && victim == nil && len(waiting) > 0 {
			s.NumAdmissions, s.AdmitRequests[0], s.Rows[s.NumRequests] = 1, waiting[0].id, int32(vacant)
			if waiting[0].id == 0 {
				s.AdmitOffsets[1] = uint64(copy(s.AdmitTokens, waiting[0].tokens))
			}
		}
		if err := s.Run(); err != nil {
			log.Fatal(err)
		}
		victim = nil
		status := s.Status[s.NumFrees+s.NumPreempts:]
		for i, q := range items[:s.NumRequests] {
			switch {
			case status[i] == kvcache.StatusNoSpace: // committed, not extended: it tries again when the youngest has left
				victim = youngest(rows[:])
			case status[i] != kvcache.StatusOK:
				log.Fatal(status[i])
			case rows[s.Rows[i]] == q: // the kernels: write to slot s.Slots[s.ExtendOffsets[i]], read s.Row(0, int(s.Rows[i]))
				q.tokens = append(q.tokens, sample())
			}
		}
		if s.NumAdmissions == 0 || status[s.NumRequests] == kvcache.StatusNoSpace {
			continue
		}
		q := waiting[0] // the kernels: its tokens from s.Cached[0] on, to the blocks of s.Row(0, vacant)
		waiting, rows[vacant] = waiting[1:], q
		reused += s.Cached[0]
		if q.id == 0 { // after a preemption the next token is there already
			q.tokens = append(q.tokens, sample())
		}
		q.id = s.Admitted[0]
	}
	stats, err := m.Stats()
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(requests, "done,", reused, "tokens reused,", stats.Preemptions, "preempted, check:", m.Check())
	// Output: 12 done, 528 tokens reused, 3 preempted, check: <nil>
}
