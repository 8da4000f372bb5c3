// SPDX-License-Identifier: Apache-2.0
package io.kvcache;

import java.nio.Buffer;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.IntBuffer;
import java.nio.LongBuffer;

/**
 * The table of all arrays whose size follows from other arguments of their call. Below, each call has a method or a record that lists its arrays.
 * Each array must not be null, must be direct, in native order and aligned to its elements, and must have exactly the required size. The result is
 * a new slice, from position to limit, so that nobody can change it between the check and the use. Arrays that are not here pass their size to C;
 * all of them go through {@link Buffers}.
 */
final class Sizes {
  private Sizes() {}

  /** The product; Long.MAX_VALUE, the size of no buffer, if it overflows or a factor is negative. */
  static long product(long... factors) {
    long result = 1;
    boolean valid = true;
    for (long factor : factors) {
      if (factor == 0) {
        return 0;
      }
      valid &= factor > 0 && Math.multiplyHigh(result, factor) == 0 && result * factor > 0;
      result = valid ? result * factor : 1;
    }
    return valid ? result : Long.MAX_VALUE;
  }

  static IllegalArgumentException invalid(String format, Object... values) {
    return new IllegalArgumentException(String.format(format, values));
  }

  /** A number that counts. C would see a negative one as a number near 2^64 or 2^32; the text shows it as the caller wrote it. */
  static long count(String name, long value) {
    if (value < 0) {
      throw invalid("%s is %d; it must not be negative", name, value);
    }
    return value;
  }

  static int count(String name, int value) {
    return (int) count(name, (long) value);
  }

  private static <T extends Buffer> T exact(String name, T slice, long wanted) {
    if (slice.remaining() == wanted) {
      return slice;
    }
    String unit = slice instanceof ByteBuffer ? "bytes" : "elements";
    if (wanted == Long.MAX_VALUE) {
      throw invalid("%s has %d %s; other arguments of the call are negative or too large", name, slice.remaining(), unit);
    }
    throw invalid("%s has %d %s; it needs %d", name, slice.remaining(), unit, wanted);
  }

  static void there(String name, Buffer buffer) {
    if (buffer == null) {
      throw invalid("%s is missing", name);
    }
  }

  /** A buffer of elements of `unit` bytes, as many as the product of the counts. */
  static ByteBuffer bytes(String name, ByteBuffer buffer, int unit, long... counts) {
    there(name, buffer);
    ByteBuffer slice = Buffers.readable(buffer);
    if (slice.alignmentOffset(0, unit) != 0) {
      throw invalid("%s begins at an address that is no multiple of %d, the bytes of an element; make it with io.kvcache.Buffers", name, unit);
    }
    return exact(name, slice, product(unit, product(counts)));
  }

  /** The same, for a buffer that the call writes. */
  static ByteBuffer result(String name, ByteBuffer buffer, int unit, long... counts) {
    there(name, buffer);
    Buffers.writable(buffer);
    return bytes(name, buffer, unit, counts);
  }

  /**
   * Rows of dim elements for each token and head, with strides as in kvc_attention: from the first row to the end of the last one. The buffer may
   * continue after that, unless its rows are contiguous.
   */
  static ByteBuffer apart(String name, ByteBuffer buffer, int unit, long tokens, long heads, long dim, long tokenStride, long headStride) {
    if (tokenStride < 0 || headStride < 0) {
      throw invalid("%sTokenStride is %d, %sHeadStride %d; each must be at least 0", name, tokenStride, name, headStride);
    }
    if (tokenStride == 0 && headStride == 0 || tokens <= 0 || heads <= 0) {
      return bytes(name, buffer, unit, tokens, heads, dim);
    }
    // As C does, the stride of a dimension with one entry is ignored: it does not say how far tokens are apart.
    long head = headStride == 0 || heads == 1 ? dim : headStride, token = tokenStride == 0 || tokens == 1 ? product(heads, head) : tokenStride;
    long elements = sum(product(tokens - 1, token), product(heads - 1, head), dim), size = product(unit, elements);
    there(name, buffer);
    ByteBuffer all = Buffers.readable(buffer).order(ByteOrder.nativeOrder());
    return bytes(name, size < all.remaining() ? all.limit((int) size) : all, unit, elements);
  }

  /** The sum of terms that are not negative; Long.MAX_VALUE if it overflows. */
  private static long sum(long... terms) {
    long result = 0;
    for (long term : terms) {
      result = result > Long.MAX_VALUE - term ? Long.MAX_VALUE : result + term;
    }
    return result;
  }

  static LongBuffer longs(String name, LongBuffer buffer, long count) {
    there(name, buffer);
    return exact(name, Buffers.readable(buffer), count);
  }

  static IntBuffer ints(String name, IntBuffer buffer, long... counts) {
    there(name, buffer);
    return exact(name, Buffers.readable(buffer), product(counts));
  }

  /** A buffer that the call does not use. */
  static ByteBuffer none(String name, ByteBuffer buffer) {
    if (buffer != null && buffer.hasRemaining()) {
      throw invalid("%s has %d bytes; it needs 0", name, buffer.remaining());
    }
    return null;
  }

  /** Number of rows of `row` bytes (or elements) in a buffer. */
  static long rows(String name, Buffer buffer, long row) {
    there(name, buffer);
    long rows = row > 0 && row != Long.MAX_VALUE ? buffer.remaining() / row : 0;
    if (rows * row != buffer.remaining()) {
      throw invalid("%s has %d %s; it needs a multiple of %d", name, buffer.remaining(), buffer instanceof ByteBuffer ? "bytes" : "elements", row);
    }
    return rows;
  }

  /** Results must not share memory with arrays of indices, offsets or lengths, which the call would change while it reads them. */
  static void apart(Buffer[] results, Buffer... orders) {
    for (Buffer result : results) {
      long first = address(result), end = first + length(result);
      apart(first, end, orders);
    }
  }

  static void apart(long first, long end, Buffer... orders) {
    for (Buffer order : orders) {
      long at = address(order);
      if (at < end && first < at + length(order)) {
        throw invalid("a result shares memory with an array of indices, offsets or lengths of the same call; give each its own memory");
      }
    }
  }

  private static long length(Buffer buffer) {
    int unit = buffer instanceof LongBuffer ? 8 : buffer instanceof IntBuffer ? 4 : 1;
    return buffer == null ? 0 : (long) unit * buffer.remaining();
  }

  private static long address(Buffer buffer) {
    if (buffer == null || !buffer.hasRemaining()) {
      return 0; // no length: nothing is shared
    }
    if (buffer instanceof LongBuffer longs) {
      return Native.kvc_longs_address(longs);
    }
    return buffer instanceof IntBuffer ints ? Native.kvc_ints_address(ints) : Native.kvc_bytes_address((ByteBuffer) buffer);
  }

  // ---- the table

  /** For store, gather and measure. */
  record Rows(ByteBuffer k, ByteBuffer v, LongBuffer slots, int layers) {
    Rows(Storage.Shape shape, ByteBuffer k, ByteBuffer v, DType dtype, LongBuffer slots, int layers, boolean written) {
      this(sized("k", k, dtype, written, counts(shape, layers, slots, shape.headDim())),
          shape.latent() ? none("v", v) : sized("v", v, dtype, written, counts(shape, layers, slots, shape.vHeadDim())),
          Buffers.readable(slots), Math.max(layers, 1));
      apart(new Buffer[] {written ? this.k : null, written ? this.v : null}, this.slots);
      shape.apart(this.slots);
    }

    private static long[] counts(Storage.Shape shape, int layers, LongBuffer slots, int dim) {
      there("slots", slots);
      return new long[] {layers == 0 ? 1 : layers, slots.remaining(), shape.numHeads(), dim};
    }

    private static ByteBuffer sized(String name, ByteBuffer buffer, DType dtype, boolean written, long[] counts) {
      return written ? result(name, buffer, dtype.unit(), counts) : bytes(name, buffer, dtype.unit(), counts);
    }
  }

  /** For a table of cosines and sines, and the rows of it that tokens use. */
  record Rotation(ByteBuffer table, LongBuffer rows) {
    Rotation(ByteBuffer table, LongBuffer rows, int ropeDim, long tokens) {
      this(table == null ? null : bytes("table", table, 4, Sizes.rows("table", table, product(4, ropeDim)), ropeDim),
          rows == null ? null : longs("rows", rows, tokens));
      if (rows != null && table == null) {
        throw invalid("rows are given without a table: leave rows out, or give the table that they index");
      }
      if (table != null && tokens != 0 && !table.hasRemaining()) {
        throw invalid("table has 0 bytes; it needs %d for each position", product(4, ropeDim));
      }
    }
  }

  /** For tables, which have a row for each request. */
  static void tables(LongBuffer requests, IntBuffer tables) {
    there("requests", requests);
    rows("tables", tables, requests.remaining());
    apart(new Buffer[] {Buffers.writable(tables)}, Buffers.readable(requests));
  }

  /** For keyBounds and selectBlocks: float16. */
  static ByteBuffer bounds(Storage.Shape shape, ByteBuffer bounds, boolean written) {
    long[] counts = {shape.numBlocks(), shape.numHeads(), 2, shape.headDim()};
    return written ? result("bounds", bounds, 2, counts) : bytes("bounds", bounds, 2, counts);
  }

  /** For selectBlocks: bytes of its result. */
  static int picked(long requests, Storage.Shape shape, long stride) {
    long bytes = product(requests, shape.numHeads(), stride);
    if (bytes > Integer.MAX_VALUE) {
      throw invalid("the block mask of %d requests, %d heads and %d bytes each is too large for a buffer; pass fewer requests at once", requests,
          shape.numHeads(), stride);
    }
    return (int) bytes;
  }

  /** For quantize and dequantize. */
  record Codes(ByteBuffer values, ByteBuffer codes, ByteBuffer scales) {
    Codes(Quantization format, ByteBuffer values, int rows, int dim, ByteBuffer codes, ByteBuffer scales, boolean quantize) {
      this(quantize ? bytes("values", values, 4, rows, dim) : result("values", values, 4, rows, dim),
          quantize ? result("codes", codes, 1, format.codeBytes(rows, dim)) : bytes("codes", codes, 1, format.codeBytes(rows, dim)),
          format.scaleBytes(rows, dim) == 0 ? none("scales", scales)
              : quantize ? result("scales", scales, 4, format.scaleBytes(rows, dim) / 4) : bytes("scales", scales, 4, format.scaleBytes(rows, dim) / 4));
    }
  }

  /** For verifySampling and verifyTypical. */
  record Distributions(ByteBuffer p, IntBuffer pIds, long pWidth, ByteBuffer q, IntBuffer qIds, long qWidth, LongBuffer qRows, ByteBuffer uniforms) {
    Distributions(Probabilities from, long rows, long nodes) {
      this(from, rows, nodes, width("p", from.p, from.pIds, rows, from.vocab), width("q", from.q, from.qIds, from.numQRows, from.vocab));
    }

    private Distributions(Probabilities from, long rows, long nodes, long pWidth, long qWidth) {
      this(bytes("p", from.p, 4, rows, pWidth), from.pIds == null ? null : ints("pIds", from.pIds, rows, pWidth), pWidth,
          from.q == null && from.numQRows == 0 ? null : bytes("q", from.q, 4, count("numQRows", from.numQRows), qWidth),
          from.qIds == null ? null : ints("qIds", from.qIds, from.numQRows, qWidth), qWidth,
          from.qRows == null ? null : longs("qRows", from.qRows, nodes), bytes("uniforms", from.uniforms, 8, rows));
    }

    /** Entries of a row. */
    private static long width(String name, ByteBuffer values, IntBuffer ids, long rows, int vocab) {
      if (vocab < 1) {
        throw invalid("vocab is %d; it must be at least 1", vocab);
      }
      if (ids == null || rows == 0 || values == null) {
        return vocab;
      }
      long width = values.remaining() / product(4, rows);
      if (width == 0) {
        throw invalid("%s has %d bytes for %d rows; a row has at least one entry", name, values.remaining(), rows);
      }
      return width;
    }
  }
}
