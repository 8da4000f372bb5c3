// SPDX-License-Identifier: Apache-2.0

package kvcache

// #include <kvcache.h>
// #include <kvcache/speculation.h>
import "C"

import (
	"runtime"
	"sync/atomic"
	"unsafe"

	"github.com/libkvcache/libkvcache/bindings/go/internal/native"
)

// Drafts are guessed tokens that follow the known tokens of requests: kvc_drafts. Request r has nodes Offsets[r] .. Offsets[r+1]-1. Results of the
// model come in rows: for each request first the row after its last known token, then a row for each of its nodes.
type Drafts struct {
	Offsets []uint64 // [requests + 1] from 0, never decreasing.
	Tokens  []int32  // [nodes].
	Parents []int32  // [nodes] counted within the draft, each less than its node; -1 = the last known token. nil = chains.
}

// Verdict is what a verification says: kvc_verdict.
type Verdict struct {
	Path        []int32  // [nodes] accepted nodes of request r from Offsets[r] on, then -1.
	NumAccepted []uint64 // [requests].
	NextTokens  []int32  // [requests] the model's token after the accepted ones.
}

// Probabilities are distributions and random numbers for a verification: kvc_probabilities.
type Probabilities struct {
	Vocab    uint32
	Trusted  bool      // Rows are taken to sum to 1, and only those that a token is drawn from are read.
	P        []float32 // [rows][Vocab], or with PIDs [rows][width]: what the engine would sample from.
	PIDs     []int32   // Tokens of the entries of P, rising, -1 from the row's end on; or nil.
	Q        []float32 // [q rows][Vocab], or with QIDs [q rows][width]: what nodes were drawn from. nil = all nodes are certain.
	QIDs     []int32
	NumQRows int
	QRows    []int64   // [nodes] the row of Q of each node, -1 = certain; nil = node i has row i.
	Uniforms []float64 // [rows] independent numbers in [0, 1), new for each call.
}

// Tokens returns what request r gains: the tokens of its accepted nodes, and the next one.
func (v *Verdict) Tokens(drafts *Drafts, r int) []int32 {
	begin := drafts.Offsets[r]
	gained := make([]int32, 0, v.NumAccepted[r]+1)
	for _, node := range v.Path[begin : begin+v.NumAccepted[r]] {
		gained = append(gained, drafts.Tokens[begin+uint64(node)])
	}
	return append(gained, v.NextTokens[r])
}

// verdict is a new one for drafts whose arrays fit together, with the number of rows.
func (d *Drafts) verdict() (v *Verdict, rows uint64, err error) {
	nodes, err := d.check()
	if err != nil {
		return nil, 0, err
	}
	requests := len(d.Offsets) - 1
	return &Verdict{make([]int32, nodes), make([]uint64, requests), make([]int32, requests)}, nodes + uint64(requests), nil
}

// Check checks offsets, tokens and parents; so do the functions below.
func (d *Drafts) Check() error {
	if _, err := d.check(); err != nil {
		return err
	}
	return native.Kvc_drafts_check(d.Offsets, d.Tokens, d.Parents)
}

// VerifyGreedy accepts what greedy decoding would say. targetTokens: [rows] the most likely token of each row.
func VerifyGreedy(d *Drafts, targetTokens []int32) (*Verdict, error) {
	v, rows, err := d.verdict()
	if err == nil {
		err = check(of("targetTokens", targetTokens, rows))
	}
	if err == nil {
		err = native.Kvc_verify_greedy(d.Offsets, d.Tokens, d.Parents, targetTokens, v.Path, v.NumAccepted, v.NextTokens)
	}
	if err != nil {
		return nil, err
	}
	return v, nil
}

// flags and widths for the library.
func (p *Probabilities) c(rows, nodes uint64) (flags uint32, pWidth, qWidth uint64, err error) {
	if p.Trusted {
		flags = C.KVC_PROBABILITIES_TRUSTED
	}
	pWidth, qWidth, err = p.check(rows, nodes)
	return
}

// VerifySampling accepts so that the tokens have exactly the distribution of the target: rejection sampling, for chains and trees.
func VerifySampling(d *Drafts, p *Probabilities) (*Verdict, error) {
	v, rows, err := d.verdict()
	if err != nil {
		return nil, err
	}
	flags, pWidth, qWidth, err := p.c(rows, uint64(len(d.Tokens)))
	if err == nil {
		err = native.Kvc_verify_sampling(d.Offsets, d.Tokens, d.Parents, flags, p.Vocab, asBytes(p.P), p.PIDs, pWidth, asBytes(p.Q), p.QIDs, qWidth,
			uint64(p.NumQRows), p.QRows, asBytes(p.Uniforms), v.Path, v.NumAccepted, v.NextTokens)
	}
	if err != nil {
		return nil, err
	}
	return v, nil
}

// VerifyTypical accepts what is likely enough (Medusa: epsilon 0.09, delta 0.3): nodes with p > min(epsilon, delta * exp(-entropy of p)), the longest
// path of them. The tokens do not have the distribution of the target. Q and QRows are not used.
func VerifyTypical(d *Drafts, p *Probabilities, epsilon, delta float64) (*Verdict, error) {
	v, rows, err := d.verdict()
	if err != nil {
		return nil, err
	}
	own := *p
	own.Q, own.QIDs, own.NumQRows, own.QRows = nil, nil, 0, nil
	flags, width, _, err := own.c(rows, uint64(len(d.Tokens)))
	if err == nil {
		err = native.Kvc_verify_typical(d.Offsets, d.Tokens, d.Parents, flags, p.Vocab, asBytes(p.P), p.PIDs, width, asBytes(p.Uniforms), epsilon, delta,
			v.Path, v.NumAccepted, v.NextTokens)
	}
	if err != nil {
		return nil, err
	}
	return v, nil
}

// VerdictMoves lists the moves that bring accepted nodes together, for Storage.MoveTokens. starts: [requests] position of each draft's first node.
// blockTables: [requests][entries].
func VerdictMoves(d *Drafts, v *Verdict, starts []uint64, blockTables []int32, blockSize, group uint32) ([]TokenCopy, error) {
	entries, err := d.checkMoves(v, starts, blockTables)
	if err != nil {
		return nil, err
	}
	moves, count := make([]TokenCopy, len(d.Tokens)), uint64(0)
	if err := native.Kvc_verdict_moves(d.Offsets, d.Tokens, d.Parents, v.Path, v.NumAccepted, group, blockSize, starts, blockTables, entries,
		asBytes(moves), &count); err != nil {
		return nil, err
	}
	return moves[:count], nil
}

// VerdictStates lists the copies that bring groups of recurrent state to the end of the accepted tokens, one a request, for Storage.CopyBlocks before the
// commit. starts, blockTables: as in VerdictMoves, of the group. states: [rows] the block of the engine's own with the state after each row's token, such as
// Manager.AcquireBlocks gives; -1 = none.
func VerdictStates(d *Drafts, v *Verdict, starts []uint64, blockTables []int32, blockSize uint32, states []int32) ([]BlockCopy, error) {
	entries, err := d.checkMoves(v, starts, blockTables)
	if err == nil {
		err = check(of("states", states, uint64(len(d.Tokens)+len(starts))))
	}
	if err != nil {
		return nil, err
	}
	copies := make([]BlockCopy, len(starts))
	if err := native.Kvc_verdict_states(d.Offsets, d.Tokens, d.Parents, v.Path, v.NumAccepted, blockSize, starts, blockTables, entries, states,
		asBytes(copies)); err != nil {
		return nil, err
	}
	return copies, nil
}

// MoveTokens moves tokens inside the storage, in order, bit by bit, in memory of the host: accepted drafts (VerdictMoves). ErrUnsupported for memory of a
// device, tiled keys and channel keys.
func (s *Storage) MoveTokens(moves []TokenCopy) error {
	return s.call(func(c uintptr) error { return native.Kvc_storage_move_tokens(c, asBytes(moves)) })
}

// DraftLookup drafts what followed the most recent occurrence of the longest suffix of minNgram .. maxNgram tokens: maxLength tokens, or none without
// an occurrence. It reads the whole sequence; Draft keeps an index.
func DraftLookup(tokens []int32, minNgram, maxNgram uint32, maxLength int) ([]int32, error) {
	if maxLength < 0 || maxLength > C.KVC_MAX_DRAFT_NODES {
		return nil, invalid("maxLength is %d; it must be 0 .. %d", maxLength, C.KVC_MAX_DRAFT_NODES)
	}
	draft, count := make([]int32, maxLength), uint64(0)
	if err := native.Kvc_draft_lookup(tokens, minNgram, maxNgram, draft, &count); err != nil {
		return nil, err
	}
	return draft[:count], nil
}

// Draft is an index of the n-grams of many sequences, each in a row. Any goroutine may call it. Create it with NewDraft, free it with Close.
type Draft struct{ object }

// NewDraft creates an index. minNgram, maxNgram: lengths of suffixes to look up, at most 32; 0 = 2 and 4. rowCapacity: tokens of each row that memory
// is taken for at once; a longer row grows.
func NewDraft(maxRows, minNgram, maxNgram, rowCapacity uint32) (*Draft, error) {
	c := &C.kvc_draft_config{struct_size: C.sizeof_kvc_draft_config, max_rows: C.uint32_t(maxRows), min_ngram: C.uint32_t(minNgram),
		max_ngram: C.uint32_t(maxNgram), row_capacity: C.uint32_t(rowCapacity)}
	var address uintptr
	if err := native.Kvc_draft_create(asByte(c), &address); err != nil {
		return nil, err
	}
	d := &Draft{object{c: address}}
	atomic.AddInt64(&liveObjects, 1)
	runtime.SetFinalizer(d, (*Draft).Close)
	return d, nil
}

// Close frees the index. Closing again does nothing.
func (d *Draft) Close() error {
	return d.close(func(c unsafe.Pointer) { C.kvc_draft_destroy((*C.kvc_draft)(c)) })
}

// Append appends tokens to rows, each row once; all or none. offsets: [rows + 1] into tokens.
func (d *Draft) Append(rows []int32, offsets []uint64, tokens []int32) error {
	if err := checkPieces(len(rows), offsets, len(tokens)); err != nil {
		return err
	}
	return d.call(func(c uintptr) error { return native.Kvc_draft_append(c, rows, offsets, tokens) })
}

// Truncate keeps the first tokens of a row; 0 = empty, for another request.
func (d *Draft) Truncate(row int32, numTokens uint64) error {
	return d.call(func(c uintptr) error { return native.Kvc_draft_truncate(c, row, numTokens) })
}

// Propose returns chains for rows, of at most maxLengths tokens each.
func (d *Draft) Propose(rows, maxLengths []int32) (*Drafts, error) {
	if err := check(of("maxLengths", maxLengths, uint64(len(rows)))); err != nil {
		return nil, err
	}
	most := 0
	for i, length := range maxLengths {
		if length < 0 || length > C.KVC_MAX_DRAFT_NODES {
			return nil, invalid("maxLengths[%d] is %d; it must be 0 .. %d", i, length, C.KVC_MAX_DRAFT_NODES)
		}
		most += int(length)
	}
	drafts, count := &Drafts{Offsets: make([]uint64, len(rows)+1), Tokens: make([]int32, most)}, uint64(0)
	if err := d.call(func(c uintptr) error {
		return native.Kvc_draft_propose(c, rows, maxLengths, drafts.Offsets, drafts.Tokens, &count)
	}); err != nil {
		return nil, err
	}
	drafts.Tokens = drafts.Tokens[:count]
	return drafts, nil
}

// Acceptance counts verdicts by depth: kvc_acceptance. One goroutine at a time. The zero value is empty.
type Acceptance struct {
	size                             uint64
	NumDrafts, NumNodes, NumAccepted uint64
	Tried, Accepted                  [C.KVC_MAX_DRAFT_DEPTHS]uint64
}

// call is on a copy: C may not be given memory of an object that has Go pointers, such as one that the counts are a part of.
func (a *Acceptance) call(f func(words []uint64) error) error {
	a.size = uint64(unsafe.Sizeof(*a))
	own := unsafe.Slice(&a.size, unsafe.Sizeof(*a)/8)
	words := append([]uint64(nil), own...)
	err := f(words)
	copy(own, words)
	return err
}

// Add adds the verdict of drafts.
func (a *Acceptance) Add(d *Drafts, v *Verdict) error {
	if err := d.checkVerdict(v); err != nil {
		return err
	}
	return a.call(func(words []uint64) error {
		return native.Kvc_acceptance_add(words, d.Offsets, d.Tokens, d.Parents, v.Path, v.NumAccepted)
	})
}

// Halve halves all counts: older verdicts count less, and drafts come back after BestLength has said 0.
func (a *Acceptance) Halve() error { return a.call(native.Kvc_acceptance_halve) }

// BestLength returns the length of drafts with the most expected tokens per cost, and the expected tokens of a step. costs: cost of a step with a draft
// of 0, 1, ... nodes, in any unit.
func (a *Acceptance) BestLength(costs []float64) (length int, numTokens float64, err error) {
	best, expected := make([]int32, 1), make([]float64, 1)
	err = a.call(func(words []uint64) error {
		return native.Kvc_acceptance_length(words, asBytes(costs), best, asBytes(expected))
	})
	return int(best[0]), expected[0], err
}
