// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"

	kvcache "github.com/libkvcache/libkvcache/bindings/go"
)

// speculation is the draft of the scenario, its last verdict, counts and n-grams.
type speculation struct {
	drafts  kvcache.Drafts
	verdict *kvcache.Verdict
	counts  kvcache.Acceptance
	index   *kvcache.Draft
}

func (s *speculation) tree(a []int) error {
	drafts := kvcache.Drafts{Offsets: []uint64{0, uint64(len(a) / 2)}, Tokens: []int32{}, Parents: []int32{}}
	for i := 0; i < len(a); i += 2 {
		drafts.Parents, drafts.Tokens = append(drafts.Parents, int32(a[i])), append(drafts.Tokens, int32(a[i+1]))
	}
	if err := drafts.Check(); err != nil {
		return err
	}
	s.drafts = drafts
	return nil
}

func (s *speculation) verified(v *kvcache.Verdict, err error) (string, error) {
	if err != nil {
		return "", err
	}
	s.verdict = v
	return list(append(append([]int32{int32(v.NumAccepted[0])}, v.Path[:v.NumAccepted[0]]...), v.NextTokens[0]), nil)
}

func hundredths(a []int) []float64 {
	values := make([]float64, len(a))
	for i, value := range a {
		values[i] = float64(value) / 100
	}
	return values
}

func (s *speculation) rows(uniforms []int) *kvcache.Probabilities {
	from := &kvcache.Probabilities{Vocab: 4, P: make([]float32, 4*(len(s.drafts.Tokens)+1)), Uniforms: hundredths(uniforms)}
	for row := 0; row <= len(s.drafts.Tokens); row++ {
		for i, p := range []float32{0.5, 0.25, 0.25} {
			from.P[4*row+(row+i)%4] = p
		}
	}
	return from
}

func (s *speculation) line(word string, a []int) (text string, err error) {
	switch word {
	case "tree":
		return "", s.tree(a)
	case "greedy":
		return s.verified(kvcache.VerifyGreedy(&s.drafts, blocks(a)))
	case "sampled":
		return s.verified(kvcache.VerifySampling(&s.drafts, s.rows(a)))
	case "drawn":
		from := s.rows(a)
		from.Q, from.NumQRows, from.QRows = []float32{0.25, 0.25, 0.25, 0.25}, 1, make([]int64, len(s.drafts.Tokens))
		return s.verified(kvcache.VerifySampling(&s.drafts, from))
	case "typical":
		return s.verified(kvcache.VerifyTypical(&s.drafts, s.rows(a[2:]), float64(a[0])/100, float64(a[1])/100))
	case "moves":
		moves, err := kvcache.VerdictMoves(&s.drafts, s.verdict, []uint64{uint64(a[0])}, blocks(a[2:]), uint32(a[1]), 0)
		for _, m := range moves {
			text += fmt.Sprintf(" %d+%d>%d+%d*%d", m.Source, m.Offset, m.Destination, m.NewOffset, m.NumTokens)
		}
		return text, err
	case "states":
		copies, err := kvcache.VerdictStates(&s.drafts, s.verdict, []uint64{uint64(a[0])}, blocks(a[3:3+a[2]]), uint32(a[1]), blocks(a[3+a[2]:]))
		for _, c := range copies {
			text += fmt.Sprintf(" %d>%d", c.Source, c.Destination)
		}
		return text, err
	case "counted":
		err = s.counts.Add(&s.drafts, s.verdict)
		c := &s.counts
		return list([]uint64{c.NumDrafts, c.NumNodes, c.NumAccepted, c.Tried[0], c.Accepted[0], c.Tried[1], c.Accepted[1]}, err)
	case "halved":
		return "", s.counts.Halve()
	case "length":
		length, tokens, err := s.counts.BestLength(hundredths(a))
		return list([]int{length, int(tokens*1e6 + 0.5)}, err)
	case "index":
		made, err := kvcache.NewDraft(2, uint32(a[0]), uint32(a[1]), 0)
		if err == nil {
			s.index = made
		}
		return "", err
	case "learn":
		return "", s.index.Append([]int32{int32(a[0])}, []uint64{0, uint64(len(a) - 1)}, blocks(a[1:]))
	case "unlearn":
		return "", s.index.Truncate(int32(a[0]), uint64(a[1]))
	case "propose":
		drafts, err := s.index.Propose([]int32{int32(a[0])}, []int32{int32(a[1])})
		if err != nil {
			return "", err
		}
		return list(drafts.Tokens, nil)
	}
	return list(kvcache.DraftLookup(blocks(a[3:]), uint32(a[0]), uint32(a[1]), a[2]))
}
