// SPDX-License-Identifier: Apache-2.0
package io.kvcache;

import java.nio.ByteBuffer;

/**
 * Quantization of rows of floats: kvc_quant_format. The codes equal those of a {@link Storage}.
 *
 * @param dtype INT8, INT4, FLOAT8_E4M3 or FLOAT8_E5M2
 * @param group elements of a row that share a scale; 0 = the whole row
 * @param asymmetric integer types: (scale, offset) pairs instead of scales
 * @param channels one scale per column for all rows, instead of scales per row
 * @param scale one given scale for all elements; 0 = the scales are computed
 */
public record Quantization(DType dtype, int group, boolean asymmetric, boolean channels, float scale) {
  /** Refuses a negative group. */
  public Quantization {
    Sizes.count("group", group);
  }

  /** One scale per row. */
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

  /** Returns the bytes of the codes of rows of dim elements. */
  public int codeBytes(int rows, int dim) {
    return buffered(Sizes.product(rows, dtype == DType.INT4 ? (dim + 1L) / 2 : Sizes.product(dtype.unit(), dim)));
  }

  /** Returns the bytes of their float32 scales; 0 if scale is given. */
  public int scaleBytes(int rows, int dim) {
    if (scale != 0 || dim == 0) {
      return 0;
    }
    long width = group == 0 ? dim : group;
    long each = channels ? dim : Sizes.product(rows, dim < 0 ? -1 : (dim + width - 1) / width);
    return buffered(Sizes.product(each, asymmetric ? 8 : 4));
  }

  /** Writes the codes and scales (null if scale is given) of float32 values [rows][dim]. A code c stands for c * scale + offset. */
  public void quantize(ByteBuffer values, int rows, int dim, ByteBuffer codes, ByteBuffer scales) throws KvCacheException {
    Sizes.Codes a = new Sizes.Codes(this, values, rows, dim, codes, scales, true);
    try (kvc_quant_format c = struct()) {
      Native.kvc_quantize(c, a.values(), rows, dim, a.codes(), a.scales());
    }
  }

  /** Reverses {@link #quantize}: writes the float32 values [rows][dim] of codes and scales. */
  public void dequantize(ByteBuffer codes, ByteBuffer scales, int rows, int dim, ByteBuffer values) throws KvCacheException {
    Sizes.Codes a = new Sizes.Codes(this, values, rows, dim, codes, scales, false);
    try (kvc_quant_format c = struct()) {
      Native.kvc_dequantize(c, a.codes(), a.scales(), rows, dim, a.values());
    }
  }
}
