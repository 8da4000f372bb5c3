// SPDX-License-Identifier: Apache-2.0

package kvcache

// #include <kvcache.h>
import "C"

import (
	"fmt"
	"math"
	"math/bits"
)

// This file is the table of all arrays whose length follows from other arguments of their call. Each function below lists the arrays
// of one call with the length that each must have. check compares the lengths before native code sees any array. Arrays that are not
// here are passed to C with their own length.

// An array, and the exact or least number of elements that the other arguments require.
type array struct {
	name   string
	length int
	wanted uint64
	longer bool
}

// of is an array that must have the product of the factors as its length.
func of[T any](name string, values []T, factors ...uint64) array {
	return array{name, len(values), product(factors...), false}
}

// optional is the same for an array that may be nil.
func optional[T any](name string, values []T, factors ...uint64) array {
	if values == nil {
		return array{}
	}
	return of(name, values, factors...)
}

// product is math.MaxUint64, the length of no array, if it overflows.
func product(factors ...uint64) uint64 {
	result, overflow := uint64(1), false
	for _, factor := range factors {
		if factor == 0 {
			return 0
		}
		high, low := bits.Mul64(result, factor)
		result, overflow = low, overflow || high != 0
	}
	if overflow {
		return math.MaxUint64
	}
	return result
}

// rowsOf is an array of rows of `dim` elements for each token and head, with strides as in kvc_attention. It may continue after the last row,
// unless its rows are contiguous.
func rowsOf(name string, values []float32, tokens, heads, dim uint64, tokenStride, headStride int) (array, error) {
	if tokenStride < 0 || headStride < 0 {
		return array{}, invalid("%sTokenStride is %d, %sHeadStride %d; each must be at least 0", name, tokenStride, name, headStride)
	}
	if tokenStride == 0 && headStride == 0 || tokens == 0 || heads == 0 {
		return of(name, values, tokens, heads, dim), nil
	}
	// As C does, the stride of a dimension with one entry is ignored: it does not say how far tokens are apart.
	token, head := uint64(tokenStride), uint64(headStride)
	if head == 0 || heads == 1 {
		head = dim
	}
	if token == 0 || tokens == 1 {
		token = product(heads, head)
	}
	length := dim
	for _, extent := range []uint64{product(tokens-1, token), product(heads-1, head)} {
		if length += extent; length < extent {
			length = math.MaxUint64
		}
	}
	return array{name, len(values), length, true}, nil
}

func invalid(format string, values ...any) error {
	return &Error{Status: C.KVC_ERROR_INVALID_ARGUMENT, Text: fmt.Sprintf(format, values...)}
}

// notNegative returns an error that shows the number as the caller wrote it; C would see one near 2^64.
func notNegative(name string, value int) error {
	if value < 0 {
		return invalid("%s is %d; it must not be negative", name, value)
	}
	return nil
}

// firstOf is the first error of several checks.
func firstOf(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// check returns an error unless every array has the required length.
func check(arrays ...array) error {
	for _, a := range arrays {
		if uint64(a.length) == a.wanted || a.longer && uint64(a.length) > a.wanted {
			continue
		}
		if a.wanted == math.MaxUint64 {
			return invalid("%s has %d elements; the other arguments require 2^64 or more: they are too large", a.name, a.length)
		}
		return invalid("%s has %d elements; it needs %d", a.name, a.length, a.wanted)
	}
	return nil
}

// wholeRows is the number of rows of `row` elements that an array consists of.
func wholeRows[T any](name string, values []T, row uint64) (rows uint64, err error) {
	if row != 0 && row != math.MaxUint64 {
		rows = uint64(len(values)) / row
	}
	if rows*row != uint64(len(values)) {
		return 0, invalid("%s has %d elements; it needs a multiple of %d", name, len(values), row)
	}
	return rows, nil
}

// checkTables is for ExportTables.
func checkTables(requests []Request, tables []int32) error {
	if len(requests) == 0 {
		return check(of("tables", tables, 0))
	}
	_, err := wholeRows("tables", tables, uint64(len(requests)))
	return err
}

// checkRows is for Store, Gather and Measure.
func (s *Storage) checkRows(layers uint32, k, v []float32, slots []int64) error {
	rows := product(uint64(layers), uint64(len(slots)), uint64(s.info.num_heads))
	values := uint64(s.info.v_head_dim)
	if s.info.flags&C.KVC_STORAGE_LATENT != 0 {
		values = 0
	}
	return check(of("k", k, rows, uint64(s.info.head_dim)), of("v", v, rows, values))
}

// checkRope is for a table of cosines and sines, and the rows of it that tokens use.
func checkRope(table []float32, dim uint32, tableRows []int64, tokens uint64) error {
	if table == nil && tableRows != nil {
		return invalid("Rows is given without Table: leave Rows out, or give the Table that it indexes")
	}
	if table != nil && tokens != 0 {
		rows, err := wholeRows("Table", table, uint64(dim))
		if err == nil && rows == 0 {
			err = invalid("Table has 0 elements; it needs %d for each position", dim)
		}
		if err != nil {
			return err
		}
	}
	return check(optional("Rows", tableRows, tokens))
}

// check is for Attend, Explain and SelectBlocks. It returns what follows from the lengths.
func (a *Attention) check(s *Storage, outputs bool) (requests, entries, maskStride int, err error) {
	requests = len(a.KVLens)
	n, heads := uint64(requests), uint64(s.info.num_heads)
	if err = check(of("QOffsets", a.QOffsets, n+1)); err != nil {
		return
	}
	if requests > 0 {
		entries = len(a.BlockTables) / requests
		maskStride = int(uint64(len(a.BlockMask)) / (n * heads))
	}
	tokens, qHeads, out := a.QOffsets[requests], uint64(a.NumQHeads), array{}
	queries := product(tokens, qHeads)
	q, err := rowsOf("Q", a.Q, tokens, qHeads, uint64(s.info.head_dim), a.QTokenStride, a.QHeadStride)
	if err == nil && outputs {
		out, err = rowsOf("Out", a.Out, tokens, qHeads, uint64(s.info.v_head_dim), a.OutTokenStride, a.OutHeadStride)
	}
	if err != nil {
		return
	}
	offsets := array{}
	if a.Mask != nil {
		offsets = of("MaskOffsets", a.MaskOffsets, n)
	}
	if err = check(q, out, optional("LSE", a.LSE, queries), optional("QStarts", a.QStarts, n),
		of("BlockTables", a.BlockTables, n, uint64(entries)), optional("AlibiSlopes", a.AlibiSlopes, qHeads),
		optional("SinkLogits", a.SinkLogits, qHeads), offsets,
		optional("MaskStarts", a.MaskStarts, n), of("BlockMask", a.BlockMask, n, heads, uint64(maskStride))); err != nil {
		return
	}
	for r := 0; r < requests && err == nil; r++ {
		err = a.checkMasks(r, uint64(s.info.block_size), uint64(maskStride))
	}
	return
}

// checkMasks is for the bits of request r.
func (a *Attention) checkMasks(r int, blockSize, maskStride uint64) error {
	length, first, end := a.KVLens[r], a.QOffsets[r], a.QOffsets[r+1]
	if end < first {
		return invalid("QOffsets[%d] is %d after %d; offsets never decrease", r+1, end, first)
	}
	if blocks := length/blockSize + (length%blockSize+blockSize-1)/blockSize; a.BlockMask != nil && maskStride < blocks/8+(blocks%8+7)/8 {
		return invalid("a row of BlockMask has %d bits; request %d has %d blocks", maskStride*8, r, blocks)
	}
	if a.Mask == nil {
		return nil
	}
	start := uint64(0)
	if a.MaskStarts != nil {
		start = a.MaskStarts[r]
	}
	if start > length {
		return invalid("MaskStarts[%d] is %d; at most KVLens[%d], %d", r, start, r, length)
	}
	room, needed := uint64(len(a.Mask))*8, product(end-first, length-start)
	if a.MaskOffsets[r] > room || needed > room-a.MaskOffsets[r] {
		return invalid("Mask has %d bits; request %d needs %d bits from MaskOffsets[%d] = %d on", room, r, needed, r, a.MaskOffsets[r])
	}
	return nil
}

// checkBounds is for KeyBounds and SelectBlocks.
func (s *Storage) checkBounds(bounds []uint16) error {
	return check(of("bounds", bounds, uint64(s.info.num_blocks), uint64(s.info.num_heads), 2, uint64(s.info.head_dim)))
}

// checkMerge is for MergeAttention.
func checkMerge(outs, lses []float32, partials, vDim int, out, lse []float32) (rows uint64, err error) {
	if partials < 0 || vDim < 1 || vDim > maxRowElements {
		return 0, invalid("partials is %d and vDim %d; partials must be at least 0, vDim 1 .. %d", partials, vDim, maxRowElements)
	}
	if rows, err = wholeRows("out", out, uint64(vDim)); err != nil {
		return
	}
	return rows, check(of("outs", outs, uint64(partials), rows, uint64(vDim)), of("lses", lses, uint64(partials), rows), optional("lse", lse, rows))
}

// Limits of the C headers: elements of a row, elements that rotate, nodes of a tree.
const (
	maxRowElements  = 8192
	maxRopeElements = 65536
	maxTreeNodes    = 65536
)

// checkTree is for TreeMask, whose results grow with the square of the nodes.
func checkTree(parents []int32) error {
	if len(parents) > maxTreeNodes {
		return invalid("parents has %d elements; a tree has at most %d nodes", len(parents), maxTreeNodes)
	}
	return nil
}

// checkRopeRows is for ApplyRope.
func checkRopeRows(rows *RopeRows, table []float32) (tokens uint64, err error) {
	if tokens, err = wholeRows("X", rows.X, product(uint64(rows.NumHeads), uint64(rows.HeadDim))); err != nil {
		return
	}
	dim := rows.RopeDim
	if dim == 0 {
		dim = rows.HeadDim
	}
	if table == nil {
		table = []float32{}
	}
	return tokens, checkRope(table, dim, rows.Rows, tokens)
}

// checkQuant is for Quantize and Dequantize: rows of dim values, and the lengths of their codes, in bytes, and scales.
func checkQuant(format QuantFormat, values []float32, dim int) (rows, codes, scales uint64, err error) {
	if err = notNegative("dim", dim); err != nil {
		return
	}
	if rows, err = wholeRows("values", values, uint64(dim)); err != nil || rows == 0 {
		return
	}
	width, group := uint64(dim), uint64(format.Group) // not above the length of values
	if codes = rows * width; format.DType == Int4 {
		codes = rows * ((width + 1) / 2)
	}
	if group == 0 || group > width {
		group = width
	}
	switch {
	case format.Scale != 0:
	case format.Channels:
		scales = width
	default:
		scales = rows * ((width + group - 1) / group)
	}
	if format.Asymmetric {
		scales *= 2
	}
	return
}

// check is for all calls of Drafts: arrays that fit together.
func (d *Drafts) check() (nodes uint64, err error) {
	if len(d.Offsets) == 0 || len(d.Offsets) > math.MaxInt32 {
		return 0, invalid("Offsets has %d elements; it needs an offset more than there are requests, at most %d", len(d.Offsets), math.MaxInt32)
	}
	nodes = uint64(len(d.Tokens))
	if last := d.Offsets[len(d.Offsets)-1]; last != nodes {
		return 0, invalid("Offsets ends with %d; it must end with the number of nodes, %d", last, nodes)
	}
	return nodes, check(optional("Parents", d.Parents, nodes))
}

func (d *Drafts) checkVerdict(v *Verdict) error {
	nodes, err := d.check()
	if err != nil {
		return err
	}
	return check(of("Path", v.Path, nodes), of("NumAccepted", v.NumAccepted, uint64(len(d.Offsets)-1)))
}

// checkMoves is for VerdictMoves and VerdictStates.
func (d *Drafts) checkMoves(v *Verdict, starts []uint64, blockTables []int32) (entries uint64, err error) {
	if err = d.checkVerdict(v); err != nil {
		return
	}
	requests := uint64(len(d.Offsets) - 1)
	if requests != 0 {
		entries = uint64(len(blockTables)) / requests
	}
	return entries, check(of("starts", starts, requests), of("blockTables", blockTables, requests, entries))
}

// check is for VerifySampling and VerifyTypical: the entries of a row of P and of Q.
func (p *Probabilities) check(rows, nodes uint64) (pWidth, qWidth uint64, err error) {
	pWidth, qWidth = uint64(p.Vocab), uint64(p.Vocab)
	if p.PIDs != nil && rows != 0 {
		pWidth = uint64(len(p.P)) / rows
	}
	if p.NumQRows < 0 {
		return 0, 0, invalid("NumQRows is %d; it must be at least 0", p.NumQRows)
	}
	qRows := uint64(p.NumQRows)
	if p.QIDs != nil && qRows != 0 {
		qWidth = uint64(len(p.Q)) / qRows
	}
	if p.Vocab == 0 || pWidth == 0 || qWidth == 0 {
		return 0, 0, invalid("Vocab is %d, rows of P have %d entries, of Q %d; give at least 1", p.Vocab, pWidth, qWidth)
	}
	return pWidth, qWidth, check(of("P", p.P, rows, pWidth), optional("PIDs", p.PIDs, rows, pWidth), of("Q", p.Q, qRows, qWidth),
		optional("QIDs", p.QIDs, qRows, qWidth), optional("QRows", p.QRows, nodes), of("Uniforms", p.Uniforms, rows))
}

// checkPieces is for Draft.Append.
func checkPieces(rows int, offsets []uint64, tokens int) error {
	if err := check(of("offsets", offsets, uint64(rows)+1)); err != nil {
		return err
	}
	if last := offsets[rows]; last != uint64(tokens) {
		return invalid("offsets ends with %d; it must end with the number of tokens, %d", last, tokens)
	}
	return nil
}
