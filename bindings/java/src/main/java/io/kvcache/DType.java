// SPDX-License-Identifier: Apache-2.0
package io.kvcache;

/** Element types of stored keys and values, and of buffers. */
public enum DType {
  FLOAT32(Native.KVC_FLOAT32, 32),
  FLOAT16(Native.KVC_FLOAT16, 16),
  BFLOAT16(Native.KVC_BFLOAT16, 16),
  FLOAT8_E4M3(Native.KVC_FLOAT8_E4M3, 8),
  FLOAT8_E5M2(Native.KVC_FLOAT8_E5M2, 8),
  INT8(Native.KVC_INT8, 8),
  /** Two per byte, the first in the low half. */
  INT4(Native.KVC_INT4, 4);

  final int code;
  final int bits;

  DType(int code, int bits) {
    this.code = code;
    this.bits = bits;
  }

  /** The type with this code. */
  static DType of(int code) {
    for (DType type : values()) {
      if (type.code == code) {
        return type;
      }
    }
    throw new IllegalArgumentException("no type has the code " + code);
  }

  /** Bits of one element, without scales: 4 for INT4. */
  public int bits() {
    return bits;
  }

  /** Bytes of an element; 1 for INT4, of which there are no arrays. */
  int unit() {
    return Math.max(bits / 8, 1);
  }
}
