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
  /** Refuses fields that no format has. */
  public Quantization {
    if (group < 0) {
      throw Sizes.invalid("group is %d; it must not be negative", group);
    }
  }

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

  private static int buffered(long bytes) {
    if (bytes > Integer.MAX_VALUE) {
      throw Sizes.invalid("rows or dim is negative, or so large that no buffer holds the result; give fewer rows at once");
    }
    return (int) bytes;
  }

  /** Bytes of the codes of rows of dim elements. */
  public int codeBytes(int rows, int dim) {
    return buffered(Sizes.product(rows, dtype == DType.INT4 ? (dim + 1L) / 2 : Sizes.product(dtype.unit(), dim)));
  }

  /** Bytes of their scales, float32; 0 if one is given. */
  public int scaleBytes(int rows, int dim) {
    if (scale != 0 || dim == 0) {
      return 0;
    }
    long width = group == 0 ? dim : group;
    long each = channels ? dim : Sizes.product(rows, dim < 0 ? -1 : (dim + width - 1) / width);
    return buffered(Sizes.product(each, asymmetric ? 8 : 4));
  }

  /** Writes codes and scales (null if one is given) of float32 values [rows][dim]. A code c stands for c * scale + offset. */
  public void quantize(ByteBuffer values, int rows, int dim, ByteBuffer codes, ByteBuffer scales) throws KvCacheException {
    Sizes.Codes a = new Sizes.Codes(this, values, rows, dim, codes, scales, true);
    kvc_quant_format c = struct();
    try {
      Native.kvc_quantize(c, a.values(), rows, dim, a.codes(), a.scales());
    } finally {
      c.delete();
    }
  }

  /** The way back. */
  public void dequantize(ByteBuffer codes, ByteBuffer scales, int rows, int dim, ByteBuffer values) throws KvCacheException {
    Sizes.Codes a = new Sizes.Codes(this, values, rows, dim, codes, scales, false);
    kvc_quant_format c = struct();
    try {
      Native.kvc_dequantize(c, a.codes(), a.scales(), rows, dim, a.values());
    } finally {
      c.delete();
    }
  }
}
