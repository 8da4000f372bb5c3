// SPDX-License-Identifier: Apache-2.0

package kvcache

import (
	"errors"
	"math"
	"reflect"
	"testing"
)

func TestVerdictsOfDrafts(t *testing.T) {
	drafts := &Drafts{Offsets: []uint64{0, 3, 4}, Tokens: []int32{5, 6, 7, 1}, Parents: []int32{-1, -1, 1, -1}}
	must(t, drafts.Check())
	v, err := VerifyGreedy(drafts, []int32{6, 0, 7, 9, 2, 0})
	must(t, err)
	if !reflect.DeepEqual(v, &Verdict{[]int32{1, 2, -1, -1}, []uint64{2, 0}, []int32{9, 2}}) {
		t.Fatal(v)
	}
	if gained := v.Tokens(drafts, 0); !reflect.DeepEqual(gained, []int32{6, 7, 9}) {
		t.Fatal(gained)
	}
	moves, err := VerdictMoves(drafts, v, []uint64{3, 0}, []int32{8, 9, 1, 2}, 4, 0)
	must(t, err)
	if !reflect.DeepEqual(moves, []TokenCopy{{0, 9, 8, 0, 3, 1}, {0, 9, 9, 1, 0, 1}}) {
		t.Fatal(moves)
	}
	copies, err := VerdictStates(drafts, v, []uint64{3, 1}, []int32{8, 9, 1, 2}, 4, []int32{10, 11, 12, 13, 14, 15})
	must(t, err)
	if !reflect.DeepEqual(copies, []BlockCopy{{13, 9}, {14, 1}}) {
		t.Fatal(copies)
	}
	if _, err := VerdictStates(drafts, v, []uint64{3, 0}, []int32{8, 9, 1, 2}, 4, make([]int32, 6)); !errors.Is(err, ErrInvalidArgument) {
		t.Fatal(err)
	}
	s, err := NewStorage(StorageConfig{NumBlocks: 10, NumLayers: 1, NumHeads: 1, HeadDim: 8, BlockSize: 4})
	must(t, err)
	defer s.Close()
	must(t, s.MoveTokens(moves))
	a := &struct { // cgo looks at all of an object that counts are a part of
		Acceptance
		drafts *Drafts
	}{drafts: drafts}
	must(t, a.Add(drafts, v))
	if a.NumDrafts != 2 || a.NumAccepted != 2 || a.Tried[0] != 2 || a.Accepted[0] != 1 || a.Tried[1] != 1 {
		t.Fatal(a)
	}
	must(t, a.Halve())
	if length, tokens, err := a.BestLength([]float64{1, 1.1}); err != nil || length != 1 || tokens < 1.5 {
		t.Fatal(length, tokens, err)
	}
}

func TestBadDraftsAreRefused(t *testing.T) {
	good := &Drafts{Offsets: []uint64{0, 2}, Tokens: []int32{1, 2}}
	probabilities := &Probabilities{Vocab: 4, P: make([]float32, 12), Uniforms: make([]float64, 3)}
	for i, err := range []error{
		(&Drafts{}).Check(),
		(&Drafts{Offsets: []uint64{0, 1}, Tokens: []int32{1, 2}}).Check(),
		(&Drafts{Offsets: []uint64{0, 2}, Tokens: []int32{1, 2}, Parents: []int32{-1}}).Check(),
		(&Drafts{Offsets: []uint64{0, 2}, Tokens: []int32{1, 2}, Parents: []int32{-1, 1}}).Check(),
		second(VerifyGreedy(good, []int32{1})),
		second(VerifySampling(good, probabilities)), // sums to 0
		second(VerifySampling(good, &Probabilities{Vocab: 4, P: make([]float32, 11), Uniforms: make([]float64, 3)})),
		second(VerifySampling(good, &Probabilities{Vocab: 4, P: make([]float32, 12), Uniforms: make([]float64, 3), NumQRows: 1})),
		second(VerifyTypical(good, probabilities, 2, 1)),
		second(DraftLookup(nil, 0, 1, 1)),
		second(NewDraft(0, 0, 0, 0)),
	} {
		if !errors.Is(err, ErrInvalidArgument) {
			t.Error(i, err)
		}
	}
}

// drafts are some of two requests, mostly good ones, and a verdict of them.
func (f *fuzzer) drafts() (*Drafts, *Verdict) {
	n, m := f.Intn(4), f.Intn(3)
	d := &Drafts{Offsets: []uint64{0, uint64(n), uint64(n + m)}, Tokens: make([]int32, n+m), Parents: make([]int32, n+m)}
	v := &Verdict{make([]int32, n+m), make([]uint64, 2), make([]int32, 2)}
	for i := range d.Tokens {
		d.Tokens[i], d.Parents[i], v.Path[i] = int32(f.small(3)), -1, int32(f.small(2))-1
	}
	if n > 0 && f.Intn(2) == 0 {
		v.NumAccepted[0], v.Path[0] = 1, 0
	}
	switch f.Intn(12) {
	case 0:
		d.Offsets = f.huge64()
	case 1:
		d.Parents = d.Parents[:f.Intn(len(d.Parents)+1)]
	case 2:
		d.Offsets[f.Intn(3)] = f.number()
	case 3:
		v.NumAccepted[f.Intn(2)] = f.number()
	case 4:
		v.Path = v.Path[:f.Intn(len(v.Path)+1)]
	case 5, 6:
		d.Parents = nil
	}
	return d, v
}

func (f *fuzzer) probabilities(d *Drafts) *Probabilities {
	rows := len(d.Tokens) + 2
	p := &Probabilities{Vocab: 4, P: make([]float32, 4*rows), Uniforms: make([]float64, rows), Trusted: f.Intn(4) == 0}
	for i := 0; i < rows; i++ {
		p.P[4*i+f.Intn(4)], p.Uniforms[i] = 1, f.Float64()
	}
	switch f.Intn(12) {
	case 0:
		p.P[f.Intn(len(p.P))] = float32(math.NaN())
	case 1:
		p.P = p.P[:f.Intn(len(p.P))]
	case 2:
		p.Vocab = f.uint32()
	case 3:
		p.NumQRows = f.int()
	case 4:
		p.PIDs = make([]int32, len(p.P))
	case 5:
		p.Q, p.NumQRows, p.QRows = []float32{0.25, 0.25, 0.25, 0.25}, 1, make([]int64, len(d.Tokens))
	case 6:
		p.Uniforms[f.Intn(rows)] = 1
	}
	return p
}

func (f *fuzzer) draft(use func(*Draft) error) error {
	d, err := NewDraft(uint32(f.oneOf(3, 3, 3, 0, 65537)), uint32(f.oneOf(0, 1, 2, 40)), uint32(f.oneOf(0, 3, 32, 33)), uint32(f.oneOf(0, 0, 20)))
	if err != nil {
		return err
	}
	defer d.Close()
	if err := d.Append([]int32{0, 2}, []uint64{0, 4, 5}, []int32{1, 2, 1, 2, 1}); err != nil {
		return err
	}
	return use(d)
}

func (f *fuzzer) speculationCalls() map[string]func() error {
	verified := func(v *Verdict, err error) error { return err }
	return map[string]func() error{
		"Drafts.Check": func() error { d, _ := f.drafts(); return d.Check() },
		"VerifyGreedy": func() error {
			d, _ := f.drafts()
			return verified(VerifyGreedy(d, slice(f, len(d.Tokens)+2, func() int32 { return int32(f.small(3)) })))
		},
		"VerifySampling": func() error { d, _ := f.drafts(); return verified(VerifySampling(d, f.probabilities(d))) },
		"VerifyTypical": func() error {
			d, _ := f.drafts()
			return verified(VerifyTypical(d, f.probabilities(d), []float64{0.09, 1, 2, math.NaN()}[f.Intn(4)], 0.3))
		},
		"Verdict.Tokens": func() error {
			d, _ := f.drafts()
			v, err := VerifyGreedy(d, make([]int32, len(d.Tokens)+2))
			if err == nil {
				v.Tokens(d, f.Intn(2))
			}
			return err
		},
		"VerdictMoves": func() error {
			d, v := f.drafts()
			_, err := VerdictMoves(d, v, []uint64{f.small(9), f.small(9)}, f.blockTable(), uint32(f.oneOf(4, 4, 0, 1<<21)), f.uint32())
			return err
		},
		"VerdictStates": func() error {
			d, v := f.drafts()
			states := slice(f, len(d.Tokens)+2, func() int32 { return int32(f.small(9)) - 1 })
			_, err := VerdictStates(d, v, []uint64{f.small(9), f.small(9)}, f.blockTable(), uint32(f.oneOf(4, 4, 0, 1<<21)), states)
			return err
		},
		"DraftLookup": func() error {
			return second(DraftLookup(slice(f, f.Intn(20), func() int32 { return int32(f.small(2)) }), uint32(f.oneOf(1, 2, 0)), uint32(f.oneOf(3, 33)), int(f.small(9))-1))
		},
		"NewDraft": func() error { return f.draft(func(*Draft) error { return nil }) },
		"Draft.Append": func() error {
			return f.draft(func(d *Draft) error {
				return d.Append([]int32{int32(f.small(3)) - 1, int32(f.small(3))}, []uint64{0, f.small(3), 3}, []int32{1, int32(f.small(3)) - 1, 2})
			})
		},
		"Draft.Propose": func() error {
			return f.draft(func(d *Draft) error {
				return second(d.Propose([]int32{int32(f.small(3)) - 1, 0}, slice(f, 1+f.Intn(2), func() int32 { return int32(f.small(9)) - 1 })))
			})
		},
		"Acceptance.Add":   func() error { d, v := f.drafts(); var a Acceptance; return a.Add(d, v) },
		"Acceptance.Halve": func() error { var a Acceptance; return a.Halve() },
		"Acceptance.BestLength": func() error {
			a := Acceptance{}
			a.Tried[1], a.Accepted[1] = f.small(3), f.small(3)
			_, _, err := a.BestLength([]float64{1, []float64{1, 2, 0, math.NaN()}[f.Intn(4)]}[:1+f.Intn(2)])
			return err
		},
	}
}

// blockTable is for two requests with four blocks each.
func (f *fuzzer) blockTable() []int32 {
	if f.Intn(10) == 0 {
		return make([]int32, f.Intn(8))
	}
	return slice(f, 8, func() int32 { return int32(f.small(10)) - 1 })
}

func second[T any](_ T, err error) error { return err }
