// SPDX-License-Identifier: Apache-2.0

package kvcache

// #include <kvcache.h>
import "C"

import "github.com/libkvcache/libkvcache/bindings/go/internal/native"

// QuantFormat is the format of Quantize: kvc_quant_format.
type QuantFormat struct {
	DType      DType   // Int8, Int4, Float8E4M3 or Float8E5M2.
	Group      uint32  // Elements of a row that share a scale; 0 = the whole row.
	Asymmetric bool    // Integer types: (scale, offset) pairs instead of scales.
	Channels   bool    // One scale per column for all rows, instead of scales per row.
	Scale      float32 // One given scale for all elements; 0 = the scales are computed.
}

func (f QuantFormat) c() *C.kvc_quant_format {
	c := &C.kvc_quant_format{struct_size: C.sizeof_kvc_quant_format, dtype: C.int32_t(f.DType), group: C.uint32_t(f.Group), scale: C.float(f.Scale)}
	if f.Asymmetric {
		c.flags |= C.KVC_QUANT_ASYMMETRIC
	}
	if f.Channels {
		c.flags |= C.KVC_QUANT_CHANNELS
	}
	return c
}

// Quantize quantizes rows of dim floats. The codes equal those of a Storage. Int4 has two codes per byte, the first in the low half. A code c
// stands for c * scale + offset. scales is nil if format.Scale is set.
func Quantize(format QuantFormat, values []float32, dim int) (codes []byte, scales []float32, err error) {
	rows, numCodes, numScales, err := checkQuant(format, values, dim)
	if err != nil {
		return
	}
	codes = make([]byte, numCodes)
	if numScales > 0 {
		scales = make([]float32, numScales)
	}
	return codes, scales, native.Kvc_quantize(asByte(format.c()), asBytes(values), rows, uint64(dim), codes, asBytes(scales))
}

// Dequantize reverses Quantize. values has the length rows * dim.
func Dequantize(format QuantFormat, codes []byte, scales []float32, dim int, values []float32) error {
	rows, numCodes, numScales, err := checkQuant(format, values, dim)
	if err == nil {
		err = check(of("codes", codes, numCodes), of("scales", scales, numScales))
	}
	if err != nil {
		return err
	}
	return native.Kvc_dequantize(asByte(format.c()), codes, asBytes(scales), rows, uint64(dim), asBytes(values))
}
