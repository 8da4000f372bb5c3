// SPDX-License-Identifier: Apache-2.0
package io.kvcache;

import java.nio.ByteBuffer;

/**
 * Codes of rows of floats, by the rules of a storage: kvc_quant_format.
 *
 * @param dtype INT8, INT4, FLOAT8_E4M3 or FLOAT8_E5M2
 * @param group elements of a row that share a scale; 0 = the whole row
 * @param asymmetric integer types: (scale, offset) pairs
 * @param channels a scale per column instead
 * @param scale one for all, given; 0 = scales are found
 */
public record Quantization(DType dtype, int group, boolean asymmetric, boolean channels, float scale) {
  /** With a scale per row. */
  public Quantization(DType dtype) {
    this(dtype, 0, false, false, 0);
  }

  private kvc_quant_format struct() {
    kvc_quant_format c = new kvc_quant_format();
    c.setDtype(dtype.code);
    c.setGroup(group);
    c.setFlags((asymmetric ? Native.KVC_QUANT_ASYMMETRIC : 0) | (channels ? Native.KVC_QUANT_CHANNELS : 0));
    c.setScale(scale);
    return c;
  }

  /** Bytes of the codes of rows of dim elements. */
  public int codeBytes(int rows, int dim) {
    return Math.toIntExact(rows * dtype.bytes(dim));
  }

  /** Bytes of their scales, float32; 0 if one is given. */
  public int scaleBytes(int rows, int dim) {
    if (scale != 0 || dim == 0) {
      return 0;
    }
    int each = channels ? dim : Math.multiplyExact(rows, (dim + (group == 0 ? dim : group) - 1) / (group == 0 ? dim : group));
    return Math.multiplyExact(each, asymmetric ? 8 : 4);
  }

  private void check(ByteBuffer values, int rows, int dim, ByteBuffer codes, ByteBuffer scales) {
    if (values.remaining() != 4L * rows * dim || codes.remaining() != codeBytes(rows, dim)
        || (scales == null ? 0 : scales.remaining()) != scaleBytes(rows, dim)) {
      throw new IllegalArgumentException("values, codes and scales must have " + 4L * rows * dim + ", " + codeBytes(rows, dim) + " and "
          + scaleBytes(rows, dim) + " bytes");
    }
  }

  /** Writes codes and scales (null if one is given) of float32 values [rows][dim]. A code c stands for c * scale + offset. */
  public void quantize(ByteBuffer values, int rows, int dim, ByteBuffer codes, ByteBuffer scales) throws KvCacheException {
    check(values, rows, dim, codes, scales);
    kvc_quant_format c = struct();
    try {
      Native.kvc_quantize(c, values, rows, dim, codes, scales);
    } finally {
      c.delete();
    }
  }

  /** The way back. */
  public void dequantize(ByteBuffer codes, ByteBuffer scales, int rows, int dim, ByteBuffer values) throws KvCacheException {
    check(values, rows, dim, codes, scales);
    kvc_quant_format c = struct();
    try {
      Native.kvc_dequantize(c, codes, scales, rows, dim, values);
    } finally {
      c.delete();
    }
  }
}
