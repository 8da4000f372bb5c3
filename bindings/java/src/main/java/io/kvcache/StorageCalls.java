// SPDX-License-Identifier: Apache-2.0
package io.kvcache;

/** What {@link Storage} has that follows from the C headers. Written by scripts/generate. */
public abstract class StorageCalls {
  StorageCalls() {}

  /**
   * Measured cost and error of stored rows. Elements that were not finite before count in bytes only. A finite element that came back as NaN or
   * infinity has an infinite error: kvc_quant_metrics.
   *
   * @param elements Elements compared.
   * @param bytes Their size: codes, their share of the scales rounded up, residual rows in bfloat16.
   * @param fp16Bytes Their size as fp16.
   * @param ratio fp16_bytes / bytes; 0 without elements.
   * @param mse Mean squared error of the finite elements.
   * @param snrDb 10 log10(sum of squares / sum of squared errors); +infinity without error, -infinity without signal.
   * @param maxError Largest absolute error.
   */
  public record Metrics(long elements, long bytes, long fp16Bytes, double ratio, double mse, double snrDb, double maxError) {
    static Metrics read(kvc_quant_metrics i) {
      return new Metrics(i.getElements(), i.getBytes(), i.getFp16_bytes(), i.getRatio(), i.getMse(), i.getSnr_db(), i.getMax_error());
    }
  }
}
