// SPDX-License-Identifier: Apache-2.0
package io.kvcache;

/** What {@link RequestOptions} has that follows from the C headers. Written by scripts/generate. */
public abstract class RequestOptionsCalls {
  RequestOptionsCalls() {}

  /** How much room an admission takes for the tokens that its request will probably get. */
  public enum Headroom {
    /** None. */
    NONE,
    /** Enough for 50 of 100 requests. */
    MINIMAL,
    /** Enough for 75 of 100 requests. */
    BALANCED,
    /** Enough for 95 of 100 requests. */
    AGGRESSIVE
  }
}
